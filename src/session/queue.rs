//! The messages that wait for the service, in the order of arrival.
//!
//! At the limits the driver stops reading, or messages are dropped and counted, as the
//! configuration says. A request that is cancelled while it waits is never begun.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::time::Duration;

use super::options::{SessionConfig, WhenFull};
use super::report::Report;
use super::ticket::{Method, Ticket};
use crate::event::{NotificationRef, RequestRef};
use crate::id::{CallId, RequestKey};
use crate::json::OwnedJson;
use crate::owned::{OwnedNotification, OwnedOutcome, OwnedRequest};
use crate::time::Instant;

/// How long a handler may hold up the messages after it without a report.
const MAX_HOLD: Duration = Duration::from_secs(5);

/// How many items an empty queue keeps space for.
const ITEMS_KEPT: usize = 16;

/// One piece of work for the service.
#[derive(Debug)]
#[non_exhaustive]
pub enum Work<W> {
    /// Messages can be exchanged: see [`Session::take_handshake`](super::Session::take_handshake).
    Opened,
    /// The peer has sent a batch with this many items. The requests and notifications among them
    /// follow.
    Batch(usize),
    /// A request to answer: what was asked, and the right to answer.
    Request(OwnedNotification, Ticket),
    /// A notification.
    Notification(OwnedNotification),
    /// A request that the service has begun was cancelled by the peer, perhaps with a reason, or
    /// ended by a close.
    Cancelled(RequestKey, Option<OwnedJson>),
    /// A call that was made [in order](super::Session::call_in_order) has ended.
    Settled(Settled<W>),
    /// A fault, to be logged.
    Report(Report),
}

/// A call that has ended, to be passed on by the driver.
#[derive(Debug)]
pub struct Settled<W> {
    /// The call.
    pub call: CallId,
    /// The value that the driver kept for it.
    pub waiter: W,
    /// How it ended.
    pub outcome: OwnedOutcome,
}

/// The handler that holds up the messages after it, and messages that may overtake it.
#[derive(Default)]
pub(super) struct InOrder {
    pub(super) holder: Option<Holder>,
    /// A `shutdown` that has not begun, and when it overtakes other work.
    pub(super) shutdown: Option<(RequestKey, Instant)>,
    pub(super) has_exited: bool,
}

/// A handler that must end before other work begins.
pub(super) struct Holder {
    pub(super) method: Method,
    /// `None` for a notification.
    pub(super) request: Option<RequestKey>,
    pub(super) since: Instant,
    pub(super) is_reported: bool,
}

impl Holder {
    /// When it is to be reported; `None` after that.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_reported).then(|| self.since + MAX_HOLD)
    }
}

/// An entry of the queue.
enum Item<W> {
    Request(OwnedRequest),
    Notification(OwnedNotification),
    /// A batch with this many items begins.
    Batch(usize),
    /// Other work, in a box because it is rare, and how many of the peer's bytes it holds.
    Other(Box<Other<W>>, usize),
}

/// Work other than requests, notifications and beginnings of batches.
enum Other<W> {
    Opened,
    Cancelled(RequestKey, Option<OwnedJson>),
    Settled(Settled<W>),
    Report(Report),
    /// Marks the position of the first dropped message.
    Dropped,
}

/// What was taken out of the queue.
pub(super) enum Next<W> {
    Request(OwnedRequest),
    Work(Work<W>),
}

/// The work that waits, and how many of the peer's bytes it holds.
pub(super) struct Queue<W> {
    items: VecDeque<Item<W>>,
    /// The methods whose requests overtake all items.
    overtaking: Vec<String>,
    /// The requests that overtake the items.
    first: VecDeque<OwnedRequest>,
    /// How many of the items are requests.
    requests: usize,
    /// How many of the items are notifications, beginnings of batches or reports.
    messages: usize,
    /// How many bytes the messages in the queue and the requests that are being handled have.
    bytes: usize,
    /// How many messages were dropped since the last [`Report::Dropped`].
    dropped: u64,
    /// How many of the items are cancels.
    cancels: usize,
    /// How many of the items are cancels or outcomes of calls, which may overtake other work.
    urgent: usize,
    /// How many requests the driver has taken that wait for a thread.
    unbegun: usize,
    max_messages: usize,
    max_bytes: usize,
    when_full: WhenFull,
}

impl<W> Queue<W> {
    pub(super) fn new(config: &SessionConfig) -> Self {
        Self {
            items: VecDeque::new(),
            overtaking: Vec::new(),
            first: VecDeque::new(),
            requests: 0,
            messages: 0,
            bytes: 0,
            dropped: 0,
            cancels: 0,
            urgent: 0,
            unbegun: 0,
            max_messages: config.max_queued_messages,
            max_bytes: config.max_queued_bytes,
            when_full: config.when_full,
        }
    }

    /// Puts `Opened` before everything else.
    pub(super) fn push_opened(&mut self) {
        let opened = Item::Other(Box::new(Other::Opened), 0);
        self.items.reserve_exact(1);
        self.items.push_front(opened);
    }

