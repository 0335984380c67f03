//! alloy follows the blocks of a server: `antiphon-interop-alloy URL`.

use std::time::Duration;

use alloy_pubsub::Subscription;
use alloy_rpc_client::{ClientBuilder, RpcClient};
use alloy_rpc_types_eth::Header;
use alloy_transport_ws::WsConnect;

const TIMEOUT: Duration = Duration::from_secs(25);

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::args().nth(1);
    let url = url.ok_or("usage: antiphon-interop-alloy URL")?;
    tokio::time::timeout(TIMEOUT, follow(&url)).await??;
    println!("ok");
    Ok(())
}

async fn follow(url: &str) -> Result<(), Failure> {
    let client = ClientBuilder::default().pubsub(WsConnect::new(url)).await?;
    let chain: String = client.request_noparams("eth_chainId").await?;
    assert_eq!(chain, "0x7a69");
    let mut heads = subscribe(&client).await?;
    let mut last: Option<Header> = None;
    for _ in 0..15 {
        let head = heads.recv().await?;
        if let Some(last) = last {
            assert_eq!(
                (head.number, head.parent_hash),
                (last.number + 1, last.hash)
            );
        }
        last = Some(head);
    }
    println!("seen heads");
    let frontend = client.pubsub_frontend().ok_or("it has no subscriptions")?;
    frontend.unsubscribe(*heads.local_id())?;
    // A new one begins behind what has passed.
    let mut heads = subscribe(&client).await?;
    let head = heads.recv().await?;
    assert!(last.is_some_and(|last| last.number < head.number));
    println!("seen again");
    Ok(())
}

async fn subscribe(client: &RpcClient) -> Result<Subscription<Header>, Failure> {
    let mut call = client.request("eth_subscribe", ("newHeads",));
    call.set_is_subscription();
    let id = call.await?;
    let frontend = client.pubsub_frontend().ok_or("it has no subscriptions")?;
    Ok(frontend.get_subscription(id).await?.into_typed())
}
