//! What the lock of a session guards.

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::Waker;

use antiphon::session::{Phase, RequestDetails, Settled};
use antiphon::{CallId, Closed, Instant, OwnedJson, OwnedOutcome, RequestKey};
use smallvec::SmallVec;

use super::direct::Inlet;
use super::line::Line;
use crate::batch::batch_name;
use crate::dispatcher::{Called, Membership};
use crate::fault::to_error;
use crate::slot::{CallSlot, Gathering, Told};

/// The pure session inside.
pub(crate) type Conn = antiphon::session::Session<Tag>;

/// One thing for the service to do.
pub type Work = antiphon::session::Work<Tag>;

/// Runs with the service's other work when a call has settled.
pub type Then = Box<dyn FnOnce(OwnedOutcome) + Send>;

/// What a call's outcome goes to.
pub enum Tag {
    /// The slot in which one caller waits.
    Once(CallSlot),
    /// The batch that the call is part of, and the call's name there.
    Batch(Arc<Gathering>, CallId),
    /// A function that goes on, with the service's other work.
    Then(Then),
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Once(_) => "Once",
            Self::Batch(..) => "Batch",
            Self::Then(_) => "Then",
        })
    }
}

/// What the lock of a [`Session`](super::Session) guards.
pub struct State {
    /// The conversation.
    pub conn: Conn,
    /// The connection's part in the limits of its server; none if it is of no server.
    pub(super) membership: Option<Membership>,
    /// Sessions that may begin a request now, to be told once the lock is free.
    pub(super) called: Called,
    /// The senders that wait for room.
    pub(crate) line: Line,
    /// The calls of batches that wait for answers, in order, by the number of the batch.
    pub(crate) batches: Vec<(u32, Arc<[CallId]>)>,
    /// The progress that the peer reports of our calls.
    pub(crate) progress: Vec<(CallId, Arc<Told>)>,
    /// Which thread reads, where others than the reading thread may.
    pub(super) reading: Reading,
    /// Whether the reading thread has read all, while something is due.
    pub(super) looking: Looking,
    /// What the writer is to go on with, of a write that a caller began; otherwise empty.
    pub(super) left_over: Vec<u8>,
    /// The request whose handler panicked last, until that is reported.
    pub(super) panicked: Option<RequestDetails>,
    /// The phase for which everything that waits has been woken.
    pub(super) seen: Phase,
    /// Whether reading was paused when the turn before this one ended.
    pub(super) was_paused: bool,
    /// Whether the transport has been let go.
    pub(super) is_let_go: bool,
    /// When the task or thread that keeps time wakes by itself.
    pub(super) alarm: Instant,
    pub(super) sleepers: Sleepers,
    /// Tasks and threads that wait for a change: of the phase, a cancel, or a write.
    pub(super) watchers: Vec<Waker>,
    pub(super) wakes: Wakes,
}

impl State {
    pub(super) fn new(conn: Conn, membership: Option<Membership>) -> Self {
        Self {
            seen: conn.phase(),
            was_paused: !conn.may_read(),
            conn,
            membership,
            called: Called::new(),
            line: Line::default(),
            batches: Vec::new(),
            progress: Vec::new(),
            reading: Reading::default(),
            looking: Looking::default(),
            left_over: Vec::new(),
            panicked: None,
            is_let_go: false,
            alarm: Instant::FAR_FUTURE,
            sleepers: Sleepers::default(),
            watchers: Vec::new(),
            wakes: Wakes::new(),
        }
    }

    /// Notes that the transport has been let go, and says why the connection ended.
    pub(super) fn let_go(&mut self) -> Closed {
        if !self.conn.phase().is_over() {
            self.conn.abort(None);
        }
        self.is_let_go = true;
        self.rouse_all();
        self.finished().unwrap_or(Closed::EndOfInput)
    }

    /// Whether nobody waits for the answer to a request any more.
    pub fn is_cancelled(&self, request: RequestKey) -> bool {
        self.conn.is_cancelled(request)
    }

