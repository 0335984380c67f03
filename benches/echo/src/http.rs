//! HTTP/1.1 on tokio: bare hyper, antiphon on both sides, as the server of bare hyper, as the client of bare hyper. Requests
//! that are in flight together have a connection each.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon::http::WebRules;
use antiphon_tokio::http::HttpConfig;
use antiphon_tokio::{Client, ClientConfig, Running, TcpServer, connect};
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

use crate::row::{self, BATCH, Lane, MANY, Mode, Outcome, Row, WORD, With, check, requests};
use crate::runtime::Runtime;
use crate::service::Echo;
use crate::side::{Far, Ours, answer, replies, same};

/// When the server closes an idle connection: later than any row waits for its turn.
const IDLE_TIME: Duration = Duration::from_secs(600);

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &[String]) -> Outcome<()> {
    let floor = "bare hyper HTTP";
    row::add(rows, wanted, floor, floor, bare)?;
    for (name, ours) in [
        ("antiphon tokio HTTP", Ours::Both),
        ("antiphon tokio HTTP, server", Ours::Server),
        ("antiphon tokio HTTP, client", Ours::Client),
    ] {
        row::add(rows, wanted, name, floor, || self::ours(ours))?;
    }
    Ok(())
}

async fn echo(request: Request<Incoming>, far: Far) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let mut body = request.into_body().collect().await?.to_bytes();
    if far == Far::Answers {
        let mut out = Vec::new();
        answer(&body, &mut out);
        body = out.into();
    }
    let mut response = Response::new(Full::new(body));
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

async fn serve(listener: TcpListener, far: Far) {
    while let Ok((stream, _)) = listener.accept().await {
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        tokio::spawn(async move {
            let served = hyper::server::conn::http1::Builder::new().serve_connection(
                TokioIo::new(stream),
                service_fn(|request| echo(request, far)),
            );
            // An error here means that the client is gone.
            let _ = served.await;
        });
    }
}

/// Connections of bare hyper to a server of either kind.
struct Hyper {
    runtime: Runtime,
    senders: Vec<SendRequest<Full<Bytes>>>,
    address: SocketAddr,
    far: Far,
}

async fn senders(address: SocketAddr) -> Outcome<Vec<SendRequest<Full<Bytes>>>> {
    let mut senders = Vec::new();
    for _ in 0..MANY {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, conn) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // If the connection ends, the next send fails.
        tokio::spawn(async { drop(conn.await) });
        senders.push(sender);
    }
    Ok(senders)
}

/// A server of bare hyper.
async fn far(far: Far) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener, far));
    Ok(address)
}

fn bare() -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let address = runtime.block_on(far(Far::Echo))?;
    near(runtime, address, Far::Echo)
}

/// A client of bare hyper.
fn near(runtime: Runtime, address: SocketAddr, far: Far) -> Outcome<Box<dyn Lane>> {
    let senders = runtime.block_on(senders(address))?;
    Ok(Box::new(Hyper {
        runtime,
        senders,
        address,
        far,
    }))
}

async fn server() -> Outcome<(SocketAddr, Running)> {
    let server = TcpServer::bind("127.0.0.1:0").await?;
    let mut rules = WebRules::new();
    // Nor is a connection closed that has not asked yet, however long the rows before it take.
    rules.first_byte_timeout = IDLE_TIME;
    rules.idle_timeout = IDLE_TIME;
    let options = HttpConfig::from(Config::new()).with_rules(rules);
    Ok((server.local_addr(), server.start_http(options, Echo)))
}

impl Lane for Hyper {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let bodies = requests(mode).into_iter().map(Bytes::from);
        let bodies: Vec<_> = bodies.zip(replies(self.far, mode)).collect();
        let (host, far) = (self.address.to_string(), self.far);
        let host = host.as_str();
        let senders = &mut self.senders;
        self.runtime.block_on(async {
            for _ in 0..rounds {
                let began = Instant::now();
                let asked = senders.iter_mut().zip(&bodies);
                let post = asked.map(|(sender, body)| post(sender, host, body, far));
                try_join_all(post).await?;
                times.push(began.elapsed());
            }
            Ok(())
        })
    }
}

async fn post(
    sender: &mut SendRequest<Full<Bytes>>,
    host: &str,
    (body, wanted): &(Bytes, String),
    far: Far,
) -> Outcome<()> {
    sender.ready().await?;
    let request = Request::post("/")
        .header(HOST, host)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body.clone()))?;
    let response = sender.send_request(request).await?;
    let back = response.into_body().collect().await?.to_bytes();
    same(far, wanted.as_bytes(), &back)
}

struct Asking<R> {
    runtime: Runtime,
    client: Client,
    /// The server, which stops when this is dropped.
    _running: R,
}

fn ours(ours: Ours) -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let client = |address: SocketAddr| {
        let mut options = ClientConfig::from(Config::new());
        options.max_http_connections = MANY;
        options.idle_timeout = IDLE_TIME;
        runtime.block_on(connect(format!("http://{address}/"), options, ()))
    };
    if ours == Ours::Client {
        let client = client(runtime.block_on(far(Far::Answers))?)?;
        return Ok(Box::new(Asking {
            runtime,
            client,
            _running: (),
        }));
    }
    let (address, running) = runtime.block_on(server())?;
    if ours == Ours::Server {
        return Ok(Box::new(With(
            near(runtime, address, Far::Answers)?,
            running,
        )));
    }
    let client = client(address)?;
    Ok(Box::new(Asking {
        runtime,
        client,
        _running: running,
    }))
}

impl<R> Lane for Asking<R> {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let client = &self.client;
        let ask = || async { check(&client.call::<String>("echo", &(WORD,)).await?) };
        self.runtime.block_on(async {
            for _ in 0..rounds {
                let began = Instant::now();
                match mode {
                    Mode::One => ask().await?,
                    Mode::Many | Mode::Crowd => {
                        drop(try_join_all((0..MANY).map(|_| ask())).await?);
                    }
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
