//! jsonrpsee as a client or a server, over HTTP and WebSocket.
//!
//! ```text
//! jsonrpsee_peer server                   prints its port; takes http and ws
//! jsonrpsee_peer client http|ws URL POINTS…
//! jsonrpsee_peer loop URL                 over ws: calls on and on, and passes on what a call has brought
//! ```

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon_interop_peers::{assert_unordered, difference, failure, long_text, seen, unordered};
use futures_util::future::join_all;
use jsonrpsee_core::ClientError;
use jsonrpsee_core::client::{BatchResponse, ClientT, SubscriptionClientT};
use jsonrpsee_core::params::BatchRequestBuilder;
use jsonrpsee_core::traits::ToRpcParams;
use jsonrpsee_http_client::HttpClient;
use jsonrpsee_server::types::{ErrorObject, ErrorObjectOwned};
use jsonrpsee_server::{RpcModule, Server};
use jsonrpsee_ws_client::WsClientBuilder;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(25);

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["server"] => serve().await,
        ["client", kind, url, ref points @ ..] => {
            tokio::time::timeout(TIMEOUT, run(kind, url, points)).await??;
            println!("ok");
            Ok(())
        }
        ["loop", url] => call_on(url).await,
        _ => Err("usage: jsonrpsee_peer server | client http|ws URL POINTS… | loop URL".into()),
    }
}

async fn run(kind: &str, url: &str, points: &[&str]) -> Result<(), Failure> {
    if kind == "http" {
        return drive(&HttpClient::builder().build(url)?, points).await;
    }
    let client = WsClientBuilder::default().build(url).await?;
    drive(&client, points).await?;
    subscribe(&client).await
}

async fn call_on(url: &str) -> Result<(), Failure> {
    let client = WsClientBuilder::default().build(url).await?;
    let mut brought = Value::Null;
    loop {
        brought = match call(&client, "next", json!([brought])).await {
            Ok(result) => result,
            Err(error) => {
                eprintln!("{error:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                Value::Null
            }
        };
    }
}

/// Params as they are, by position or by name.
struct Params(Value);

impl ToRpcParams for Params {
    fn to_rpc_params(self) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        serde_json::value::to_raw_value(&self.0).map(Some)
    }
}

async fn drive(client: &impl ClientT, points: &[&str]) -> Result<(), Failure> {
    for point in points {
        match *point {
            "position" => assert_eq!(call(client, "subtract", json!([42, 23])).await?, 19),
            "name" => {
                let params = json!({"subtrahend": 23, "minuend": 42});
                assert_eq!(call(client, "subtract", params).await?, 19);
            }
            "error" => errors(client).await?,
            "notification" => notify(client).await?,
            "batch" => batch(client).await?,
            "order" => order(client).await?,
            "text" => {
                let params = json!([long_text()]);
                assert!(call(client, "echo", params.clone()).await? == params);
            }
            _ => return Err(format!("it has no {point}").into()),
        }
        seen(point);
    }
    Ok(())
}

async fn call(client: &impl ClientT, method: &str, params: Value) -> Result<Value, ClientError> {
    client.request(method, Params(params)).await
}

async fn errors(client: &impl ClientT) -> Result<(), Failure> {
    let Err(ClientError::Call(error)) = call(client, "fail", failure()).await else {
        return Err("no error came".into());
    };
    assert_eq!(serde_json::to_value(&error)?, failure());
    match call(client, "nope", json!([])).await {
        Err(ClientError::Call(error)) => assert_eq!(error.code(), -32601),
        other => return Err(format!("{other:?}").into()),
    }
    Ok(())
}

async fn notify(client: &impl ClientT) -> Result<(), Failure> {
    let before = call(client, "count", json!([])).await?.as_u64();
    for i in 0..3 {
        client.notification("update", Params(json!([i]))).await?;
    }
    // The whole run has a deadline.
    while call(client, "count", json!([])).await?.as_u64() != before.map(|count| count + 3) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// It has no notifications in batches.
async fn batch(client: &impl ClientT) -> Result<(), Failure> {
    let mut batch = BatchRequestBuilder::new();
    batch.insert("subtract", Params(json!([5, 3])))?;
    batch.insert("nope", Params(json!([])))?;
    batch.insert("echo", Params(json!(["é"])))?;
    let answers: BatchResponse<'_, Value> = client.batch_request(batch).await?;
    let answers: Vec<Value> = answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(|error| json!(error.code())))
        .collect();
    assert_eq!(answers, [json!(2), json!(-32601), json!(["é"])]);
    Ok(())
}

async fn order(client: &impl ClientT) -> Result<(), Failure> {
    let ended = Mutex::new(Vec::new());
    let ended = &ended;
    let one = |(place, (method, params, wanted))| async move {
        assert_eq!(call(client, method, params).await?, wanted);
        // Nothing panics under the lock.
        ended.lock().expect("the lock is whole").push(place);
        Ok::<(), ClientError>(())
    };
    for end in join_all(unordered().into_iter().enumerate().map(one)).await {
        end?;
    }
    assert_unordered(&ended.lock().expect("the lock is whole"));
    Ok(())
}

/// The server's events, which it takes by the id of their subscription.
async fn subscribe(client: &impl SubscriptionClientT) -> Result<(), Failure> {
    let params = Params(json!(["newHeads"]));
    let mut events = client
        .subscribe::<Value, _>("eth_subscribe", params, "eth_unsubscribe")
        .await?;
    for number in ["0x11", "0x12", "0x13"] {
        let event = events.next().await.ok_or("the subscription ended")??;
        assert_eq!(event["number"], number);
    }
    events.unsubscribe().await?;
    Ok(())
}

async fn serve() -> Result<(), Failure> {
    let server = Server::builder().build("127.0.0.1:0").await?;
    println!("{}", server.local_addr()?.port());
    server.start(service()?).stopped().await;
    Ok(())
}

fn service() -> Result<RpcModule<AtomicU64>, Failure> {
    let mut module = RpcModule::new(AtomicU64::new(0));
    module.register_method("subtract", |params, _, _| {
        let params: Value = params.parse()?;
        difference(&params).ok_or_else(|| ErrorObject::owned(-32602, "Invalid params", None::<()>))
    })?;
    module.register_method("echo", |params, _, _| params.parse::<Value>())?;
    module.register_method("fail", |params, _, _| -> Result<(), ErrorObjectOwned> {
        let params: Value = params.parse()?;
        let code = params["code"].as_i64().unwrap_or_default() as i32;
        let message = params["message"].as_str().unwrap_or_default().to_owned();
        Err(ErrorObject::owned(code, message, params.get("data")))
    })?;
    module.register_async_method("sleep", |params, _, _| async move {
        let (millis,): (u64,) = params.parse()?;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        Ok::<_, ErrorObjectOwned>("slept")
    })?;
    module.register_method("update", |_, count, _| {
        count.fetch_add(1, Ordering::SeqCst);
    })?;
    module.register_method("count", |_, count, _| count.load(Ordering::SeqCst))?;
    module.register_subscription(
        "eth_subscribe",
        "eth_subscription",
        "eth_unsubscribe",
        |_, pending, _, _| async move {
            let sink = pending.accept().await?;
            for number in ["0x11", "0x12", "0x13"] {
                sink.send(serde_json::value::to_raw_value(&json!({"number": number}))?)
                    .await?;
            }
            Ok(())
        },
    )?;
    Ok(module)
}
