//! A conversation cut at every byte, in both directions and in every way a stream can end, and its
//! future dropped at every point where it waits. Prints how many points there were.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use antiphon::OwnedError;
use antiphon::{Config, ErrorObject};
use antiphon_net::{
    Answer, CallError, ConnectionConfig, Io, Link, Notification, Peer, Request, Service,
    SharedRuntime, drive_on, duplex,
};
use antiphon_stress::Rt;
use antiphon_test_support::heap::{Counting, held_by_process};
use futures_util::future::{join, join3};

#[global_allocator]
static ALLOCATOR: Counting = Counting::of_process();

/// How many cuts, and how many drops, there must be at least.
const POINTS_MIN: u64 = 2000;

/// A stream that fails by plan.
struct Cut {
    inner: Box<dyn Io>,
    plan: Plan,
    /// How many bytes may still be read, and written, before it fails.
    read_left: usize,
    write_left: usize,
    /// Reads one byte at a time, and makes its caller wait before each; writes three at a time.
    is_slow: bool,
    /// Whether the last read had to wait.
    waits: bool,
    read: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Never,
    /// The other side ends its stream after so many bytes.
    End(usize),
    /// Reading fails after so many bytes.
    Reset(usize),
    /// Writing fails after so many bytes.
    Broken(usize),
}

impl Cut {
    fn new(inner: Box<dyn Io>, plan: Plan, is_slow: bool) -> Self {
        let (read_left, write_left) = match plan {
            Plan::Never => (usize::MAX, usize::MAX),
            Plan::End(n) | Plan::Reset(n) => (n, usize::MAX),
            Plan::Broken(n) => (usize::MAX, n),
        };
        Self {
            inner,
            plan,
            read_left,
            write_left,
            is_slow,
            waits: false,
            read: Arc::default(),
            written: Arc::default(),
        }
    }

    /// Whether this read has to wait: every other one of a slow stream.
    fn wait(&mut self, cx: &mut Context<'_>) -> bool {
        self.waits = self.is_slow && !self.waits;
        if self.waits {
            cx.waker().wake_by_ref();
        }
        self.waits
    }
}

impl Io for Cut {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.read_left == 0 {
            return Poll::Ready(match self.plan {
                Plan::Reset(_) => Err(io::ErrorKind::ConnectionReset.into()),
                _ => Ok(0),
            });
        }
        if self.wait(cx) {
            return Poll::Pending;
        }
        let most = if self.is_slow { 1 } else { buf.len() };
        let most = most.min(self.read_left);
        let read = self.inner.poll_read(cx, &mut buf[..most]);
        if let Poll::Ready(Ok(n)) = read {
            self.read_left -= n;
            self.read.fetch_add(n as u64, Ordering::SeqCst);
        }
        read
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.write_left == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let most = if self.is_slow { 3 } else { buf.len() };
        let most = most.min(self.write_left).min(buf.len());
        let written = self.inner.poll_write(cx, &buf[..most]);
        if let Poll::Ready(Ok(n)) = written {
            self.write_left -= n;
            self.written.fetch_add(n as u64, Ordering::SeqCst);
        }
        written
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_close(cx)
    }
}

/// `echo` gives back the params; `back` calls `echo` of the caller, and gives back its answer. The
/// notification `note` is answered with `noted`.
struct Echo;

impl Service for Echo {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        match request.method() {
            "echo" => Ok(Answer::new(request.raw_params())),
            "back" => {
                let call = peer.call("echo", request.raw_params()).no_timeout();
                let failed = |_| ErrorObject::internal_error();
                Ok(Answer::new(call.raw().await.map_err(failed)?.as_json()))
            }
            _ => Err(request.unknown_method()),
        }
    }

    async fn notification(&self, peer: &Peer, notification: Notification) {
        // The other side has this service too, and must not answer the answer.
        if notification.method() == "note" {
            // Fails if the connection is cut.
            let _ = peer.notify("noted", ()).await;
        }
    }
}

const TEXT: &str = "aß€𝄞 and some more, so that there are many places to cut at";

/// The calls of the near side, and how each ended. Each must end, whatever happens to the stream.
async fn talk(peer: &Peer) -> Vec<Result<String, CallError>> {
    let mut said = Vec::new();
    let params = [TEXT];
    for method in ["echo", "back", "nobody"] {
        let called = peer.call::<[String; 1]>(method, &params).await;
        said.push(called.map(|[text]| text));
    }
    let (one, two) = join(
        peer.call::<[String; 1]>("back", &params),
        peer.call::<[String; 1]>("echo", &params),
    )
    .await;
    said.extend([one, two].map(|called| called.map(|[text]| text)));
    // If the connection is cut, the results of the calls show it.
    let _ = peer.notify("note", &params).await;
    let batch = peer.batch(|batch| {
        let first = batch.call::<[String; 1]>("echo", &params)?;
        batch.notify("note", &params)?;
        Ok((first, batch.call::<[String; 1]>("back", &params)?))
    });
    match batch.await {
        Ok(((first, second), mut outcomes)) => {
            for handle in [first, second] {
                let fetched = outcomes.fetch(handle);
                said.push(fetched.map(|[text]| text).map_err(|_| CallError::Missing));
            }
        }
        Err(error) => said.push(Err(error)),
    }
    said
}

/// How one conversation went.
struct Ran {
    /// How the calls ended.
    said: Vec<Result<String, CallError>>,
    /// Bytes that the near side has read and written.
    read: u64,
    written: u64,
    /// Polls of the near side's driver, or with `stop_at` how often the talk had to wait.
    polls: u64,
}

