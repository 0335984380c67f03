//! The messages that wait for the service and for the transport are limited, and further ones are
//! reported.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::session::Report;
use antiphon::{CancelStyle, Config, OwnedOutcome, SendError};

use crate::driver::drive_session;
use crate::session::{Next, Work};
use crate::{ConnectionConfig, Io, Pool, block_on};
use antiphon::session::WhenFull;

use super::hand::ByHand;
use super::support::{LONG, Side, poll_once, request};

fn note(text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"n","params":["{text}"]}}"#)
}

/// What waits for the service, in a word each.
fn waiting(side: &Side) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(work) = side.work() {
        seen.push(match work {
            Work::Report(Report::Dropped { messages }) => format!("{messages} dropped"),
            Work::Report(Report::QueueFull(_)) => "full".into(),
            Work::Notification(_) => "Notification".into(),
            Work::Request(..) => "Request".into(),
            Work::Cancelled(..) => "Cancelled".into(),
            Work::Settled(_) => "Settled".into(),
            other => format!("{other:?}"),
        });
    }
    seen
}

// OBS-10 SEC-10
#[test]
fn messages_beyond_their_number_are_dropped_and_counted_where_they_stood() {
    let mut options = ConnectionConfig::from(Config::new());
    options.max_queued_messages = 2;
    options.when_full = WhenFull::Drop;
    let side = Side::new(options);
    for _ in 0..5 {
        side.hear(&note(""));
    }
    side.hear(&request(1));
    // The report of a malformed message is dropped and counted as well.
    side.hear("{");
    assert_eq!(
        waiting(&side),
        ["Notification", "Notification", "4 dropped", "Request"]
    );
    side.hear(&note(""));
    assert_eq!(waiting(&side), ["Notification"]);
}

// SEC-10 SEC-11
#[test]
fn messages_beyond_their_bytes_are_dropped_and_one_always_fits() {
    let mut options = ConnectionConfig::from(Config::new());
    options.max_queued_bytes = 500;
    options.when_full = WhenFull::Drop;
    let side = Side::new(options);
    side.hear(&note(&"x".repeat(1000)));
    side.hear(&note(""));
    assert_eq!(waiting(&side), ["Notification", "1 dropped"]);
    // Three of these, of some 145 bytes each, fit into 500.
    for _ in 0..6 {
        side.hear(&note(&"x".repeat(100)));
    }
    let taken = waiting(&side);
    assert_eq!(
        taken,
        ["Notification", "Notification", "Notification", "3 dropped"]
    );
}

