//! Pulls numbers item by item: a stream of the server, to its end and left early, and a stream that is an argument.
//!
//! `cargo run -p antiphon-tokio --example number_flows`

use std::error::Error;
use std::io::{Write, stderr, stdout};

use antiphon_tokio::flow::FlowConfig;
use antiphon_tokio::{
    Config, ConnectionConfig, Flow, OwnedError, Router, TcpServer, connect, service,
};
use futures_util::stream::{self, Stream};

#[service(rename_all = "camelCase")]
trait Numbers {
    /// The numbers from 1 on.
    #[rpc(flow)]
    fn count_to(&self, end: u64) -> impl Stream<Item = Result<u64, OwnedError>> + Send;

    /// Adds up numbers of the caller.
    async fn sum(&self, numbers: Flow<u64>) -> Result<u64, OwnedError>;
}

struct Here;

impl Numbers for Here {
    fn count_to(&self, end: u64) -> impl Stream<Item = Result<u64, OwnedError>> + Send {
        // Each number is made when it is pulled.
        stream::iter((1..=end).map(|number| {
            say(format!("  the server makes {number}"));
            Ok(number)
        }))
    }

    async fn sum(&self, numbers: Flow<u64>) -> Result<u64, OwnedError> {
        let (mut numbers, mut sum) = (numbers.window(8), 0);
        while let Some(number) = numbers.next().await {
            sum += number?;
        }
        Ok(sum)
    }
}

#[tokio::main]
async fn main() {
    if let Err(error) = run().await {
        drop(writeln!(stderr(), "number_flows: {error}"));
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    // Both ends switch flows on.
    let mut options = ConnectionConfig::from(Config::new());
    options.flows = Some(FlowConfig::new());
    let server = TcpServer::bind("127.0.0.1:0").await?;
    let url = format!("tcp://{}", server.local_addr());
    let router = Router::new().service(Here.into_service());
    let _running = server.start(options.clone(), router.into_make_service());
    let numbers = NumbersClient::new(connect(url, options, ()).await?);

    let mut all = numbers.count_to(2);
    while let Some(number) = all.next().await {
        say(format!("pulled {}", number?));
    }
    say("the flow is complete");

    // A flow that is dropped is cancelled.
    let mut some = numbers.count_to(1_000_000);
    let first = some.next().await.ok_or("the flow has no items")??;
    drop(some);
    say(format!("pulled {first} of a million, and left"));

    // The other direction: the server pulls, and the flow ends with the call.
    let own = Flow::of(stream::iter((1..=10).map(Ok::<_, OwnedError>)));
    let sum = numbers.sum(own).await?;
    say(format!("the sum of 1 to 10 is {sum}"));
    Ok(())
}

fn say(line: impl std::fmt::Display) {
    drop(writeln!(stdout(), "{line}"));
}
