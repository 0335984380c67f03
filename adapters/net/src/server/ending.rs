//! The signal by which a server and its connections end, in steps.

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

/// What a server, and each of its connections, has to do to end. Later signals replace earlier ones, in
/// this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// Nothing: it goes on.
    No,
    /// Finish running requests, accept no new ones.
    Drain,
    /// Close, and only write the queued output.
    Now,
    /// Drop the transport, even if output is queued.
    Release,
}

/// Receives the signal to end, for one connection or for the task that accepts connections. Only one
/// task can wait for it.
#[derive(Debug)]
pub struct Ending {
    signal: Arc<EndSignal>,
    /// What makes the connection count as long as this is there.
    counted: Option<Arc<dyn Debug + Send + Sync>>,
}

/// The signal to end, for one task.
#[derive(Debug, Default)]
pub(super) struct EndSignal {
    end: AtomicU8,
    waker: AtomicWaker,
}

impl EndSignal {
    pub(super) fn tell(&self, end: End) {
        if self.end.fetch_max(end as u8, Ordering::SeqCst) < end as u8 {
            self.waker.wake();
        }
    }

    pub(super) fn beyond(&self, known: End) -> Option<End> {
        let end = match self.end.load(Ordering::SeqCst) {
            0 => End::No,
            1 => End::Drain,
            2 => End::Now,
            _ => End::Release,
        };
        (end > known).then_some(end)
    }
}

impl Ending {
    pub(super) fn new(
        signal: &Arc<EndSignal>,
        counted: Option<Arc<dyn Debug + Send + Sync>>,
    ) -> Self {
        Self {
            signal: Arc::clone(signal),
            counted,
        }
    }

    /// Makes a signal for a connection that is never told to end.
    #[cfg(feature = "http")]
    pub(crate) fn never() -> Self {
        Self::new(&Arc::default(), None)
    }

    /// Another receiver. Of both, only the one that asked last is woken.
    pub(crate) fn another(&self) -> Self {
        Self {
            signal: Arc::clone(&self.signal),
            counted: self.counted.clone(),
        }
    }

    /// Waits for the first signal: running requests may finish, and no new ones begin. The server drops what has
    /// not ended in time.
    pub async fn wait(&mut self) {
        poll_fn(|cx| self.poll_beyond(End::No, cx)).await;
    }

    /// Whether a later signal than `known` has come.
    #[cfg(feature = "http")]
    pub(crate) fn is_beyond(&self, known: End) -> bool {
        self.signal.beyond(known).is_some()
    }

    /// Ready with the signal once it is a later one than `known`.
    pub(crate) fn poll_beyond(&mut self, known: End, cx: &mut Context<'_>) -> Poll<End> {
        if let Some(end) = self.signal.beyond(known) {
            return Poll::Ready(end);
        }
        self.signal.waker.register(cx.waker());
        // The signal may have changed before the waker was registered.
        self.signal.beyond(known).map_or(Poll::Pending, Poll::Ready)
    }

    /// Runs `future` and returns its result; `None` if a later signal than `known` comes first.
    pub(crate) async fn unless<F: Future>(&mut self, known: End, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| match self.poll_beyond(known, cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => future.as_mut().poll(cx).map(Some),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use super::{End, EndSignal, Ending};

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_is_woken_for_each_step_and_only_for_that() {
        let signal = Arc::new(EndSignal::default());
        let mut ending = Ending::new(&signal, None);
        let counted = Arc::new(Counted::default());
        let waker = Waker::from(Arc::clone(&counted));
        let count = || counted.0.load(Ordering::SeqCst);
        let mut poll = |known, waker| ending.poll_beyond(known, &mut Context::from_waker(waker));
        assert_eq!(poll(End::No, &waker), Poll::Pending);
        assert_eq!(poll(End::No, &waker), Poll::Pending);
        signal.tell(End::No);
        assert_eq!((count(), poll(End::No, &waker)), (0, Poll::Pending));
        signal.tell(End::Drain);
        assert_eq!(count(), 1);
        assert_eq!(poll(End::No, &waker), Poll::Ready(End::Drain));
        assert_eq!(poll(End::Drain, &waker), Poll::Pending);
        // The same signal comes again, and another task polls in between.
        signal.tell(End::Drain);
        assert_eq!(poll(End::Drain, Waker::noop()), Poll::Pending);
        assert_eq!(poll(End::Drain, &waker), Poll::Pending);
        signal.tell(End::Now);
        assert_eq!(count(), 2);
        // The task gets the latest signal, whichever earlier one it names as known.
        assert_eq!(poll(End::Drain, &waker), Poll::Ready(End::Now));
        assert_eq!(poll(End::No, &waker), Poll::Ready(End::Now));
    }
}
