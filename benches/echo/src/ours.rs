//! The rows of antiphon over streams and WebSocket: both sides, the server of a bare client, the client of a bare server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon_tokio::{
    BatchBuilder, Call, CallError, ConnectionConfig, DEFAULT_CALL_TIMEOUT, Driver, Handle, Peer,
    SendError,
};
use futures_util::future::try_join_all;

use crate::row::{self, BATCH, CROWD_THREADS, Lane, MANY, Mode, Outcome, Row, WORD, check, share};
use crate::runtime::Runtime;
use crate::service::Echo;
use crate::side::{Far, Ours};
use crate::typed::{Way, WordsClient, router, router_on_threads};
use crate::{floors, floors_ws};

/// A path for a socket that no other process uses.
fn socket(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("antiphon-echo-{name}-{}", std::process::id()))
}

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &[String]) -> Outcome<()> {
    type Make = fn(Ours, Way) -> Outcome<Box<dyn Lane>>;
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
            // Elsewhere there is no choice: the client always has a task of its own, or never.
            let has_choice = name.ends_with("TCP") && !name.contains("blocking");
            if ours == Ours::ClientInTask && !has_choice {
                continue;
            }
            row::add(rows, wanted, &format!("{name}{side}"), floor, || {
                make(ours, Way::Plain)
            })?;
        }
        row::add(
            rows,
            wanted,
            &format!("{name}, router and stub"),
            floor,
            || make(Ours::Both, Way::Typed),
        )?;
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

/// A peer that calls by the method's name, or by a typed client.
#[derive(Clone)]
struct Caller {
    peer: Peer,
    client: WordsClient<Peer>,
    way: Way,
}

impl Caller {
    fn new(peer: Peer, way: Way) -> Self {
        let client = WordsClient::new(peer.clone());
        Self { peer, client, way }
    }

    fn echo(&self) -> Call<'_, String, Peer> {
        match self.way {
            Way::Plain => self.peer.call("echo", &(WORD,)),
            Way::Typed => self.client.echo(WORD.into()),
        }
    }

    fn batch(&self, batch: &BatchBuilder) -> Result<Vec<Handle<String>>, SendError> {
        let entry = |_| match self.way {
            Way::Plain => batch.call("echo", &(WORD,)),
            Way::Typed => WordsClient::new(batch).echo(WORD.into()),
        };
        (0..BATCH).map(entry).collect()
    }
}

struct Threads<R> {
    caller: Caller,
    /// The server, which stops when this is dropped.
    _running: R,
}

mod threads {
    use antiphon_blocking::websocket::WebSocketConfig;
    use antiphon_blocking::{Link, Peer, Running, TcpServer, UnixServer, attach};

    use super::{
        Caller, Config, ConnectionConfig, Echo, Far, Lane, Ours, Outcome, SocketAddr, Threads, Way,
        floors, floors_ws, router_on_threads, socket,
    };
    use crate::row::With;

