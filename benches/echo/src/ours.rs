//! antiphon, over streams and WebSocket: on both sides, as the server of a bare client, as the client of a bare server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon_tokio::{CallError, ConnectionConfig, DEFAULT_CALL_TIMEOUT, Driver, Peer};

use crate::row::{self, BATCH, CROWD_THREADS, Lane, MANY, Mode, Outcome, Row, WORD, check};
use crate::runtime::Runtime;
use crate::service::Echo;
use crate::side::{Far, Ours};
use crate::{floors, floors_ws};

/// A path for a socket, which nobody else has.
fn socket(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("antiphon-echo-{name}-{}", std::process::id()))
}

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &[String]) -> Outcome<()> {
    type Make = fn(Ours) -> Outcome<Box<dyn Lane>>;
    let all: [(&str, &'static str, Make); 6] = [
        ("antiphon blocking TCP", "bare blocking TCP", threads::tcp),
        (
            "antiphon blocking WebSocket",
            "bare blocking WebSocket",
            threads::websocket,
        ),
        ("antiphon tokio TCP", "bare tokio TCP", tokio::tcp),
        (
            "antiphon tokio WebSocket",
            "bare tokio WebSocket",
            tokio::websocket,
        ),
        ("antiphon smol TCP", "bare smol TCP", smol::tcp),
        (
            "antiphon smol WebSocket",
            "bare smol WebSocket",
            smol::websocket,
        ),
    ];
    for (name, floor, make) in all {
        for (side, ours) in [
            ("", Ours::Both),
            (", server", Ours::Server),
            (", client", Ours::Client),
            (", client in a task", Ours::ClientInTask),
        ] {
            // Elsewhere it is in one always, or never.
            let has_choice = name.ends_with("TCP") && !name.contains("blocking");
            if ours == Ours::ClientInTask && !has_choice {
                continue;
            }
            row::add(rows, wanted, &format!("{name}{side}"), floor, || make(ours))?;
        }
    }
    let mut unix = |name, floor, make: fn() -> Outcome<Box<dyn Lane>>| {
        row::add(rows, wanted, name, floor, make)
    };
    unix(
        "antiphon blocking Unix",
        "bare blocking Unix",
        threads::unix,
    )?;
    unix("antiphon tokio Unix", "bare tokio Unix", tokio::unix)?;
    unix("antiphon smol Unix", "bare smol Unix", smol::unix)
}

struct Threads<R> {
    peer: antiphon_blocking::Peer,
    /// The server, which stops when this is dropped.
    _running: R,
}

mod threads {
    use antiphon_blocking::websocket::{WebSocketConfig, connect as connect_ws};
    use antiphon_blocking::{Link, Peer, TcpServer, UnixServer, connect};

    use super::{
        Config, ConnectionConfig, Echo, Far, Lane, Ours, Outcome, SocketAddr, Threads, floors,
        floors_ws, socket,
    };
    use crate::row::With;

    fn lane<R: 'static>(peer: Peer, running: R) -> Box<dyn Lane> {
        Box::new(Threads {
            peer,
            _running: running,
        })
    }

    pub(super) fn tcp(ours: Ours) -> Outcome<Box<dyn Lane>> {
        let call = |address: SocketAddr| connect(Link::tcp(address)?, Config::new(), ());
        if ours.is_client() {
            let address = floors::blocking::listen(|far| floors::blocking::far(far, Far::Answers))?;
            return Ok(lane(call(address)?, ()));
        }
        let server = TcpServer::bind("127.0.0.1:0")?;
        let address = server.local_addr()?;
        let running = server.start(Config::new(), |_| Echo)?;
        if ours == Ours::Both {
            return Ok(lane(call(address)?, running));
        }
        let near = floors::blocking::connect(address)?;
        Ok(Box::new(With(
            floors::blocking::near(near, Far::Answers),
            running,
        )))
    }

    pub(super) fn websocket(ours: Ours) -> Outcome<Box<dyn Lane>> {
        let call = |address: SocketAddr| {
            let there = WebSocketConfig::client(&format!("ws://{address}/"))?;
            connect_ws(there, Config::new(), ())
        };
        if ours.is_client() {
            return Ok(lane(call(floors_ws::blocking_listen(Far::Answers)?)?, ()));
        }
        let server = TcpServer::bind("127.0.0.1:0")?;
        let address = server.local_addr()?;
        let options =
            ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
        let running = server.start(options, |_| Echo)?;
        if ours == Ours::Both {
            return Ok(lane(call(address)?, running));
        }
        Ok(Box::new(With(
            floors_ws::blocking_near(address, Far::Answers)?,
            running,
        )))
    }

    pub(super) fn unix() -> Outcome<Box<dyn Lane>> {
        let path = socket("blocking");
        let running = UnixServer::bind(&path)?.start(Config::new(), || Echo)?;
        Ok(lane(
            connect(Link::unix(&path)?, Config::new(), ())?,
            running,
        ))
    }
}

