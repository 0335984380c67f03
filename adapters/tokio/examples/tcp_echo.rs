//! Answers every request with its own params, over TCP.
//!
//! `cargo run -p antiphon-tokio --example tcp_echo -- 127.0.0.1:7777`

use antiphon_tokio::{Answer, Config, OwnedError, Peer, Request, Service, TcpServer};
use std::io::{Write, stderr};

struct Echo;

impl Service for Echo {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        Ok(request.raw_params().into())
    }
}

#[tokio::main]
async fn main() {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:7777".into());
    let server = TcpServer::bind(&address).await.unwrap_or_else(|error| {
        drop(writeln!(stderr(), "{error} (usage: tcp_echo [ADDRESS])"));
        std::process::exit(2)
    });
    drop(writeln!(stderr(), "listening {}", server.local_addr()));
    server.start(Config::new(), |_| Echo).wait().await;
}
