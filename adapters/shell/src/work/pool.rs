//! Threads for long work.
//!
//! A limited number of jobs run, a limited number wait, and further ones are refused at once. A job that
//! waits for its own peer does not count as running. The next job is one of the connection that runs the
//! fewest.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, PoisonError};
use std::thread;
use std::time::Duration;

use crate::guard::caught;
use crate::lock::Lock;
use crate::work::seat::{Seat, seated_on_thread};

/// How long an idle thread stays.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// How many threads a pool has at most besides those for running jobs.
const MAX_MORE: usize = 192;

/// A limited set of worker threads, which are started when they are needed. Clones share the
/// threads.
///
/// A job that waits for the answer of its own peer does not count as running: meanwhile another job runs,
/// on one of up to 192 further threads. So jobs that ask their peer something, whose peer asks back, do
/// not run out of threads, and a peer that does not answer keeps no others out. No connection has more
/// than about half of all threads.
///
/// A thread without a job ends after 5 s, or at once when the last clone of the pool was dropped.
#[derive(Clone)]
pub struct Pool(Arc<LastOwner>);

/// Ends the idle threads when it is dropped.
struct LastOwner(Arc<PoolThreads>);

impl Drop for LastOwner {
    fn drop(&mut self) {
        self.0.state.lock().is_ownerless = true;
        self.0.work.notify_all();
    }
}

struct PoolThreads {
    max_running: usize,
    max_waiting: usize,
    /// Whether a connection that runs no job may begin one although `max_running` jobs run.
    is_shared: bool,
    state: Lock<PoolState>,
    work: Condvar,
}

#[derive(Default)]
struct PoolState {
    /// Jobs of [`Pool::run_always`] that no thread has taken yet. They begin before all others.
    always: VecDeque<(Job, Arc<JobPlace>)>,
    /// The other jobs that no thread has taken yet.
    queue: VecDeque<(Job, Arc<JobPlace>)>,
    running: Vec<Arc<JobPlace>>,
    threads: usize,
    idle: usize,
    /// Whether nobody can add a job any more.
    is_ownerless: bool,
}

/// A job.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The jobs of one connection.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// The address of the connection's session.
    session: usize,
    /// How many of them run.
    running: AtomicUsize,
}

impl Jobs {
    /// Begins with none, for the session at this address.
    pub(crate) fn new(session: usize) -> Arc<Self> {
        let running = AtomicUsize::new(0);
        Arc::new(Self { session, running })
    }
}

/// A job that waits or runs.
struct JobPlace {
    pool: Arc<PoolThreads>,
    /// The jobs of its connection; `None` if it belongs to none.
    jobs: Option<Arc<Jobs>>,
    /// Whether it counts among the jobs that run and wait.
    is_counted: bool,
    /// For how many answers of its peer it waits.
    away: AtomicUsize,
}

impl JobPlace {
    fn is_active(&self) -> bool {
        self.away.load(Ordering::Relaxed) == 0
    }

    /// How many jobs of its connection run.
    fn held(&self) -> usize {
        let jobs = self.jobs.as_ref();
        jobs.map_or(0, |jobs| jobs.running.load(Ordering::Relaxed))
    }
}

impl Seat for JobPlace {
    fn leave(&self) {
        self.away.fetch_add(1, Ordering::Relaxed);
        self.pool.rouse(&mut self.pool.state.lock());
    }

    fn come_back(&self) {
        self.away.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// Makes a pool in which `max_running` jobs run (at least one) and `max_waiting` wait. No
    /// thread is started yet.
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        Self::with(max_running, max_waiting, false)
    }

    fn with(max_running: usize, max_waiting: usize, is_shared: bool) -> Self {
        Self(Arc::new(LastOwner(Arc::new(PoolThreads {
            max_running: max_running.max(1),
            max_waiting,
            is_shared,
            state: Lock::default(),
            work: Condvar::new(),
        }))))
    }

    /// Runs `job` on a thread, now or later. Returns it if too many jobs wait, or if the pool has no
    /// thread and the system refuses one.
    pub(crate) fn run(&self, job: Job) -> Result<(), Job> {
        self.push(None, job, true)
    }

    /// Runs `job` of a connection as [`run`](Self::run) does. Its jobs are those of
    /// [`Session::jobs`](crate::session::Session::jobs).
    pub(crate) fn run_for(&self, jobs: &Arc<Jobs>, job: Job) -> Result<(), Job> {
        self.push(Some(Arc::clone(jobs)), job, true)
    }

    /// Runs `job` of a connection on a thread, now or later, however many jobs run and wait: on one of the
    /// further threads if need be. It does not count for [`run`](Self::run), so the caller must bound how
    /// many there are.
    pub(crate) fn run_always(&self, jobs: &Arc<Jobs>, job: Job) {
        // Without a thread it waits for the one of a later job.
        let _ = self.push(Some(Arc::clone(jobs)), job, false);
    }