/// Runs the conversation over a stream with a plan. With `stop_at` the talk is dropped when it has
/// waited so many times, and one more call is made on the same connection.
async fn run(runtime: &SharedRuntime, plan: Plan, is_slow: bool, stop_at: Option<u64>) -> Ran {
    let (near, far) = duplex(1 << 16);
    let near = Cut::new(near, plan, is_slow);
    let (read, written) = (Arc::clone(&near.read), Arc::clone(&near.written));
    let mut options = ConnectionConfig::new(Config::new());
    options.linger = std::time::Duration::from_millis(1);
    let (peer, near) = drive_on(Link::new(near), options.clone(), Arc::new(Echo), runtime);
    let (back, far) = drive_on(Link::new(far), options, Arc::new(Echo), runtime);
    let polls = AtomicU64::new(0);
    let talking = async {
        let said = match stop_at {
            None => talk(&peer).await,
            Some(stop_at) => {
                let mut talking = Box::pin(talk(&peer));
                let mut left = stop_at;
                let said = poll_fn(|cx| match talking.as_mut().poll(cx) {
                    Poll::Ready(said) => Poll::Ready(Some(said)),
                    Poll::Pending if left == 0 => Poll::Ready(None),
                    Poll::Pending => {
                        left -= 1;
                        polls.fetch_add(1, Ordering::SeqCst);
                        Poll::Pending
                    }
                })
                .await;
                drop(talking);
                // The dropped talk must not harm a later call.
                let after = peer.call::<[String; 1]>("back", &[TEXT]).await;
                said.unwrap_or_else(|| vec![after.map(|[text]| text)])
            }
        };
        drop(peer);
        drop(back);
        said
    };
    // Each poll of the near driver goes through a future that is dropped right after it.
    let mut near = near;
    let near = poll_fn(|cx| {
        polls.fetch_add(u64::from(stop_at.is_none()), Ordering::SeqCst);
        let once = async { (&mut near).await };
        pin!(once).poll(cx)
    });
    let (said, _, _) = join3(talking, near, far).await;
    Ran {
        said,
        read: read.load(Ordering::SeqCst),
        written: written.load(Ordering::SeqCst),
        polls: polls.load(Ordering::SeqCst),
    }
}

/// Whether every call but that of an unknown method was answered with its text. A single result is
/// that of the call after a dropped talk.
fn is_right(said: &[Result<String, CallError>]) -> bool {
    let right = |said: &Result<String, CallError>| matches!(said, Ok(text) if text == TEXT);
    let [echo, back, nobody, rest @ ..] = said else {
        return said.iter().all(right);
    };
    matches!(nobody, Err(CallError::Remote(_))) && [echo, back].into_iter().chain(rest).all(right)
}

/// How many cuts and how many drops of futures there were.
fn all_points(rt: Rt) -> (u64, u64) {
    // The first runs allocate what a thread or a runtime keeps for ever.
    let whole = rt.run(|runtime| async move {
        run(&runtime, Plan::Never, true, None).await;
        run(&runtime, Plan::Never, false, None).await
    });
    assert!(is_right(&whole.said), "{:?}", whole.said);
    let mut points = 0;
    for bytes in 0..=whole.read.max(whole.written) as usize {
        let plans = [Plan::End(bytes), Plan::Reset(bytes), Plan::Broken(bytes)];
        for plan in plans {
            let most = if matches!(plan, Plan::Broken(_)) {
                whole.written
            } else {
                whole.read
            };
            if bytes as u64 > most {
                continue;
            }
            points += 1;
            rt.run(|runtime| async move {
                // What a fresh runtime keeps after its first use is not the connection's.
                run(&runtime, plan, false, None).await;
                for attempt in 1.. {
                    let before = held_by_process();
                    let ran = run(&runtime, plan, false, None).await;
                    // Every answer that came is right.
                    for said in ran.said.iter().flatten() {
                        assert_eq!(said, TEXT, "{plan:?}");
                    }
                    drop(ran);
                    let left = held_by_process() - before;
                    if left <= 0 {
                        break;
                    }
                    // A reactor's own thread grows its queues now and then; a leak comes every time.
                    assert!(attempt < 20, "{plan:?}: {left} bytes are left behind");
                }
            });
        }
    }
    let mut awaits = rt.run(|runtime| async move {
        let ran = run(&runtime, Plan::Never, true, None).await;
        assert!(is_right(&ran.said), "{:?}", ran.said);
        ran.polls
    });
    for stop_at in 0.. {
        let is_through = rt.run(|runtime| async move {
            let ran = run(&runtime, Plan::Never, true, Some(stop_at)).await;
            assert!(
                ran.said.iter().filter(|said| said.is_err()).count() <= 1,
                "{stop_at}: {:?}",
                ran.said
            );
            assert!(is_right(&ran.said), "{stop_at}: {:?}", ran.said);
            ran.polls < stop_at
        });
        awaits += 1;
        if is_through {
            break;
        }
    }
    (points, awaits)
}

// CON-06 CAN-13 STD-09 CON-10
fn every_cut_and_every_drop_settles_every_call() {
    for rt in [Rt::TokioLocal, Rt::Smol, Rt::AsyncStd] {
        let (points, awaits) = all_points(rt);
        println!(
            "{rt:?}: cut at {points} points and dropped at {awaits}: all calls settled, nothing left behind"
        );
        assert!(
            points >= POINTS_MIN && awaits >= POINTS_MIN,
            "{points} {awaits}"
        );
    }
}

fn main() {
    every_cut_and_every_drop_settles_every_call();
    println!("test every_cut_and_every_drop_settles_every_call ... ok");
}