// SEC-10 SEC-11
#[test]
fn requests_beyond_their_bytes_are_busy_until_others_are_answered() {
    let mut options = ConnectionConfig::from(Config::new());
    options.max_queued_bytes = 2 * request(1).len();
    options.when_full = WhenFull::Drop;
    let side = Side::new(options);
    for id in 1..=3 {
        side.hear(&request(id));
    }
    let refused = side.written();
    assert!(
        refused.contains("-32002") && refused.contains(r#""id":3"#),
        "{refused}"
    );
    let (one, _two) = (side.request().1, side.request().1);
    assert_eq!(waiting(&side), ["full"]);
    // Those that are served hold their bytes.
    side.hear(&request(4));
    assert!(side.written().contains("-32002"));
    one.ok(&1).unwrap();
    assert!(side.written().contains("result"));
    assert_eq!(waiting(&side), ["full"]);
    side.hear(&request(5));
    assert_eq!(side.written(), "");
    assert_eq!(waiting(&side), ["Request"]);
}

// CAN-09
#[test]
fn a_request_that_is_cancelled_while_it_waits_never_begins() {
    let mut options = ConnectionConfig::from(Config::lsp().framing(antiphon::Framing::Newline));
    options.config.dialect.cancel_send = CancelStyle::Lsp;
    options.max_queued_bytes = request(1).len();
    options.when_full = WhenFull::Drop;
    let side = Side::new(options);
    side.hear(&request(1));
    side.hear(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#);
    assert!(side.written().contains("-32800"));
    assert_eq!(waiting(&side), [""; 0]);
    // Its bytes no longer count.
    side.hear(&request(2));
    assert_eq!(side.written(), "");
    let (_, reply) = side.request();
    side.hear(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#);
    assert!(reply.is_cancelled());
    assert_eq!(waiting(&side), ["Cancelled"]);
}

// CLI-06 SEC-10
#[test]
fn whoever_waits_for_room_waits_until_the_deadline() {
    let mut config = Config::new();
    config.limits.soft_max_outbox_bytes = 10;
    let side = Side::new(config);
    side.notify("fills the output");
    let (done, is_done) = mpsc::channel();
    let peer = side.peer();
    thread::spawn(move || {
        let refused = peer.try_notify("n", ());
        let batch = peer
            .batch(|batch| batch.notify("n", ()))
            .timeout(Duration::ZERO)
            .start();
        done.send((refused, block_on(batch).map(drop))).unwrap();
    });
    let (refused, batch) = is_done.recv_timeout(LONG).expect("an end");
    assert_eq!(refused, Err(SendError::Full));
    assert!(matches!(batch, Err(SendError::Full)));
}

// SEC-10
#[test]
fn so_many_jobs_run_so_many_wait_and_threads_without_work_end() {
    let pool = Pool::new(1, 1);
    let (entered, inside) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let job = move || {
        entered.send(()).unwrap();
        held.recv().unwrap();
    };
    assert!(pool.run(Box::new(job)).is_ok());
    inside.recv_timeout(LONG).unwrap();
    let (done, is_done) = mpsc::channel();
    let again = done.clone();
    assert!(pool.run(Box::new(move || done.send(()).unwrap())).is_ok());
    assert!(is_done.try_recv().is_err(), "one runs at a time");
    let refused = pool.run(Box::new(move || again.send(()).unwrap()));
    assert!(refused.is_err());
    release.send(()).unwrap();
    is_done.recv_timeout(LONG).unwrap();
    let deadline = Instant::now() + 2 * LONG;
    while !format!("{pool:?}").contains("threads: 0") {
        assert!(Instant::now() < deadline, "{pool:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

// SEC-10
#[test]
fn of_four_jobs_at_once_one_runs_one_waits_and_two_are_refused() {
    // A job that a new thread has not taken yet must not count as waiting.
    for _ in 0..100 {
        let pool = Pool::new(1, 1);
        let (release, held) = mpsc::channel::<()>();
        let (done, is_done) = mpsc::channel();
        let held = Arc::new(Mutex::new(held));
        let jobs = (0..4).map(|number| {
            let (held, done) = (Arc::clone(&held), done.clone());
            Box::new(move || {
                held.lock().unwrap().recv().unwrap();
                done.send(number).unwrap();
            })
        });
        let taken: Vec<_> = jobs.map(|job| pool.run(job).is_ok()).collect();
        assert_eq!(taken, [true, true, false, false]);
        for number in 0..2 {
            release.send(()).unwrap();
            assert_eq!(is_done.recv_timeout(LONG), Ok(number));
        }
    }
}

#[test]
fn what_stays_behind_when_a_part_is_written_has_its_time_from_then_on() {
    let mut config = Config::new();
    config.framing = antiphon::Framing::Messages;
    config.timeouts.write_timeout = Some(Duration::from_secs(60));
    let side = Side::new(config);
    side.notify("a");
    side.notify("b");
    let due = || side.session.lock().conn.poll_timeout();
    assert_eq!(due(), Some(antiphon::Instant::from_millis(60_000)));
    side.pass(50_000);
    // No turn has told the connection the time.
    let mut taken = Vec::new();
    assert!(side.session.take_output(&mut taken));
    assert_eq!(due(), Some(antiphon::Instant::from_millis(110_000)));
}

#[test]
fn what_is_due_ends_only_in_a_turn_that_has_read_all() {
    let side = Side::default();
    let due = antiphon::Instant::from_millis(50);
    let span = due.saturating_since(antiphon::Instant::ZERO);
    let _call = block_on(side.peer().call("m", ()).timeout(span).start()).unwrap();
    side.written();
    side.pass(60);
    assert!(matches!(side.step(false), Next::Sleep { wake_at, .. } if wake_at == due));
    assert_eq!(side.session.lock().conn.calls_open(), 1);
    let late = antiphon::Instant::from_millis(60);
    assert!(matches!(side.step(true), Next::Sleep { wake_at, .. } if wake_at > late));
    assert_eq!(side.session.lock().conn.calls_open(), 0);
}

/// A transport of which the test says what has arrived. It takes all output.
struct Arrived(Arc<Mutex<Vec<u8>>>);

impl Io for Arrived {
    fn poll_read(&mut self, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let arrived = std::mem::take(&mut *self.0.lock().unwrap());
        buf[..arrived.len()].copy_from_slice(&arrived);
        match arrived.len() {
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

// USE-04
#[test]
fn what_can_be_read_wins_over_a_deadline_though_callers_go_first() {
    let side = Side::default();
    let arrived = Arc::<Mutex<Vec<u8>>>::default();
    let (io, session) = (Arrived(Arc::clone(&arrived)), Arc::clone(&side.session));
    let (peer, mut driver) = drive_session(Box::new(io), session, Arc::new(()));
    assert!(poll_once(&mut driver).is_none());
    let _open = block_on(peer.call("open", ()).start()).unwrap();
    assert!(poll_once(&mut driver).is_none());
    let mut call = block_on(peer.call("m", ()).timeout(Duration::ZERO).start()).unwrap();
    let answer = "{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":2}\n";
    arrived.lock().unwrap().extend_from_slice(answer.as_bytes());
    // Beside an open call, the driver lets callers run first once, and ends no call meanwhile.
    assert!(poll_once(&mut driver).is_none());
    assert!(poll_once(&mut call).is_none());
    assert!(poll_once(&mut driver).is_none());
    let outcome = poll_once(&mut call);
    assert!(matches!(outcome, Some(OwnedOutcome::Ok(_))), "{outcome:?}");
}

// USE-02 USE-04
#[test]
fn a_message_that_has_begun_is_not_late_while_nothing_is_read() {
    let mut config = Config::new();
    config.timeouts.message_timeout = Some(Duration::from_secs(1));
    let mut options = ConnectionConfig::from(config);
    options.max_queued_messages = 2;
    let side = Side::new(options);
    side.hear(&note(""));
    assert!(side.may_read());
    // The second fills the queue, and the third has begun.
    let lines = format!("{}\n{}\n", note(""), note(""));
    side.session.receive(&lines.as_bytes()[..lines.len() - 5]);
    assert!(!side.may_read());
    for _ in 0..10 {
        side.wait(900);
        assert_eq!(side.closed(), None);
    }
    assert_eq!(waiting(&side), ["Notification", "Notification"]);
    assert!(side.may_read());
    // From here on the time limit of the message counts.
    side.turn();
    side.wait(900);
    assert_eq!(side.closed(), None);
    side.wait(150);
    assert!(side.closed().is_some());
}

// USE-02
#[test]
fn opening_a_call_has_reading_go_on_up_to_twice_the_limits() {
    let mut options = ConnectionConfig::from(Config::new());
    options.max_queued_messages = 2;
    let side = Side::new(options);
    side.hear(&note(""));
    side.hear(&note(""));
    assert!(!side.may_read());
    let _call = side.call("m");
    assert!(side.may_read());
    side.hear(&note(""));
    assert_eq!(side.closed(), None);
    side.hear(&note(""));
    assert!(side.closed().is_some());
}

/// A waker without effect. Its reference count shows how many hold it.
struct Counted;

impl Wake for Counted {
    fn wake(self: Arc<Self>) {}
}

// SEC-10
#[test]
fn wakers_of_those_that_watch_for_a_cancel_are_not_kept_for_ever() {
    let side = Side::default();
    let counted = Arc::new(Counted);
    side.hear(&request(0));
    let (_, reply) = side.request();
    // One task that looks again and again.
    let waker = Waker::from(Arc::clone(&counted));
    for _ in 0..1000 {
        assert!(
            pin!(reply.cancellation())
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    drop(waker);
    // Ours, and one that the connection keeps.
    assert_eq!(Arc::strong_count(&counted), 2);
    reply.ok(&0).unwrap();
    side.written();
    assert_eq!(Arc::strong_count(&counted), 1);
    // A task for each request, each with a waker of its own.
    let mut wakers = Vec::new();
    for id in 1..=1000 {
        side.hear(&request(id));
        let (_, reply) = side.request();
        let counted = Arc::new(Counted);
        let waker = Waker::from(Arc::clone(&counted));
        assert!(
            pin!(reply.cancellation())
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        wakers.push(counted);
        reply.ok(&id).unwrap();
        side.written();
    }
    let is_held = |counted: &&Arc<Counted>| Arc::strong_count(counted) > 1;
    assert_eq!(wakers.iter().filter(is_held).count(), 0);
}