    fn push(&self, jobs: Option<Arc<Jobs>>, job: Job, is_counted: bool) -> Result<(), Job> {
        let inner = &self.0.0;
        let place = Arc::new(JobPlace {
            pool: Arc::clone(inner),
            jobs,
            is_counted,
            away: AtomicUsize::new(0),
        });
        let mut state = inner.state.lock();
        if !is_counted {
            state.always.push_back((job, place));
            inner.rouse(&mut state);
            return Ok(());
        }
        let is_full = state.counted() + state.queue.len()
            >= inner.max_running.saturating_add(inner.max_waiting);
        state.queue.push_back((job, place));
        let is_refused =
            is_full && inner.next(&state) != Some(NextJob::Queued(state.queue.len() - 1));
        match is_refused || !inner.rouse(&mut state) {
            true => state.queue.pop_back().map_or(Ok(()), |(job, _)| Err(job)),
            false => Ok(()),
        }
    }
}

/// Which job begins next.
#[derive(PartialEq)]
enum NextJob {
    Always,
    /// The one at this index of the queue.
    Queued(usize),
}

impl PoolState {
    /// How many of the jobs run that count, and do not wait for their peer.
    fn counted(&self) -> usize {
        let counts = |place: &&Arc<JobPlace>| place.is_counted && place.is_active();
        self.running.iter().filter(counts).count()
    }

    fn take(&mut self, next: &NextJob) -> Option<(Job, Arc<JobPlace>)> {
        match next {
            NextJob::Always => self.always.pop_front(),
            NextJob::Queued(at) => self.queue.remove(*at),
        }
    }
}

impl PoolThreads {
    /// The job that may begin now: of those in the queue that of the connection that runs the fewest.
    fn next(&self, state: &PoolState) -> Option<NextJob> {
        let busy = state.running.len();
        let free = self
            .max_threads()
            .checked_sub(busy)
            .filter(|free| *free > 0)?;
        if !state.always.is_empty() {
            return Some(NextJob::Always);
        }
        if state.queue.is_empty() {
            return None;
        }
        let is_open = state.counted() < self.max_running;
        if !is_open && !self.is_shared {
            return None;
        }
        let may_begin = |held: usize| held <= free && (is_open || held == 0);
        let queue = state.queue.iter().enumerate();
        let held = queue.map(|(at, (_, place))| (place.held(), at));
        let next = held.filter(|(held, _)| may_begin(*held)).min();
        next.map(|(_, at)| NextJob::Queued(at))
    }

    fn max_threads(&self) -> usize {
        self.max_running.saturating_add(MAX_MORE)
    }

    /// Wakes or starts a thread if a job may begin. Returns false if there is no thread at all.
    fn rouse(self: &Arc<Self>, state: &mut PoolState) -> bool {
        if self.next(state).is_some() {
            if state.idle > 0 {
                self.work.notify_one();
            } else if state.threads < self.max_threads() {
                // The thread is started under the lock, so that no other job is queued for a thread that
                // does not start.
                let inner = Arc::clone(self);
                let started = thread::Builder::new()
                    .name("antiphon-work".into())
                    .spawn(move || inner.work());
                // If the system refuses it, an existing thread takes the job later.
                state.threads += usize::from(started.is_ok());
            }
        }
        state.threads > 0
    }

    fn work(self: Arc<Self>) {
        let mut state = self.state.lock();
        loop {
            let next = self.next(&state);
            if let Some((job, place)) = next.and_then(|next| state.take(&next)) {
                state.running.push(Arc::clone(&place));
                let running = place.jobs.as_ref().map(|jobs| &jobs.running);
                if let Some(running) = running {
                    running.fetch_add(1, Ordering::Relaxed);
                }
                // Another job may begin too.
                self.rouse(&mut state);
                drop(state);
                // If the job panics, what it owns is dropped: its responder has answered by now.
                let session = place.jobs.as_ref().map_or(0, |jobs| jobs.session);
                let seat = Arc::clone(&place);
                caught(|| seated_on_thread(session, seat, job));
                state = self.state.lock();
                if let Some(running) = running {
                    running.fetch_sub(1, Ordering::Relaxed);
                }
                state.running.retain(|other| !Arc::ptr_eq(other, &place));
                continue;
            }
            if state.is_ownerless && state.queue.is_empty() && state.always.is_empty() {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            let (guard, waited) = self
                .work
                .wait_timeout(state, IDLE_TIMEOUT)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if waited.timed_out() && self.next(&state).is_none() {
                state.threads -= 1;
                return;
            }
        }
    }
}

impl Default for Pool {
    /// Makes a pool in which 64 jobs run and 1024 wait. A connection that runs none may begin one although
    /// 64 run, on one of the further threads. An HTTP request is a connection of its own here.
    fn default() -> Self {
        Self::with(64, 1024, true)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.0.state.lock();
        f.debug_struct("Pool")
            .field("threads", &state.threads)
            .field("waiting", &(state.queue.len() + state.always.len()))
            .finish_non_exhaustive()
    }
}
