//! Threads for long work.
//!
//! A limited number of jobs run, a limited number wait, and further ones are refused at once.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::lock::Lock;

/// How long an idle thread stays.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// A limited set of worker threads, which are started when they are needed. Clones share the
/// threads.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    max_running: usize,
    max_waiting: usize,
    state: Lock<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Jobs that no thread has taken yet.
    queue: VecDeque<Queued>,
    /// The number of jobs, including running ones, without those that must run. Only this number
    /// decides whether a job is refused, and not how soon a thread takes it.
    jobs: usize,
    threads: usize,
    idle: usize,
}

/// A job.
pub type Job = Box<dyn FnOnce() + Send>;

struct Queued {
    job: Job,
    /// Whether it is one of [`State::jobs`].
    is_counted: bool,
}

impl Pool {
    /// Makes a pool in which `max_running` jobs run (at least one) and `max_waiting` wait. No
    /// thread is started yet.
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                max_running: max_running.max(1),
                max_waiting,
                state: Lock::default(),
                work: Condvar::new(),
            }),
        }
    }

    /// Runs `job` on a thread, now or later. Returns it if too many jobs wait, or if the pool has no
    /// thread and the system refuses one.
    pub fn run(&self, job: Job) -> Result<(), Job> {
        let Inner {
            max_running,
            max_waiting,
            ..
        } = *self.inner;
        let mut state = self.inner.state.lock();
        if state.jobs >= max_running.saturating_add(max_waiting) {
            return Err(job);
        }
        if !self.inner.provide_thread(&mut state) {
            return Err(job);
        }
        state.jobs += 1;
        self.inner.push(state, job, true);
        Ok(())
    }

    /// Runs `job` on a thread, now or later, however many jobs wait. It does not count for
    /// [`run`](Self::run), so the caller must bound how many there are.
    #[doc(hidden)]
    pub fn run_always(&self, job: Job) {
        let mut state = self.inner.state.lock();
        // Without a thread it waits for the one of a later job.
        self.inner.provide_thread(&mut state);
        self.inner.push(state, job, false);
    }
}

impl Inner {
    /// Starts a thread for one more job if one is needed. Returns false if there is no thread at all.
    fn provide_thread(self: &Arc<Self>, state: &mut State) -> bool {
        if state.idle <= state.queue.len() && state.threads < self.max_running {
            // The thread is started under the lock, so that no other job is queued for a thread that
            // does not start.
            let inner = Arc::clone(self);
            let started = thread::Builder::new()
                .name("antiphon-work".into())
                .spawn(move || inner.work());
            // If the system refuses it, an existing thread takes the job later.
            state.threads += usize::from(started.is_ok());
        }
        state.threads > 0
    }

    fn push(&self, mut state: MutexGuard<'_, State>, job: Job, is_counted: bool) {
        state.queue.push_back(Queued { job, is_counted });
        self.work.notify_one();
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(Queued { job, is_counted }) = state.queue.pop_front() {
                drop(state);
                // If the job panics, what it owns is dropped: its responder has answered by now.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.state.lock();
                state.jobs -= usize::from(is_counted);
                continue;
            }
            state.idle += 1;
            let (guard, waited) = self
                .work
                .wait_timeout(state, IDLE_TIMEOUT)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

impl Default for Pool {
    /// Makes a pool in which 64 jobs run and 1024 wait.
    fn default() -> Self {
        Self::new(64, 1024)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.state.lock();
        f.debug_struct("Pool")
            .field("threads", &state.threads)
            .field("waiting", &state.queue.len())
            .finish_non_exhaustive()
    }
}
