//! The memory of a connection that has had one request, has answered it, and waits for more.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use antiphon::{Config, Connection, Event, Input, ReadBuffer};
use antiphon_tokio::{Answer, Link, OwnedError, Peer, Request, Service};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::heap::held;

const ASKED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[1],\"id\":1}\n";

/// What a driver holds: the connection and its read buffer, whose memory it gives back while nothing comes.
struct Driven {
    conn: Connection<u64>,
    buffer: ReadBuffer,
}

impl Driven {
    fn asked_once() -> Self {
        let config = Config::new();
        let mut driven = Self {
            conn: Connection::new(config),
            buffer: ReadBuffer::new(config.max_input_bytes()),
        };
        driven.buffer.spare()[..ASKED.len()].copy_from_slice(ASKED);
        driven.buffer.advance(ASKED.len());
        let mut input = Input::stream(driven.buffer.filled());
        let Some(Event::Request(request)) = driven.conn.poll_event(&mut input) else {
            panic!("it is a request");
        };
        driven
            .conn
            .respond(request.token, &1u32)
            .expect("there is room");
        let consumed = input.consumed();
        driven.buffer.consume(consumed);
        let waiting = driven.conn.poll_transmit().map_or(0, <[u8]>::len);
        driven.conn.consume_transmit(waiting);
        driven.buffer.release();
        driven
    }
}

/// A number of connections of the core.
pub(crate) fn core(count: usize) {
    let mut all = Vec::with_capacity(count);
    let before = held();
    all.extend((0..count).map(|_| Driven::asked_once()));
    let heap = held() - before;
    println!("times {count} bytes {}", heap + count * size_of::<Driven>());
}

/// A transport that brings one request, takes what is written, and then stays silent. It holds nothing on the heap.
struct Quiet {
    left: &'static [u8],
    written: Arc<AtomicUsize>,
}

impl AsyncRead for Quiet {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left.is_empty() {
            // Nothing more comes, so there is no waker to keep.
            return Poll::Pending;
        }
        let n = self.left.len().min(into.remaining());
        into.put_slice(&self.left[..n]);
        self.left = &self.left[n..];
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Quiet {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.fetch_add(bytes.len(), Ordering::Relaxed);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

struct One;

impl Service for One {
    async fn request(&self, _: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(1.into())
    }
}

/// A number of connections that the tokio adapter serves, each a task.
pub(crate) fn tokio(count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async move {
        let written = Arc::new(AtomicUsize::new(0));
        let answer = b"{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":1}\n".len();
        let mut peers = Vec::with_capacity(count + 1);
        // One connection is there already, so what all share is not counted.
        peers.push(served(&written));
        settle(&written, answer).await;
        let before = held();
        for _ in 0..count {
            peers.push(served(&written));
        }
        settle(&written, (count + 1) * answer).await;
        println!("times {count} bytes {}", held() - before);
    });
}

fn served(written: &Arc<AtomicUsize>) -> Peer {
    let quiet = Quiet {
        left: ASKED,
        written: Arc::clone(written),
    };
    antiphon_tokio::attach(Link::from_tokio(quiet), Config::new(), One)
}

/// Lets the tasks run until everything was answered, and once more, so that they have gone quiet.
async fn settle(written: &AtomicUsize, bytes: usize) {
    while written.load(Ordering::Relaxed) < bytes {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
