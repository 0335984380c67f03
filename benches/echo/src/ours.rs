//! antiphon, over streams and WebSocket.

use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon_tokio::{CALL_TIMEOUT_DEFAULT, CallError, Options, Peer};

use crate::row::{self, BATCH, Lane, MANY, Mode, Outcome, Row, WORD, check};
use crate::runtime::Runtime;
use crate::service::Echo;

/// A path for a socket, which nobody else has.
fn socket(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("antiphon-echo-{name}-{}", std::process::id()))
}

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &str) -> Outcome<()> {
    row::add(
        rows,
        wanted,
        "antiphon blocking TCP",
        "bare blocking TCP",
        blocking_tcp,
    )?;
    row::add(
        rows,
        wanted,
        "antiphon blocking Unix",
        "bare blocking Unix",
        blocking_unix,
    )?;
    row::add(
        rows,
        wanted,
        "antiphon blocking WebSocket",
        "bare blocking WebSocket",
        blocking_ws,
    )?;
    row::add(
        rows,
        wanted,
        "antiphon tokio TCP",
        "bare tokio TCP",
        tokio::tcp,
    )?;
    row::add(
        rows,
        wanted,
        "antiphon tokio Unix",
        "bare tokio Unix",
        tokio::unix,
    )?;
    row::add(
        rows,
        wanted,
        "antiphon tokio WebSocket",
        "bare tokio WebSocket",
        tokio::websocket,
    )?;
    row::add(
        rows,
        wanted,
        "antiphon smol TCP",
        "bare smol TCP",
        smol::tcp,
    )?;
    row::add(
        rows,
        wanted,
        "antiphon smol Unix",
        "bare smol Unix",
        smol::unix,
    )?;
    row::add(
        rows,
        wanted,
        "antiphon smol WebSocket",
        "bare smol WebSocket",
        smol::websocket,
    )
}

struct Threads<R> {
    peer: antiphon_blocking::Peer,
    /// The server, which stops when this is dropped.
    _running: R,
}

fn blocking_tcp() -> Outcome<Box<dyn Lane>> {
    use antiphon_blocking::{Link, TcpServer, connect};
    let server = TcpServer::bind("127.0.0.1:0")?;
    let address = server.local_addr()?;
    let running = server.start(Config::new(), |_| Echo)?;
    let peer = connect(Link::tcp(address)?, Config::new(), ())?;
    Ok(Box::new(Threads {
        peer,
        _running: running,
    }))
}

fn blocking_unix() -> Outcome<Box<dyn Lane>> {
    use antiphon_blocking::{Link, UnixServer, connect};
    let path = socket("blocking");
    let running = UnixServer::bind(&path)?.start(Config::new(), || Echo)?;
    let peer = connect(Link::unix(&path)?, Config::new(), ())?;
    Ok(Box::new(Threads {
        peer,
        _running: running,
    }))
}

fn blocking_ws() -> Outcome<Box<dyn Lane>> {
    use antiphon_blocking::TcpServer;
    use antiphon_blocking::websocket::{WebSocketOptions, connect};
    let server = TcpServer::bind("127.0.0.1:0")?;
    let url = format!("ws://{}/", server.local_addr()?);
    let options = Options::from(Config::new()).with_websocket(WebSocketOptions::server());
    let running = server.start(options, |_| Echo)?;
    let peer = connect(WebSocketOptions::client(&url)?, Config::new(), ())?;
    Ok(Box::new(Threads {
        peer,
        _running: running,
    }))
}

impl<R> Lane for Threads<R> {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        for _ in 0..rounds {
            let began = Instant::now();
            match mode {
                Mode::One => check(&self.peer.call::<String>("echo", &(WORD,))?)?,
                Mode::Many => self.many()?,
                Mode::Batch => self.batch()?,
            }
            times.push(began.elapsed());
        }
        Ok(())
    }
}

impl<R> Threads<R> {
    fn many(&self) -> Outcome<()> {
        let begin = |_| {
            self.peer
                .start_call("echo", &(WORD,), Some(CALL_TIMEOUT_DEFAULT))
        };
        let calls = (0..MANY).map(begin).collect::<Result<Vec<_>, _>>()?;
        for call in calls {
            check(&call.wait::<String>()?)?;
        }
        Ok(())
    }

