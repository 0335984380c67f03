//! A stream as hyper polls it, with deadlines for a peer that is slow at either.
//!
//! ```text
//!   Waiting ──first byte of a request──▶ Head ──head complete──▶ Serving
//!      ▲                                                            │ reply made
//!      └───────────────────some of it written────────────────── Replying
//! ```
//!
//! The rule guarded here: reading and writing have a deadline of their own in every phase but the
//! one in which this side is at work, so a peer that drips, falls silent or stops reading costs its
//! own connection, after a stated time. A client that ends its direction while its request is being served gets the
//! answer: the end is told when that has been written, or has taken too long.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use antiphon::Instant;
use antiphon::http::HeadScan;
use antiphon_session::grace;
use hyper::rt::{Read, ReadBufCursor, Write};

use crate::io::Io;
use crate::runtime::{SharedRuntime, Timer};

/// How much is read at once.
const SCRATCH_BYTES: usize = 64 * 1024;

/// How many reads are made after the end before other tasks get their turn.
const READS_MAX: u32 = 16;

thread_local! {
    /// Where all connections of a thread read into, for hyper to copy from.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The first byte of the next request.
    Waiting,
    /// The rest of its head.
    Head,
    /// Nothing: the body's reader and the handlers keep their own time.
    Serving,
    /// Nothing: the reply has been made, and what is written next is some of it.
    Replying,
}

/// The phase of one connection, known to its stream and to what serves its requests, which are parts of one task: nobody
/// looks while it changes.
#[derive(Debug)]
pub(crate) struct Phases {
    phase: AtomicU8,
    /// How many lines of the head that has come in last name a length.
    lengths: AtomicU32,
    header_time_max: Duration,
    idle_time_max: Duration,
    drain_time_max: Option<Duration>,
    /// Nothing more comes in.
    has_ended: AtomicBool,
}

impl Phases {
    /// A connection of which the first byte has come. An answer may take `drain_time_max` once the client has ended its
    /// direction.
    pub(crate) fn new(
        header_time_max: Duration,
        idle_time_max: Duration,
        drain_time_max: Option<Duration>,
    ) -> Arc<Self> {
        Arc::new(Self {
            phase: AtomicU8::new(Phase::Head as u8),
            lengths: AtomicU32::new(0),
            header_time_max,
            idle_time_max,
            drain_time_max,
            has_ended: AtomicBool::new(false),
        })
    }

    fn current(&self) -> Phase {
        const ALL: [Phase; 4] = [Phase::Waiting, Phase::Head, Phase::Serving, Phase::Replying];
        ALL[usize::from(self.phase.load(Ordering::Relaxed)) % ALL.len()]
    }

    fn begin(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Whether nothing more comes in: a body that is not complete never will be.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// A head is complete. Says how many of its lines name a length; none of one that came in
    /// with an earlier request.
    pub(crate) fn serving(&self) -> u32 {
        self.begin(Phase::Serving);
        self.lengths.swap(0, Ordering::Relaxed)
    }

    /// A reply has been made.
    pub(crate) fn replying(&self) {
        self.begin(Phase::Replying);
    }

    /// Goes on with `next`, if the phase is one that ends with the next byte in either direction.
    fn pass(&self, next: Phase) -> bool {
        let passes = matches!(self.current(), Phase::Waiting | Phase::Replying);
        if passes {
            self.begin(next);
        }
        passes
    }

    /// How long the phase may last.
    fn span(&self) -> Option<Duration> {
        match self.current() {
            Phase::Waiting => Some(self.idle_time_max),
            Phase::Head => Some(self.header_time_max),
            Phase::Serving | Phase::Replying => None,
        }
    }
}

/// A stream for hyper.
pub(crate) struct HyperIo {
    io: Box<dyn Io>,
    runtime: SharedRuntime,
    /// None where this side asks, and keeps the time itself.
    phases: Option<Arc<Phases>>,
    /// Until when the phase may last: known from the first time on that nothing more is there, for mostly all is.
    until: Option<Instant>,
    /// The phase has been given more time, since the clock had jumped.
    is_granted: bool,
    /// Since when nothing more comes in.
    ended_at: Option<Instant>,
    /// Hyper has asked for what comes in, and was not told that this is nothing.
    is_end_hidden: bool,
    /// A byte that has been read already.
    first: Option<u8>,
    /// Reads along in the head of a request.
    scan: HeadScan,
    write_time_max: Option<Duration>,
    /// When the write last got on that is being waited for.
    writing_since: Option<Instant>,
    /// It has been given more time, since the clock had jumped.
    is_write_granted: bool,
    read_timer: Option<Box<dyn Timer>>,
    /// When that timer was set to go off, or has. Mostly the deadline moves away from it.
    read_timer_at: Instant,
    write_timer: Option<Box<dyn Timer>>,
    /// The deadline that had come when a reply was out.
    awaited_until: Instant,
    linger: Duration,
    /// When the other side's end is no longer awaited.
    end_at: Option<Instant>,
    is_closed: bool,
}

impl HyperIo {
    /// `first` is shown again before everything else. Output may stand still for
    /// `write_time_max`; the other side's end is awaited for `linger` after ours.
    pub(crate) fn new(
        io: Box<dyn Io>,
        first: Option<u8>,
        phases: Option<Arc<Phases>>,
        write_time_max: Option<Duration>,
        linger: Duration,
        runtime: SharedRuntime,
    ) -> Self {
        Self {
            io,
            runtime,
            until: None,
            is_granted: false,
            ended_at: None,
            is_end_hidden: false,
            phases,
            first,
            scan: HeadScan::new(),
            write_time_max,
            writing_since: None,
            is_write_granted: false,
            read_timer: None,
            read_timer_at: Instant::FAR_FUTURE,
            write_timer: None,
            awaited_until: Instant::FAR_FUTURE,
            linger,
            end_at: None,
            is_closed: false,
        }
    }

