//! HTTP/1.1 on tokio: bare hyper, antiphon with its own client, and antiphon's server with bare
//! hyper asking. Many at once are as many connections.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon::http::HttpRules;
use antiphon_tokio::http::{Client, HttpClientOptions, HttpOptions, connect};
use antiphon_tokio::{Running, TcpServer};
use bytes::Bytes;
use futures_util::future::try_join_all;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::row::{self, BATCH, Lane, MANY, Mode, Outcome, Row, WORD, check, requests};
use crate::runtime::Runtime;
use crate::service::Echo;

/// Longer than any row waits for its turn.
const IDLE_TIME: Duration = Duration::from_secs(600);

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &str) -> Outcome<()> {
    let floor = "bare hyper HTTP";
    row::add(rows, wanted, floor, floor, bare)?;
    row::add(rows, wanted, "antiphon tokio HTTP", floor, ours)?;
    row::add(
        rows,
        wanted,
        "antiphon tokio HTTP, hyper asks",
        floor,
        ours_asked_by_hyper,
    )
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let mut response = Response::new(Full::new(body));
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        tokio::spawn(async move {
            let served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(echo));
            // The client has let go.
            let _ = served.await;
        });
    }
}

/// Connections of bare hyper to whatever server.
struct Hyper<R> {
    runtime: Runtime,
    senders: Vec<SendRequest<Full<Bytes>>>,
    address: SocketAddr,
    /// Whether the answer to these bytes is right.
    is_right: fn(&[u8], &[u8]) -> bool,
    /// The server, which stops when this is dropped.
    _running: R,
}

async fn senders(address: SocketAddr) -> Outcome<Vec<SendRequest<Full<Bytes>>>> {
    let mut senders = Vec::new();
    for _ in 0..MANY {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, conn) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // The end of a connection is told to whoever sends next.
        tokio::spawn(async { drop(conn.await) });
        senders.push(sender);
    }
    Ok(senders)
}

fn bare() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let (address, senders) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(serve(listener));
        Ok::<_, Box<dyn std::error::Error>>((address, senders(address).await?))
    })?;
    let is_right = |sent: &[u8], back: &[u8]| sent == back;
    Ok(Box::new(Hyper {
        runtime,
        senders,
        address,
        is_right,
        _running: (),
    }))
}

async fn server() -> Outcome<(SocketAddr, Running)> {
    let server = TcpServer::bind("127.0.0.1:0").await?;
    let mut rules = HttpRules::new();
    rules.idle_time_max = IDLE_TIME;
    let options = HttpOptions::from(Config::new()).with_rules(rules);
    Ok((server.local_addr(), server.start_http(options, Echo)))
}

fn ours_asked_by_hyper() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let (address, senders, running) = runtime.block_on(async {
        let (address, running) = server().await?;
        let senders = senders(address).await?;
        Ok::<_, Box<dyn std::error::Error>>((address, senders, running))
    })?;
    let is_right = |sent: &[u8], back: &[u8]| {
        let answers = format!(r#""result":"{WORD}""#);
        let wanted = if sent.starts_with(b"[") { BATCH } else { 1 };
        String::from_utf8_lossy(back).matches(&answers).count() == wanted
    };
    Ok(Box::new(Hyper {
        runtime,
        senders,
        address,
        is_right,
        _running: running,
    }))
}

impl<R> Lane for Hyper<R> {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let bodies: Vec<_> = requests(mode).into_iter().map(Bytes::from).collect();
        let (host, is_right) = (self.address.to_string(), self.is_right);
        let host = host.as_str();
        let senders = &mut self.senders;
        self.runtime.block_on(async {
            for _ in 0..rounds {
                let began = Instant::now();
                let asked = senders.iter_mut().zip(&bodies);
                try_join_all(asked.map(|(sender, body)| post(sender, host, body, is_right)))
                    .await?;
                times.push(began.elapsed());
            }
            Ok(())
        })
    }
}

async fn post(
    sender: &mut SendRequest<Full<Bytes>>,
    host: &str,
    body: &Bytes,
    is_right: fn(&[u8], &[u8]) -> bool,
) -> Outcome<()> {
    sender.ready().await?;
    let request = Request::post("/")
        .header(HOST, host)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body.clone()))?;
    let response = sender.send_request(request).await?;
    let back = response.into_body().collect().await?.to_bytes();
    if is_right(body, &back) {
        return Ok(());
    }
    Err(format!("the answer was {}", String::from_utf8_lossy(&back)).into())
}

struct Ours {
    runtime: Runtime,
    client: Client,
    /// The server, which stops when this is dropped.
    _running: Running,
}

fn ours() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let (client, running) = runtime.block_on(async {
        let (address, running) = server().await?;
        let mut options = HttpClientOptions::from(Config::new());
        options.connections_max = MANY;
        options.idle_time_max = IDLE_TIME;
        let client = connect(&format!("http://{address}/"), options)?;
        Ok::<_, Box<dyn std::error::Error>>((client, running))
    })?;
    Ok(Box::new(Ours {
        runtime,
        client,
        _running: running,
    }))
}

impl Lane for Ours {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let client = &self.client;
        let ask = || async { check(&client.call::<String>("echo", &(WORD,)).await?) };
        self.runtime.block_on(async {
            for _ in 0..rounds {
                let began = Instant::now();
                match mode {
                    Mode::One => ask().await?,
                    Mode::Many => drop(try_join_all((0..MANY).map(|_| ask())).await?),
                    Mode::Batch => batch(client).await?,
                }
                times.push(began.elapsed());
            }
            Ok(())
        })
    }
}

async fn batch(client: &Client) -> Outcome<()> {
    let batch = client.batch(|batch| {
        let call = |_| batch.call::<String>("echo", &(WORD,));
        (0..BATCH).map(call).collect::<Result<Vec<_>, _>>()
    });
    let (calls, mut outcomes) = batch.await?;
    calls
        .into_iter()
        .try_for_each(|call| check(&outcomes.fetch(call)?))
}
