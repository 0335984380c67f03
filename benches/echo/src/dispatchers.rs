//! What it costs that all connections of a server share its limit of running requests: 2 000 connections with
//! one call each in flight, on a server with one dispatcher, and on servers with one for each connection. And
//! what it costs plain calls that their handlers are tasks of their own (`spawn_handlers`).
//!
//! ```text
//!   dispatchers [SECONDS]     of each of fifteen runs, 2 by default
//! ```
//!
//! Rule: the runs take turns, and the median of five ratios counts. The connections are in memory, so that no
//! socket hides what the dispatcher costs. Exits 1 below 0.95 of one dispatcher for each connection.

use std::collections::VecDeque;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use antiphon_tokio::{
    Answer, Config, ConnectionConfig, Link, Listen, OwnedError, Peer, Request, Server, Service,
    attach, current,
};

const CONNECTIONS: usize = 2000;

/// How much of the throughput of one dispatcher for each connection a shared one must reach.
const RATIO_MIN: f64 = 0.95;

struct Echo;

impl Service for Echo {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        Ok(request.raw_params().into())
    }
}

/// Connections that have come already.
struct Come(VecDeque<Link>);

impl Listen for Come {
    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Link>> {
        self.0
            .pop_front()
            .map_or(Poll::Pending, |link| Poll::Ready(Ok(link)))
    }
}

/// How the servers are set up.
#[derive(Clone, Copy, PartialEq)]
enum Setup {
    OneDispatcher,
    OneForEachConnection,
    /// One dispatcher, and a task for each handler.
    SpawnedHandlers,
}

/// Returns how many calls end in a second.
async fn throughput(setup: Setup, span: Duration) -> f64 {
    let (near, far): (Vec<_>, VecDeque<_>) = (0..CONNECTIONS).map(|_| Link::pair()).unzip();
    let groups = match setup {
        Setup::OneForEachConnection => far.into_iter().map(|link| VecDeque::from([link])).collect(),
        _ => vec![far],
    };
    let mut options = ConnectionConfig::new(Config::new());
    options.spawn_handlers = setup == Setup::SpawnedHandlers;
    let running: Vec<_> = groups
        .into_iter()
        .map(|group| {
            let server = Server::new(Come(group), current());
            server.start(options.clone(), |_| Echo)
        })
        .collect();
    let (calls, is_over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let callers: Vec<_> = near
        .into_iter()
        .map(|link| {
            let (calls, is_over) = (Arc::clone(&calls), Arc::clone(&is_over));
            let peer = attach(link, Config::new(), ());
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let [n]: [u32; 1] = peer.call("echo", &[7]).await.expect("an answer");
                    assert_eq!(n, 7);
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // Until all are busy.
    tokio::time::sleep(span / 4).await;
    let before = calls.load(Ordering::Relaxed);
    tokio::time::sleep(span).await;
    let counted = calls.load(Ordering::Relaxed) - before;
    is_over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.expect("no panic");
    }
    drop(running);
    counted as f64 / span.as_secs_f64()
}

#[tokio::main]
async fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).map_or(Ok(2.0), |word| word.parse());
    let Ok(span) = seconds.map(Duration::from_secs_f64) else {
        eprintln!("usage: dispatchers [SECONDS]");
        return ExitCode::from(2);
    };
    let (mut shared, mut spawned) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let one = throughput(Setup::OneDispatcher, span).await;
        let own = throughput(Setup::OneForEachConnection, span).await;
        let tasks = throughput(Setup::SpawnedHandlers, span).await;
        shared.push(one / own);
        spawned.push(tasks / one);
        println!(
            "{one:.0} calls a second with one dispatcher, {own:.0} with {CONNECTIONS}, {tasks:.0} with spawned handlers"
        );
    }
    let [shared, spawned] = [shared, spawned].map(|mut ratios| {
        ratios.sort_by(f64::total_cmp);
        ratios[2]
    });
    println!(
        "one dispatcher: median {shared:.3} of one for each connection, and {RATIO_MIN} is wanted"
    );
    println!("spawned handlers: median {spawned:.3} of handlers on their connection's task");
    ExitCode::from(u8::from(shared < RATIO_MIN))
}
