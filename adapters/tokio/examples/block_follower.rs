//! Follows the blocks of an Ethereum node, also while the node restarts. It misses none, and tells if the node has
//! gone back to an earlier block.
//!
//! `cargo run -p antiphon-tokio --features websocket --example block_follower -- ws://127.0.0.1:8546/`

use std::io::{Write, stderr, stdout};

use antiphon_tokio::{ClientConfig, Config, Style, reconnect};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    number: String,
    hash: String,
    parent_hash: String,
}

impl Block {
    fn height(&self) -> Result<u64, std::num::ParseIntError> {
        u64::from_str_radix(self.number.trim_start_matches("0x"), 16)
    }
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
    let mut last = None;
    while let Some(head) = heads.next().await {
        let Ok(head) = head.inspect_err(|gap| drop(writeln!(stderr(), "block_follower: {gap}")))
        else {
            // Blocks may be missing here. The next one shows which.
            continue;
        };
        let height = head.height()?;
        let next = last.as_ref().map_or(Ok(height), Block::height)? + 1;
        for missing in next..height {
            let params = (format!("{missing:#x}"), false);
            let call = node.call::<Option<Block>>("eth_getBlockByNumber", &params);
            // There is none if the node has gone back once more. The head then shows that.
            if let Some(block) = call.idempotent().await? {
                print(block, &mut last);
            }
        }
        print(head, &mut last);
    }
    Err("there are no more blocks".into())
}

/// Prints the number of a block, and tells if the block before it is not its parent.
fn print(block: Block, last: &mut Option<Block>) {
    let replaced = last.take_if(|last| last.hash != block.parent_hash);
    if let Some(Block { number, .. }) = replaced {
        drop(writeln!(
            stderr(),
            "block_follower: block {number} was replaced"
        ));
    }
    drop(writeln!(stdout(), "{}", block.number));
    *last = Some(block);
}
