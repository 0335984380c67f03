//! The threads of a connection end with it, and keep nothing alive.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use crate::support::{ByHand, LONG, Scripted, echo, within};
use antiphon::{CloseReason, Config};
use antiphon_blocking::{ConnectionConfig, Link, Peer, Service, TcpServer, attach};

/// A value that sends its name when it is dropped.
struct Held<T>(T, &'static str, Sender<&'static str>);

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // The receiver is gone if the test has failed.
        let _ = self.2.send(self.1);
    }
}

impl<T: Read> Read for Held<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl<T: Write> Write for Held<T> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Service for Held<()> {}

/// Options with which our side waits only 20 ms for the end of the peer's stream.
fn hasty() -> ConnectionConfig {
    let mut options = ConnectionConfig::from(Config::new());
    options.linger = Duration::from_millis(20);
    options
}

/// The names of the next three values that are dropped, sorted.
fn names(dropped: &mpsc::Receiver<&'static str>) -> Vec<&'static str> {
    let names = (0..3).map(|_| dropped.recv_timeout(LONG).expect("all three are dropped"));
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

const ALL: [&str; 3] = ["reader", "service", "writer"];

// CON-10
#[test]
fn a_peer_that_never_leaves_keeps_no_thread() {
    within(LONG, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _stays = listener.accept().unwrap();
        let (told, dropped) = mpsc::channel();
        let (reader, writer) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
        let link = Link::new(
            Held(reader, "reader", told.clone()),
            Held(writer, "writer", told.clone()),
        );
        let link = link.with_hang_up(move || drop(stream.shutdown(Shutdown::Both)));
        let peer = attach(link, hasty(), Held((), "service", told)).unwrap();
        peer.close(CloseReason::Done);
        assert_eq!(names(&dropped), ALL);
    });
}

// CON-10
#[test]
fn a_peer_that_never_stops_talking_keeps_no_thread() {
    within(LONG, || {
        // The reader cannot be hung up: its thread has to notice that the connection has ended.
        let (told, dropped) = mpsc::channel();
        let link = Link::new(
            Held(io::repeat(b' '), "reader", told.clone()),
            Held(io::sink(), "writer", told.clone()),
        );
        let peer = attach(link, hasty(), Held((), "service", told)).unwrap();
        peer.close(CloseReason::Done);
        assert_eq!(names(&dropped), ALL);
    });
}

/// A stream of which every other read or write is interrupted, beginning with the first.
struct Interrupted<T>(T, bool);

impl<T> Interrupted<T> {
    fn check(&mut self) -> io::Result<()> {
        self.1 = !self.1;
        match self.1 {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    }
}

impl<T: Read> Read for Interrupted<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        self.0.read(buf)
    }
}

impl<T: Write> Write for Interrupted<T> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

// TRN-07
#[test]
fn what_is_interrupted_is_done_again() {
    within(LONG, || {
        let ((reader, writer), far) = crate::support::duplex(16);
        let near = (Interrupted(reader, false), Interrupted(writer, false));
        let near = attach(near, Config::new(), ()).unwrap();
        let _far = attach(far, Config::new(), Scripted::new(echo).0).unwrap();
        for n in 0..10 {
            assert_eq!(near.call::<(u32,)>("echo", &(n,)).wait().unwrap(), (n,));
        }
        assert!(near.transport_error().is_none());
    });
}

// CON-09
#[test]
fn our_end_is_sent_at_once_and_not_when_theirs_has_come() {
    within(LONG, || {
        let mut options = ConnectionConfig::from(Config::new());
        // Longer than this test may take.
        options.linger = 10 * LONG;
        let server = TcpServer::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let running = server.start(options, |_| Scripted::new(echo).0).unwrap();
        stream
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"id\":1}\n")
            .unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
        running.stop();
        // The rest of the answer, and the end.
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("\"id\":1}\n"), "{rest}");
    });
}

// SEC-10
#[test]
fn a_peer_that_does_not_end_its_stream_is_awaited_for_the_linger() {
    within(LONG, || {
        let (link, hand) = ByHand::pair(1000);
        let peer: Peer = attach(link, hasty(), ()).unwrap();
        peer.close(CloseReason::Done);
        assert!(peer.wait_closed(LONG / 2).wait().is_some());
        drop(hand);
    });
}
