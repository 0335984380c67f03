//! What a call over an adapter takes besides time, both sides together: allocations, and writes to the socket.
//!
//! ```text
//!   counts      the table
//! ```
//!
//! Calls are made one at a time, and by a crowd: see `Mode` in `row.rs`. Counting begins after a thousand rounds.
#![allow(
    dead_code,
    reason = "the modules of `echo` are measured here by counting alone"
)]

#[path = "../../counting/mod.rs"]
mod counting;
mod floors;
mod floors_ws;
mod http;
mod ours;
mod row;
mod runtime;
mod service;
mod side;
mod typed;

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use antiphon::Config;
use antiphon_tokio::{Link, attach};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use row::{Mode, Outcome, Row};
use runtime::Runtime;
use service::Echo;

/// How many rounds are counted; as many come before them, uncounted.
const ROUNDS: usize = 1000;

static WRITES: AtomicU64 = AtomicU64::new(0);

/// A socket whose writes are counted.
struct Counted(TcpStream);

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        WRITES.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Prints by how much a call of a mode raises `count`, the mean of many.
fn show(row: &mut Row, mode: Mode, what: &str, count: impl Fn() -> u64) -> Outcome<()> {
    let mut times = Vec::with_capacity(2 * ROUNDS);
    row.lane.run(mode, ROUNDS, &mut times)?;
    let before = count();
    row.lane.run(mode, ROUNDS, &mut times)?;
    let each = (count() - before) as f64 / (ROUNDS * mode.requests()) as f64;
    println!("| {}: {}, {what} | {each:.2} |", row.name, mode.name());
    Ok(())
}

/// A client and a server of ours on tokio, over a socket whose writes are counted.
fn counted() -> Outcome<Row> {
    let runtime = Runtime::tokio()?;
    let (peer, running) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let near = TcpStream::connect(listener.local_addr()?).await?;
        let (far, _) = listener.accept().await?;
        let running = attach(Link::from_tokio(Counted(far)), Config::new(), Echo);
        let peer = attach(Link::from_tokio(Counted(near)), Config::new(), ());
        Ok::<_, io::Error>((peer, running))
    })?;
    Ok(Row {
        name: "antiphon tokio TCP".into(),
        floor: "bare tokio TCP",
        lane: ours::lane(runtime, peer, running),
    })
}

fn main() -> Outcome<()> {
    runtime::use_worker();
    println!("| calls | of each |");
    println!("|---|--:|");
    let mut rows = Vec::new();
    let wanted = ["blocking", "tokio", "smol"].map(|runtime| format!("antiphon {runtime} "));
    ours::add(&mut rows, &wanted)?;
    for row in &mut rows {
        let is_both = !row.name.ends_with("server") && !row.name.contains(", client");
        for mode in [Mode::One, Mode::Crowd].into_iter().filter(|_| is_both) {
            show(row, mode, "allocations", counting::allocations)?;
        }
    }
    let mut rows = Vec::new();
    http::add(&mut rows, &[])?;
    for row in &mut rows {
        for mode in [Mode::One, Mode::Many] {
            show(row, mode, "allocations", counting::allocations)?;
        }
    }
    let mut row = counted()?;
    for mode in [Mode::One, Mode::Crowd] {
        show(&mut row, mode, "writes", || WRITES.load(Ordering::Relaxed))?;
    }
    Ok(())
}
