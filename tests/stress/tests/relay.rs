//! Clients that reconnect, behind a real TCP relay that cuts, stalls, refuses and delays: no call
//! is lost, run twice against its caller's will, or left open, and no descriptor leaks. And behind
//! a relay that stops passing on one direction and closes nothing: only a keep-alive notices that.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Config, ConnectionState, KeepAliveConfig, ReconnectStrategy, Retry};
use antiphon_blocking::websocket::WebSocketConfig;
use antiphon_blocking::{Answer, CallError, ClientConfig, ConnectionConfig, OwnedError, Request};
use antiphon_stress::{LONG, Rt};
use antiphon_test_support::random::Random;

/// How many connections of each client are cut or refused.
const CUTS: u64 = 1000;
/// How many connections of each client fall silent.
const SILENCES: u64 = 60;
/// How many callers call at the same time.
const CALLERS: u64 = 8;

/// How often each numbered call was done.
type Done = Arc<Mutex<HashMap<u64, u32>>>;

/// The server, always on threads, for only the clients are under test.
struct Counter(Done);

impl antiphon_blocking::Service for Counter {
    fn request(
        &mut self,
        _: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        let [n]: [u64; 1] = request.params().unwrap();
        *self.0.lock().unwrap().entry(n).or_default() += 1;
        Ok(n.into())
    }
}

/// What the relay does to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    /// Closes both directions after some bytes, or at once.
    Cut,
    /// Passes on nothing more in one direction, and leaves the connection open.
    Silence,
}

impl Harm {
    fn times(self) -> u64 {
        match self {
            Self::Cut => CUTS,
            Self::Silence => SILENCES,
        }
    }

    /// The server has a stream for `Cut`, and for `Silence` a WebSocket.
    fn server(self) -> ConnectionConfig {
        let options = ConnectionConfig::from(Config::new());
        if self == Self::Cut {
            return options;
        }
        let mut websocket = WebSocketConfig::server();
        websocket.rules.keep_alive = keep_alive();
        options.with_websocket(websocket)
    }

    fn url(self, address: SocketAddr) -> String {
        match self {
            Self::Cut => format!("tcp://{address}"),
            Self::Silence => format!("ws://{address}/"),
        }
    }
}

/// Pings a peer which is silent for 20 ms, and closes if no pong comes within 30 ms.
fn keep_alive() -> KeepAliveConfig {
    let mut keep_alive = KeepAliveConfig::new();
    keep_alive.connect_timeout = Some(Duration::from_millis(500));
    keep_alive.ping_interval = Some(Duration::from_millis(20));
    keep_alive.pong_timeout = Some(Duration::from_millis(30));
    keep_alive
}

struct Relay {
    harm: Harm,
    /// How many connections it has harmed.
    done: AtomicU64,
    stop: AtomicBool,
}

impl Relay {
    /// Whether it has harmed as many connections as it should, and does no more harm.
    fn is_over(&self) -> bool {
        self.done.load(Ordering::SeqCst) >= self.harm.times()
    }
}

