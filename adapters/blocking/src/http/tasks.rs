//! One thread that runs tasks: the engine's connections, in a program that has no runtime.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};

use antiphon::Instant;
use antiphon_async::{Clock, Runtime, SharedRuntime, Task, Timer};
use antiphon_async_std::{Executor, Futures};
use async_executor::Executor as Tasks;
use async_io::block_on;

/// A thread that runs tasks until it is stopped.
pub(super) struct TaskThread {
    runtime: SharedRuntime,
    stop: Done,
    thread: Option<JoinHandle<()>>,
}

/// The tasks of one thread, with timers.
struct OneThread {
    tasks: Weak<Tasks<'static>>,
    timers: SharedRuntime,
}

impl Clock for OneThread {
    fn now(&self) -> Instant {
        self.timers.now()
    }
}

impl Runtime for OneThread {
    fn spawn(&self, task: Task) {
        // A thread that has ended runs nothing; who waits for the task sees it dropped.
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.spawn(task).detach();
        }
    }

    fn timer(&self) -> Box<dyn Timer> {
        self.timers.timer()
    }
}

impl TaskThread {
    pub(super) fn start() -> io::Result<Self> {
        let tasks = Arc::new(Tasks::new());
        let runtime = Arc::new(OneThread {
            tasks: Arc::downgrade(&tasks),
            // Only its timers: tasks are run by the thread.
            timers: Futures::on(Executor::Other(drop)),
        });
        let stop = Done::default();
        let stopping = stop.clone();
        let thread = thread::Builder::new()
            .name("antiphon-http".into())
            .spawn(move || {
                block_on(tasks.run(stopping.wait()));
                // What is left of the tasks is dropped here.
            })?;
        Ok(Self {
            runtime,
            stop,
            thread: Some(thread),
        })
    }

    pub(super) fn runtime(&self) -> SharedRuntime {
        Arc::clone(&self.runtime)
    }

    /// Drops all tasks, and waits for the thread.
    pub(super) fn stop(&mut self) {
        self.stop.tell();
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed.
            let _ = thread.join();
        }
    }
}

impl Drop for TaskThread {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for TaskThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskThread").finish_non_exhaustive()
    }
}

/// Tells a task that a thread is through.
#[derive(Clone, Default)]
pub(super) struct Done {
    inside: Arc<Mutex<(bool, Option<Waker>)>>,
}

impl Done {
    fn lock(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        // Nothing that can panic runs under the lock.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self) {
        let mut inside = self.lock();
        inside.0 = true;
        let waker = inside.1.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) async fn wait(&self) {
        poll_fn(|cx| {
            let mut inside = self.lock();
            if inside.0 {
                return Poll::Ready(());
            }
            inside.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
