//! Follows the blocks of an Ethereum node, also while the node restarts, and misses none.
//!
//! `cargo run -p antiphon-tokio --features websocket --example block_follower -- ws://127.0.0.1:8546/`

use std::io::{Write, stderr, stdout};

use antiphon_tokio::{ClientConfig, Config, Style, reconnect};

#[derive(serde::Deserialize)]
struct Block {
    number: String,
}

#[tokio::main]
async fn main() {
    if let Err(error) = run().await {
        drop(writeln!(stderr(), "block_follower: {error}"));
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1);
    let url = url.ok_or("usage: block_follower ws://HOST:PORT/")?;
    let mut options = ClientConfig::from(Config::ethereum());
    // Questions for missing blocks wait while there is no connection.
    options.max_waiting_calls = 16;
    let node = reconnect(url, options, ()).await?;
    let heads = node.subscribe::<Block>(Style::ETHEREUM, &["newHeads"]);
    let mut heads = heads.resubscribe().await?;
    let mut next = None;
    while let Some(head) = heads.next().await {
        let Ok(head) = head.inspect_err(|gap| drop(writeln!(stderr(), "block_follower: {gap}")))
        else {
            // Blocks may be missing here. The next one shows which.
            continue;
        };
        let height = u64::from_str_radix(head.number.trim_start_matches("0x"), 16)?;
        for missing in next.unwrap_or(height)..height {
            let params = (format!("{missing:#x}"), false);
            let call = node.call::<Block>("eth_getBlockByNumber", &params);
            drop(writeln!(stdout(), "{}", call.idempotent().await?.number));
        }
        drop(writeln!(stdout(), "{height:#x}"));
        next = Some(height + 1);
    }
    Err("there are no more blocks".into())
}
