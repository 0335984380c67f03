//! How much memory a WebSocket holds: little while it is idle, about twice what has arrived of a
//! message at most, and nothing for what was only announced.

use std::sync::Arc;

use antiphon::session::{Layer as _, LayerEvent};
use antiphon::{Config, Instant};
use antiphon_net::websocket::{WebSocket, WebSocketConfig};
use antiphon_net::{ConnectionConfig, Context, Session, Threads};
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

// SEC-10 WSK-15
#[test]
fn memory_goes_with_what_came_in_and_comes_back() {
    // Idle: a whole session, with its service's queue and its connection.
    let options = ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
    let make = || {
        let session = Session::new(options.clone(), false, Context::new(), Threads::shared());
        session.act(|state| state.conn.handle_input(REQUEST));
        let mut answer = Vec::new();
        assert!(session.lock().conn.take_transmit(&mut answer));
        session.lock().conn.handle_written();
        // The service is told that it is open.
        assert!(session.lock().conn.poll_work(true).is_some());
        session
    };
    // The first session allocates what all share.
    drop(make());
    let before = held_by_process();
    let sessions: Vec<Arc<Session>> = (0..1000).map(|_| make()).collect();
    let idle = (held_by_process() - before) / 1000;
    println!("an idle session over WebSocket holds {idle} bytes");
    assert!(idle < 4608, "{idle} bytes");

    // Ten sessions get a message of each size and are idle again: little of it stays.
    let message = |len: usize| {
        let mut bytes = header(0x81, len as u64);
        bytes.resize(bytes.len() + len, b' ');
        bytes
    };
    for len in [10, 3000, MEGABYTE] {
        let bytes = message(len);
        let before = held_by_process();
        for session in &sessions[..10] {
            session.act(|state| state.conn.handle_input(&bytes));
            let mut answer = Vec::new();
            while session.lock().conn.take_transmit(&mut answer) {
                session.lock().conn.handle_written();
                answer.clear();
            }
            while session.lock().conn.poll_work(true).is_some() {}
        }
        let kept = (held_by_process() - before) / 10;
        println!("after a message of {len} bytes {kept} more are kept");
        // The core keeps its buffers for as long as they are of an ordinary size.
        assert!(kept < 8 * 1024, "{kept} bytes after {len}");
    }
    drop(sessions);

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
