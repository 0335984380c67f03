//! No foreign code runs under the lock of a connection: a transport, a handler, a waker, a value
//! that is written and one that is dropped may all use the connection to which they belong.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use antiphon::OwnedError;
use antiphon::session::Report;
use antiphon::{CloseReason, Config};
use antiphon_net::{
    Answer, ConnectionConfig, Io, Link, Notification, Peer, Request, Service, SharedRuntime,
    drive_on, duplex,
};
use antiphon_stress::{LONG, Rt, on_every_runtime};
use serde::{Serialize, Serializer};

on_every_runtime! {
    a_transport_may_use_its_connection;
    a_handler_a_value_and_what_they_drop_may_use_their_connection;
    a_waker_may_use_the_connection_that_wakes_it;
    what_a_batch_is_made_of_may_use_its_connection;
}

/// Runs a test on a thread of its own: one that waits for its own lock never comes back.
fn within(rt: Rt, test: impl FnOnce(Rt) + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let running = thread::spawn(move || {
        test(rt);
        done.send(()).unwrap();
    });
    match is_done.recv_timeout(LONG) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it waits for ever"),
        _ => running.join().unwrap(),
    }
}

/// Sends the other side a notification ("says something") whenever it is used.
#[derive(Clone, Default)]
struct Talker {
    peer: Arc<OnceLock<Peer>>,
    said: Arc<AtomicUsize>,
}

impl Talker {
    fn of(peer: &Peer) -> Self {
        let talker = Self::default();
        talker.peer.set(peer.to_unowned()).unwrap();
        talker
    }

    fn say(&self) {
        // At most 20 times, because each write that this leads to says something, too.
        if let Some(peer) = self.peer.get() {
            if self.said.fetch_add(1, Ordering::SeqCst) < 20 {
                // The connection may be closed.
                let _ = peer.try_notify("said", ());
            }
        }
    }

    fn said(&self) -> usize {
        self.said.load(Ordering::SeqCst)
    }
}

/// Says something when it is dropped.
struct OnDrop(Talker);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.say();
    }
}

/// Says something when it is written, and when it is dropped.
struct Value(OnDrop);

impl Value {
    fn new(talker: &Talker) -> Self {
        Self(OnDrop(talker.clone()))
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.0.say();
        serializer.collect_seq(["value"])
    }
}

/// A stream that says something at every step.
struct Talking {
    io: Box<dyn Io>,
    talker: Talker,
}

impl Io for Talking {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.talker.say();
        self.io.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.talker.say();
        self.io.poll_write(cx, buf)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.talker.say();
        self.io.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.talker.say();
        self.io.poll_close(cx)
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        self.talker.say();
    }
}

/// Says something wherever it is called, and answers with a value that does so too.
#[derive(Clone, Default)]
struct Host(Talker);

impl Service for Host {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let _ = self.0.peer.set(peer.to_unowned());
        let _held = OnDrop(self.0.clone());
        self.0.say();
        match request.method() {
            "bad" => assert!(request.defer().ok(&Bad(OnDrop(self.0.clone()))).is_err()),
            "good" => request.defer().ok(&Value::new(&self.0)).unwrap(),
            "bad answer" => return Ok(Bad(OnDrop(self.0.clone())).into()),
            _ => return Ok(Value::new(&self.0).into()),
        }
        Ok(Answer::deferred())
    }

    async fn notification(&self, peer: &Peer, _: Notification) {
        let _ = self.0.peer.set(peer.to_unowned());
        let _held = OnDrop(self.0.clone());
        self.0.say();
    }

    fn report(&self, _: &Peer, _: Report) {
        self.0.say();
    }

    fn closed(&self, _: &Peer, _: antiphon::Closed) {
        self.0.say();
    }
}

/// Has no JSON form.
struct Bad(OnDrop);

impl Serialize for Bad {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        self.0.0.say();
        Err(serde::ser::Error::custom("as asked"))
    }
}

fn start<S: Service>(runtime: &SharedRuntime, io: impl Into<Box<dyn Io>>, service: S) -> Peer {
    let options = ConnectionConfig::new(Config::new());
    let (peer, driver) = drive_on(Link::new(io), options, Arc::new(service), runtime);
    runtime.spawn(Box::pin(async { drop(driver.await) }));
    peer
}

async fn end(peer: Peer, other: Peer) {
    peer.close(CloseReason::Done);
    assert!(peer.wait_closed(LONG).await.is_some());
    drop(other);
}

fn a_transport_may_use_its_connection(rt: Rt) {
    within(rt, |rt| {
        rt.run(|runtime| async move {
            let (near, far) = duplex(64);
            let talker = Talker::default();
            let io = Talking {
                io: near,
                talker: talker.clone(),
            };
            let peer = start(&runtime, io, ());
            let other = start(&runtime, far, Host::default());
            talker.peer.set(peer.to_unowned()).unwrap();
            for _ in 0..5 {
                let value: [String; 1] = peer.call("m", ()).await.unwrap();
                assert_eq!(value, ["value"]);
            }
            end(peer, other).await;
            assert!(talker.said() > 10, "{}", talker.said());
        });
    });
}

