//! Threads for long work.
//!
//! A limited number of jobs run, a limited number wait, and further ones are refused at once.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

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
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Jobs that no thread has taken yet.
    queue: VecDeque<Job>,
    /// The number of jobs, including running ones. Only this number decides whether a job is
    /// refused, and not how soon a thread takes it.
    jobs: usize,
    threads: usize,
    idle: usize,
}

/// A job.
pub type Job = Box<dyn FnOnce() + Send>;

impl Pool {
    /// Makes a pool in which `max_running` jobs run (at least one) and `max_waiting` wait. No
    /// thread is started yet.
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

    /// Runs `job` on a thread, now or later. Returns it if too many jobs wait, or if the pool has no
    /// thread and the system refuses one.
    pub fn run(&self, job: Job) -> Result<(), Job> {
        let Inner {
            max_running,
            max_waiting,
            ..
        } = *self.inner;
        let mut state = self.inner.lock();
        if state.jobs >= max_running.saturating_add(max_waiting) {
            return Err(job);
        }
        if state.idle <= state.queue.len() && state.threads < max_running {
            // The thread is started under the lock, so that no other job is queued for a thread that
            // does not start.
            let inner = Arc::clone(&self.inner);
            let started = thread::Builder::new()
                .name("antiphon-work".into())
                .spawn(move || inner.work());
            match started {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => return Err(job),
                // An existing thread takes it later.
                Err(_) => {}
            }
        }
        state.jobs += 1;
        state.queue.push_back(job);
        self.inner.work.notify_one();
        Ok(())
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
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                // If the job panics, what it owns is dropped: its responder has answered by now.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.lock();
                state.jobs -= 1;
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
        let state = self.inner.lock();
        f.debug_struct("Pool")
            .field("threads", &state.threads)
            .field("waiting", &state.queue.len())
            .finish_non_exhaustive()
    }
}
