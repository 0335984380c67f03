//! The data that the lock of a session guards.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use antiphon::flow::Pull;
use antiphon::session::{Phase, RequestDetails, RouteId, Settled};
use antiphon::{CallId, Closed, Instant, Json, OwnedJson, OwnedOutcome, RequestKey, Style};
use smallvec::SmallVec;

use super::flows::Flows;
use super::sender_queue::SenderQueue;
use super::sinks::{SinkKey, Sinks};
use super::topic_readers::TopicReaders;
use crate::debug_fields;
use crate::fault::to_error;
use crate::slot::{CallSlot, Gathering, batch_name};
use crate::work::dispatcher::{Membership, Returned};

/// The core's session.
pub(crate) type Conn = antiphon::session::Session<Tag>;

/// A piece of work for the service.
pub(crate) type Work = antiphon::session::Work<Tag>;

/// Runs with the service's other work when a call has ended.
pub type Then = Box<dyn FnOnce(OwnedOutcome) + Send>;

/// The receiver of a call's outcome.
pub(crate) enum Tag {
    /// The slot in which one caller waits.
    Once(CallSlot),
    /// The batch of the call, and the call's name in it.
    Batch(Arc<Gathering>, CallId),
    /// A function that continues, with the service's other work.
    Then(Then),
    /// Nobody: the call unsubscribes a stream that nobody reads any more.
    Unsubscribe,
    /// A flow: the call pulls an item.
    Pull(Pull),
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Once(_) => "Once",
            Self::Batch(..) => "Batch",
            Self::Then(_) => "Then",
            Self::Unsubscribe => "Unsubscribe",
            Self::Pull(_) => "Pull",
        })
    }
}

/// Whether a request was cancelled: for what may outlive the request, such as a
/// [`Cancellation`](crate::Cancellation). It stays set.
pub(crate) type CancelFlag = Arc<AtomicBool>;

/// The data that the lock of a [`Session`](super::Session) guards.
pub(crate) struct State {
    /// The core's session.
    pub(crate) conn: Conn,
    /// The connection's share in the dispatcher of its server; `None` if no server accepted it, and after
    /// its end.
    pub(super) membership: Option<Arc<Membership>>,
    pub(super) permits: PermitCounts,
    /// The senders that wait for space.
    pub(crate) senders: SenderQueue,
    /// The calls of batches that wait for answers, in order, by the number of the batch.
    pub(crate) batches: Vec<(u32, Arc<[CallId]>)>,
    /// Tasks and threads that wait for events of a route.
    pub(crate) readers: BTreeMap<RouteId, Waker>,
    /// The topics that the program reads; `None` before the first one.
    pub(super) topics: Option<Box<TopicReaders>>,
    /// The subscriptions of the peer.
    pub(crate) sinks: Sinks,
    /// The flows; `None` if they are off.
    pub(super) flows: Option<Box<Flows>>,
    /// The flags of requests, as long as others own them.
    pub(super) flags: Vec<(RequestKey, Weak<AtomicBool>)>,
    /// The request whose handler panicked last, until that is reported.
    pub(super) panicked: Option<RequestDetails>,
    /// The phase for which all waiting threads and tasks have been woken.
    pub(super) seen: Phase,
    /// Whether reading was paused when the turn before this one ended.
    pub(super) was_paused: bool,
    /// Whether the transport was dropped.
    pub(super) is_let_go: bool,
    /// Whether handlers that are parked are to end their waits, because the server drains.
    pub(super) ends_parked: bool,
    /// When the task wakes without a waker.
    pub(super) alarm: Instant,
    /// Wakes the task; `None` while it runs.
    pub(super) sleeper: Option<Waker>,
    /// Tasks and threads that wait for a change: of the phase, a cancel, or a write.
    pub(super) watchers: Vec<Waker>,
    pub(super) wakes: Wakes,
}

impl State {
    #[inline]
    pub(super) fn new(
        mut conn: Conn,
        membership: Option<Arc<Membership>>,
        flows: Option<Box<Flows>>,
    ) -> Self {
        if let Some(flows) = &flows {
            conn.let_overtake(flows.methods());
        }
        Self {
            seen: conn.phase(),
            was_paused: !conn.wants_input(),
            conn,
            membership,
            permits: PermitCounts::default(),
            senders: SenderQueue::default(),
            batches: Vec::new(),
            readers: BTreeMap::new(),
            topics: None,
            sinks: Sinks::default(),
            flows,
            flags: Vec::new(),
            panicked: None,
            is_let_go: false,
            ends_parked: false,
            alarm: Instant::FAR_FUTURE,
            sleeper: None,
            watchers: Vec::new(),
            wakes: Wakes::new(),
        }
    }