    fn lane<R: 'static>(peer: Peer, way: Way, running: R) -> Box<dyn Lane> {
        Box::new(Threads {
            caller: Caller::new(peer, way),
            _running: running,
        })
    }

    fn start(server: TcpServer, options: ConnectionConfig, way: Way) -> std::io::Result<Running> {
        match way {
            Way::Plain => server.start(options, |_| Echo),
            Way::Typed => server.start(options, router_on_threads().into_make_service()),
        }
    }

    pub(super) fn tcp(ours: Ours, way: Way) -> Outcome<Box<dyn Lane>> {
        let call = |address: SocketAddr| attach(Link::tcp(address)?, Config::new(), ());
        if ours.is_client() {
            let address = floors::blocking::listen(|far| floors::blocking::far(far, Far::Answers))?;
            return Ok(lane(call(address)?, way, ()));
        }
        let server = TcpServer::bind("127.0.0.1:0")?;
        let address = server.local_addr()?;
        let running = start(server, Config::new().into(), way)?;
        if ours == Ours::Both {
            return Ok(lane(call(address)?, way, running));
        }
        let near = floors::blocking::connect(address)?;
        Ok(Box::new(With(
            floors::blocking::near(near, Far::Answers),
            running,
        )))
    }

    pub(super) fn websocket(ours: Ours, way: Way) -> Outcome<Box<dyn Lane>> {
        let call = |address: SocketAddr| {
            let there = WebSocketConfig::client(&format!("ws://{address}/"))?;
            let options = ConnectionConfig::from(Config::new()).with_websocket(there);
            attach(Link::tcp(address)?, options, ())
        };
        if ours.is_client() {
            return Ok(lane(
                call(floors_ws::blocking_listen(Far::Answers)?)?,
                way,
                (),
            ));
        }
        let server = TcpServer::bind("127.0.0.1:0")?;
        let address = server.local_addr()?;
        let options =
            ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
        let running = start(server, options, way)?;
        if ours == Ours::Both {
            return Ok(lane(call(address)?, way, running));
        }
        Ok(Box::new(With(
            floors_ws::blocking_near(address, Far::Answers)?,
            running,
        )))
    }

    pub(super) fn unix() -> Outcome<Box<dyn Lane>> {
        let path = socket("blocking");
        let running = UnixServer::bind(&path)?.start(Config::new(), || Echo)?;
        let peer = attach(Link::unix(&path)?, Config::new(), ())?;
        Ok(lane(peer, Way::Plain, running))
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
                Mode::One => check(&self.caller.echo().wait()?)?,
                Mode::Many => self.many()?,
                Mode::Batch => self.batch()?,
                Mode::Crowd => {}
            }
            times.push(began.elapsed());
        }
        Ok(())
    }

    /// A typed call on a thread waits for its answer: there is one at a time, or a batch.
    fn can(&self, mode: Mode) -> bool {
        mode != Mode::Many || self.caller.way == Way::Plain
    }
}

impl<R> Threads<R> {
    fn crowd(&self, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let began = Instant::now();
        let calls = rounds * MANY / CROWD_THREADS;
        let caller = &self.caller;
        let work = || {
            (0..calls).try_for_each(|_| {
                let word = caller.echo().wait().map_err(|error| error.to_string())?;
                check(&word).map_err(|error| error.to_string())
            })
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..CROWD_THREADS).map(|_| scope.spawn(work)).collect();
            all.into_iter().try_for_each(|one| {
                // A thread that panicked has printed why.
                one.join()
                    .unwrap_or_else(|_| Err("a caller panicked".into()))
            })
        })?;
        share(began, rounds, times);
        Ok(())
    }

    fn many(&self) -> Outcome<()> {
        let begin = |_| {
            self.caller
                .peer
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
        let caller = &self.caller;
        let batch = caller.peer.batch(|batch| caller.batch(batch));
        let (calls, mut outcomes) = batch.wait()?;
        calls
            .into_iter()
            .try_for_each(|call| check(&outcomes.fetch(call)?))
    }
}

/// A peer on an async runtime. With a driver, the task that calls runs the connection, as it does with a bare one.
struct Tasks<R> {
    runtime: Runtime,
    caller: Caller,
    driver: Option<Driver>,
    /// The server, which stops when this is dropped.
    _running: R,
}

/// A lane on tokio that calls by the method's name.
#[allow(dead_code, reason = "not every program that measures asks for it")]
pub(crate) fn lane<R: 'static>(runtime: Runtime, peer: Peer, running: R) -> Box<dyn Lane> {
    Box::new(Tasks {
        runtime,
        caller: Caller::new(peer, Way::Plain),
        driver: None,
        _running: running,
    })
}

