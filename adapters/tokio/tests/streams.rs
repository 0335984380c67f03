//! How a task has its stream: callers write to it, too, and a write that waits is given up. In virtual time.

mod support;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antiphon::{Closed, Config, SendError};
use antiphon_async::{Duplex, Io, Prompt, duplex};
use antiphon_tokio::{CallError, Driver, Link, drive};
use support::Raw;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3600);

/// Lets the connection do what it can now.
async fn turn(driver: &mut Driver) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *driver).poll(cx).is_ready())).await
}

/// Begins a call, of which nobody awaits the answer.
fn call(peer: &antiphon_tokio::Peer) -> Result<(), CallError> {
    let call = pin!(peer.call::<()>("m", ()));
    match call.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => Ok(()),
        Poll::Ready(ended) => ended,
    }
}

/// How many lines have arrived.
fn heard(far: &mut Duplex) -> usize {
    let cx = &mut Context::from_waker(Waker::noop());
    let mut buf = [0; 1024];
    match far.poll_read(cx, &mut buf) {
        Poll::Ready(Ok(n)) => buf[..n].iter().filter(|byte| **byte == b'\n').count(),
        Poll::Ready(Err(error)) => panic!("{error}"),
        Poll::Pending => 0,
    }
}

// TRN-07
#[tokio::test(start_paused = true)]
async fn callers_write_by_themselves_once_one_has_wanted_to() {
    let (near, mut far) = duplex(1024);
    let (peer, mut driver) = drive(Link::from_io(Prompt(near)), Config::new(), ());
    assert!(!turn(&mut driver).await);
    call(&peer).unwrap();
    assert_eq!(heard(&mut far), 0, "the task has it for itself");
    assert!(!turn(&mut driver).await);
    assert_eq!(heard(&mut far), 1);
    for round in 0..3 {
        call(&peer).unwrap();
        assert_eq!(heard(&mut far), 1, "{round}");
        assert!(!turn(&mut driver).await);
    }
    // Where the task has left it, it is gone with the task.
    drop(driver);
    let late = call(&peer);
    assert!(matches!(late, Err(CallError::Rejected(SendError::Closed))));
    let mut far = Raw::new(far);
    timeout(LONG, far.end())
        .await
        .expect("the stream is let go");
}

// TRN-07 SEC-10
#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_room_is_given_up_after_its_time() {
    let line = r#"{"jsonrpc":"2.0","method":"n"}"#.len() + 1;
    // A stream that callers write to, too, and one that they do not; one that is not read, and one that is a little.
    for (is_prompt, read) in [(false, 0), (false, 3), (true, 0), (true, 3)] {
        let mut config = Config::new();
        config.write_time_max = Some(30 * SECOND);
        let (near, far) = duplex(line);
        let link = if is_prompt {
            Link::from_io(Prompt(near))
        } else {
            Link::from_io(near)
        };
        let (peer, driver) = drive(link, config, ());
        let driver = tokio::spawn(driver);
        let mut far = Raw::new(far);
        // What has been written is no reason to count, nor is what has waited and then been written.
        for waits in [false, true] {
            peer.notify("n", ()).await.unwrap();
            if waits {
                sleep(20 * SECOND).await;
                far.io_read(line).await;
            }
            sleep(100 * SECOND).await;
            assert!(!driver.is_finished(), "{is_prompt} {read} {waits}");
        }
        peer.notify("n", ()).await.unwrap();
        let start = Instant::now();
        sleep(20 * SECOND).await;
        // If it gets on, the time begins anew.
        far.io_read(read).await;
        let ended = timeout(LONG, driver).await.expect("an end").unwrap();
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        // Then the last words are awaited, and then the end.
        let span = if read > 0 { 52 } else { 32 };
        assert_eq!(start.elapsed(), span * SECOND, "{is_prompt} {read}");
        assert!(matches!(
            peer.wait_closed(SECOND).await,
            Some(Closed::Local(_))
        ));
        drop(far);
    }
}
