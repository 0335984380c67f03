//! A transport and a clock that do only what the test allows.
//!
//! Rule: a task that waits is woken when it can go on, and never before. So a driver that forgets
//! to register its waker is never polled again.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use antiphon::Instant;
use antiphon_net::{Io, Runtime, Task, Timer};

use super::{Act, Notes, Shared, with};

/// What stands between a driver and its peer.
pub(crate) struct Wire {
    notes: Shared<Notes>,
    /// What the peer has sent, and how much of it has been read.
    pub(crate) input: Vec<u8>,
    read: usize,
    pub(crate) output: Vec<u8>,
    pub(crate) read_grant: usize,
    write_grant: usize,
    /// How many of the next reads and writes fail as interrupted.
    pub(crate) interrupts: usize,
    has_stalled: bool,
    is_ended: bool,
    read_fails: bool,
    write_fails: bool,
    wakers: Vec<Waker>,
}

impl Wire {
    pub(crate) fn new(notes: Shared<Notes>) -> Self {
        Self {
            notes,
            input: Vec::new(),
            read: 0,
            output: Vec::new(),
            read_grant: 0,
            write_grant: 0,
            interrupts: 0,
            has_stalled: false,
            is_ended: false,
            read_fails: false,
            write_fails: false,
            wakers: Vec::new(),
        }
    }

    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    pub(crate) fn let_read(&mut self, n: usize) {
        self.read_grant = self.read_grant.saturating_add(n);
        self.wake();
    }

    pub(crate) fn let_write(&mut self, n: usize) {
        self.write_grant = self.write_grant.saturating_add(n);
        self.wake();
    }

    /// Nothing more comes than what is here.
    pub(crate) fn end(&mut self) {
        self.is_ended = true;
        self.wake();
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    pub(crate) fn fail(&mut self, reading: bool) {
        self.read_fails |= reading;
        self.write_fails |= !reading;
        self.wake();
    }

    /// Everything can be read and written from here on, and then the input ends.
    pub(crate) fn heal(&mut self) {
        (self.read_grant, self.write_grant) = (1 << 40, 1 << 40);
        self.end();
    }

    fn wait<V>(&mut self, cx: &Context<'_>) -> Poll<io::Result<V>> {
        self.wakers.push(cx.waker().clone());
        Poll::Pending
    }

    fn interrupted(&mut self) -> bool {
        let is_so = self.interrupts > 0;
        self.interrupts -= usize::from(is_so);
        is_so
    }

    fn poll_read(&mut self, cx: &Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.read_fails {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if self.interrupted() {
            return Poll::Ready(Err(io::ErrorKind::Interrupted.into()));
        }
        let here = &self.input[self.read..];
        let n = here.len().min(buf.len()).min(self.read_grant);
        if n > 0 {
            buf[..n].copy_from_slice(&here[..n]);
            let bytes = here[..n].to_vec();
            with(&self.notes, |notes| notes.acts.push(Act::Read(bytes)));
            self.read += n;
            self.read_grant -= n;
            return Poll::Ready(Ok(n));
        }
        if self.is_ended && self.read == self.input.len() {
            with(&self.notes, |notes| notes.acts.push(Act::End));
            return Poll::Ready(Ok(0));
        }
        self.wait(cx)
    }

    /// The planted fault loses a byte of a write of seven after a stall.
    fn poll_write(&mut self, cx: &Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.write_fails {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.interrupted() {
            return Poll::Ready(Err(io::ErrorKind::Interrupted.into()));
        }
        let n = buf.len().min(self.write_grant);
        if n == 0 {
            self.has_stalled = true;
            return self.wait(cx);
        }
        let lost = usize::from(crate::PLANTED && self.has_stalled && n == 7);
        self.output.extend_from_slice(&buf[..n - lost]);
        self.write_grant -= n;
        self.has_stalled = false;
        Poll::Ready(Ok(n))
    }
}

/// The driver's end of a [`Wire`].
pub(crate) struct Pipe(pub(crate) Shared<Wire>);

impl Io for Pipe {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        with(&self.0, |wire| wire.poll_read(cx, buf))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        with(&self.0, |wire| wire.poll_write(cx, buf))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with(&self.0, |wire| match (wire.write_fails, wire.write_grant) {
            (true, _) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            // Without a grant nothing is flushed.
            (false, 0) => wire.wait(cx),
            (false, _) => Poll::Ready(Ok(())),
        })
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// A clock that is moved by hand, and its timers.
#[derive(Default)]
pub(crate) struct Clockwork {
    now: Arc<AtomicU64>,
    timers: Arc<Mutex<BTreeMap<u64, (u64, Waker)>>>,
    made: AtomicU64,
    looks: AtomicU64,
}

impl Clockwork {
    pub(crate) fn millis(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// How often the time was asked for.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    pub(crate) fn pass(&self, to: u64) {
        self.now.store(to, Ordering::Relaxed);
        with(&self.timers, |timers| {
            let due: Vec<u64> = timers
                .iter()
                .filter(|(_, (at, _))| *at <= to)
                .map(|(id, _)| *id)
                .collect();
            due.iter()
                .filter_map(|id| timers.remove(id))
                .for_each(|(_, waker)| waker.wake());
        });
    }

    /// When the next timer is due.
    pub(crate) fn next(&self) -> Option<u64> {
        with(&self.timers, |timers| {
            timers.values().map(|(at, _)| *at).min()
        })
    }

    pub(crate) fn timers(&self) -> usize {
        with(&self.timers, |timers| timers.len())
    }
}

impl Runtime for Clockwork {
    fn now(&self) -> Instant {
        self.looks.fetch_add(1, Ordering::Relaxed);
        Instant::from_millis(self.millis())
    }

    fn spawn(&self, _: Task) {
        panic!("a connection is one task");
    }

    fn timer(&self) -> Box<dyn Timer> {
        let id = self.made.fetch_add(1, Ordering::Relaxed);
        Box::new(Alarm {
            id,
            now: Arc::clone(&self.now),
            timers: Arc::clone(&self.timers),
        })
    }
}

struct Alarm {
    id: u64,
    now: Arc<AtomicU64>,
    timers: Arc<Mutex<BTreeMap<u64, (u64, Waker)>>>,
}

impl Timer for Alarm {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        // Rounded up: a timer is never early.
        let at = at.as_nanos().div_ceil(1_000_000);
        if at <= self.now.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        with(&self.timers, |timers| {
            timers.insert(self.id, (at, cx.waker().clone()))
        });
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        with(&self.timers, |timers| timers.remove(&self.id));
    }
}