/// Defines the same functions for two crates.
macro_rules! on {
    ($name:ident, $adapter:ident, $runtime:expr, $floor:ident, $listen_ws:ident, $near_ws:ident) => {
        mod $name {
            use antiphon::Config;
            use $adapter::websocket::WebSocketConfig;
            use $adapter::{Driver, Link, Peer, Running, TcpServer, UnixServer, attach, drive};

            use super::floors::$floor;
            use super::floors_ws::{$listen_ws, $near_ws};
            use super::{
                Caller, ConnectionConfig, Echo, Far, Ours, SocketAddr, Tasks, Way, router, socket,
            };
            use crate::row::{Lane, Outcome, With};
            use crate::runtime::Runtime;

            fn lane<R: 'static>(
                runtime: Runtime,
                (peer, driver): (Peer, Option<Driver>),
                way: Way,
                running: R,
            ) -> Box<dyn Lane> {
                Box::new(Tasks {
                    runtime,
                    caller: Caller::new(peer, way),
                    driver,
                    _running: running,
                })
            }

            fn serve(
                runtime: &Runtime,
                options: ConnectionConfig,
                way: Way,
            ) -> Outcome<(SocketAddr, Running)> {
                Ok(runtime.block_on(async {
                    let server = TcpServer::bind("127.0.0.1:0").await?;
                    let address = server.local_addr();
                    let running = match way {
                        Way::Plain => server.start(options, |_| Echo),
                        Way::Typed => server.start(options, router().into_make_service()),
                    };
                    Ok::<_, std::io::Error>((address, running))
                })?)
            }

            pub(super) fn tcp(ours: Ours, way: Way) -> Outcome<Box<dyn Lane>> {
                let runtime = $runtime;
                let call = |address: SocketAddr| {
                    runtime.block_on(async {
                        let link = Link::tcp(address).await?;
                        Ok::<_, std::io::Error>(match ours {
                            // With a task of its own.
                            Ours::ClientInTask | Ours::Both => {
                                (attach(link, Config::new(), ()), None)
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
                    return Ok(lane(runtime, peer, way, ()));
                }
                let (address, running) = serve(&runtime, Config::new().into(), way)?;
                if ours == Ours::Both {
                    let peer = call(address)?;
                    return Ok(lane(runtime, peer, way, running));
                }
                let near = $floor::connect(&runtime, address)?;
                Ok(Box::new(With(
                    $floor::near(runtime, near, Far::Answers),
                    running,
                )))
            }

            pub(super) fn websocket(ours: Ours, way: Way) -> Outcome<Box<dyn Lane>> {
                let runtime = $runtime;
                let call = |address: SocketAddr| -> Outcome<(Peer, Option<Driver>)> {
                    let there = WebSocketConfig::client(&format!("ws://{address}/"))?;
                    let options = ConnectionConfig::from(Config::new()).with_websocket(there);
                    runtime.block_on(async {
                        let peer = attach(Link::tcp(address).await?, options, ());
                        peer.opened().await?;
                        Ok((peer, None))
                    })
                };
                if ours.is_client() {
                    let peer = call($listen_ws(&runtime, Far::Answers)?)?;
                    return Ok(lane(runtime, peer, way, ()));
                }
                let options = ConnectionConfig::from(Config::new());
                let options = options.with_websocket(WebSocketConfig::server());
                let (address, running) = serve(&runtime, options, way)?;
                if ours == Ours::Both {
                    let peer = call(address)?;
                    return Ok(lane(runtime, peer, way, running));
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
                Ok(lane(runtime, (peer, driver), Way::Plain, running))
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
        let caller = &self.caller;
        let began = Instant::now();
        // The tasks of a crowd are started before they are awaited.
        let crowd = (mode == Mode::Crowd).then(|| {
            let task = |caller: Caller| async move {
                for _ in 0..rounds {
                    let word = caller.echo().await.map_err(|error| error.to_string())?;
                    check(&word).map_err(|error| error.to_string())?;
                }
                Ok::<_, String>(())
            };
            let tasks: Vec<_> = (0..MANY).map(|_| task(caller.clone())).collect();
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
                    Mode::One => check(&caller.echo().await?)?,
                    Mode::Many => many(caller).await?,
                    Mode::Batch => batch(caller).await?,
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

async fn many(caller: &Caller) -> Outcome<()> {
    if caller.way == Way::Typed {
        let words = try_join_all((0..MANY).map(|_| caller.echo())).await?;
        return words.iter().try_for_each(|word| check(word));
    }
    let mut calls = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        let call = caller
            .peer
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

async fn batch(caller: &Caller) -> Outcome<()> {
    let batch = caller.peer.batch(|batch| caller.batch(batch));
    let (calls, mut outcomes) = batch.await?;
    calls
        .into_iter()
        .try_for_each(|call| check(&outcomes.fetch(call)?))
}
