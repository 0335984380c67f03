//! The code of `antiphon-net` in virtual time: the clock moves only when every task waits, so
//! deadlines pass at exactly their time.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::{Memory, Raw};
use antiphon::{CancelStyle, CloseReason, Closed, Config, ReconnectStrategy, SendError};
use antiphon_net::{
    Connecting, ConnectionConfig, Handshake, Io, Link, Listen, Secure, Server, duplex,
};
use antiphon_tokio::{
    Answer, CallError, Client, ClientConfig, Driver, Notification, OwnedError, Peer, Request,
    Service, Target, TcpServer, current, drive, reconnect,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3600);

/// Runs a connection over `io` in the background.
fn spawn(
    io: impl Into<Box<dyn Io>>,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> Peer {
    let (peer, driver): (Peer, Driver) = drive(antiphon_tokio::Link::new(io), options, service);
    tokio::spawn(driver);
    peer
}

/// Answers `echo` with its params. Any other request waits until it is cancelled, and the handler of
/// a notification never ends.
struct Slow;

impl Service for Slow {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        let answered = match request.method() {
            "echo" => reply.ok(request.raw_params()),
            _ => {
                reply.cancellation().await;
                reply.cancelled()
            }
        };
        // If the connection has closed meanwhile, the answer cannot be sent.
        drop(answered);
        Ok(Answer::deferred())
    }

    async fn notification(&self, _: &Peer, _: Notification) {
        pending().await
    }
}

/// A stream of which every other read and every other write is interrupted.
struct Interrupted {
    inner: Box<dyn Io>,
    /// Whether the next read is interrupted.
    reads: AtomicBool,
    /// Whether the next write is interrupted.
    writes: AtomicBool,
}

impl Io for Interrupted {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.reads.fetch_not(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::Interrupted.into()));
        }
        self.inner.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.writes.fetch_not(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::Interrupted.into()));
        }
        self.inner.poll_write(cx, buf)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_close(cx)
    }
}

// TRN-07
#[tokio::test(start_paused = true)]
async fn what_is_interrupted_is_done_again() {
    for (reads, writes) in [(true, false), (false, true)] {
        let (inner, far) = duplex(16);
        let near = Interrupted {
            inner,
            reads: AtomicBool::new(reads),
            writes: AtomicBool::new(writes),
        };
        let near = spawn(near, Config::new(), ());
        let _far = spawn(far, Config::new(), Slow);
        for n in 0..10 {
            assert_eq!(near.call::<(u32,)>("echo", &(n,)).await.unwrap(), (n,));
        }
        assert!(near.transport_error().is_none());
    }
}

/// A stream from which nothing can be read before `due`. Then the first read is interrupted, and the second
/// reads `answer`.
struct LateAnswer {
    due: Instant,
    was_interrupted: bool,
    answer: &'static [u8],
}

impl Io for LateAnswer {
    fn poll_read(&mut self, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if Instant::now() < self.due || self.answer.is_empty() {
            return Poll::Pending;
        }
        if !std::mem::replace(&mut self.was_interrupted, true) {
            return Poll::Ready(Err(io::ErrorKind::Interrupted.into()));
        }
        let answer = std::mem::take(&mut self.answer);
        buf[..answer.len()].copy_from_slice(answer);
        Poll::Ready(Ok(answer.len()))
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

// TRN-07
#[tokio::test(start_paused = true)]
async fn a_deadline_does_not_pass_before_an_interrupted_read_is_repeated() {
    let near = LateAnswer {
        due: Instant::now() + SECOND,
        was_interrupted: false,
        answer: b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}\n",
    };
    let peer = spawn(near, Config::new(), ());
    // The answer has arrived when the deadline is judged, so it wins.
    assert_eq!(
        peer.call::<u32>("any", ()).timeout(SECOND).await.unwrap(),
        7
    );
}

// CON-01 CON-09
#[tokio::test(start_paused = true)]
async fn our_end_is_sent_at_once_and_theirs_awaited_for_the_linger() {
    for ends_after in [None, Some(SECOND / 2)] {
        let (near, far) = duplex(512);
        let mut far = Raw::new(far);
        let peer = spawn(near, Config::new(), ());
        peer.notify("last words", ()).await.unwrap();
        let start = Instant::now();
        peer.close(CloseReason::Done);
        far.end().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "our end");
        // What the peer still sends is read and dropped.
        far.send([b' '; 4096]).await.unwrap();
        let held = async move {
            sleep(ends_after.unwrap_or(LONG)).await;
            drop(far);
        };
        let held = tokio::spawn(held);
        assert!(peer.wait_closed(LONG).await.is_some());
        // The default linger is 1 s.
        assert_eq!(start.elapsed(), ends_after.unwrap_or(SECOND));
        held.abort();
    }
}

