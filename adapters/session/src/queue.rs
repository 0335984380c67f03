//! What waits for the service, in the order of arrival.
//!
//! The rules guarded here: what would grow without bound stops the reader, or is dropped and counted
//! where the options ask for that; and a request that is cancelled while it waits is never begun.

use std::collections::VecDeque;
use std::fmt;

use antiphon::{
    Notification, Origin, OwnedJson, OwnedNotification, OwnedOutcome, OwnedRequest, Request,
    RequestKey,
};

use crate::options::{Options, WhenFull};
use crate::rare::rare;
use crate::report::Report;
use crate::session::Then;

/// One thing for the service to do.
pub enum Work {
    /// Answer it.
    Request(OwnedRequest),
    /// Take note of it.
    Notification(OwnedNotification),
    /// The other side gave up a request that the service has begun.
    Cancelled(RequestKey, Option<OwnedJson>),
    /// A call has settled, and this goes on with it.
    Settled(Then, OwnedOutcome),
    /// Something for a log.
    Report(Report),
    /// Stands where the first of the dropped messages would have stood; comes out as a report.
    Dropped,
}

/// The same where it waits: what there is much of takes no more room than it needs.
enum Item {
    /// There is one, for it is put in where it waits.
    Request(Option<OwnedRequest>),
    Notification(OwnedNotification),
    /// With the bytes that are let go of when it is taken out.
    Rare(Box<Work>, usize),
}

impl Item {
    /// Where a request is put in.
    const NONE: Self = Self::Request(None);

    fn as_request(&self) -> Option<&OwnedRequest> {
        match self {
            Self::Request(request) => request.as_ref(),
            Self::Notification(_) | Self::Rare(..) => None,
        }
    }

    fn into_request(self) -> Option<OwnedRequest> {
        match self {
            Self::Request(request) => request,
            Self::Notification(_) | Self::Rare(..) => None,
        }
    }
}

/// Whether what stood at `next` stands right behind `request` in its batch.
#[inline]
fn is_followed(request: &OwnedRequest, next: Origin) -> bool {
    let before = request.origin().batch_index;
    before.is_some_and(|before| next.batch_index == Some(before + 1))
}

/// For how many items an empty queue keeps its memory.
const ITEMS_KEPT: usize = 16;

/// For how many items the memory stays with whoever has taken them.
const ITEMS_TAKEN: usize = 4;

/// Requests that were taken from a queue together, and have not begun.
#[derive(Default)]
pub struct Taken {
    /// Nothing but requests.
    items: VecDeque<Item>,
}

impl Taken {
    /// The next request to begin.
    #[inline]
    pub fn pop(&mut self) -> Option<OwnedRequest> {
        self.items.pop_front().and_then(Item::into_request)
    }

    /// Names the next request.
    pub fn next_key(&self) -> Option<RequestKey> {
        let next = self.items.front().and_then(Item::as_request);
        next.map(OwnedRequest::key)
    }

    /// Whether it is not worth the lock to give its memory back.
    pub(crate) fn is_small(&self) -> bool {
        self.items.capacity() <= ITEMS_TAKEN
    }