    /// Notes that the peer has ended its direction, or is gone: further requests begin with other permits.
    pub(super) fn go(&mut self) {
        let Some(membership) = self.membership.as_ref().filter(|_| !self.permits.is_gone) else {
            return;
        };
        membership.go();
        let granted = mem::take(&mut self.permits.granted);
        self.permits.returned.add(granted, false);
        self.permits.is_gone = true;
    }

    /// Notes that the transport was dropped, and returns why the connection ended.
    pub(super) fn let_go(&mut self) -> Closed {
        if !self.conn.phase().is_over() {
            self.conn.abort(None);
        }
        self.is_let_go = true;
        self.rouse_all();
        self.finished().unwrap_or(Closed::EndOfInput)
    }

    /// Whether the peer has cancelled the request, or the connection has ended.
    pub(crate) fn is_cancelled(&self, request: RequestKey) -> bool {
        self.conn.is_cancelled(request)
    }

    /// Returns the flag that says whether the request was cancelled, also after it has been answered.
    pub(crate) fn cancel_flag(&mut self, request: RequestKey) -> CancelFlag {
        let mut known = None;
        self.flags.retain(|(key, flag)| {
            let flag = flag.upgrade();
            let is_held = flag.is_some();
            known = known.take().or(flag.filter(|_| *key == request));
            is_held
        });
        known.unwrap_or_else(|| {
            let flag = CancelFlag::new(AtomicBool::new(self.is_cancelled(request)));
            self.flags.push((request, Arc::downgrade(&flag)));
            flag
        })
    }

    /// The error that broke the transport before the connection was meant to end, if there was one.
    pub(crate) fn fault(&self) -> Option<io::Error> {
        self.conn.fault().map(to_error)
    }

