//! A consumer of orders that loses its connection before it has acknowledged, and gets what it has not acknowledged
//! again; then two subscriptions in one call. The text of each message is printed, as a program in any language sends it.
//!
//! `cargo run -p antiphon-tokio --example durable_orders`

use std::error::Error;
use std::io::{Write, stderr, stdout};

use antiphon_tokio::{Client, Config, Durable, Router, TcpServer, connect};
use serde_json::{Value, json};

#[tokio::main]
async fn main() {
    if let Err(error) = run().await {
        drop(writeln!(stderr(), "durable_orders: {error}"));
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    // `RedbStore::open("orders.redb")?` of antiphon-redb, and `Durable::new`, for orders that survive the server.
    let orders = Durable::in_memory(1 << 20);
    let server = TcpServer::bind("127.0.0.1:0").await?;
    let url = format!("tcp://{}", server.local_addr());
    let router = Router::new().durable(&orders);
    let _running = server.start(Config::new(), router.into_make_service());

    let client = connect(&url, Config::new(), ()).await?;
    let mut inbox = client
        .durable::<Value>("order-processor-1", "orders")
        .await?;
    for id in ["ORD-1", "ORD-2", "ORD-3"] {
        let order = json!({"order_id": id, "total": 99.99});
        let sequence = orders.publish("orders", &order).await?;
        say(format_args!("{id} is stored as {sequence}"));
    }
    for _ in 0..2 {
        let order = inbox.next().await.ok_or("the stream has ended")??;
        say(format_args!(
            "{}: {} at {}",
            order.sequence, order.data, order.timestamp
        ));
        if order.sequence == 1 {
            order.ack().await?;
        }
    }
    drop((inbox, client));
    say("the connection is lost; 1 was acknowledged");

    let client = connect(&url, Config::new(), ()).await?;
    let mut inbox = client
        .durable::<Value>("order-processor-1", "orders")
        .await?;
    for _ in 0..2 {
        let order = inbox.next().await.ok_or("the stream has ended")??;
        say(format_args!(
            "{}: {} again or new",
            order.sequence, order.data
        ));
        order.ack().await?;
    }

    // By hand.
    let both = json!({"subscriptions": [
        {"subscription_id": "order-processor-1", "topic": "orders"},
        {"subscription_id": "shipping-1", "topic": "shipments"}]});
    ask(&client, "rpc.subscribe.persistent.batch", &both).await?;
    orders.publish("shipments", "SHP-1").await?;
    let acks = json!({"acknowledgments": [
        {"subscription_id": "order-processor-1", "sequence_id": 3},
        {"subscription_id": "nobody", "sequence_id": 1}]});
    ask(&client, "rpc.acknowledge.persistent.batch", &acks).await?;
    let first = json!({"subscription_id": "order-processor-1"});
    ask(&client, "rpc.unsubscribe.persistent", &first).await
}

async fn ask(client: &Client, method: &str, params: &Value) -> Result<(), Box<dyn Error>> {
    let result = client.call::<Value>(method, params).await?;
    say(format_args!("{method}: {result}"));
    Ok(())
}

fn say(line: impl std::fmt::Display) {
    drop(writeln!(stdout(), "{line}"));
}
