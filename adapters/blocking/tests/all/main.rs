//! The adapter for threads: clients, servers, services and what ends them.

mod calls;
mod children;
mod durable;
mod endings;
mod flow;
mod flows;
mod http;
mod http_events;
mod inbox;
#[path = "../../../metrics/tests/all/measured.rs"]
mod measured;
mod minimal_lsp;
mod progress;
mod reconnect;
mod sockets;
mod subscriptions;
mod support;
mod threads;
mod web;