// STD-09 SEC-10
#[tokio::test(start_paused = true)]
async fn a_handler_that_never_ends_keeps_the_driver_for_so_long_and_no_longer() {
    let (near, far) = duplex(512);
    let (_peer, driver) = drive(antiphon_tokio::Link::new(near), Config::new(), Slow);
    let mut far = Raw::new(far);
    far.send("{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n")
        .await
        .unwrap();
    drop(far);
    let start = Instant::now();
    let ended = timeout(LONG, driver).await.expect("an end");
    assert_eq!(ended.unwrap(), Closed::EndOfInput);
    // The drain timeout of 30 s passes twice: until the connection ends, and until the driver no
    // longer waits for the handler.
    assert_eq!(start.elapsed(), 60 * SECOND);
}

// CON-06 CAN-13
#[tokio::test(start_paused = true)]
async fn a_driver_that_is_dropped_leaves_nobody_waiting() {
    let (near, far) = duplex(512);
    let link = antiphon_tokio::Link::new(near);
    let (peer, driver) = drive(link, Config::new(), Slow);
    let mut driver = Box::pin(driver);
    let call = peer.call("m", ()).no_timeout().start().await.unwrap();
    let waiting = tokio::spawn(async move { CallError::of(call.await) });
    poll_fn(|cx| {
        assert!(driver.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    drop(driver);
    let called = timeout(LONG, waiting).await.expect("an end").unwrap();
    assert!(matches!(called, Err(CallError::Closed)), "{called:?}");
    assert!(peer.wait_closed(LONG).await.is_some());
    let late = peer.call::<()>("m", ()).await;
    assert!(matches!(late, Err(CallError::Rejected(SendError::Closed))));
    timeout(LONG, Raw::new(far).end())
        .await
        .expect("the stream is dropped");
}

// CON-06
#[tokio::test(start_paused = true)]
async fn a_connection_runs_beside_what_uses_it_and_goes_on_afterwards() {
    let (near, far) = duplex(64);
    let (peer, mut driver) = drive(antiphon_tokio::Link::new(near), Config::new(), ());
    let far = spawn(far, Config::new(), Slow);
    // Longer than the stream holds, so both sides have to read and write several times.
    let word = "x".repeat(1000);
    for _ in 0..3 {
        let words: [String; 1] = driver.run_until(peer.call("echo", &[&word])).await.unwrap();
        assert_eq!(words, [word.as_str()]);
    }
    // A deadline wakes it, too.
    let start = Instant::now();
    let late = peer.call::<()>("wait", ()).timeout(SECOND);
    let late = driver.run_until(late).await;
    assert!(matches!(late, Err(CallError::TimedOut)), "{late:?}");
    assert_eq!(start.elapsed(), SECOND);
    // A future that is dropped before its end leaves the driver as it was.
    let given_up = timeout(SECOND, driver.run_until(peer.call::<()>("wait", ()))).await;
    assert!(given_up.is_err());
    let driving = tokio::spawn(driver);
    let asked = timeout(LONG, peer.call::<[u8; 1]>("echo", &[7])).await;
    assert_eq!(asked.expect("an answer").unwrap(), [7]);
    far.close(CloseReason::Done);
    let ended = timeout(LONG, driving).await.expect("an end").unwrap();
    assert_eq!(ended.unwrap(), Closed::EndOfInput);
}

// CON-06
#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_beside_what_uses_it_settles_its_calls_and_says_why_later() {
    let (near, far) = duplex(512);
    let (peer, mut driver) = drive(antiphon_tokio::Link::new(near), Config::new(), ());
    let far = tokio::spawn(async move {
        sleep(SECOND).await;
        drop(far);
    });
    let start = Instant::now();
    let work = async {
        let lost = peer.call::<()>("m", ()).await;
        // The work goes on after the connection has ended.
        sleep(SECOND).await;
        lost
    };
    let lost = timeout(LONG, driver.run_until(work)).await.expect("an end");
    assert!(matches!(lost, Err(CallError::Closed)), "{lost:?}");
    assert_eq!(start.elapsed(), 2 * SECOND);
    far.await.unwrap();
    let ended = timeout(LONG, driver).await.expect("the reason is kept");
    assert_eq!(ended.unwrap(), Closed::EndOfInput);
}

#[tokio::test(start_paused = true)]
async fn work_that_never_rests_beside_its_connection_leaves_other_tasks_their_turn() {
    let (near, _far) = duplex(512);
    let (_peer, mut driver) = drive(antiphon_tokio::Link::new(near), Config::new(), ());
    let restless = poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let seen = Arc::new(AtomicBool::new(false));
    let other = Arc::clone(&seen);
    tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
    let mut restless = pin!(driver.run_until(restless));
    for _ in 0..3 {
        poll_fn(|cx| {
            assert!(restless.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
    }
    assert!(seen.load(Ordering::Relaxed));
}

// CAN-13 CLI-17
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_dropped_gives_its_calls_up() {
    let mut config = Config::new();
    config.dialect.cancel_send = CancelStyle::Lsp;
    let (near, far) = duplex(4096);
    let near = spawn(near, config, ());
    let _far = spawn(far, Config::new(), Slow);
    let open = || near.calls_open();
    let batch = near
        .batch(|batch| {
            batch.call::<()>("wait", ())?;
            batch.call::<()>("wait", ())
        })
        .no_timeout();
    assert!(timeout(SECOND, batch).await.is_err());
    assert_eq!(open(), 0);
    // No call is left open by a batch that was answered, or by a call that is dropped.
    let batch = near.batch(|batch| batch.call::<(u8,)>("echo", &(1,)));
    let (one, mut outcomes) = batch.await.unwrap();
    assert_eq!(outcomes.fetch(one).unwrap(), (1,));
    drop(near.call("wait", ()).no_timeout().start().await.unwrap());
    assert_eq!(open(), 0);
}

// CLI-06 SEC-10
#[tokio::test(start_paused = true)]
async fn whoever_waits_for_room_waits_until_the_deadline() {
    let mut config = Config::new();
    config.limits.soft_max_outbox_bytes = 10;
    config.timeouts.write_timeout = None;
    let (near, _far) = duplex(1);
    let peer = spawn(near, config, ());
    // One is being written to a stream that holds one byte, and one fills the queue.
    peer.notify("fills the output", ()).await.unwrap();
    peer.notify("fills the output", ()).await.unwrap();
    let start = Instant::now();
    let called = peer.call::<()>("m", ()).timeout(5 * SECOND);
    let called = timeout(LONG, called).await.expect("an end");
    assert!(matches!(called, Err(CallError::Rejected(SendError::Full))));
    assert_eq!(start.elapsed(), 5 * SECOND);
    let batch = peer
        .batch(|batch| batch.notify("n", ()))
        .timeout(5 * SECOND);
    let batch = timeout(LONG, batch).await.expect("an end");
    assert!(matches!(batch, Err(CallError::Rejected(SendError::Full))));
    assert_eq!(start.elapsed(), 10 * SECOND);
    let flushed = timeout(LONG, peer.flush(SECOND)).await.expect("an end");
    assert_eq!(flushed.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

/// A handshake that is never done.
struct Never;

impl Secure for Never {
    fn accept(&self, link: Link) -> Handshake {
        Box::pin(async move {
            let _held = link;
            pending().await
        })
    }
}

// SEC-10
#[tokio::test(start_paused = true)]
async fn a_handshake_has_a_deadline_and_its_connection_a_place() {
    let (links, incoming) = unbounded_channel();
    let server = Server::new(Memory(incoming), current())
        .max_connections(1)
        .with_secure(Never);
    let running = server.start(Config::new(), |_| Slow);
    let (near, far) = duplex(512);
    links.send(Link::new(far)).unwrap();
    let (second, far) = duplex(512);
    links.send(Link::new(far)).unwrap();
    let start = Instant::now();
    timeout(LONG, Raw::new(second).end()).await.expect("an end");
    assert_eq!(start.elapsed(), Duration::ZERO, "there is one place");
    timeout(LONG, Raw::new(near).end()).await.expect("an end");
    // By default a handshake may take 10 s.
    assert_eq!(start.elapsed(), 10 * SECOND);
    while running.connections() > 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

// CON-12 SEC-10
#[tokio::test(start_paused = true)]
async fn an_address_has_so_many_places_and_others_have_theirs() {
    let (links, incoming) = unbounded_channel();
    let server = Server::new(Memory(incoming), current()).max_connections_per_address(1);
    let running = server.start(Config::new(), |_| Slow);
    let from = |address: Option<&str>| {
        let (near, far) = duplex(512);
        let mut link = Link::new(far);
        link.context.peer_addr = address.map(|address| address.parse().unwrap());
        links.send(link).unwrap();
        near
    };
    let first = spawn(from(Some("192.0.2.1:1")), Config::new(), ());
    assert_eq!(first.call::<(u8,)>("echo", &(1,)).await.unwrap(), (1,));
    let second = Raw::new(from(Some("192.0.2.1:2")));
    timeout(SECOND, { second }.end()).await.expect("an end");
    let mut others = Vec::new();
    for address in [Some("192.0.2.2:1"), None, None] {
        let other = spawn(from(address), Config::new(), ());
        assert_eq!(other.call::<(u8,)>("echo", &(2,)).await.unwrap(), (2,));
        others.push(other);
    }
    first.close(CloseReason::Done);
    assert!(first.wait_closed(LONG).await.is_some());
    while running.connections() > others.len() {
        sleep(Duration::from_millis(1)).await;
    }
    let again = spawn(from(Some("192.0.2.1:3")), Config::new(), ());
    assert_eq!(again.call::<(u8,)>("echo", &(3,)).await.unwrap(), (3,));
    drop(running);
    let ended = timeout(SECOND, again.wait_closed(LONG)).await;
    assert_eq!(ended.expect("an end"), Some(Closed::EndOfInput));
}

// CON-09
#[tokio::test(start_paused = true)]
async fn a_server_that_shuts_down_waits_then_closes_then_lets_go() {
    let (links, incoming) = unbounded_channel();
    let server = Server::new(Memory(incoming), current());
    let running = server.start(Config::new(), |_| Slow);
    let (near, far) = duplex(512);
    links.send(Link::new(far)).unwrap();
    // An answer that is larger than the pipe, and nobody who reads it.
    let mut deaf = near;
    let large = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[\"{}\"],\"id\":1}}\n",
        "x".repeat(2000)
    );
    let mut sent = 0;
    while sent < large.len() {
        sent += poll_fn(|cx| deaf.poll_write(cx, &large.as_bytes()[sent..]))
            .await
            .unwrap();
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(running.connections(), 1);
    let start = Instant::now();
    assert!(
        !running.shutdown(3 * SECOND).await,
        "it did not end by itself"
    );
    // 3 s of grace, and 5 s to write the queued output.
    assert_eq!(start.elapsed(), 8 * SECOND);
    // Nothing more comes than what was in the pipe.
    let mut read = 0;
    let mut buf = [0; 100];
    loop {
        let n = timeout(SECOND, poll_fn(|cx| deaf.poll_read(cx, &mut buf)));
        match n.await.expect("the connection is dropped") {
            Ok(n) if n > 0 => read += n,
            _ => break,
        }
    }
    assert!(read <= 512, "{read}");
}

/// A listener that fails three times before it accepts.
struct Exhausted {
    memory: Memory,
    tries: usize,
}

impl Listen for Exhausted {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Link>> {
        self.tries += 1;
        if self.tries <= 3 {
            return Poll::Ready(Err(io::Error::other("no descriptor is left")));
        }
        self.memory.poll_accept(cx)
    }
}

// SEC-10
#[tokio::test(start_paused = true)]
async fn a_listener_that_fails_is_tried_again_after_a_pause() {
    let (links, incoming) = unbounded_channel();
    let listener = Exhausted {
        memory: Memory(incoming),
        tries: 0,
    };
    let _running = Server::new(listener, current()).start(Config::new(), |_| Slow);
    let start = Instant::now();
    let (near, far) = duplex(512);
    links.send(Link::new(far)).unwrap();
    let peer = spawn(near, Config::new(), ());
    assert_eq!(peer.call::<(u8,)>("echo", &(1,)).await.unwrap(), (1,));
    // Three pauses of 50 ms.
    assert_eq!(start.elapsed(), Duration::from_millis(150));
}

/// A client, and the other ends of its connections.
async fn client(
    change: impl FnOnce(&mut ClientConfig),
) -> (Client, UnboundedReceiver<Box<dyn Io>>) {
    let (made, accepted) = unbounded_channel();
    let connect = move || -> Connecting {
        let (near, far) = duplex(4096);
        let given = made.send(far);
        let refused = io::ErrorKind::ConnectionRefused;
        let link = given.map(|()| Link::new(near)).map_err(|_| refused.into());
        Box::pin(std::future::ready(link))
    };
    let mut options = ClientConfig::from(Config::new());
    options.reconnect = ReconnectStrategy::Fixed {
        delay: SECOND,
        max_attempts: 3,
    };
    change(&mut options);
    let client = reconnect(Target::new(connect), options, ()).await;
    (client.unwrap(), accepted)
}

/// Reads a line, and then cuts the connection.
async fn cut(mut far: Box<dyn Io>) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        let n = poll_fn(|cx| far.poll_read(cx, &mut byte)).await.unwrap();
        assert_eq!(n, 1, "a line before the end");
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

// CON-04 CON-06
#[tokio::test(start_paused = true)]
async fn only_a_call_that_may_be_done_twice_is_sent_again() {
    let (client, mut accepted) = client(|_| {}).await;
    let serving = async {
        assert!(cut(accepted.recv().await.unwrap()).await.contains("once"));
        assert!(cut(accepted.recv().await.unwrap()).await.contains("again"));
        spawn(accepted.recv().await.unwrap(), Config::new(), Again)
    };
    let calling = async {
        client.wait_open(LONG).await.unwrap();
        let once = client.call::<()>("once", ()).await;
        client.wait_open(LONG).await.unwrap();
        (once, client.call::<u32>("again", ()).idempotent().await)
    };
    let (_server, (once, again)) = tokio::join!(serving, calling);
    assert!(matches!(once, Err(CallError::Closed)), "{once:?}");
    assert_eq!(again.unwrap(), 7);
    assert!(accepted.try_recv().is_err());
}

/// Answers `again` with 7.
struct Again;

impl Service for Again {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        assert_eq!(request.method(), "again");
        reply.ok(&7).unwrap();
        Ok(Answer::deferred())
    }
}

// CON-08 SEC-10
#[tokio::test(start_paused = true)]
async fn calls_beyond_those_that_may_wait_for_a_connection_fail_at_once() {
    let (client, mut accepted) = client(|options| options.max_waiting_calls = 1).await;
    drop(accepted.recv().await.unwrap());
    // The next attempt is a second away.
    let start = Instant::now();
    while client.peer().is_some() {
        tokio::task::yield_now().await;
    }
    let mut first = pin!(client.call::<(u8,)>("echo", &(1,)));
    let polled = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await;
    assert!(polled);
    let second = client.call::<()>("m", ()).await;
    assert!(matches!(second, Err(CallError::Unsent)), "{second:?}");
    assert_eq!(start.elapsed(), Duration::ZERO);
    let serving = async { spawn(accepted.recv().await.unwrap(), Config::new(), Slow) };
    let (first, _server) = tokio::join!(first, serving);
    assert_eq!(first.unwrap(), (1,));
}

// CON-05 SEC-10
#[tokio::test(start_paused = true)]
async fn an_attempt_to_connect_has_a_deadline() {
    let tried = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&tried);
    let connect = move || -> Connecting {
        inside.lock().unwrap().push(Instant::now());
        Box::pin(pending())
    };
    let mut options = ClientConfig::from(Config::new());
    options.reconnect = ReconnectStrategy::Fixed {
        delay: SECOND,
        max_attempts: 1,
    };
    let start = Instant::now();
    // It is returned after the first attempt, which may take 10 s, and goes on.
    let client = reconnect(Target::new(connect), options, ()).await.unwrap();
    assert_eq!(start.elapsed(), 10 * SECOND);
    let waited = timeout(LONG, client.wait_open(LONG)).await.expect("an end");
    let Err(CallError::NoConnection(none)) = waited else {
        panic!("{waited:?}");
    };
    assert!(none.is_final());
    let error = none.last_error().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    // Two attempts of 10 s, and the delay of 1 s between them.
    assert_eq!(start.elapsed(), 21 * SECOND);
    assert_eq!(tried.lock().unwrap().len(), 2);
}

/// Answers each request with the address that it came from.
struct Who;

impl Service for Who {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        let address = peer.context().peer_addr;
        reply
            .ok(&address.map(|address| address.to_string()))
            .unwrap();
        Ok(Answer::deferred())
    }
}

// TRN-09
#[tokio::test]
async fn small_messages_are_not_delayed_on_either_side() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let observer = stream.try_clone().unwrap();
    stream.set_nonblocking(true).unwrap();
    assert!(!observer.nodelay().unwrap());
    let stream = tokio::net::TcpStream::from_std(stream).unwrap();
    let _link = antiphon_tokio::Link::from_tcp(stream).unwrap();
    assert!(observer.nodelay().unwrap());

    // Both a socket that connects and one that is accepted know the address of the other side.
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let is_prompt = Arc::new(AtomicBool::new(false));
    let accepted = Arc::clone(&is_prompt);
    let server = server.on_accept(move |socket| {
        accepted.store(socket.tcp_nodelay().unwrap(), Ordering::SeqCst);
    });
    let _running = server.start(Config::new(), |_| Who);
    let link = antiphon_tokio::Link::tcp(address).await.unwrap();
    let peer = antiphon_tokio::attach(link, Config::new(), ());
    assert_eq!(peer.context().peer_addr, Some(address));
    let seen: Option<String> = peer.call("who", ()).await.unwrap();
    assert!(seen.is_some_and(|seen| seen.starts_with("127.0.0.1:")));
    assert!(is_prompt.load(Ordering::SeqCst));
}
