//! Subscriptions of jsonrpsee, on both sides.
//!
//! ```text
//! jsonrpsee_streams follow URL    follows blocks, unsubscribes, and sees the end of a subscription
//! jsonrpsee_streams server [PORT FILE]
//!                                 prints its port; has blocks, and says how many follow them. With a file, its
//!                                 chain goes on where the file says that it has ended
//! ```

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon_interop_peers::seen;
use jsonrpsee_core::client::{ClientT, Subscription, SubscriptionClientT};
use jsonrpsee_core::params::ArrayParams;
use jsonrpsee_core::rpc_params;
use jsonrpsee_server::{RpcModule, Server};
use jsonrpsee_ws_client::{WsClient, WsClientBuilder};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::sync::watch;

const TIMEOUT: Duration = Duration::from_secs(25);
const BLOCK_TIME: Duration = Duration::from_millis(5);

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["server"] => serve("0", None).await,
        ["server", port, file] => serve(port, Some(file.to_owned())).await,
        ["follow", url] => {
            tokio::time::timeout(TIMEOUT, follow(url)).await??;
            println!("ok");
            Ok(())
        }
        _ => Err("usage: jsonrpsee_streams follow URL | server [PORT FILE]".into()),
    }
}

// -- the client

async fn follow(url: &str) -> Result<(), Failure> {
    let client = WsClientBuilder::default().build(url).await?;
    let mut heads = subscribe(&client, rpc_params!["newHeads"]).await?;
    let mut hash = read_heads(&mut heads, 15).await?;
    assert_eq!(hash.as_str().map(str::len), Some(66));
    heads.unsubscribe().await?;
    seen("heads");

    let mut both = [
        subscribe(&client, rpc_params!["newHeads"]).await?,
        subscribe(&client, rpc_params!["newHeads"]).await?,
    ];
    for heads in &mut both {
        hash = read_heads(heads, 12).await?;
    }
    seen("two");
    // A dropped one is unsubscribed, and the other one goes on.
    let [mut first, second] = both;
    drop(second);
    read_heads(&mut first, 12).await?;
    assert!(hash.is_string());
    seen("dropped");

    let mut heads = subscribe(&client, rpc_params!["newHeads", 3]).await?;
    read_heads(&mut heads, 3).await?;
    assert!(heads.next().await.is_none(), "it had three blocks");
    seen("end");

    let refused = subscribe(&client, rpc_params!["nothing"]).await;
    assert!(refused.is_err(), "there is no such subscription");
    let height: String = client.request("eth_blockNumber", rpc_params![]).await?;
    assert!(height.starts_with("0x"));
    seen("refused");
    Ok(())
}

async fn subscribe(
    client: &WsClient,
    params: ArrayParams,
) -> Result<Subscription<Value>, jsonrpsee_core::ClientError> {
    client
        .subscribe("eth_subscribe", params, "eth_unsubscribe")
        .await
}

/// Reads so many heads, each of which follows the one before it; gives the hash of the last.
async fn read_heads(heads: &mut Subscription<Value>, count: u64) -> Result<Value, Failure> {
    let mut last: Option<(u64, Value)> = None;
    for _ in 0..count {
        let head = heads.next().await.ok_or("the subscription has ended")??;
        let number = head["number"].as_str().unwrap_or_default();
        let number = u64::from_str_radix(number.trim_start_matches("0x"), 16)?;
        if let Some((before, hash)) = last {
            assert_eq!((number, &head["parentHash"]), (before + 1, &hash));
        }
        last = Some((number, head["hash"].clone()));
    }
    Ok(last.map(|(_, hash)| hash).unwrap_or_default())
}

// -- the server

/// The chain, and how many follow it.
struct Node {
    followers: AtomicU64,
    height: watch::Receiver<u64>,
}

fn block(number: u64) -> Value {
    let hash = |number| format!("{number:#066x}");
    json!({"number": format!("{number:#x}"), "hash": hash(number), "parentHash": hash(number - 1)})
}

/// Makes blocks. Each is in the file before anybody is told of it; a half-written file never has the name.
async fn make_blocks(height: watch::Sender<u64>, file: Option<String>) -> Result<(), Failure> {
    loop {
        tokio::time::sleep(BLOCK_TIME).await;
        let number = *height.borrow() + 1;
        if let Some(file) = &file {
            fs::write(format!("{file}.new"), number.to_string())?;
            fs::rename(format!("{file}.new"), file)?;
        }
        height.send_replace(number);
    }
}

async fn serve(port: &str, file: Option<String>) -> Result<(), Failure> {
    let server = Server::builder().build(format!("127.0.0.1:{port}")).await?;
    println!("{}", server.local_addr()?.port());
    let known = file.as_ref().and_then(|file| fs::read_to_string(file).ok());
    let (maker, height) = watch::channel(known.map_or(Ok(0), |known| known.parse())?);
    let mut module = RpcModule::new(Node {
        followers: AtomicU64::new(0),
        height,
    });
    module.register_method("followers", |_, node, _| {
        node.followers.load(Ordering::SeqCst)
    })?;
    module.register_method("eth_getBlockByNumber", |params, node, _| {
        let (number, _) = params.parse::<(String, bool)>().ok()?;
        let number = u64::from_str_radix(number.trim_start_matches("0x"), 16).ok()?;
        (1..=*node.height.borrow())
            .contains(&number)
            .then(|| block(number))
    })?;
    // `["newHeads"]` goes on until it is unsubscribed, `["newHeads",n]` fails after so many.
    module.register_subscription(
        "eth_subscribe",
        "eth_subscription",
        "eth_unsubscribe",
        |params, pending, node, _| async move {
            let (_, count): (String, Option<u64>) = {
                let mut params = params.sequence();
                (params.next()?, params.optional_next()?)
            };
            let sink = pending.accept().await?;
            node.followers.fetch_add(1, Ordering::SeqCst);
            let mut height = node.height.clone();
            let first = *height.borrow() + 1;
            for number in (first..).take(count.map_or(usize::MAX, |count| count as usize)) {
                height.wait_for(|height| *height >= number).await?;
                if sink.send(to_raw_value(&block(number))?).await.is_err() {
                    break;
                }
            }
            node.followers.fetch_sub(1, Ordering::SeqCst);
            match sink.is_closed() {
                true => Ok(()),
                false => Err("there are no more blocks".into()),
            }
        },
    )?;
    let stopped = server.start(module).stopped();
    tokio::select! {
        () = stopped => Ok(()),
        failed = make_blocks(maker, file) => failed,
    }
}