    /// What broke the transport, if anything did before the connection was meant to end.
    pub fn fault(&self) -> Option<io::Error> {
        self.conn.fault().map(to_error)
    }

    /// Why the connection takes nothing more in; `None` while it does.
    pub fn closed(&self) -> Option<Closed> {
        self.conn.phase().closed()
    }

    /// Whether nothing new is sent: it drains, is closed, or takes nothing more in.
    pub fn is_closing(&self) -> bool {
        !matches!(self.conn.phase(), Phase::Opening | Phase::Open)
    }

    /// Why the connection ended, once its transport has been let go.
    pub fn finished(&self) -> Option<Closed> {
        self.closed().filter(|_| self.is_let_go)
    }

    /// Ready once all that was sent up to `mark` has been written; an error if it never will be.
    pub(crate) fn written_to(&self, mark: u64) -> Option<io::Result<()>> {
        match self.conn.is_written(mark) {
            Some(is_written) => is_written.then_some(Ok(())),
            None => Some(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Whether messages can be exchanged: false until a handshake is done, where there is one. The
    /// service is not told of a connection before.
    pub fn is_open(&self) -> bool {
        self.conn.has_opened()
    }

    /// Whether messages can be exchanged, or why they never will be; `None` while that is open.
    pub(crate) fn opened(&mut self) -> Option<io::Result<()>> {
        if self.is_open() {
            return Some(Ok(()));
        }
        self.closed()?;
        let error = self.fault();
        Some(Err(error.unwrap_or(io::ErrorKind::NotConnected.into())))
    }

    /// Remembers what a panic has taken along, until it is reported.
    pub(crate) fn take_panicked(&mut self) -> Option<RequestDetails> {
        self.panicked.take()
    }

    pub(crate) fn note_panicked(&mut self, request: Option<RequestDetails>) {
        self.panicked = request;
    }

    /// Passes the progress of a call to its caller.
    pub(super) fn tell(&mut self, call: CallId, value: OwnedJson) {
        let told = self.progress.iter().find(|(known, _)| *known == call);
        let waker = told.and_then(|(_, told)| told.put(value));
        self.wakes.extend(waker);
    }

    /// Puts an outcome where it is awaited.
    pub(super) fn settle(&mut self, settled: Settled<Tag>) {
        self.progress.retain(|(call, _)| *call != settled.call);
        let waker = match settled.waiter {
            Tag::Once(slot) => slot.put(settled.outcome),
            Tag::Batch(gathering, name) => {
                let (is_last, waker) = gathering.put(name, settled.outcome);
                if is_last {
                    let number = gathering.number();
                    self.batches.retain(|(known, _)| *known != number);
                }
                waker
            }
            // Its outcome comes in order, as the service's work.
            Tag::Then(_) => None,
        };
        self.wakes.extend(waker);
    }

    /// The call that has this name, or is it.
    pub(crate) fn call(&self, name: CallId) -> CallId {
        let Some((batch, at)) = batch_name(name) else {
            return name;
        };
        let known = self.batches.iter().find(|(number, _)| *number == batch);
        let call = known.and_then(|(_, calls)| calls.get(at));
        call.copied().unwrap_or(name)
    }

    /// Settles a call that was given up. What waited comes back if it is to be dropped, which is
    /// done without the lock.
    pub(crate) fn settle_cancelled(&mut self, call: CallId, waiter: Tag) -> Option<Tag> {
        if let Tag::Then(_) = waiter {
            return Some(waiter);
        }
        let outcome = OwnedOutcome::Aborted;
        self.settle(Settled {
            call,
            waiter,
            outcome,
        });
        None
    }

    /// Takes a waker that is of no use any more, to be woken and dropped without the lock.
    pub(crate) fn dismiss(&mut self, waker: Option<Waker>) {
        self.wakes.extend(waker);
    }

    /// Has the sleeper woken, if it sleeps, and says whether it does.
    pub(super) fn rouse(&mut self, sleeper: Sleeper) -> bool {
        let waker = self.sleepers.take(sleeper);
        let is_asleep = waker.is_some();
        self.wakes.extend(waker);
        is_asleep
    }

    /// Has every sleeper woken, everything that waits for a change, and every sender that waits for
    /// room.
    pub(super) fn rouse_all(&mut self) {
        self.wakes
            .extend(self.sleepers.0.iter_mut().filter_map(Option::take));
        self.rouse_watchers();
        self.wakes.extend(self.line.call_all());
    }

    /// Has every thread and task woken that waits for a change: of the phase, a cancel, or a write.
    pub(super) fn rouse_watchers(&mut self) {
        self.wakes.extend(self.watchers.drain(..));
    }

    /// Whether this waker is among those that wait for a change.
    pub(super) fn is_watched_by(&self, waker: &Waker) -> bool {
        self.watchers.iter().any(|known| known.will_wake(waker))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("conn", &self.conn)
            .finish_non_exhaustive()
    }
}

/// Which thread reads, where others than the reading thread may.
#[derive(Default)]
pub(super) enum Reader {
    /// The reading thread.
    #[default]
    Thread,
    /// Another thread, which will not read for long.
    Other,
    /// No thread: one that is about to wait may take the inlet.
    Nobody(Box<dyn Inlet>),
}

/// Which thread reads the input, and what the reading thread needs to know of the others.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) by: Reader,
    /// Whether the reading thread must read as soon as nobody else does.
    pub(super) is_thread_wanted: bool,
    /// How often others have read, or were left to.
    pub(super) others: u64,
    /// Whether a call has settled since the reading thread looked last.
    pub(super) is_call_settled: bool,
    /// How many threads wait for calls and do not read.
    pub(super) callers: usize,
}

impl Reading {
    /// Lets `reader` read, if nobody does.
    pub(super) fn begin(&mut self, reader: Reader) -> Option<Box<dyn Inlet>> {
        match mem::replace(&mut self.by, reader) {
            Reader::Nobody(inlet) => Some(inlet),
            others => {
                self.by = others;
                None
            }
        }
    }
}

/// What a reading thread has done since something was due.
#[derive(Debug, Default)]
pub(super) struct Looking {
    /// How often something has come in.
    pub(super) reads: u64,
    pub(super) due: Option<Due>,
}

#[derive(Debug)]
pub(super) struct Due {
    pub(super) reads: u64,
    /// How many reads have emptied the socket since then.
    pub(super) drained: u32,
    /// If nothing comes in before this, all has been read.
    pub(super) quiet_at: Instant,
    /// The time at which it is judged, whatever comes in.
    pub(super) until: Instant,
}

impl Looking {
    /// When the thread that keeps time is to come back.
    pub(super) fn wake_at(&self, wake_at: Instant) -> Instant {
        match &self.due {
            Some(due) => wake_at.max(due.quiet_at),
            None => wake_at,
        }
    }
}

/// The tasks and threads that sleep while a connection has nothing for them to do. A connection on
/// a task has one, a connection on threads has the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// The task, which does everything.
    Task,
    /// The thread that writes.
    Writer,
    /// The thread that keeps time.
    Timer,
    /// The thread that runs the service.
    Service,
    /// The thread that reads, while nothing is to be read.
    Reader,
}

/// How many kinds of sleepers there are.
const SLEEPERS: usize = 5;

/// The sleepers of one connection.
#[derive(Default)]
pub(super) struct Sleepers([Option<Waker>; SLEEPERS]);

impl Sleepers {
    pub(super) fn set(&mut self, sleeper: Sleeper, waker: Option<Waker>) -> Option<Waker> {
        mem::replace(&mut self.0[sleeper as usize], waker)
    }

    /// The one to wake for what `sleeper` does.
    pub(super) fn take(&mut self, sleeper: Sleeper) -> Option<Waker> {
        let own = self.0[sleeper as usize].take();
        own.or_else(|| self.0[Sleeper::Task as usize].take())
    }
}

/// The wakers to be woken once the lock is free.
pub(super) type Wakes = SmallVec<[Waker; 2]>;