    /// Bytes went in one direction: the phase may end with them, and its deadline with it.
    fn pass(&mut self, next: Phase) {
        if self.phases.as_ref().is_some_and(|phases| phases.pass(next)) {
            (self.until, self.is_granted) = (None, false);
            self.scan = HeadScan::new();
        }
    }

    /// Reads along in a head: hyper does not show every line that names a length.
    fn scan(&mut self, bytes: &[u8]) {
        let Some(phases) = &self.phases else {
            return;
        };
        if matches!(phases.current(), Phase::Head) {
            self.scan.take(bytes);
            let lengths = self.scan.lengths();
            phases.lengths.store(lengths, Ordering::Relaxed);
        }
    }

    /// How long more a deadline is granted that has come: see [`grace`].
    fn grace(&self, due: Instant) -> Duration {
        grace(self.runtime.now().saturating_since(due))
    }

    /// When the phase ends at the latest, now that nothing is there to be read; never, if this side is at work. None where
    /// there are no phases.
    fn deadline(&mut self) -> Option<Instant> {
        let Some(span) = self.phases.as_ref()?.span() else {
            return Some(Instant::FAR_FUTURE);
        };
        Some(*self.until.get_or_insert_with(|| self.runtime.now() + span))
    }

    /// Counts what was written, or the time in which nothing was.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        // The reply is still being written.
        self.pass(Phase::Waiting);
        if written.is_ready() {
            (self.writing_since, self.is_write_granted) = (None, false);
            return written;
        }
        let since = *self.writing_since.get_or_insert_with(|| self.runtime.now());
        let due = after(since, self.write_time_max);
        ready!(poll_timer(&mut self.write_timer, &self.runtime, due, cx));
        let more = self.grace(due);
        if more > Duration::ZERO && !self.is_write_granted {
            (self.writing_since, self.is_write_granted) = (Some(since + more), true);
            // It is tried again, which sets the timer.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Err(timed_out("the peer takes no output")))
    }

    /// Ready once `due` has come. The timer is set again when it has gone off, not whenever the
    /// deadline has moved.
    fn poll_read_timer(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if due < self.read_timer_at {
            self.read_timer_at = due;
        }
        while self.read_timer_at < due {
            let at = self.read_timer_at;
            ready!(poll_timer(&mut self.read_timer, &self.runtime, at, cx));
            self.read_timer_at = due;
        }
        poll_timer(&mut self.read_timer, &self.runtime, due, cx)
    }

    /// Sets the timer for the next request once a reply is out: hyper reads on by itself only where it
    /// did not do so before.
    fn await_request(&mut self, cx: &mut Context<'_>) {
        let Some(due) = self.deadline() else {
            return;
        };
        if due != self.awaited_until && self.poll_read_timer(due, cx).is_ready() {
            // The next read says so, once.
            self.awaited_until = due;
            cx.waker().wake_by_ref();
        }
    }

    /// Whether a request is being served, or its answer written.
    fn is_at_work(&self) -> bool {
        let phase = self.phases.as_ref().map(|phases| phases.current());
        matches!(phase, Some(Phase::Serving | Phase::Replying)) || self.writing_since.is_some()
    }

