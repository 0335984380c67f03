//! What one would use for calls between programs where the other side need not speak JSON-RPC: tonic and tarpc.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use tarpc::serde_transport::Transport;
use tarpc::server::{BaseChannel, Channel as _};
use tarpc::tokio_serde::formats::{Bincode, Json};
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

use crate::peers::{checked, free_port, run, tcp_pair};
use crate::row::{self, Lane, Mode, Outcome, Row, WORD};
use crate::runtime::Runtime;

/// Makes a client and a server of tarpc that speak one of its formats.
macro_rules! tarpc_over {
    ($format:ident) => {{
        let runtime = Runtime::tokio()?;
        let client = runtime.block_on(async {
            let (near, far) = tcp_pair().await?;
            let far = Transport::from((far, $format::default()));
            let server = BaseChannel::with_defaults(far).execute(Echoes.serve());
            tokio::spawn(server.for_each(async |answer| drop(tokio::spawn(answer))));
            let near = Transport::from((near, $format::default()));
            Ok::<_, Box<dyn std::error::Error>>(
                EchoClient::new(tarpc::client::Config::default(), near).spawn(),
            )
        })?;
        Ok(Box::new(Tarpc { runtime, client }) as Box<dyn Lane>)
    }};
}

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &[String]) -> Outcome<()> {
    row::add(rows, wanted, "tonic", "bare tokio TCP", tonic)?;
    row::add(rows, wanted, "tarpc JSON", "bare tokio TCP", || {
        tarpc_over!(Json)
    })?;
    row::add(rows, wanted, "tarpc bincode", "bare tokio TCP", || {
        tarpc_over!(Bincode)
    })
}

/// The message in both directions.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Word {
    #[prost(string, tag = "1")]
    pub(crate) word: String,
}

#[allow(clippy::pedantic, missing_debug_implementations, unreachable_pub)]
mod words {
    tonic::include_proto!("echo.Words");
}

struct Words;

#[tonic::async_trait]
impl words::words_server::Words for Words {
    async fn echo(&self, request: Request<Word>) -> Result<Response<Word>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}

struct Tonic {
    runtime: Runtime,
    client: words::words_client::WordsClient<Channel>,
}

fn tonic() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
    let server = Server::builder().add_service(words::words_server::WordsServer::new(Words));
    runtime.spawn(async move { drop(server.serve(address).await) });
    let client = runtime.block_on(async {
        let url = format!("http://{address}");
        for _ in 0..500 {
            if let Ok(client) = words::words_client::WordsClient::connect(url.clone()).await {
                return Ok(client);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err("it does not listen")
    })?;
    Ok(Box::new(Tonic { runtime, client }))
}

impl Lane for Tonic {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let client = self.client.clone();
        let ask = move || {
            let mut client = client.clone();
            async move {
                let answer = client.echo(Word { word: WORD.into() }).await?;
                checked(&answer.into_inner().word)
            }
        };
        run(&self.runtime, mode, rounds, times, ask)
    }

    fn can(&self, mode: Mode) -> bool {
        mode != Mode::Batch
    }
}

#[tarpc::service]
trait Echo {
    async fn echo(word: String) -> String;
}

#[derive(Clone)]
struct Echoes;

impl Echo for Echoes {
    async fn echo(self, _: tarpc::context::Context, word: String) -> String {
        word
    }
}

struct Tarpc {
    runtime: Runtime,
    client: EchoClient,
}

impl Lane for Tarpc {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let client = self.client.clone();
        let ask = move || {
            let client = client.clone();
            async move {
                let word = client.echo(tarpc::context::current(), WORD.into()).await?;
                checked(&word)
            }
        };
        run(&self.runtime, mode, rounds, times, ask)
    }

    fn can(&self, mode: Mode) -> bool {
        mode != Mode::Batch
    }
}
