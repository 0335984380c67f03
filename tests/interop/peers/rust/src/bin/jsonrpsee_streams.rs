//! Subscriptions of jsonrpsee, on both sides.
//!
//! ```text
//! jsonrpsee_streams follow URL    follows blocks, unsubscribes, and sees the end of a subscription
//! jsonrpsee_streams server        prints its port; has blocks, and says how many follow them
//! ```

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

const TIMEOUT: Duration = Duration::from_secs(25);
const BLOCK_TIME: Duration = Duration::from_millis(5);

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["server"] => serve().await,
        ["follow", url] => {
            tokio::time::timeout(TIMEOUT, follow(url)).await??;
            println!("ok");
            Ok(())
        }
        _ => Err("usage: jsonrpsee_streams follow URL | server".into()),
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

async fn serve() -> Result<(), Failure> {
    let server = Server::builder().build("127.0.0.1:0").await?;
    println!("{}", server.local_addr()?.port());
    let mut module = RpcModule::new(AtomicU64::new(0));
    module.register_method("followers", |_, followers, _| {
        followers.load(Ordering::SeqCst)
    })?;
    // `["newHeads"]` goes on until it is unsubscribed, `["newHeads",n]` fails after so many.
    module.register_subscription(
        "eth_subscribe",
        "eth_subscription",
        "eth_unsubscribe",
        |params, pending, followers, _| async move {
            let (_, count): (String, Option<u64>) = {
                let mut params = params.sequence();
                (params.next()?, params.optional_next()?)
            };
            let sink = pending.accept().await?;
            followers.fetch_add(1, Ordering::SeqCst);
            for number in 1..=count.unwrap_or(u64::MAX) {
                tokio::time::sleep(BLOCK_TIME).await;
                let head = json!({"number": format!("{number:#x}")});
                if sink.send(to_raw_value(&head)?).await.is_err() {
                    break;
                }
            }
            followers.fetch_sub(1, Ordering::SeqCst);
            match sink.is_closed() {
                true => Ok(()),
                false => Err("there are no more blocks".into()),
            }
        },
    )?;
    server.start(module).stopped().await;
    Ok(())
}