    /// The end of what comes in, which waits while a request is being served: hyper would give it up.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (Some(ended_at), Some(phases)) = (self.ended_at, &self.phases) else {
            return Poll::Ready(Ok(()));
        };
        phases.has_ended.store(true, Ordering::Relaxed);
        let due = after(ended_at, phases.drain_time_max);
        if self.is_at_work() {
            self.is_end_hidden = true;
            ready!(self.poll_read_timer(due, cx));
        }
        Poll::Ready(Ok(()))
    }

    /// Has hyper read again once the end need not wait any more: it does not by itself.
    fn show_end(&mut self, cx: &Context<'_>) {
        if self.is_end_hidden && !self.is_at_work() {
            self.is_end_hidden = false;
            cx.waker().wake_by_ref();
        }
    }

    fn read_once(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut scratch) => self.read(cx, &mut scratch, buf),
            // A stream that polls another one while it reads.
            Err(_) => self.read(cx, &mut Vec::new(), buf),
        })
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut Vec<u8>,
        buf: &mut ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.remaining().min(SCRATCH_BYTES);
        scratch.resize(SCRATCH_BYTES, 0);
        let n = ready!(self.io.poll_read(cx, &mut scratch[..room]))?;
        buf.put_slice(&scratch[..n.min(room)]);
        if n == 0 {
            self.ended_at = Some(self.runtime.now());
            return self.poll_ended(cx);
        }
        // A request that is sent before the reply to the last is a request all the same.
        self.pass(Phase::Head);
        self.scan(&scratch[..n.min(room)]);
        Poll::Ready(Ok(()))
    }
}

impl Read for HyperIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if let Some(first) = this.first.take() {
            buf.put_slice(&[first]);
            return Poll::Ready(Ok(()));
        }
        if this.ended_at.is_some() {
            return this.poll_ended(cx);
        }
        let read = this.read_once(cx, &mut buf);
        if read.is_ready() || this.ended_at.is_some() {
            return read;
        }
        // While a reply is being written the peer is not expected to ask again.
        if this.writing_since.is_some() {
            return Poll::Pending;
        }
        let Some(due) = this.deadline() else {
            return Poll::Pending;
        };
        ready!(this.poll_read_timer(due, cx));
        // What arrived before the timer went off is there to be read.
        let read = this.read_once(cx, &mut buf);
        if read.is_ready() || this.ended_at.is_some() {
            return read;
        }
        let more = this.grace(due);
        if more > Duration::ZERO && !this.is_granted {
            let until = this.runtime.now() + more;
            (this.until, this.is_granted) = (Some(until), true);
            ready!(this.poll_read_timer(until, cx));
        }
        Poll::Ready(Err(timed_out("the peer sends no request")))
    }
}

impl Write for HyperIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let written = this.io.poll_write(cx, buf);
        this.written(cx, written)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut flushed = this.io.poll_flush(cx);
        if flushed.is_pending() || this.writing_since.is_some() {
            flushed = this.written(cx, flushed);
        }
        if flushed.is_ready() {
            this.show_end(cx);
            this.await_request(cx);
        }
        flushed
    }

    /// Ends our stream, and reads on for a while: a peer that is still sending would lose the
    /// reply if its bytes were refused.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let end_at = *this
            .end_at
            .get_or_insert_with(|| this.runtime.now() + this.linger);
        if !this.is_closed {
            let closed = this.io.poll_close(cx);
            this.is_closed = closed.is_ready();
            if let Poll::Ready(Err(error)) = closed {
                return Poll::Ready(Err(error));
            }
        }
        if this.poll_read_timer(end_at, cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if !this.is_closed {
            return Poll::Pending;
        }
        let mut ignored = [0; 1024];
        for _ in 0..READS_MAX {
            match ready!(this.io.poll_read(cx, &mut ignored)) {
                Ok(n) if n > 0 => {}
                // Our part is done, whatever became of theirs.
                _ => return Poll::Ready(Ok(())),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

fn poll_timer(
    timer: &mut Option<Box<dyn Timer>>,
    runtime: &SharedRuntime,
    at: Instant,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if at == Instant::FAR_FUTURE {
        return Poll::Pending;
    }
    let timer = timer.get_or_insert_with(|| runtime.timer());
    timer.poll_until(at, cx)
}

fn timed_out(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

/// The end of `span` from `start`; never for none.
pub(crate) fn after(start: Instant, span: Option<Duration>) -> Instant {
    span.map_or(Instant::FAR_FUTURE, |span| start + span)
}

impl fmt::Debug for HyperIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperIo")
            .field("phases", &self.phases)
            .finish_non_exhaustive()
    }
}
