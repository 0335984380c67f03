//! What waits for the service, in the order of arrival.
//!
//! The rules guarded here: the reader never waits for the service, so what would grow without
//! bound is dropped and counted; and a request that is cancelled while it waits is never begun.

use std::collections::VecDeque;
use std::fmt;

use antiphon::{OwnedJson, OwnedNotification, OwnedOutcome, OwnedRequest, RequestKey};

use crate::options::Options;
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

/// The work that waits, and how much of the peer's words is held for it.
#[derive(Default)]
pub struct Queue {
    /// Each with the bytes that are let go of when it is taken out.
    items: VecDeque<(Work, usize)>,
    /// Notifications and reports among them.
    messages: usize,
    /// Bytes of the messages among them, and of the requests that are being served.
    bytes: usize,
    /// Messages dropped since the service was last told.
    dropped: u64,
    messages_max: usize,
    bytes_max: usize,
}

impl Queue {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            messages_max: options.queue_messages_max,
            bytes_max: options.queue_bytes_max,
            ..Self::default()
        }
    }

    /// Takes a request, or gives it back if too many bytes are held already. How many requests
    /// there can be is bounded by the connection. Its bytes are held until it is answered:
    /// [`release`](Self::release).
    pub(crate) fn push_request(&mut self, request: OwnedRequest) -> Result<(), OwnedRequest> {
        let bytes = request.origin().bytes;
        if !self.fits(bytes) {
            return Err(request);
        }
        self.bytes += bytes;
        self.items.push_back((Work::Request(request), 0));
        Ok(())
    }

    /// Lets go of the bytes of a request that has been answered.
    pub(crate) fn release(&mut self, request_bytes: usize) {
        self.bytes = self.bytes.saturating_sub(request_bytes);
    }

    pub(crate) fn push_notification(&mut self, notification: OwnedNotification) {
        let bytes = notification.origin().bytes;
        self.push_message(Work::Notification(notification), bytes);
    }

    /// Takes a report that holds `bytes` of the peer's words.
    pub(crate) fn push_report(&mut self, report: Report, bytes: usize) {
        self.push_message(Work::Report(report), bytes);
    }

    /// Takes the end of a request that the service has begun.
    pub(crate) fn push_cancelled(&mut self, key: RequestKey, reason: Option<OwnedJson>) {
        // The reason is for a log; the cancel itself is not lost.
        let reason = reason.filter(|reason| self.fits(reason.as_str().len()));
        let bytes = reason.as_ref().map_or(0, |reason| reason.as_str().len());
        self.bytes += bytes;
        self.items.push_back((Work::Cancelled(key, reason), bytes));
    }

    /// Takes the end of a call of ours, of which there are only so many.
    pub(crate) fn push_settled(&mut self, then: Then, outcome: OwnedOutcome) {
        self.items.push_back((Work::Settled(then, outcome), 0));
    }

    /// Takes a request out that has not begun.
    pub(crate) fn remove_request(&mut self, key: RequestKey) -> Option<OwnedRequest> {
        let is_wanted =
            |(work, _): &(Work, usize)| matches!(work, Work::Request(found) if found.key() == key);
        let position = self.items.iter().position(is_wanted)?;
        match self.items.remove(position)? {
            (Work::Request(request), _) => {
                self.release(request.origin().bytes);
                Some(request)
            }
            _ => None,
        }
    }

    /// The next thing to do.
    pub fn pop(&mut self) -> Option<Work> {
        let (work, bytes) = self.items.front()?;
        self.bytes -= bytes;
        match work {
            Work::Notification(_) | Work::Report(_) => self.messages -= 1,
            Work::Dropped => {
                self.items.pop_front();
                let messages = std::mem::take(&mut self.dropped);
                return Some(Work::Report(Report::Dropped { messages }));
            }
            Work::Request(_) | Work::Cancelled(..) | Work::Settled(..) => {}
        }
        self.items.pop_front().map(|(work, _)| work)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// One message always fits.
    fn fits(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= self.bytes_max
    }

    fn push_message(&mut self, work: Work, bytes: usize) {
        if self.messages < self.messages_max && self.fits(bytes) {
            self.messages += 1;
            self.bytes += bytes;
            self.items.push_back((work, bytes));
            return;
        }
        if self.dropped == 0 {
            self.items.push_back((Work::Dropped, 0));
        }
        self.dropped += 1;
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
