//! Events of one reply over HTTP/1.1 on tokio: a body of bare hyper, and the notifications of a handler of ours. The client
//! is bare hyper for both, and each event has the same bytes. One at a time, an event is awaited before the next one is
//! made, as progress is; otherwise many are made at once.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon::http::{SseEvent, WebRules};
use antiphon_tokio::http::HttpConfig;
use antiphon_tokio::{Answer, OwnedError, Peer, Request, Service, TcpServer};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Response;
use hyper::body::{Frame, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::row::{self, Lane, Mode, Outcome, Row, WORD, request};
use crate::runtime::Runtime;

/// How many events are to be made.
type Wanted = Arc<Mutex<Option<UnboundedReceiver<usize>>>>;

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &[String]) -> Outcome<()> {
    let floor = "bare hyper events";
    row::add(rows, wanted, floor, floor, || lane(false))?;
    row::add(rows, wanted, "antiphon tokio events, server", floor, || {
        lane(true)
    })
}

/// An event as it stands in the body.
fn event() -> Bytes {
    let mut event = Vec::new();
    let message = format!(r#"{{"jsonrpc":"2.0","method":"event","params":["{WORD}"]}}"#);
    SseEvent::new(message.as_bytes()).write(&mut event);
    event.into()
}

async fn serve_bare(listener: TcpListener, wanted: Wanted) {
    let Ok((stream, _)) = listener.accept().await else {
        return;
    };
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let answer = service_fn(|request: hyper::Request<Incoming>| {
        let wanted = Arc::clone(&wanted);
        async move {
            request.into_body().collect().await?;
            let wanted = wanted.lock().ok().and_then(|mut wanted| wanted.take());
            let (mut wanted, mut left, event) = (wanted, 0, event());
            let events = stream::poll_fn(move |cx| {
                while left == 0 {
                    let more = wanted
                        .as_mut()
                        .map_or(Poll::Ready(None), |wanted| wanted.poll_recv(cx));
                    match ready!(more) {
                        Some(more) => left = more,
                        None => return Poll::Ready(None),
                    }
                }
                left -= 1;
                Poll::Ready(Some(Ok::<_, Infallible>(Frame::data(event.clone()))))
            });
            let mut response = Response::new(StreamBody::new(events));
            let media_type = hyper::header::HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            Ok::<_, hyper::Error>(response)
        }
    });
    let served =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    // An error here means that the client is gone.
    let _ = served.await;
}

/// Notifies as often as it is told to, before it answers.
struct Events(Wanted);

impl Service for Events {
    async fn request(&self, peer: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        let wanted = self.0.lock().ok().and_then(|mut wanted| wanted.take());
        let Some(mut wanted) = wanted else {
            return Ok(WORD.into());
        };
        while let Some(more) = wanted.recv().await {
            for _ in 0..more {
                peer.notify("event", &[WORD]).await?;
            }
        }
        Ok(WORD.into())
    }
}

/// The client of one reply.
struct Reading<R> {
    runtime: Runtime,
    wanted: UnboundedSender<usize>,
    body: Incoming,
    event: Bytes,
    /// The server, which stops when this is dropped.
    _running: R,
}

fn lane(ours: bool) -> Outcome<Box<dyn Lane>> {
    let runtime = Runtime::tokio()?;
    let (wanted, receiver) = unbounded_channel();
    let receiver = Wanted::new(Mutex::new(Some(receiver)));
    // The first event is there before the head is read.
    wanted.send(1)?;
    if ours {
        let (address, running) = runtime.block_on(async {
            let server = TcpServer::bind("127.0.0.1:0").await?;
            let mut rules = WebRules::new();
            rules.silence = None;
            let options = HttpConfig::from(Config::new()).with_rules(rules);
            let service = Arc::new(Events(receiver));
            Ok::<_, std::io::Error>((server.local_addr(), server.start_http(options, service)))
        })?;
        return reading(runtime, wanted, address, running);
    }
    let address = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(serve_bare(listener, receiver));
        Ok::<_, std::io::Error>(address)
    })?;
    reading(runtime, wanted, address, ())
}

fn reading<R: 'static>(
    runtime: Runtime,
    wanted: UnboundedSender<usize>,
    address: SocketAddr,
    running: R,
) -> Outcome<Box<dyn Lane>> {
    let body = runtime.block_on(async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (mut sender, conn) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // If the connection ends, the body ends.
        tokio::spawn(async { drop(conn.await) });
        let request = hyper::Request::post("/")
            .header(HOST, address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Full::new(Bytes::from(request(1))))?;
        let response = sender.send_request(request).await?;
        Ok::<_, Box<dyn std::error::Error>>(response.into_body())
    })?;
    let mut reading = Reading {
        runtime,
        wanted,
        body,
        event: event(),
        _running: running,
    };
    reading.read(1)?;
    Ok(Box::new(reading))
}

impl<R> Reading<R> {
    /// Reads so many events, and checks their bytes.
    fn read(&mut self, count: usize) -> Outcome<()> {
        let (body, mut left) = (&mut self.body, self.event.len() * count);
        let event = &self.event;
        self.runtime.block_on(async {
            while left > 0 {
                let frame = body.frame().await.ok_or("the body has ended")??;
                let data = frame.into_data().map_err(|_| "trailers came")?;
                left = left.checked_sub(data.len()).ok_or("more came")?;
                // A piece is an event or a part of one.
                if memmem::find(event, &data).is_none() {
                    return Err(format!("no event: {data:?}").into());
                }
            }
            Ok(())
        })
    }
}

impl<R> Lane for Reading<R> {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        for _ in 0..rounds {
            let began = Instant::now();
            self.wanted.send(mode.requests())?;
            self.read(mode.requests())?;
            times.push(began.elapsed());
        }
        Ok(())
    }

    fn can(&self, mode: Mode) -> bool {
        matches!(mode, Mode::One | Mode::Many)
    }
}
