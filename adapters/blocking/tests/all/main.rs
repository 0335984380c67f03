//! The adapter for threads: clients, servers, services and what ends them.

mod children;
mod client;
mod clients;
mod direct;
mod endings;
mod flow;
mod health;
mod http;
mod inbox;
mod minimal_lsp;
mod progress;
mod sockets;
mod support;
mod threads;