    /// Lets go of them, and of their memory unless that is little.
    pub fn clear(&mut self) {
        if !self.items.is_empty() || !self.is_small() {
            rare();
            self.items = VecDeque::new();
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// The work that waits, and how much of the peer's words is held for it.
#[derive(Default)]
pub struct Queue {
    items: VecDeque<Item>,
    /// How many of the last ones are requests, each right behind the one before it in its batch.
    run: usize,
    /// Notifications and reports among them.
    messages: usize,
    /// Bytes of the messages among them, and of the requests that are being served.
    bytes: usize,
    /// Messages dropped since the service was last told.
    dropped: u64,
    /// Cancels among them, and ends of calls: what may go past those that wait for others.
    cancels: usize,
    settled: usize,
    /// Requests that wait for a thread to begin on.
    unbegun: usize,
    messages_max: usize,
    bytes_max: usize,
    when_full: WhenFull,
}

impl Queue {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            messages_max: options.queue_messages_max,
            bytes_max: options.queue_bytes_max,
            when_full: options.when_full,
            ..Self::default()
        }
    }

    /// Forgets everything but its limits.
    pub(crate) fn renew(&mut self) {
        self.items.clear();
        self.items.shrink_to(ITEMS_KEPT);
        (self.run, self.messages, self.bytes, self.dropped) = (0, 0, 0, 0);
        (self.cancels, self.settled, self.unbegun) = (0, 0, 0);
    }

    /// Copies a request, or gives it back if too many bytes are held already.
    /// How many requests there can be is bounded by the connection. Its bytes are held until it is
    /// answered: [`release`](Self::release).
    #[inline]
    pub(crate) fn push_request<'a>(&mut self, request: Request<'a>) -> Result<(), Request<'a>> {
        let bytes = request.origin.bytes;
        if self.when_full == WhenFull::Drop && !self.fits(bytes) {
            rare();
            return Err(request);
        }
        self.bytes += bytes;
        let last = self.items.back().and_then(Item::as_request);
        let is_next = last.is_some_and(|last| is_followed(last, request.origin));
        self.run = if is_next { self.run + 1 } else { 1 };
        if self.items.capacity() == 0 {
            rare();
            // Mostly there is no other, and a connection that waits for the next one keeps this.
            self.items.reserve_exact(1);
        }
        self.items.push_back(Item::NONE);
        if let Some(Item::Request(place)) = self.items.back_mut() {
            request.put_into(place);
        }
        Ok(())
    }

    /// Lets go of the bytes of a request that has been answered.
    pub(crate) fn release(&mut self, request_bytes: usize) {
        self.bytes = self.bytes.saturating_sub(request_bytes);
    }

    pub(crate) fn push_notification(&mut self, notification: Notification<'_>) {
        if self.may_take_message(notification.origin.bytes) {
            self.items
                .push_back(Item::Notification(notification.into_owned()));
        }
    }

    /// Takes a report that holds `bytes` of the peer's words.
    pub(crate) fn push_report(&mut self, report: Report, bytes: usize) {
        if self.may_take_message(bytes) {
            self.push_rare(Work::Report(report), bytes);
        }
    }

    /// Takes the end of a request that the service has begun.
    pub(crate) fn push_cancelled(&mut self, key: RequestKey, reason: Option<OwnedJson>) {
        // The reason is for a log; the cancel itself is not lost.
        let reason = reason.filter(|reason| self.fits(reason.as_str().len()));
        let bytes = reason.as_ref().map_or(0, |reason| reason.as_str().len());
        self.bytes += bytes;
        self.cancels += 1;
        self.push_rare(Work::Cancelled(key, reason), bytes);
    }

    /// Takes the end of a call of ours, of which there are only so many.
    pub(crate) fn push_settled(&mut self, then: Then, outcome: OwnedOutcome) {
        self.settled += 1;
        self.push_rare(Work::Settled(then, outcome), 0);
    }

    /// Takes a request out that has not begun.
    pub(crate) fn remove_request(&mut self, key: RequestKey) -> Option<OwnedRequest> {
        let is_wanted = |item: &Item| item.as_request().is_some_and(|found| found.key() == key);
        let position = self.items.iter().position(is_wanted)?;
        self.run = 0;
        let request = self.items.remove(position)?.into_request()?;
        self.release(request.origin().bytes);
        Some(request)
    }

    /// Forgets that a request was given up which the service never began.
    pub(crate) fn remove_cancelled(&mut self, key: RequestKey) {
        let is_wanted = |item: &Item| {
            let Item::Rare(work, _) = item else {
                return false;
            };
            matches!(**work, Work::Cancelled(found, _) if found == key)
        };
        let position = self.items.iter().position(is_wanted);
        if let Some(Item::Rare(_, bytes)) = position.and_then(|at| self.items.remove(at)) {
            self.cancels -= 1;
            self.release(bytes);
        }
    }

    /// The next thing to do.
    pub fn pop(&mut self) -> Option<Work> {
        self.items.pop_front().and_then(|item| self.take_out(item))
    }

    /// The next thing to do, for a service that begins requests only if `may_begin`. What is behind
    /// something that waits for others waits, too, but for cancels and the ends of calls: what is
    /// waited for may be waiting for them.
    pub fn pop_in_order(&mut self, may_begin: bool) -> Option<Work> {
        let is_next_free = match self.items.front()? {
            Item::Request(_) => may_begin,
            Item::Notification(_) => self.unbegun == 0,
            Item::Rare(..) => true,
        };
        if is_next_free {
            return self.pop();
        }
        rare();
        if self.cancels + self.settled == 0 {
            return None;
        }
        self.pop_first(|work| matches!(work, Work::Cancelled(..) | Work::Settled(..)))
    }

    /// The next cancel, past everything else.
    pub fn pop_cancelled(&mut self) -> Option<Work> {
        if self.cancels == 0 {
            return None;
        }
        rare();
        self.pop_first(|work| matches!(work, Work::Cancelled(..)))
    }

    /// A request waits for a thread to begin on: notifications behind it wait, too.
    pub(crate) fn begin_later(&mut self) {
        self.unbegun += 1;
    }

    /// It has begun, or never will. Says whether it was the last.
    pub(crate) fn note_begun(&mut self) -> bool {
        self.unbegun = self.unbegun.saturating_sub(1);
        self.unbegun == 0
    }

    fn pop_first(&mut self, is_wanted: impl Fn(&Work) -> bool) -> Option<Work> {
        let is_wanted = |item: &Item| matches!(item, Item::Rare(work, _) if is_wanted(work));
        let position = self.items.iter().position(is_wanted)?;
        self.run = 0;
        let item = self.items.remove(position)?;
        self.take_out(item)
    }

    fn take_out(&mut self, item: Item) -> Option<Work> {
        let (work, bytes) = match item {
            // Its bytes are held until it is answered.
            Item::Request(request) => return request.map(Work::Request),
            Item::Notification(notification) => {
                let bytes = notification.origin().bytes;
                (Work::Notification(notification), bytes)
            }
            Item::Rare(work, bytes) => (*work, bytes),
        };
        self.bytes -= bytes;
        match work {
            Work::Notification(_) | Work::Report(_) => self.messages -= 1,
            Work::Dropped => {
                let messages = std::mem::take(&mut self.dropped);
                return Some(Work::Report(Report::Dropped { messages }));
            }
            Work::Cancelled(..) => self.cancels -= 1,
            Work::Settled(..) => self.settled -= 1,
            Work::Request(_) => {}
        }
        Some(work)
    }

    /// Takes the requests that are next, at most so many: for whoever begins several in one go. Says
    /// whether there were any.
    pub fn pop_requests(&mut self, taken: &mut Taken, requests_max: usize) -> bool {
        let waiting = self.items.iter().take(requests_max);
        let requests = waiting.map_while(Item::as_request).count();
        self.take(taken, requests)
    }

    /// Takes the request that is next, and those that stand in its batch one right behind the other, at
    /// most so many: their answers wait for each other. Says whether a request was next.
    pub fn pop_batch(&mut self, taken: &mut Taken, requests_max: usize) -> bool {
        // Mostly there is nothing but one batch, and that is known.
        let requests = if self.run >= self.items.len() {
            self.items.len()
        } else {
            let mut last = None;
            let waiting = self.items.iter().take(requests_max);
            let run = waiting.map_while(Item::as_request).take_while(|next| {
                let before = last.replace(*next);
                before.is_none_or(|before| is_followed(before, next.origin()))
            });
            run.count()
        };
        self.take(taken, requests.min(requests_max))
    }

    fn take(&mut self, taken: &mut Taken, requests: usize) -> bool {
        match requests {
            0 => return false,
            all if all == self.items.len() && taken.is_empty() => {
                std::mem::swap(&mut self.items, &mut taken.items);
            }
            some => taken.items.extend(self.items.drain(..some)),
        }
        true
    }

    /// Takes the memory of what was taken, once all of that has begun: one of the two is enough until
    /// more comes.
    pub fn take_room(&mut self, taken: &mut Taken) {
        if self.items.is_empty() && taken.is_empty() {
            let room = std::mem::take(&mut taken.items);
            if room.capacity() > self.items.capacity() {
                self.items = room;
            }
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether nothing more should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.when_full == WhenFull::Pause && self.is_beyond(1)
    }

    /// Whether so much waits that not even the answer to a call is read for.
    pub(crate) fn is_overflowing(&self) -> bool {
        self.when_full == WhenFull::Pause && self.is_beyond(2)
    }

    /// Whether so many times what may wait does.
    fn is_beyond(&self, times: usize) -> bool {
        let messages_max = self.messages_max.saturating_mul(times);
        let bytes_max = self.bytes_max.saturating_mul(times);
        self.messages >= messages_max.max(1) || self.bytes >= bytes_max.max(1)
    }

    /// One message always fits.
    fn fits(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= self.bytes_max
    }

    /// Whether there is room for a notification or report, which is then counted. If not, the
    /// service is told of it.
    fn may_take_message(&mut self, bytes: usize) -> bool {
        self.run = 0;
        let is_kept = self.when_full == WhenFull::Pause;
        if is_kept || (self.messages < self.messages_max && self.fits(bytes)) {
            self.messages += 1;
            self.bytes += bytes;
            return true;
        }
        if self.dropped == 0 {
            self.push_rare(Work::Dropped, 0);
        }
        self.dropped += 1;
        false
    }

    fn push_rare(&mut self, work: Work, bytes: usize) {
        self.run = 0;
        self.items.push_back(Item::Rare(Box::new(work), bytes));
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request(_) => "Request",
            Self::Notification(_) => "Notification",
            Self::Cancelled(..) => "Cancelled",
            Self::Settled(..) => "Settled",
            Self::Report(_) => "Report",
            Self::Dropped => "Dropped",
        })
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("items", &self.items.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