/// Starts a relay in front of a server. Returns its address, its state and its thread.
fn relay(server: SocketAddr, harm: Harm) -> (SocketAddr, Arc<Relay>, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let relay = Arc::new(Relay {
        harm,
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let inside = Arc::clone(&relay);
    let accepting = thread::spawn(move || {
        let mut random = Random::new(0x5eed_1234);
        let mut threads = Vec::new();
        for client in listener.incoming() {
            if inside.stop.load(Ordering::SeqCst) {
                break;
            }
            let client = client.unwrap();
            let is_over = inside.is_over();
            // 1 is delayed. Of those to be cut, 0 is closed at once, and 2 waits before the cut.
            let kind = random.next() % 16;
            if kind == 0 && !is_over && harm == Harm::Cut {
                inside.done.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            let far = TcpStream::connect(server).unwrap();
            let bytes = if is_over {
                u64::MAX
            } else {
                match harm {
                    Harm::Cut => random.next() % 1500,
                    // Usually after the handshake.
                    Harm::Silence => 200 + random.next() % 4000,
                }
            };
            let ways = [
                (client.try_clone().unwrap(), far.try_clone().unwrap()),
                (far, client),
            ];
            let way = random.next() as usize % 2;
            for (number, (from, to)) in ways.into_iter().enumerate() {
                let inside = Arc::clone(&inside);
                let bytes = if number == way { bytes } else { u64::MAX };
                threads.push(thread::spawn(move || {
                    forward(&inside, from, to, bytes, kind)
                }));
            }
            if threads.len() > 64 {
                threads.retain(|thread| !thread.is_finished());
            }
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    (address, relay, accepting)
}

/// Passes on `left` bytes of one direction, and then does the relay's [`Harm`].
fn forward(relay: &Relay, mut from: TcpStream, mut to: TcpStream, mut left: u64, kind: u64) {
    let mut buf = [0; 512];
    loop {
        let most = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = match from.read(&mut buf[..most]) {
            Ok(n) if n > 0 => n,
            _ => break,
        };
        if kind == 1 {
            // Delayed, but not changed.
            thread::sleep(Duration::from_micros(500));
        }
        if to.write_all(&buf[..n]).is_err() {
            break;
        }
        left -= n as u64;
        if left == 0 {
            relay.done.fetch_add(1, Ordering::SeqCst);
            if relay.harm == Harm::Silence {
                // Discards the rest until an end closes the connection.
                while from.read(&mut buf).is_ok_and(|n| n > 0) {}
                break;
            }
            if kind == 2 {
                thread::sleep(Duration::from_millis(5));
            }
            break;
        }
    }
    // Either may be gone already.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn client_options() -> ClientConfig {
    let mut client = ClientConfig::from(Config::new());
    client.websocket.keep_alive = keep_alive();
    client.connections = 3;
    client.max_waiting_calls = CALLERS as usize;
    // Some calls are cut off again and again here, by chance.
    let mut retry = Retry::new();
    retry.max_resends = 1000;
    client.connection.retry = Some(retry);
    client.reconnect = ReconnectStrategy::Fixed {
        delay: Duration::from_micros(200),
        max_attempts: u32::MAX,
    };
    client
}

/// How many file descriptors this process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Checks how often a call was run and how it ended. True if it was answered.
fn judge(done: &Done, n: u64, is_idempotent: bool, ended: Result<u64, CallError>) -> bool {
    let times = done.lock().unwrap().get(&n).copied().unwrap_or(0);
    match ended {
        Ok(back) => {
            assert_eq!(back, n);
            assert!(
                times >= 1 && (is_idempotent || times == 1),
                "{n}: done {times} times"
            );
            true
        }
        Err(CallError::Closed) => {
            assert!(!is_idempotent, "{n}: given up though it could be repeated");
            assert!(times <= 1, "{n}: done {times} times");
            false
        }
        Err(error) => panic!("{n}: {error}"),
    }
}

/// How many calls were answered, and how many ended as `CallError::Closed`.
struct Tally {
    answered: u64,
    closed: u64,
}

fn check(name: &str, relay: &Relay, tally: &Tally) {
    println!(
        "{name}: {} times {:?}, {} calls answered, {} closed, none lost, none doubled, none leaked",
        relay.done.load(Ordering::SeqCst),
        relay.harm,
        tally.answered,
        tally.closed
    );
    assert!(relay.is_over());
    assert!(
        tally.answered > relay.harm.times() / 2 && tally.closed > 10,
        "the relay did its work"
    );
}

/// Starts a server and a relay in front of it, and runs a client against the relay. In the end no
/// descriptor may be left.
fn with_relay(name: &str, harm: Harm, test: impl FnOnce(SocketAddr, &Arc<Relay>, &Done) -> Tally) {
    // The first runtime of tokio opens a pipe for signals, if that is compiled in, and never closes it.
    drop(
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build(),
    );
    // So does what waits for the sockets of the adapter on threads, with the first of them.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    drop(antiphon_blocking::Link::tcp(listener.local_addr().unwrap()));
    drop(listener);
    let before = descriptors();
    let done = Done::default();
    let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let counting = Arc::clone(&done);
    let running = server
        .start(harm.server(), move |_| Counter(Arc::clone(&counting)))
        .unwrap();
    let (through, relay, accepting) = relay(address, harm);
    let tally = test(through, &relay, &done);
    check(name, &relay, &tally);
    relay.stop.store(true, Ordering::SeqCst);
    drop(TcpStream::connect(through));
    accepting.join().unwrap();
    running.stop();
    let deadline = Instant::now() + LONG;
    while descriptors() > before {
        assert!(
            Instant::now() < deadline,
            "{before} descriptors became {}",
            descriptors()
        );
        thread::sleep(Duration::from_millis(5));
    }
}

// CON-04 CON-06 CON-07 CON-08 TST-10
fn threads_reconnect(harm: Harm) {
    with_relay("blocking", harm, |address, relay, done| {
        let url = harm.url(address);
        let client = antiphon_blocking::reconnect(url, client_options(), || ()).unwrap();
        let numbers = Arc::new(AtomicU64::new(0));
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (client, numbers) = (client.clone(), Arc::clone(&numbers));
                let (relay, done) = (Arc::clone(relay), Arc::clone(done));
                thread::spawn(move || {
                    let mut tally = Tally {
                        answered: 0,
                        closed: 0,
                    };
                    while !relay.is_over() {
                        let n = numbers.fetch_add(1, Ordering::SeqCst);
                        let is_idempotent = n % 2 == 0;
                        let call = client.call("count", &[n]);
                        let ended = if is_idempotent {
                            call.idempotent().wait()
                        } else {
                            call.wait()
                        };
                        let answered = judge(&done, n, is_idempotent, ended);
                        tally.answered += u64::from(answered);
                        tally.closed += u64::from(!answered);
                    }
                    tally
                })
            })
            .collect();
        let mut tally = Tally {
            answered: 0,
            closed: 0,
        };
        for caller in callers {
            let one = caller.join().unwrap();
            tally.answered += one.answered;
            tally.closed += one.closed;
        }
        client.close();
        let deadline = Instant::now() + LONG;
        while client
            .states()
            .iter()
            .any(|state| *state != ConnectionState::Closed)
        {
            assert!(Instant::now() < deadline, "{:?}", client.states());
            thread::sleep(Duration::from_millis(1));
        }
        tally
    });
}

// CON-04 CON-06 CON-07 CON-08 TST-10
fn tasks_reconnect(rt: Rt, harm: Harm) {
    with_relay(&format!("{rt:?}"), harm, |address, relay, done| {
        rt.run_for(2 * LONG, |runtime| async move {
            let connecting = antiphon_net::reconnect(harm.url(address), client_options(), ());
            let client = connecting.await.unwrap();
            let numbers = AtomicU64::new(0);
            let callers = (0..CALLERS).map(|_| async {
                let mut tally = Tally {
                    answered: 0,
                    closed: 0,
                };
                while !relay.is_over() {
                    let n = numbers.fetch_add(1, Ordering::SeqCst);
                    let is_idempotent = n % 2 == 0;
                    let call = client.call("count", &[n]);
                    let ended = if is_idempotent {
                        call.idempotent().await
                    } else {
                        call.await
                    };
                    let answered = judge(done, n, is_idempotent, ended);
                    tally.answered += u64::from(answered);
                    tally.closed += u64::from(!answered);
                }
                tally
            });
            let tallies = futures_util::future::join_all(callers).await;
            client.close();
            while client
                .states()
                .iter()
                .any(|state| *state != ConnectionState::Closed)
            {
                let soon = runtime.now() + Duration::from_millis(1);
                runtime.sleep_until(soon).await;
            }
            Tally {
                answered: tallies.iter().map(|one| one.answered).sum(),
                closed: tallies.iter().map(|one| one.closed).sum(),
            }
        })
    });
}

fn main() {
    for harm in [Harm::Cut, Harm::Silence] {
        threads_reconnect(harm);
    }
    println!("test threads_reconnect ... ok");
    // Starts the reactor of smol and async-std, which keeps its descriptors until the process ends.
    Rt::Smol.run(|runtime| async move {
        let soon = runtime.now() + Duration::from_millis(1);
        runtime.sleep_until(soon).await;
    });
    for rt in [Rt::Tokio, Rt::TokioLocal, Rt::Smol, Rt::AsyncStd] {
        for harm in [Harm::Cut, Harm::Silence] {
            tasks_reconnect(rt, harm);
        }
    }
    println!("test tasks_reconnect ... ok");
}
