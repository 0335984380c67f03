//! The servers: what is written with each library for one subscription, and the methods that the bench asks for.

use std::error::Error;
use std::sync::Arc;

use antiphon_tokio::websocket::WebSocketConfig;
use antiphon_tokio::{
    Config, ConnectionConfig, Hub, OwnedError, Router, Style, SubscriptionSink, TcpServer,
};
use jsonrpsee_server::{RpcModule, ServerBuilder, ServerConfig};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::value::to_raw_value;
use tokio::sync::broadcast;

#[derive(Serialize)]
pub struct Quote {
    number: u64,
    symbol: &'static str,
    bid: f64,
    ask: f64,
    size: u32,
    at: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depth: Vec<Price>,
}

#[derive(Clone, Serialize)]
struct Price {
    price: f64,
    size: u32,
}

pub fn quote(number: u64, prices: usize) -> Quote {
    Quote {
        number,
        symbol: "ACME",
        bid: 150.25,
        ask: 150.27,
        size: 1200,
        at: "2026-01-15T10:30:00.000Z",
        depth: vec![
            Price {
                price: 150.25,
                size: 1200
            };
            prices
        ],
    }
}

/// The processor time of this process, in nanoseconds.
pub fn spent() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Unix has this clock");
    u64::try_from(time.tv_sec() * 1_000_000_000 + time.tv_nsec()).expect("it counts up")
}

/// Serves for ever, and prints the port.
#[tokio::main]
pub async fn serve(name: &str) -> Result<(), Box<dyn Error>> {
    match name {
        "bare writes" => crate::bare::serve().await,
        "jsonrpsee" => jsonrpsee().await,
        "antiphon, hub" => antiphon(true).await,
        _ => antiphon(false).await,
    }
}

async fn antiphon(is_hub: bool) -> Result<(), Box<dyn Error>> {
    let (quotes, _) = broadcast::channel::<Arc<Quote>>(1024);
    let hub = Hub::new();
    let (publisher, topics) = (quotes.clone(), hub.clone());
    let publish = move |prices: usize, count: u64| {
        for number in 0..count {
            let quote = quote(number, prices);
            if is_hub {
                drop(topics.publish("quotes", &quote));
            } else {
                drop(publisher.send(Arc::new(quote)));
            }
        }
        Ok::<_, OwnedError>(count)
    };
    let follow = move |sink: SubscriptionSink<Quote>| {
        let mut quotes = quotes.subscribe();
        async move {
            while let Ok(quote) = quotes.recv().await {
                sink.send(&quote).await?;
            }
            Ok::<_, OwnedError>(())
        }
    };
    let router = Router::new()
        .hub(&hub)
        .method("publish", ["prices", "count"], publish)
        .method("spent", [], || Ok::<_, OwnedError>(spent()))
        .subscription(
            Style::named("subscribe", "quote", "unsubscribe"),
            [],
            follow,
        );
    let server = TcpServer::bind("127.0.0.1:0").await?;
    println!(
        "{}",
        server
            .local_addr()
            .to_string()
            .rsplit(':')
            .next()
            .ok_or("no port")?
    );
    let config = ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
    server
        .start(config, router.into_make_service())
        .wait()
        .await;
    Ok(())
}

async fn jsonrpsee() -> Result<(), Box<dyn Error>> {
    // By default it lets in as many as there are subscribers, and none that publishes.
    let config = ServerConfig::builder().max_connections(1000).build();
    let server = ServerBuilder::with_config(config)
        .build("127.0.0.1:0")
        .await?;
    println!("{}", server.local_addr()?.port());
    let (quotes, _) = broadcast::channel::<Arc<Quote>>(1024);
    let mut module = RpcModule::new(quotes);
    module.register_method("publish", |params, quotes, _| {
        let (prices, count) = params.parse::<(usize, u64)>()?;
        for number in 0..count {
            drop(quotes.send(Arc::new(quote(number, prices))));
        }
        Ok::<_, jsonrpsee_types::ErrorObjectOwned>(count)
    })?;
    module.register_method("spent", |_, _, _| spent())?;
    module.register_subscription(
        "subscribe",
        "quote",
        "unsubscribe",
        |_, pending, quotes, _| async move {
            let mut quotes = quotes.subscribe();
            let sink = pending.accept().await?;
            while let Ok(quote) = quotes.recv().await {
                sink.send(to_raw_value(&*quote)?).await?;
            }
            Ok(())
        },
    )?;
    server.start(module).stopped().await;
    Ok(())
}