    fn batch(&self) -> Outcome<()> {
        let (calls, mut outcomes) = self.peer.batch(|batch| {
            let call = |_| batch.call::<String>("echo", &(WORD,));
            (0..BATCH).map(call).collect::<Result<Vec<_>, _>>()
        })?;
        calls
            .into_iter()
            .try_for_each(|call| check(&outcomes.fetch(call)?))
    }
}

/// A peer on an async runtime.
struct Tasks<R> {
    runtime: Runtime,
    peer: Peer,
    /// The server, which stops when this is dropped.
    _running: R,
}

/// The same words for two crates.
macro_rules! on {
    ($name:ident, $adapter:ident, $runtime:expr) => {
        mod $name {
            use antiphon::Config;
            use $adapter::websocket::{self, WebSocketOptions};
            use $adapter::{Link, TcpServer, UnixServer, connect};

            use super::{Echo, Options, Tasks, socket};
            use crate::row::{Lane, Outcome};
            use crate::runtime::Runtime;

            pub(super) fn tcp() -> Outcome<Box<dyn Lane>> {
                let runtime = $runtime;
                let (peer, running) = runtime.block_on(async {
                    let server = TcpServer::bind("127.0.0.1:0").await?;
                    let address = server.local_addr();
                    let running = server.start(Config::new(), |_| Echo);
                    let peer = connect(Link::tcp(address).await?, Config::new(), ());
                    Ok::<_, std::io::Error>((peer, running))
                })?;
                Ok(Box::new(Tasks {
                    runtime,
                    peer,
                    _running: running,
                }))
            }

            pub(super) fn unix() -> Outcome<Box<dyn Lane>> {
                let runtime = $runtime;
                let path = socket(stringify!($name));
                let (peer, running) = runtime.block_on(async {
                    let running = UnixServer::bind(&path)?.start(Config::new(), |_| Echo);
                    let peer = connect(Link::unix(&path).await?, Config::new(), ());
                    Ok::<_, std::io::Error>((peer, running))
                })?;
                Ok(Box::new(Tasks {
                    runtime,
                    peer,
                    _running: running,
                }))
            }

            pub(super) fn websocket() -> Outcome<Box<dyn Lane>> {
                let runtime = $runtime;
                let (peer, running) = runtime.block_on(async {
                    let server = TcpServer::bind("127.0.0.1:0").await?;
                    let url = format!("ws://{}/", server.local_addr());
                    let options = Options::from(Config::new());
                    let options = options.with_websocket(WebSocketOptions::server());
                    let running = server.start(options, |_| Echo);
                    let there = WebSocketOptions::client(&url)?;
                    let peer = websocket::connect(there, Config::new(), ()).await?;
                    Ok::<_, Box<dyn std::error::Error>>((peer, running))
                })?;
                Ok(Box::new(Tasks {
                    runtime,
                    peer,
                    _running: running,
                }))
            }
        }
    };
}

on!(tokio, antiphon_tokio, Runtime::tokio()?);
on!(smol, antiphon_async_std, Runtime::smol());

impl<R> Lane for Tasks<R> {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let peer = &self.peer;
        self.runtime.block_on(async {
            for _ in 0..rounds {
                let began = Instant::now();
                match mode {
                    Mode::One => check(&peer.call::<String>("echo", &(WORD,)).await?)?,
                    Mode::Many => many(peer).await?,
                    Mode::Batch => batch(peer).await?,
                }
                times.push(began.elapsed());
            }
            Ok(())
        })
    }
}

async fn many(peer: &Peer) -> Outcome<()> {
    let mut calls = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        let call = peer.start_call("echo", &(WORD,), Some(CALL_TIMEOUT_DEFAULT));
        calls.push(call.await?);
    }
    for call in calls {
        let word: String = CallError::of(call.await)?.as_json().decode()?;
        check(&word)?;
    }
    Ok(())
}

async fn batch(peer: &Peer) -> Outcome<()> {
    let batch = peer.batch(|batch| {
        let call = |_| batch.call::<String>("echo", &(WORD,));
        (0..BATCH).map(call).collect::<Result<Vec<_>, _>>()
    });
    let (calls, mut outcomes) = batch.await?;
    calls
        .into_iter()
        .try_for_each(|call| check(&outcomes.fetch(call)?))
}