    /// Adds the outcome of one of our calls. The queue needs no limit for them, because the
    /// connection limits how many calls are open.
    pub(super) fn push_settled(&mut self, settled: Settled<W>) {
        self.urgent += 1;
        self.push_other(Other::Settled(settled), 0);
    }

    /// Adds a copy of a request. Under [`WhenFull::Drop`], returns the request if too many bytes
    /// wait already. Only the connection limits the number of requests. Their bytes count until
    /// they are [released](Self::release).
    pub(super) fn push_request<'a>(
        &mut self,
        request: RequestRef<'a>,
    ) -> Result<(), RequestRef<'a>> {
        let bytes = request.origin.bytes;
        if self.when_full == WhenFull::Drop && !self.fits(bytes) {
            return Err(request);
        }
        self.bytes += bytes;
        if self
            .overtaking
            .iter()
            .any(|method| *method == request.method)
        {
            self.first.push_back(request.into_owned());
        } else {
            self.requests += 1;
            self.push(Item::Request(request.into_owned()));
        }
        Ok(())
    }

    /// Adds an item. Most connections have one at a time, so the first one takes no space for others.
    fn push(&mut self, item: Item<W>) {
        if self.items.capacity() == 0 {
            self.items.reserve_exact(1);
        }
        self.items.push_back(item);
    }

    /// Gives back the memory that a burst has taken.
    pub(super) fn shrink(&mut self) {
        if self.items.capacity() > ITEMS_KEPT {
            self.items.shrink_to(ITEMS_KEPT);
        }
    }

    /// Lets requests for these methods overtake all other work.
    pub(super) fn let_overtake(&mut self, methods: Vec<String>) {
        self.overtaking = methods;
    }

    /// Removes and returns the next request that overtakes other work. Its bytes count until they are
    /// [released](Self::release).
    pub(super) fn pop_first_request(&mut self) -> Option<OwnedRequest> {
        self.first.pop_front()
    }

    /// Releases the bytes of a request that has been answered.
    pub(super) fn release(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(super) fn push_notification(&mut self, notification: NotificationRef<'_>) {
        if self.may_take_message(notification.origin.bytes) {
            let item = Item::Notification(notification.into_owned());
            self.push(item);
        }
    }

    pub(super) fn push_batch(&mut self, items: usize) {
        if self.may_take_message(0) {
            self.push(Item::Batch(items));
        }
    }

    /// Adds a report that holds this many of the peer's bytes, or counts it as dropped.
    pub(super) fn push_report(&mut self, (report, bytes): (Report, usize)) {
        if self.may_take_message(bytes) {
            self.push_other(Other::Report(report), bytes);
        }
    }

    /// Adds the cancel of a request that the service has begun.
    pub(super) fn push_cancelled(&mut self, key: RequestKey, reason: Option<OwnedJson>) {
        // The reason is only logged, so it may be left out; the cancel itself is kept.
        let reason = reason.filter(|reason| self.fits(reason.as_str().len()));
        let bytes = reason.as_ref().map_or(0, |reason| reason.as_str().len());
        self.bytes += bytes;
        self.cancels += 1;
        self.urgent += 1;
        self.push_other(Other::Cancelled(key, reason), bytes);
    }

    /// Removes a request that has not begun.
    pub(super) fn remove_request(&mut self, key: RequestKey) -> Option<OwnedRequest> {
        let request = self.take_request(key)?;
        self.release(request.origin().bytes);
        Some(request)
    }

    /// Removes a request that is to begin before its turn. Its bytes count until they are
    /// [released](Self::release).
    pub(super) fn take_request(&mut self, key: RequestKey) -> Option<OwnedRequest> {
        let is_wanted =
            |item: &Item<W>| matches!(item, Item::Request(request) if request.key() == key);
        let position = self.items.iter().position(is_wanted)?;
        self.remove_request_at(position)
    }

    /// Removes the newest request. Its bytes count until they are [released](Self::release).
    pub(super) fn pop_last_request(&mut self) -> Option<OwnedRequest> {
        let is_wanted = |item: &Item<W>| matches!(item, Item::Request(_));
        let position = self.items.iter().rposition(is_wanted)?;
        self.remove_request_at(position)
    }

    fn remove_request_at(&mut self, position: usize) -> Option<OwnedRequest> {
        let Item::Request(request) = self.items.remove(position)? else {
            return None;
        };
        self.requests -= 1;
        Some(request)
    }

    /// The number of requests that wait.
    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    /// Whether the next work is a request.
    pub(super) fn is_request_next(&self) -> bool {
        matches!(self.items.front(), Some(Item::Request(_)))
    }

    /// Removes the cancel of a request that was never begun.
    pub(super) fn remove_cancelled(&mut self, key: RequestKey) {
        let is_wanted = |item: &Item<W>| match item {
            Item::Other(other, _) => matches!(**other, Other::Cancelled(found, _) if found == key),
            _ => false,
        };
        let position = self.items.iter().position(is_wanted);
        if let Some(item) = position.and_then(|at| self.items.remove(at)) {
            self.take_out(item);
        }
    }

    /// Removes and returns the first work, even if it should wait for other work.
    pub(super) fn pop(&mut self) -> Option<Next<W>> {
        self.items.pop_front().map(|item| self.take_out(item))
    }

    /// Removes and returns the next work: a request only if `may_begin`, a notification only if no
    /// request waits for a thread, and neither if `is_held`. If the first entry has to wait, the
    /// entries after it wait too, except cancels and outcomes of calls: the first entry may be
    /// waiting for one of them.
    pub(super) fn pop_in_order(&mut self, may_begin: bool, is_held: bool) -> Option<Next<W>> {
        let is_next_free = match self.items.front()? {
            Item::Request(_) => may_begin && !is_held,
            Item::Notification(_) => self.unbegun == 0 && !is_held,
            Item::Batch(_) | Item::Other(..) => true,
        };
        if is_next_free {
            return self.pop();
        }
        if self.urgent == 0 {
            return None;
        }
        self.pop_first(|other| matches!(other, Other::Cancelled(..) | Other::Settled(_)))
    }

    /// Removes the next cancel, even if other work comes before it.
    pub(super) fn pop_cancelled(&mut self) -> Option<Next<W>> {
        if self.cancels == 0 {
            return None;
        }
        self.pop_first(|other| matches!(other, Other::Cancelled(..)))
    }

    fn pop_first(&mut self, is_wanted: impl Fn(&Other<W>) -> bool) -> Option<Next<W>> {
        let is_wanted = |item: &Item<W>| matches!(item, Item::Other(other, _) if is_wanted(other));
        let position = self.items.iter().position(is_wanted)?;
        let item = self.items.remove(position)?;
        Some(self.take_out(item))
    }

    /// Notes that a request waits for a thread. Notifications after it wait too.
    pub(super) fn postpone(&mut self) {
        self.unbegun += 1;
    }

    /// Notes that a postponed request has begun, or never will.
    pub(super) fn begin_postponed(&mut self) {
        self.unbegun = self.unbegun.saturating_sub(1);
    }

    /// Whether there is a cancel in the queue.
    pub(super) fn has_cancels(&self) -> bool {
        self.cancels > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The most bytes that may wait.
    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Whether reading should pause.
    pub(super) fn is_full(&self) -> bool {
        self.when_full == WhenFull::Pause && self.is_beyond(1)
    }

    /// Whether so much waits that reading cannot go on even while a call is open: then the session
    /// closes.
    pub(super) fn is_overflowing(&self) -> bool {
        self.when_full == WhenFull::Pause && self.is_beyond(2)
    }

    /// Whether the queue has reached `times` times one of its limits. A limit of 0 counts as 1: an
    /// empty queue never stops reading.
    fn is_beyond(&self, times: usize) -> bool {
        let max_messages = self.max_messages.saturating_mul(times);
        let max_bytes = self.max_bytes.saturating_mul(times);
        self.messages >= max_messages.max(1) || self.bytes >= max_bytes.max(1)
    }

    /// Whether a message of this many bytes may be added. Always true while no bytes are held.
    fn fits(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= self.max_bytes
    }

    /// Whether a notification, the beginning of a batch or a report may be added, which is then
    /// counted. Otherwise counts it as dropped; the count is reported later.
    fn may_take_message(&mut self, bytes: usize) -> bool {
        let is_kept = self.when_full == WhenFull::Pause;
        if is_kept || (self.messages < self.max_messages && self.fits(bytes)) {
            self.messages += 1;
            self.bytes += bytes;
            return true;
        }
        if self.dropped == 0 {
            self.push_other(Other::Dropped, 0);
        }
        self.dropped += 1;
        false
    }

    fn push_other(&mut self, other: Other<W>, bytes: usize) {
        self.push(Item::Other(Box::new(other), bytes));
    }

    /// Updates the counts for an item that was removed, and converts it to work.
    fn take_out(&mut self, item: Item<W>) -> Next<W> {
        Next::Work(match item {
            // The request's bytes count until it is answered.
            Item::Request(request) => {
                self.requests -= 1;
                return Next::Request(request);
            }
            Item::Notification(notification) => {
                self.messages -= 1;
                self.bytes -= notification.origin().bytes;
                Work::Notification(notification)
            }
            Item::Batch(items) => {
                self.messages -= 1;
                Work::Batch(items)
            }
            Item::Other(other, bytes) => {
                self.bytes -= bytes;
                match *other {
                    Other::Opened => {
                        // It stood before the first message, which is taken next.
                        self.items.shrink_to(1);
                        Work::Opened
                    }
                    Other::Cancelled(key, reason) => {
                        self.cancels -= 1;
                        self.urgent -= 1;
                        Work::Cancelled(key, reason)
                    }
                    Other::Settled(settled) => {
                        self.urgent -= 1;
                        Work::Settled(settled)
                    }
                    Other::Report(report) => {
                        self.messages -= 1;
                        Work::Report(report)
                    }
                    Other::Dropped => {
                        let messages = mem::take(&mut self.dropped);
                        Work::Report(Report::Dropped { messages })
                    }
                }
            }
        })
    }
}

impl<W> fmt::Debug for Queue<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("items", &self.items.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
