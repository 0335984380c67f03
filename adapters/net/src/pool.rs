//! Threads for work that takes long.
//!
//! A bounded number of jobs run, a bounded number wait, and further ones are refused at once.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a thread without work stays.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// A bounded set of worker threads, started when they are needed. Clones share the threads.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    max_running: usize,
    max_waiting: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// A piece of work.
pub type Job = Box<dyn FnOnce() + Send>;

impl Pool {
    /// Makes a pool in which `max_running` pieces of work run (at least one) and `max_waiting`
    /// wait. No thread is started yet.
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                max_running: max_running.max(1),
                max_waiting,
                state: Mutex::default(),
                work: Condvar::new(),
            }),
        }
    }

    /// Runs `job` on a thread of its own, now or later. Gives it back if too many wait, or if the
    /// system has no thread for the first of them.
    pub fn run(&self, job: Job) -> Result<(), Job> {
        let mut state = self.inner.lock();
        if state.idle > state.waiting.len() {
            state.waiting.push_back(job);
            self.inner.work.notify_one();
            return Ok(());
        }
        let may_start = state.threads < self.inner.max_running;
        if !may_start && state.waiting.len() >= self.inner.max_waiting {
            return Err(job);
        }
        state.waiting.push_back(job);
        if !may_start {
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let inner = Arc::clone(&self.inner);
        let started = thread::Builder::new()
            .name("antiphon-work".into())
            .spawn(move || inner.work());
        if started.is_ok() {
            return Ok(());
        }
        let mut state = self.inner.lock();
        state.threads -= 1;
        // No thread is left that would ever run it.
        let stranded = match state.threads {
            0 => state.waiting.pop_back(),
            _ => None,
        };
        stranded.map_or(Ok(()), Err)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Jobs run without the lock, so a panic cannot have left the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                drop(state);
                // What a job owes is owed by guards that it holds; they have run by now.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (guard, waited) = self
                .work
                .wait_timeout(state, IDLE_TIMEOUT)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

impl Default for Pool {
    /// Makes a pool in which 64 pieces of work run and 1024 wait.
    fn default() -> Self {
        Self::new(64, 1024)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.lock();
        f.debug_struct("Pool")
            .field("threads", &state.threads)
            .field("waiting", &state.waiting.len())
            .finish_non_exhaustive()
    }
}
