//! Calls a WebSocket server for an echo each second, and reconnects after the server was away.
//!
//! `cargo run -p antiphon-tokio --features websocket --example websocket_reconnect -- \
//! ws://127.0.0.1:7777/`

use std::io::{Write, stderr, stdout};
use std::time::Duration;

use antiphon_tokio::{ClientConfig, Config, reconnect};

#[tokio::main]
async fn main() {
    if let Err(error) = run().await {
        drop(writeln!(stderr(), "websocket_reconnect: {error}"));
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args()
        .nth(1)
        .filter(|url| url.starts_with("ws"))
        .ok_or("usage: websocket_reconnect ws://HOST:PORT/")?;
    let mut options = ClientConfig::from(Config::new());
    // Calls wait while there is no connection, instead of failing at once.
    options.max_waiting_calls = 16;
    let client = reconnect(url, options, ()).await?;
    // If there is no server yet, the client would go on trying.
    client.wait_open(Duration::from_secs(1)).await?;

    for count in 1_u64.. {
        // An echo may run twice, so it is sent again when its connection is lost.
        match client.call::<[u64; 1]>("echo", &[count]).idempotent().await {
            Ok([echoed]) => drop(writeln!(stdout(), "{echoed}")),
            Err(error) => drop(writeln!(stderr(), "websocket_reconnect: {error}")),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}
