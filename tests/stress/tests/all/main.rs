//! Every runtime and transport under load, cuts and slow peers.

mod bytes;
mod cores;
mod crowd_blocking;
mod curl;
mod durable;
mod finish;
mod foreign;
mod https;
mod no_protocol;
mod pressure;
mod queues;
mod runtimes;
mod tls;
mod websocket;
