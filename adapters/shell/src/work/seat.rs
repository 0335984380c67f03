//! The seat of a handler: the place among those that may run, which it gives back while it waits for
//! its own peer.
//!
//! A peer that never answers would otherwise keep as many seats as it has handlers that ask it something,
//! and handlers that ask each other back and forth would run out of seats. The thread that runs a handler
//! notes its seat; what waits for the peer, such as a call, finds it there.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// A seat on a thread.
pub(crate) trait Seat: Send + Sync {
    /// The handler begins to wait for its peer.
    fn leave(&self);
    /// The handler goes on.
    fn come_back(&self);
}

/// How many waits of a handler on a task are open; `None` before its first one.
pub(crate) type Waits = Option<Arc<AtomicUsize>>;

/// Whether one of the waits is open.
pub(crate) fn is_away(waits: &Waits) -> bool {
    let waits = waits.as_ref();
    waits.is_some_and(|waits| waits.load(Ordering::Relaxed) > 0)
}

/// The handler that this thread runs: the address of its session, and its seat.
struct RunningHandler(usize, SeatKind);

enum SeatKind {
    OnTask(Waits),
    OnThread(Arc<dyn Seat>),
}

thread_local! {
    static RUNNING: Cell<Option<RunningHandler>> = const { Cell::new(None) };
}

/// Notes again what this thread ran before.
struct Restore(Option<RunningHandler>);

impl Drop for Restore {
    fn drop(&mut self) {
        RUNNING.set(self.0.take());
    }
}

/// Polls a handler of a session, whose address is given, on a task.
pub(crate) fn seated_on_task<R>(session: usize, waits: &mut Waits, poll: impl FnOnce() -> R) -> R {
    let running = RunningHandler(session, SeatKind::OnTask(waits.take()));
    let _before = Restore(RUNNING.replace(Some(running)));
    let polled = poll();
    if let Some(RunningHandler(_, SeatKind::OnTask(left))) = RUNNING.take() {
        *waits = left;
    }
    polled
}

/// Runs a handler of a session, whose address is given, on this thread.
pub(crate) fn seated_on_thread<R>(
    session: usize,
    seat: Arc<dyn Seat>,
    run: impl FnOnce() -> R,
) -> R {
    let running = RunningHandler(session, SeatKind::OnThread(seat));
    let _before = Restore(RUNNING.replace(Some(running)));
    run()
}

/// Runs a handler as [`seated_on_thread`] does. If this thread has a seat of the session already, both are free
/// while the handler waits.
pub(crate) fn seated_twice<R>(session: usize, seat: Arc<dyn Seat>, run: impl FnOnce() -> R) -> R {
    let running = RUNNING.take();
    let outer = match &running {
        Some(RunningHandler(known, SeatKind::OnThread(outer))) if *known == session => {
            Some(Arc::clone(outer))
        }
        _ => None,
    };
    RUNNING.set(running);
    let seat = match outer {
        Some(outer) => Arc::new(Both(outer, seat)),
        None => seat,
    };
    seated_on_thread(session, seat, run)
}

/// Two seats of one handler: on a thread of the pool, and among the requests of a server.
struct Both(Arc<dyn Seat>, Arc<dyn Seat>);

impl Seat for Both {
    fn leave(&self) {
        self.0.leave();
        self.1.leave();
    }

    fn come_back(&self) {
        self.0.come_back();
        self.1.come_back();
    }
}

/// A wait of a handler for its own peer. While there is one, the handler's seat is free.
pub(crate) struct Away(SeatKind);

impl Away {
    /// Begins a wait for the peer of a session, whose address is given, unless this thread runs no handler
    /// of it.
    fn begin(session: usize) -> Option<Self> {
        // A thread that ends runs no handler.
        let mut running = RUNNING.try_with(Cell::take).ok().flatten()?;
        let kind = (running.0 == session).then(|| match &mut running.1 {
            SeatKind::OnTask(waits) => {
                let waits = waits.get_or_insert_default();
                waits.fetch_add(1, Ordering::Relaxed);
                SeatKind::OnTask(Some(Arc::clone(waits)))
            }
            SeatKind::OnThread(seat) => SeatKind::OnThread(Arc::clone(seat)),
        });
        RUNNING.set(Some(running));
        if let Some(SeatKind::OnThread(seat)) = &kind {
            seat.leave();
        }
        kind.map(Self)
    }

    /// Keeps a wait as long as `polled`, which waits for the peer of the session, is pending.
    pub(crate) fn track<T>(away: &mut Option<Self>, session: usize, polled: Poll<T>) -> Poll<T> {
        match polled {
            Poll::Ready(_) => *away = None,
            Poll::Pending if away.is_none() => *away = Self::begin(session),
            Poll::Pending => {}
        }
        polled
    }
}

/// Awaits `future`, which waits for the peer of a session, whose address is given.
pub(crate) async fn away_during<F: Future>(session: usize, future: F) -> F::Output {
    let (mut future, mut away) = (pin!(future), None);
    poll_fn(|cx| Away::track(&mut away, session, future.as_mut().poll(cx))).await
}

impl Drop for Away {
    fn drop(&mut self) {
        match &self.0 {
            SeatKind::OnTask(Some(waits)) => drop(waits.fetch_sub(1, Ordering::Relaxed)),
            SeatKind::OnTask(None) => {}
            SeatKind::OnThread(seat) => seat.come_back(),
        }
    }
}
