//! What it costs that all connections of a server share its limit of running requests: 2 000 connections with
//! one call each in flight, on a server with one dispatcher, and on servers with one for each connection.
//!
//! ```text
//!   dispatchers [SECONDS]     of each of ten runs, 2 by default
//! ```
//!
//! Rule: the runs take turns, and the median of five ratios counts. The connections are in memory, so that no
//! socket hides what the dispatcher costs. Exits 1 below 0.95.

use std::collections::VecDeque;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use antiphon_tokio::{
    Answer, Config, ConnectionConfig, Link, Listen, OwnedError, Peer, Request, Server, Service,
    Tokio, attach,
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

/// Returns how many calls end in a second.
async fn throughput(is_shared: bool, span: Duration) -> f64 {
    let (near, far): (Vec<_>, VecDeque<_>) = (0..CONNECTIONS).map(|_| Link::pair()).unzip();
    let groups = match is_shared {
        true => vec![far],
        false => far.into_iter().map(|link| VecDeque::from([link])).collect(),
    };
    let running: Vec<_> = groups
        .into_iter()
        .map(|group| {
            let server = Server::new(Come(group), Tokio::current());
            server.start(ConnectionConfig::new(Config::new()), |_| Echo)
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
    running.iter().for_each(|server| server.stop());
    counted as f64 / span.as_secs_f64()
}

#[tokio::main]
async fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).map_or(Ok(2.0), |word| word.parse());
    let Ok(span) = seconds.map(Duration::from_secs_f64) else {
        eprintln!("usage: dispatchers [SECONDS]");
        return ExitCode::from(2);
    };
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let shared = throughput(true, span).await;
        let own = throughput(false, span).await;
        ratios.push(shared / own);
        println!(
            "{shared:.0} calls a second with one dispatcher, {own:.0} with {CONNECTIONS}: {:.3}",
            shared / own
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!("median {:.3}, and {RATIO_MIN} is wanted", ratios[2]);
    ExitCode::from(u8::from(ratios[2] < RATIO_MIN))
}
