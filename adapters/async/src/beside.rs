//! Two that work hand in hand, on one task: a connection and what uses it.
//!
//! ```text
//!   polled ──▶ who has been rung for? ──first──▶ poll it ───┐
//!                  │    ▲         └─────second──▶ poll it ──done──▶ its output
//!                nobody └───────────────────────────────────┘
//!                  ▼
//!               pending
//! ```
//!
//! The rule guarded here: each of the two is polled for what concerns it and for nothing else, and what
//! one has for the other is seen in the same poll. The executor is asked to come again only for what
//! happens while nobody looks.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

use crate::driver::Driver;

/// How often either is polled before other tasks get their turn.
const STEPS_MAX: u32 = 64;

/// Somebody has rung for the first.
const FIRST: u8 = 1;
/// Somebody has rung for the second.
const SECOND: u8 = 2;
/// Nobody looks: whoever rings first wakes the task.
const ASLEEP: u8 = 4;

/// Who has been rung for.
struct Rung {
    bits: AtomicU8,
    task: AtomicWaker,
}

/// Rings for one of the two.
struct Bell {
    bit: u8,
    rung: Arc<Rung>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.rung.bits.fetch_or(self.bit, Ordering::AcqRel) == ASLEEP {
            self.rung.task.wake();
        }
    }
}

/// The bells of two that are polled beside each other. Both have been rung for at the beginning.
pub(crate) struct Bells {
    rung: Arc<Rung>,
    first: Waker,
    second: Waker,
}

impl Bells {
    pub(crate) fn new() -> Self {
        let rung = Arc::new(Rung {
            bits: AtomicU8::new(FIRST | SECOND),
            task: AtomicWaker::new(),
        });
        let bell = |bit| {
            let rung = Arc::clone(&rung);
            Waker::from(Arc::new(Bell { bit, rung }))
        };
        Self {
            first: bell(FIRST),
            second: bell(SECOND),
            rung,
        }
    }

    /// Polls each of the two for as long as it is rung for, until one of them is ready.
    pub(crate) fn poll<R>(
        &self,
        task: &Context<'_>,
        mut first: impl FnMut(&mut Context<'_>) -> Poll<R>,
        mut second: impl FnMut(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        let bits = &self.rung.bits;
        self.rung.task.register(task.waker());
        for _ in 0..STEPS_MAX {
            let rung = bits.swap(0, Ordering::AcqRel);
            if rung & FIRST != 0 {
                let polled = first(&mut Context::from_waker(&self.first));
                if polled.is_ready() {
                    return polled;
                }
            }
            if rung & SECOND != 0 {
                let polled = second(&mut Context::from_waker(&self.second));
                if polled.is_ready() {
                    return polled;
                }
            }
            let slept = bits.compare_exchange(0, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
            if slept.is_ok() {
                return Poll::Pending;
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Polls both until `work` is done.
pub(crate) async fn run_until<F: Future>(driver: &mut Driver, work: F) -> F::Output {
    let bells = Bells::new();
    let mut work = pin!(work);
    std::future::poll_fn(|task| {
        bells.poll(
            task,
            // First, since the work mostly waits for what comes in.
            |cx| {
                driver.poll_beside(cx);
                Poll::Pending
            },
            |cx| work.as_mut().poll(cx),
        )
    })
    .await
}