fn a_handler_a_value_and_what_they_drop_may_use_their_connection(rt: Rt) {
    within(rt, |rt| {
        rt.run(|runtime| async move {
            let (near, far) = duplex(64);
            let (peer, host) = (start(&runtime, near, ()), Host::default());
            let other = start(&runtime, far, host.clone());
            let ours = Talker::of(&peer);
            peer.notify("n", &Value::new(&ours)).await.unwrap();
            for method in ["good", "bad", "good", "bad answer", "good answer"] {
                let called = peer.call::<[String; 1]>(method, &Value::new(&ours)).await;
                assert_eq!(called.is_ok(), method.starts_with("good"));
            }
            // A call whose handle is dropped before its answer.
            drop(
                peer.call("m", &Value::new(&ours))
                    .no_timeout()
                    .start()
                    .await,
            );
            end(peer, other).await;
            assert!(ours.said() >= 10, "{}", ours.said());
            assert!(host.0.said() >= 10, "{}", host.0.said());
        });
    });
}

/// Says something when it is woken and when it is dropped, and then wakes the task.
struct Talkative {
    held: OnDrop,
    task: Waker,
}

impl Wake for Talkative {
    fn wake(self: Arc<Self>) {
        self.held.0.say();
        self.task.wake_by_ref();
    }
}

fn a_waker_may_use_the_connection_that_wakes_it(rt: Rt) {
    within(rt, |rt| {
        rt.run(|runtime| async move {
            let (near, far) = duplex(64);
            let peer = start(&runtime, near, ());
            let other = start(&runtime, far, Host::default());
            let talker = Talker::of(&peer);
            for _ in 0..5 {
                let mut work = pin!(async {
                    let value: [String; 1] = peer.call("m", ()).await.unwrap();
                    assert_eq!(value, ["value"]);
                    peer.flush(LONG).await.unwrap();
                });
                poll_fn(|cx| {
                    // Another waker each time, so that each is dropped by the next.
                    let waker = Waker::from(Arc::new(Talkative {
                        held: OnDrop(talker.clone()),
                        task: cx.waker().clone(),
                    }));
                    work.as_mut().poll(&mut Context::from_waker(&waker))
                })
                .await;
            }
            end(peer, other).await;
            assert!(talker.said() >= 10, "{}", talker.said());
        });
    });
}

fn what_a_batch_is_made_of_may_use_its_connection(rt: Rt) {
    within(rt, |rt| {
        rt.run(|runtime| async move {
            let (near, far) = duplex(64);
            let peer = start(&runtime, near, ());
            let other = start(&runtime, far, Host::default());
            let talker = Talker::of(&peer);
            let batch = peer.batch(|batch| {
                // The peer may be used here, too.
                peer.try_notify("beside", ())?;
                batch.notify("n", &Value::new(&talker))?;
                batch.call::<[String; 1]>("m", &Value::new(&talker))
            });
            let (call, mut outcomes) = batch.await.unwrap();
            assert_eq!(outcomes.fetch(call).unwrap(), ["value"]);
            end(peer, other).await;
            // Two values, each of which is written and dropped.
            assert!(talker.said() >= 4, "{}", talker.said());
        });
    });
}

/// How often a request may take the lock: once when it is received, once when its answer is taken
/// to be written, and once when that is written.
const REQUEST_LOCKS: usize = 3;

/// How often a request may take the lock of its server's dispatcher while there is room.
const DISPATCHER_LOCKS: usize = 0;

/// How often a call may take the lock on the task that calls.
const CALL_LOCKS: usize = 1;

/// Polls a future once, with a waker that does nothing.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Answers at once.
struct Plain;

impl Service for Plain {
    async fn request(&self, _: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(7.into())
    }
}

// Fails when another lock is taken on the way of a request or of a call.
#[test]
fn a_request_and_a_call_take_few_locks() {
    Rt::TokioLocal.run(|runtime| async move {
        let (near, mut far) = duplex(4096);
        let options = ConnectionConfig::new(Config::new());
        let dispatcher = options.dispatcher.clone();
        let mut link = Link::new(near);
        // As a server does.
        link.context.is_accepted = true;
        let (peer, mut driver) = drive_on(link, options, Arc::new(Plain), &runtime);
        // The first polls tell the service that the connection is open.
        for _ in 0..4 {
            assert!(poll(&mut driver).is_pending());
        }
        let (before, dispatched) = (peer.locks(), dispatcher.locks());
        let request = b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1}\n";
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(matches!(far.poll_write(cx, request), Poll::Ready(Ok(n)) if n == request.len()));
        assert!(poll(&mut driver).is_pending());
        let mut reply = [0; 512];
        assert!(matches!(far.poll_read(cx, &mut reply), Poll::Ready(Ok(n)) if n > 0));
        let request_locks = peer.locks() - before;
        let dispatcher_locks = dispatcher.locks() - dispatched;

        let mut call = Box::pin(peer.call::<u32>("m", ()));
        let before = peer.locks();
        assert!(poll(&mut call).is_pending());
        let mut call_locks = peer.locks() - before;
        // The first poll lets other tasks add their calls; the second writes.
        for _ in 0..2 {
            assert!(poll(&mut driver).is_pending());
        }
        let answer = b"{\"jsonrpc\":\"2.0\",\"result\":7,\"id\":1}\n";
        assert!(matches!(far.poll_write(cx, answer), Poll::Ready(Ok(n)) if n == answer.len()));
        assert!(poll(&mut driver).is_pending());
        let before = peer.locks();
        assert!(matches!(poll(&mut call), Poll::Ready(Ok(7))));
        call_locks += peer.locks() - before;
        println!(
            "locks: {request_locks} a request and {dispatcher_locks} of the dispatcher, {call_locks} a call"
        );
        assert_eq!((request_locks, call_locks), (REQUEST_LOCKS, CALL_LOCKS));
        assert_eq!(dispatcher_locks, DISPATCHER_LOCKS);
    });
}