    /// Why the connection ended; `None` while it goes on.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.conn.phase().closed()
    }

    /// Whether new calls are of no use: the connection drains or has ended, its input has ended, or a
    /// write has failed.
    pub(crate) fn is_closing(&self) -> bool {
        !matches!(self.conn.phase(), Phase::Opening | Phase::Open)
    }

    /// Whether handlers that only wait are to end: the connection closes, or its server drains.
    pub(crate) fn ends_parked(&self) -> bool {
        self.ends_parked || self.is_closing()
    }

    /// Why the connection ended; `None` before its transport was dropped.
    pub(crate) fn finished(&self) -> Option<Closed> {
        self.closed().filter(|_| self.is_let_go)
    }

    /// Ready once all output up to `mark` has been written; an error if it never will be.
    pub(crate) fn written_to(&self, mark: u64) -> Option<io::Result<()>> {
        match self.conn.is_written(mark) {
            Some(is_written) => is_written.then_some(Ok(())),
            None => Some(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Whether messages can be exchanged, or could be before the end: false before the end of the
    /// handshake, if there is one. The service does not see the connection before that.
    pub(crate) fn is_open(&self) -> bool {
        self.conn.has_opened()
    }

    /// Whether messages can be exchanged, or why they never can be; `None` while that is not
    /// decided.
    pub(crate) fn opened(&mut self) -> Option<io::Result<()>> {
        if self.is_open() {
            return Some(Ok(()));
        }
        self.closed()?;
        let error = self.fault();
        Some(Err(error.unwrap_or(io::ErrorKind::NotConnected.into())))
    }

    /// Takes the request whose handler or answer has panicked, for a report.
    pub(crate) fn take_panicked(&mut self) -> Option<RequestDetails> {
        self.panicked.take()
    }

    pub(crate) fn note_panicked(&mut self, request: Option<RequestDetails>) {
        self.panicked = request;
    }

    /// Puts an outcome where its caller awaits it.
    pub(super) fn settle(&mut self, settled: Settled<Tag>) {
        self.end_flows_of(settled.call);
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
            // The outcome of such a call comes as the service's work, in order with the messages, and not here.
            Tag::Then(_) | Tag::Unsubscribe => None,
            Tag::Pull(pull) => {
                self.settle_pull(settled.call, pull, settled.outcome);
                None
            }
        };
        self.wakes.extend(waker);
    }

    /// Returns the call that has this name in a batch, or this id.
    pub(crate) fn call(&self, name: CallId) -> CallId {
        let Some((batch, at)) = batch_name(name) else {
            return name;
        };
        let known = self.batches.iter().find(|(number, _)| *number == batch);
        let call = known.and_then(|(_, calls)| calls.get(at));
        call.copied().unwrap_or(name)
    }

    /// Ends a call that was cancelled. Returns the value that is to be dropped without the lock, if
    /// there is one.
    pub(crate) fn settle_cancelled(&mut self, call: CallId, waiter: Tag) -> Option<Tag> {
        if let Tag::Then(_) = waiter {
            self.end_flows_of(call);
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

    /// Opens the subscriptions of the peer whose answers are in the output now, and tells the peer of those that have
    /// ended.
    #[cold]
    pub(super) fn change_sinks(&mut self) {
        let conn = &self.conn;
        self.sinks
            .open_answered(|mark| conn.is_answered(mark), &mut self.wakes);
        while !self.conn.is_full() {
            let Some((style, params)) = self.sinks.take_ending() else {
                break;
            };
            // If the connection has ended meanwhile, nobody is to be told.
            let _ = self.conn.notify(style.method(), params.as_json());
        }
    }

    /// Has `waker` woken at the next change of a subscription of the peer: see [`Sinks::wait`].
    pub(crate) fn wait_for_sink(
        &mut self,
        key: SinkKey,
        place: &mut Option<u64>,
        waker: Waker,
    ) -> Option<Waker> {
        self.sinks.wait(key, place, waker)
    }

    /// Takes the waker of somebody who does not wait for a subscription any more.
    pub(crate) fn leave_sink(&mut self, key: SinkKey, place: u64) -> Option<Waker> {
        self.sinks.leave(key, place)
    }

    /// Ends a subscription of the peer, who is told of it by `params`, if there are any.
    pub(crate) fn finish_sink(&mut self, key: SinkKey, params: Option<OwnedJson>) {
        let waiting = self.sinks.finish(key, params);
        self.wakes.extend(waiting.into_iter().flatten());
    }

    /// Ends a subscription because the peer has unsubscribed. Returns false if there is none.
    pub(crate) fn unsubscribe(&mut self, style: Style, id: Json<'_>) -> bool {
        let waiting = self.sinks.unsubscribe(style, id);
        let was_open = waiting.is_some();
        self.wakes.extend(waiting.into_iter().flatten());
        was_open
    }

    /// Takes a waker that is not needed any more, to be woken and dropped without the lock.
    pub(crate) fn dismiss(&mut self, waker: Option<Waker>) {
        self.wakes.extend(waker);
    }

    /// Wakes the task, if it sleeps, after the turn. Returns whether it slept.
    pub(super) fn rouse(&mut self) -> bool {
        let waker = self.sleeper.take();
        let is_asleep = waker.is_some();
        self.wakes.extend(waker);
        is_asleep
    }

    /// Wakes, after the turn, the task, everybody who waits for a change, and every sender that waits for
    /// space.
    pub(super) fn rouse_all(&mut self) {
        self.rouse();
        self.rouse_watchers();
        self.wakes.extend(self.senders.call_all());
    }

    /// Wakes, after the turn, every thread and task that waits for a change: of the phase, a cancel,
    /// or a write.
    pub(super) fn rouse_watchers(&mut self) {
        for (request, flag) in &self.flags {
            if self.conn.is_cancelled(*request) {
                flag.upgrade()
                    .inspect(|flag| flag.store(true, Ordering::Relaxed));
            }
        }
        self.wakes.extend(self.watchers.drain(..));
    }

    /// Whether this waker waits for a change.
    pub(super) fn is_watched_by(&self, waker: &Waker) -> bool {
        self.watchers.iter().any(|known| known.will_wake(waker))
    }
}

debug_fields!(impl[] State as "State" { conn });

/// What a session has from the dispatcher of its server, and what it wants.
#[derive(Debug, Default)]
pub(super) struct PermitCounts {
    /// PermitCounts for requests that have not begun.
    pub(super) granted: usize,
    /// PermitCounts that are to be given back when the lock is free.
    pub(super) returned: Returned,
    /// How many requests want to begin and got no permit.
    pub(super) wanted: usize,
    /// How many waiting requests the dispatcher has counted.
    pub(super) waiting: usize,
    /// Whether these are permits for peers that have ended their direction, or are gone.
    pub(super) is_gone: bool,
}

impl PermitCounts {
    /// Takes all permits that requests do not need.
    pub(super) fn take_all(&mut self) -> Returned {
        let mut all = mem::take(&mut self.returned);
        all.add(mem::take(&mut self.granted), self.is_gone);
        all
    }
}

/// The wakers that are to be woken when the lock is free.
pub(super) type Wakes = SmallVec<[Waker; 2]>;