impl<R> Lane for Threads<R> {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        if mode == Mode::Crowd {
            return self.crowd(rounds, times);
        }
        for _ in 0..rounds {
            let began = Instant::now();
            match mode {
                Mode::One => {
                    let word: String = self.peer.call("echo", &(WORD,)).wait()?;
                    check(&word)?;
                }
                Mode::Many => self.many()?,
                Mode::Batch => self.batch()?,
                Mode::Crowd => {}
            }
            times.push(began.elapsed());
        }
        Ok(())
    }
}

impl<R> Threads<R> {
    fn crowd(&self, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let began = Instant::now();
        let calls = rounds * MANY / CROWD_THREADS;
        let peer = &self.peer;
        std::thread::scope(|scope| {
            let work = || {
                (0..calls).try_for_each(|_| {
                    let word = peer.call::<String>("echo", &(WORD,)).wait();
                    let word = word.map_err(|error| error.to_string())?;
                    check(&word).map_err(|error| error.to_string())
                })
            };
            let all: Vec<_> = (0..CROWD_THREADS).map(|_| scope.spawn(work)).collect();
            all.into_iter().try_for_each(|one| {
                // A thread that panicked has said why.
                one.join()
                    .unwrap_or_else(|_| Err("a caller panicked".into()))
            })
        })?;
        share(began, rounds, times);
        Ok(())
    }

    fn many(&self) -> Outcome<()> {
        let begin = |_| {
            self.peer
                .call("echo", &(WORD,))
                .timeout(DEFAULT_CALL_TIMEOUT)
                .start()
                .wait()
        };
        let calls = (0..MANY).map(begin).collect::<Result<Vec<_>, _>>()?;
        for call in calls {
            check(&call.wait::<String>()?)?;
        }
        Ok(())
    }

    fn batch(&self) -> Outcome<()> {
        let batch = self.peer.batch(|batch| {
            let call = |_| batch.call::<String>("echo", &(WORD,));
            (0..BATCH).map(call).collect::<Result<Vec<_>, _>>()
        });
        let (calls, mut outcomes) = batch.wait()?;
        calls
            .into_iter()
            .try_for_each(|call| check(&outcomes.fetch(call)?))
    }
}

/// A peer on an async runtime. Where it can be, the connection is driven by the task that calls, as a bare one is.
struct Tasks<R> {
    runtime: Runtime,
    peer: Peer,
    driver: Option<Driver>,
    /// The server, which stops when this is dropped.
    _running: R,
}

