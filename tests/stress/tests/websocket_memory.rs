//! How much memory a WebSocket holds: little while it is idle, about twice what has arrived of a
//! message at most, and nothing for what was only announced.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use antiphon::session::{Layer as _, LayerEvent};
use antiphon::{Config, Instant};
use antiphon_net::websocket::{WebSocket, WebSocketConfig};
use antiphon_net::{ConnectionConfig, Driver, Io, Link, Peer, drive_on, threads};
use antiphon_test_support::heap::{Counting, held_by_process};

#[global_allocator]
static ALLOCATOR: Counting = Counting::of_process();

const REQUEST: &[u8] = b"GET /rpc HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";

/// A server after its handshake.
fn open() -> WebSocket {
    let config = Config::new().for_websocket();
    let options = Arc::new(WebSocketConfig::server());
    let mut server = WebSocket::new(options, &config, Instant::ZERO).unwrap();
    assert!(matches!(
        server.poll_event(&mut &REQUEST[..]),
        Some(LayerEvent::Opened(_))
    ));
    server.take_transmit(&mut Vec::new());
    server
}

/// The header of a client's frame, with its length in eight bytes and a mask of zeros, which changes nothing.
fn header(first: u8, len: u64) -> Vec<u8> {
    let mut out = vec![first, 0xff];
    out.extend(len.to_be_bytes());
    out.extend([0; 4]);
    out
}

/// Feeds bytes that give no event.
fn feed(server: &mut WebSocket, bytes: &[u8]) {
    assert!(server.poll_event(&mut &bytes[..]).is_none());
}

const MEGABYTE: usize = 1 << 20;

/// A transport of which the test says what has arrived. It takes all output.
#[derive(Default)]
struct Arrived(Arc<Mutex<Vec<u8>>>);

impl Io for Arrived {
    fn poll_read(&mut self, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut arrived = self.0.lock().unwrap();
        let n = arrived.len().min(buf.len());
        buf[..n].copy_from_slice(&arrived[..n]);
        arrived.drain(..n);
        if arrived.is_empty() {
            *arrived = Vec::new();
        }
        match n {
            0 => Poll::Pending,
            n => Poll::Ready(Ok(n)),
        }
    }

    fn poll_write(&mut self, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A connection whose task the test polls.
struct Side {
    _peer: Peer,
    driver: Driver,
    arrived: Arc<Mutex<Vec<u8>>>,
}

impl Side {
    /// Has the bytes arrive, and polls the task until it has nothing more to do.
    fn receive(&mut self, bytes: &[u8]) {
        self.arrived.lock().unwrap().extend_from_slice(bytes);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..64 {
            assert!(Pin::new(&mut self.driver).poll(&mut cx).is_pending());
        }
        assert!(self.arrived.lock().unwrap().is_empty());
    }
}

// SEC-10 WSK-15
#[test]
fn memory_goes_with_what_came_in_and_comes_back() {
    // Idle: a whole connection, with its task.
    let options = ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
    let (options, runtime) = (Arc::new(options), threads());
    let make = || {
        let io = Arrived::default();
        let (arrived, link) = (Arc::clone(&io.0), Link::new(io));
        let (_peer, driver) = drive_on(link, Arc::clone(&options), Arc::new(()), &runtime);
        let mut side = Side {
            _peer,
            driver,
            arrived,
        };
        side.receive(REQUEST);
        side
    };
    // The first one allocates what all share.
    drop(make());
    let before = held_by_process();
    let mut sides: Vec<Side> = (0..1000).map(|_| make()).collect();
    let idle = (held_by_process() - before) / 1000;
    let task = size_of::<Driver>();
    println!("an idle connection over WebSocket holds {idle} bytes, {task} of them its task");
    assert!(idle < 5632, "{idle} bytes");

    // Ten of them get a message of each size and are idle again: little of it stays.
    let message = |len: usize| {
        let mut bytes = header(0x81, len as u64);
        bytes.resize(bytes.len() + len, b' ');
        bytes
    };
    for len in [10, 3000, MEGABYTE] {
        let bytes = message(len);
        let before = held_by_process();
        for side in &mut sides[..10] {
            side.receive(&bytes);
        }
        let kept = (held_by_process() - before) / 10;
        println!("after a message of {len} bytes {kept} more are kept");
        // The core keeps its buffers for as long as they are of an ordinary size.
        assert!(kept < 8 * 1024, "{kept} bytes after {len}");
    }
    drop(sides);

    // A megabyte is announced, and 100 bytes of it are sent.
    let mut server = open();
    let before = held_by_process();
    feed(&mut server, &header(0x81, MEGABYTE as u64));
    feed(&mut server, &[b' '; 100]);
    let grown = held_by_process() - before;
    assert!(
        grown < 4 * 1024,
        "{grown} bytes for 100 of a megabyte announced"
    );

    // Half of it is sent: about twice that at most is held, because the buffer grows by doubling.
    feed(&mut server, &vec![b' '; 500_000]);
    let grown = held_by_process() - before;
    println!("500 000 bytes of a message hold {grown}");
    assert!((500_000..1_100_000).contains(&grown), "{grown} bytes");
    drop(server);

    // Pings and pongs without end.
    let mut server = open();
    let before = held_by_process();
    for _ in 0..10_000 {
        feed(&mut server, &header(0x89, 0));
        feed(&mut server, &header(0x8a, 0));
    }
    let grown = held_by_process() - before;
    assert!(grown < 1024, "{grown} bytes after pings");
}
