//! The tokio timer, in virtual time: it fires at the time with which it was polled last, and wakes the
//! waker of that poll.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use antiphon_net::SharedRuntime;
use antiphon_tokio::current;
use tokio::task::coop::{consume_budget, has_budget_remaining};
use tokio::time::{advance, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    fn woken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A runtime, a counter of wake-ups, and its waker.
fn waiting() -> (SharedRuntime, Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    (current().into(), count, waker)
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_is_asked_again_and_again_goes_off_at_its_time() {
    let (runtime, count, waker) = waiting();
    let mut timer = runtime.timer();
    let at = runtime.now() + 10 * SECOND;
    for _ in 0..9 {
        let asked = timer.poll_until(at, &mut Context::from_waker(&waker));
        assert_eq!((asked, count.woken()), (Poll::Pending, 0));
        advance(SECOND).await;
    }
    advance(2 * SECOND).await;
    assert_eq!(count.woken(), 1);
    for _ in 0..3 {
        let asked = timer.poll_until(at, &mut Context::from_waker(&waker));
        assert_eq!(asked, Poll::Ready(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_wakes_whoever_asked_last() {
    let (runtime, first, first_waker) = waiting();
    let (_, second, second_waker) = waiting();
    let mut timer = runtime.timer();
    let at = runtime.now() + 10 * SECOND;
    for waker in [&first_waker, &first_waker, &second_waker, &second_waker] {
        let asked = timer.poll_until(at, &mut Context::from_waker(waker));
        assert_eq!(asked, Poll::Pending);
    }
    advance(11 * SECOND).await;
    assert_eq!((first.woken(), second.woken()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_timer_can_be_moved_before_and_after_it_has_gone_off() {
    let (runtime, count, waker) = waiting();
    let mut timer = runtime.timer();
    let start = runtime.now();
    let mut ask =
        |seconds| timer.poll_until(start + seconds * SECOND, &mut Context::from_waker(&waker));
    assert_eq!(ask(10), Poll::Pending);
    assert_eq!(ask(5), Poll::Pending);
    advance(6 * SECOND).await;
    assert_eq!((ask(5), count.woken()), (Poll::Ready(()), 1));
    assert_eq!(ask(10), Poll::Pending);
    advance(5 * SECOND).await;
    assert_eq!((ask(10), count.woken()), (Poll::Ready(()), 2));
    assert_eq!(ask(9), Poll::Ready(()));
    // The time that it was set for passes, and then it is asked only about a later one.
    assert_eq!(ask(20), Poll::Pending);
    advance(10 * SECOND).await;
    assert_eq!(ask(30), Poll::Pending);
    let woken = count.woken();
    advance(10 * SECOND).await;
    assert_eq!((ask(30), count.woken()), (Poll::Ready(()), woken + 1));
}

/// tokio gives a task a budget for each poll. When it is used up, tokio's timers answer `Pending`
/// and wake the task at once. A timer of ours that took this for its answer would never go off.
#[tokio::test(start_paused = true)]
async fn a_timer_that_is_first_asked_by_a_task_that_has_done_its_share_goes_off() {
    let runtime = current();
    let mut timer = runtime.timer();
    let at = runtime.now() + 10 * SECOND;
    let asked = poll_fn(|cx| {
        while has_budget_remaining() {
            assert!(pin!(consume_budget()).poll(cx).is_ready());
        }
        timer.poll_until(at, cx)
    });
    timeout(20 * SECOND, asked).await.expect("it goes off");
    assert_eq!(runtime.now(), at);
}