/// The same words for two crates.
macro_rules! on {
    ($name:ident, $adapter:ident, $runtime:expr, $floor:ident, $listen_ws:ident, $near_ws:ident) => {
        mod $name {
            use antiphon::Config;
            use $adapter::websocket::{self, WebSocketConfig};
            use $adapter::{Driver, Link, Peer, Running, TcpServer, UnixServer, connect, drive};

            use super::floors::$floor;
            use super::floors_ws::{$listen_ws, $near_ws};
            use super::{ConnectionConfig, Echo, Far, Ours, SocketAddr, Tasks, socket};
            use crate::row::{Lane, Outcome, With};
            use crate::runtime::Runtime;

            fn lane<R: 'static>(
                runtime: Runtime,
                (peer, driver): (Peer, Option<Driver>),
                running: R,
            ) -> Box<dyn Lane> {
                Box::new(Tasks {
                    runtime,
                    peer,
                    driver,
                    _running: running,
                })
            }

            fn serve(
                runtime: &Runtime,
                options: ConnectionConfig,
            ) -> Outcome<(SocketAddr, Running)> {
                Ok(runtime.block_on(async {
                    let server = TcpServer::bind("127.0.0.1:0").await?;
                    Ok::<_, std::io::Error>((server.local_addr(), server.start(options, |_| Echo)))
                })?)
            }

            pub(super) fn tcp(ours: Ours) -> Outcome<Box<dyn Lane>> {
                let runtime = $runtime;
                let call = |address: SocketAddr| {
                    runtime.block_on(async {
                        let link = Link::tcp(address).await?;
                        Ok::<_, std::io::Error>(match ours {
                            // What people write.
                            Ours::ClientInTask | Ours::Both => {
                                (connect(link, Config::new(), ()), None)
                            }
                            _ => {
                                let (peer, driver) = drive(link, Config::new(), ());
                                (peer, Some(driver))
                            }
                        })
                    })
                };
                if ours.is_client() {
                    let peer = call($floor::listen(&runtime, |far| {
                        $floor::far(far, Far::Answers)
                    })?)?;
                    return Ok(lane(runtime, peer, ()));
                }
                let (address, running) = serve(&runtime, Config::new().into())?;
                if ours == Ours::Both {
                    let peer = call(address)?;
                    return Ok(lane(runtime, peer, running));
                }
                let near = $floor::connect(&runtime, address)?;
                Ok(Box::new(With(
                    $floor::near(runtime, near, Far::Answers),
                    running,
                )))
            }

            pub(super) fn websocket(ours: Ours) -> Outcome<Box<dyn Lane>> {
                let runtime = $runtime;
                let call = |address: SocketAddr| -> Outcome<(Peer, Option<Driver>)> {
                    let there = WebSocketConfig::client(&format!("ws://{address}/"))?;
                    let peer = runtime.block_on(websocket::connect(there, Config::new(), ()))?;
                    Ok((peer, None))
                };
                if ours.is_client() {
                    let peer = call($listen_ws(&runtime, Far::Answers)?)?;
                    return Ok(lane(runtime, peer, ()));
                }
                let options = ConnectionConfig::from(Config::new());
                let options = options.with_websocket(WebSocketConfig::server());
                let (address, running) = serve(&runtime, options)?;
                if ours == Ours::Both {
                    let peer = call(address)?;
                    return Ok(lane(runtime, peer, running));
                }
                Ok(Box::new(With(
                    $near_ws(runtime, address, Far::Answers)?,
                    running,
                )))
            }

            pub(super) fn unix() -> Outcome<Box<dyn Lane>> {
                let runtime = $runtime;
                let path = socket(stringify!($name));
                let (peer, driver, running) = runtime.block_on(async {
                    let running = UnixServer::bind(&path)?.start(Config::new(), |_| Echo);
                    let (peer, driver) = drive(Link::unix(&path).await?, Config::new(), ());
                    Ok::<_, std::io::Error>((peer, Some(driver), running))
                })?;
                Ok(lane(runtime, (peer, driver), running))
            }
        }
    };
}

on!(
    tokio,
    antiphon_tokio,
    Runtime::tokio()?,
    on_tokio,
    tokio_listen,
    tokio_near
);
on!(
    smol,
    antiphon_smol,
    Runtime::smol(),
    on_smol,
    smol_listen,
    smol_near
);

impl<R> Lane for Tasks<R> {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let peer = &self.peer;
        let began = Instant::now();
        // A crowd's tasks begin at once.
        let crowd = (mode == Mode::Crowd).then(|| {
            let task = |peer: Peer| async move {
                for _ in 0..rounds {
                    let word = peer.call::<String>("echo", &(WORD,)).await;
                    let word = word.map_err(|error| error.to_string())?;
                    check(&word).map_err(|error| error.to_string())?;
                }
                Ok::<_, String>(())
            };
            let tasks: Vec<_> = (0..MANY).map(|_| task(peer.clone())).collect();
            self.runtime.spawn_all(tasks)
        });
        let work = async {
            if let Some(crowd) = crowd {
                crowd.await?.into_iter().collect::<Result<(), _>>()?;
                share(began, rounds, times);
                return Ok(());
            }
            for _ in 0..rounds {
                let began = Instant::now();
                match mode {
                    Mode::One => check(&peer.call::<String>("echo", &(WORD,)).await?)?,
                    Mode::Many => many(peer).await?,
                    Mode::Batch => batch(peer).await?,
                    Mode::Crowd => {}
                }
                times.push(began.elapsed());
            }
            Ok(())
        };
        match &mut self.driver {
            Some(driver) => self.runtime.block_on(driver.run_until(work)),
            None => self.runtime.block_on(work),
        }
    }
}

/// Adds the time of each of the rounds of a crowd, which has none to itself.
fn share(began: Instant, rounds: usize, times: &mut Vec<Duration>) {
    let each = began.elapsed() / u32::try_from(rounds.max(1)).unwrap_or(u32::MAX);
    times.extend(std::iter::repeat_n(each, rounds));
}

async fn many(peer: &Peer) -> Outcome<()> {
    let mut calls = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        let call = peer
            .call("echo", &(WORD,))
            .timeout(DEFAULT_CALL_TIMEOUT)
            .start();
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
