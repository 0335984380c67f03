//! A connection and what uses it, on one task.
//!
//! ```text
//!   polled ──▶ who has been rung for? ──connection──▶ poll it ──┐
//!                  │    ▲         └─────work────▶ poll it ──done──▶ its output
//!                nobody └──────────────────────────────┘
//!                  ▼
//!               pending
//! ```
//!
//! The rule guarded here: each of the two is polled for what concerns it and for nothing else, and what
//! one has for the other is seen in the same poll. The executor is asked to come again only for what
//! happens while nobody looks.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

use crate::driver::Driver;

/// How often either is polled before other tasks get their turn.
const STEPS_MAX: u32 = 64;

/// Somebody has rung for the connection.
const DRIVER: u8 = 1;
/// Somebody has rung for the work.
const WORK: u8 = 2;
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

/// Polls both until `work` is done.
pub(crate) async fn run_until<F: Future>(driver: &mut Driver, work: F) -> F::Output {
    let rung = Arc::new(Rung {
        bits: AtomicU8::new(DRIVER | WORK),
        task: AtomicWaker::new(),
    });
    let bell = |bit| {
        let rung = Arc::clone(&rung);
        Waker::from(Arc::new(Bell { bit, rung }))
    };
    let (for_driver, for_work) = (bell(DRIVER), bell(WORK));
    let mut work = pin!(work);
    std::future::poll_fn(|task| {
        rung.task.register(task.waker());
        for _ in 0..STEPS_MAX {
            let bits = rung.bits.swap(0, Ordering::AcqRel);
            // First, since the work mostly waits for what comes in.
            if bits & DRIVER != 0 {
                driver.poll_beside(&mut Context::from_waker(&for_driver));
            }
            if bits & WORK != 0 {
                let polled = Pin::new(&mut work).poll(&mut Context::from_waker(&for_work));
                if polled.is_ready() {
                    return polled;
                }
            }
            let slept = rung
                .bits
                .compare_exchange(0, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
            if slept.is_ok() {
                return Poll::Pending;
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
