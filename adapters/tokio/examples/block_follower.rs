//! Follows the blocks of an Ethereum node, also while the node restarts. It misses none, and tells if the node has
//! gone back to an earlier block.
//!
//! `cargo run -p antiphon-tokio --features websocket --example block_follower -- ws://127.0.0.1:8546/`

use std::io::{Write, stderr, stdout};

use antiphon_tokio::{ClientConfig, Config, Style, SubscriptionError, reconnect};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    number: String,
    hash: String,
    parent_hash: String,
}

#[tokio::main]
async fn main() {
    let Err(error) = follow().await;
    drop(writeln!(stderr(), "block_follower: {error}"));
    std::process::exit(1);
}

async fn follow() -> Result<std::convert::Infallible, Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: block_follower URL")?;
    let mut options = ClientConfig::from(Config::ethereum());
    // Questions for blocks wait while there is no connection.
    options.max_waiting_calls = 16;
    let node = reconnect(url, options, ()).await?;
    let heads = node.subscribe::<Block>(Style::ETHEREUM, &["newHeads"]);
    let mut heads = heads.resubscribe().await?;
    let tell = |gap: SubscriptionError| drop(writeln!(stderr(), "block_follower: {gap}"));
    // It begins with the first head.
    let (mut last, mut parent) = (u64::MAX, None);
    while let Some(new) = heads.next().await {
        // Blocks may be missing at a gap. The next one shows which.
        let Ok(new) = new.map_err(tell) else { continue };
        let height = u64::from_str_radix(new.number.trim_start_matches("0x"), 16)?;
        for number in last.saturating_add(1).min(height)..=height {
            let call = node.call("eth_getBlockByNumber", &(format!("{number:#x}"), false));
            let block: Option<Block> = call.idempotent().await?;
            // There is none if the node has gone back once more.
            let Some(block) = block else { break };
            if parent.is_some_and(|parent| parent != block.parent_hash) {
                writeln!(stderr(), "block_follower: block {last:#x} was replaced")?;
            }
            writeln!(stdout(), "{}", block.number)?;
            (last, parent) = (number, Some(block.hash));
        }
    }
    Err("there are no more blocks".into())
}
