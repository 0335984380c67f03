//! The adapter for tokio, which also stands for what all runtimes on tasks share.

mod client_examples;
mod clients;
mod configuration;
mod engine;
mod flows;
mod handlers;
mod health;
mod http_client;
mod http_examples;
mod http_server;
mod inbox;
mod interceptors;
#[path = "../../../metrics/tests/all/measured.rs"]
mod measured;
mod order;
mod programs;
mod progress;
mod quotas;
mod reconnect;
mod router;
mod server_subscriptions;
mod service;
mod services;
mod short_examples;
mod stream_faults;
mod streams;
mod subscriptions;
mod support;
mod timer;
mod tokens;
mod topics;
mod tracing;
mod web;
