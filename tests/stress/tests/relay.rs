//! Clients that reconnect, behind a real relay on TCP that cuts, stalls, refuses and delays: no
//! call is lost, done twice against its caller's will, or left behind; and no descriptor either.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Config, LinkState, ReconnectStrategy};
use antiphon_blocking::{CallError, ClientOptions, Request, Responder};
use antiphon_stress::{LONG, Rt};

/// How often each client is cut off.
const CUTS: u64 = 1000;
/// Who calls at the same time.
const CALLERS: u64 = 8;

/// How often each numbered call was done.
type Done = Arc<Mutex<HashMap<u64, u32>>>;

/// A server on threads; what it is made with does not matter here.
struct Counter(Done);

impl antiphon_blocking::Service for Counter {
    fn request(&mut self, _: &antiphon_blocking::Peer, request: Request, reply: Responder) {
        let [n]: [u64; 1] = request.params().unwrap().decode().unwrap();
        *self.0.lock().unwrap().entry(n).or_default() += 1;
        // The relay may have cut it off.
        let _ = reply.ok(&n);
    }
}

#[derive(Default)]
struct Relay {
    cuts: AtomicU64,
    stop: AtomicBool,
}

/// Pseudo-random numbers: xorshift, seeded, so that a failure can be run again.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn relay(server: SocketAddr) -> (SocketAddr, Arc<Relay>, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let relay = Arc::<Relay>::default();
    let inside = Arc::clone(&relay);
    let accepting = thread::spawn(move || {
        let mut seed = 0x5eed_1234_u64;
        let mut threads = Vec::new();
        for client in listener.incoming() {
            if inside.stop.load(Ordering::SeqCst) {
                break;
            }
            let client = client.unwrap();
            let is_over = inside.cuts.load(Ordering::SeqCst) >= CUTS;
            let kind = next(&mut seed) % 16;
            if kind == 0 && !is_over {
                inside.cuts.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            let far = TcpStream::connect(server).unwrap();
            let bytes = if is_over {
                u64::MAX
            } else {
                next(&mut seed) % 1500
            };
            let ways = [
                (client.try_clone().unwrap(), far.try_clone().unwrap()),
                (far, client),
            ];
            let way = next(&mut seed) as usize % 2;
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

/// Passes on so many bytes, then cuts, at once or after a silence.
fn forward(relay: &Relay, mut from: TcpStream, mut to: TcpStream, mut left: u64, kind: u64) {
    let mut buf = [0; 512];
    loop {
        let most = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = match from.read(&mut buf[..most]) {
            Ok(n) if n > 0 => n,
            _ => break,
        };
        if kind == 1 {
            // Late, but whole.
            thread::sleep(Duration::from_micros(500));
        }
        if to.write_all(&buf[..n]).is_err() {
            break;
        }
        left -= n as u64;
        if left == 0 {
            if kind == 2 {
                thread::sleep(Duration::from_millis(5));
            }
            relay.cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
    }
    // Either may be gone already.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn client_options() -> ClientOptions {
    let mut client = ClientOptions::default();
    client.connections = 3;
    client.waiting_max = CALLERS as usize;
    client.reconnect = ReconnectStrategy::Fixed {
        delay: Duration::from_micros(200),
        attempts_max: u32::MAX,
    };
    client
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// What became of one call.
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

struct Tally {
    answered: u64,
    closed: u64,
}

fn check(name: &str, relay: &Relay, tally: &Tally) {
    println!(
        "{name}: {} cuts, {} calls answered, {} closed, none lost, none doubled, none leaked",
        relay.cuts.load(Ordering::SeqCst),
        tally.answered,
        tally.closed
    );
    assert!(relay.cuts.load(Ordering::SeqCst) >= CUTS);
    assert!(
        tally.answered > CUTS / 2 && tally.closed > 10,
        "the relay did its work"
    );
}

/// A server, a relay before it, and a client behind both.
fn with_relay(name: &str, test: impl FnOnce(SocketAddr, &Arc<Relay>, &Done) -> Tally) {
    let before = descriptors();
    let done = Done::default();
    let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let counting = Arc::clone(&done);
    let running = server
        .start(Config::new(), move |_| Counter(Arc::clone(&counting)))
        .unwrap();
    let (through, relay, accepting) = relay(address);
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

// CON-04 CON-06 CON-08 TST-10
fn threads_reconnect() {
    with_relay("blocking", |address, relay, done| {
        let connect = move || antiphon_blocking::Link::tcp(address);
        let client =
            antiphon_blocking::Client::start(connect, client_options(), Config::new(), || ())
                .unwrap();
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
                    while relay.cuts.load(Ordering::SeqCst) < CUTS {
                        let n = numbers.fetch_add(1, Ordering::SeqCst);
                        let is_idempotent = n % 2 == 0;
                        let ended = if is_idempotent {
                            client.call_idempotent("count", &[n])
                        } else {
                            client.call("count", &[n])
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
            .any(|state| *state != LinkState::Closed)
        {
            assert!(Instant::now() < deadline, "{:?}", client.states());
            thread::sleep(Duration::from_millis(1));
        }
        tally
    });
}

// CON-04 CON-06 CON-08 TST-10
fn tasks_reconnect(rt: Rt) {
    with_relay(&format!("{rt:?}"), |address, relay, done| {
        rt.run_for(2 * LONG, |runtime| async move {
            let connect = move || -> antiphon_async::Connecting {
                Box::pin(async move {
                    match rt {
                        Rt::Tokio | Rt::TokioLocal => {
                            Ok(antiphon_tokio::Link::tcp(address).await?.into())
                        }
                        _ => Ok(antiphon_async_std::Link::tcp(address).await?.into()),
                    }
                })
            };
            let client = antiphon_async::Client::start(
                connect,
                client_options(),
                Config::new().into(),
                (),
                &runtime,
            )
            .unwrap();
            let numbers = AtomicU64::new(0);
            let callers = (0..CALLERS).map(|_| async {
                let mut tally = Tally {
                    answered: 0,
                    closed: 0,
                };
                while relay.cuts.load(Ordering::SeqCst) < CUTS {
                    let n = numbers.fetch_add(1, Ordering::SeqCst);
                    let is_idempotent = n % 2 == 0;
                    let ended = if is_idempotent {
                        client.call_idempotent("count", &[n]).await
                    } else {
                        client.call("count", &[n]).await
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
                .any(|state| *state != LinkState::Closed)
            {
                let soon = runtime.now() + Duration::from_millis(1);
                antiphon_async::sleep_until(&*runtime, soon).await;
            }
            Tally {
                answered: tallies.iter().map(|one| one.answered).sum(),
                closed: tallies.iter().map(|one| one.closed).sum(),
            }
        })
    });
}

fn main() {
    threads_reconnect();
    println!("test threads_reconnect ... ok");
    // The reactor below smol and async-std is one for the process, and stays.
    Rt::Smol.run(|runtime| async move {
        let soon = runtime.now() + Duration::from_millis(1);
        antiphon_async::sleep_until(&*runtime, soon).await;
    });
    for rt in [Rt::Tokio, Rt::TokioLocal, Rt::Smol, Rt::AsyncStd] {
        tasks_reconnect(rt);
    }
    println!("test tasks_reconnect ... ok");
}
