//! Publishes prices to a client that has subscribed to them: to one topic, to a pattern, and to several at once.
//!
//! `cargo run -p antiphon-tokio --example stock_prices`

use std::error::Error;
use std::io::{Write, stderr, stdout};

use antiphon_tokio::{Client, Config, Hub, Published, Router, TcpServer, connect};
use serde_json::{Value, json};

#[tokio::main]
async fn main() {
    if let Err(error) = run().await {
        drop(writeln!(stderr(), "stock_prices: {error}"));
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let hub = Hub::new();
    let server = TcpServer::bind("127.0.0.1:0").await?;
    let url = format!("tcp://{}", server.local_addr());
    let _running = server.start(Config::new(), Router::new().hub(&hub).into_make_service());
    let client = connect(url, Config::new(), ()).await?;

    // A stream subscribes, and unsubscribes when it is dropped.
    let mut one = client.topic::<Value>("stock.prices.AAPL").await?;
    let mut all = client.topic::<Value>("stock.prices.*").await?;
    let quote = json!({"symbol": "AAPL", "price": 150.25, "timestamp": "2026-01-15T10:30:00Z"});
    let receivers = hub.publish("stock.prices.AAPL", &quote)?;
    say(format!("{receivers} connection gets the price"));
    for stream in [&mut one, &mut all] {
        let Published { topic, data } = stream.next().await.ok_or("the stream has ended")??;
        say(format!(
            "{topic}: {} at {}",
            data["price"], data["timestamp"]
        ));
    }
    drop((one, all));

    // By hand, with the text of each frame, as a program in any language does it.
    let topics = json!({"topics": ["stock.prices.AAPL", "news.>"]});
    ask(&client, "rpc.subscribe.batch", &topics).await?;
    ask(
        &client,
        "rpc.unsubscribe",
        &json!({"topic": "stock.prices.AAPL"}),
    )
    .await?;
    ask(&client, "rpc.unsubscribe.batch", &topics).await?;
    say(format!(
        "{} connections get the news",
        hub.publish("news.sport", &1)?
    ));
    Ok(())
}

async fn ask(client: &Client, method: &str, params: &Value) -> Result<(), Box<dyn Error>> {
    say(format!(
        "{method}: {}",
        client.call::<Value>(method, params).await?
    ));
    Ok(())
}

fn say(line: impl std::fmt::Display) {
    drop(writeln!(stdout(), "{line}"));
}
