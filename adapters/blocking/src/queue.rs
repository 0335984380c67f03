//! What waits for the service, in the order of arrival.
//!
//! The rules guarded here: the reader never waits for the service, so what would grow without
//! bound is dropped and counted; and a request that is cancelled while it waits is never begun.

use std::collections::VecDeque;

use antiphon::{OwnedJson, OwnedNotification, OwnedOutcome, OwnedRequest, RequestKey};

use crate::options::Options;
use crate::service::Report;
use crate::shared::Then;

/// One thing for the service thread to do.
pub(crate) enum Work {
    Request(OwnedRequest),
    Notification(OwnedNotification),
    Cancelled(RequestKey, Option<OwnedJson>),
    Settled(Then, OwnedOutcome),
    Report(Report),
    /// Stands where the first of the dropped messages would have stood.
    Dropped,
}

#[derive(Default)]
pub(crate) struct Queue {
    items: VecDeque<Work>,
    /// Notifications and reports among them.
    messages: usize,
    /// Bytes of requests and notifications among them.
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

    /// Takes a request, or gives it back if too many bytes wait already. How many requests there
    /// can be is bounded by the connection.
    pub(crate) fn push_request(&mut self, request: OwnedRequest) -> Result<(), OwnedRequest> {
        if self.bytes > 0 && self.bytes + request.origin().bytes > self.bytes_max {
            return Err(request);
        }
        self.bytes += request.origin().bytes;
        self.items.push_back(Work::Request(request));
        Ok(())
    }

    pub(crate) fn push_notification(&mut self, notification: OwnedNotification) {
        let bytes = notification.origin().bytes;
        let fits = self.bytes == 0 || self.bytes + bytes <= self.bytes_max;
        if self.messages >= self.messages_max || !fits {
            self.drop_one();
            return;
        }
        self.messages += 1;
        self.bytes += bytes;
        self.items.push_back(Work::Notification(notification));
    }

    pub(crate) fn push_report(&mut self, report: Report) {
        if self.messages >= self.messages_max {
            self.drop_one();
            return;
        }
        self.messages += 1;
        self.items.push_back(Work::Report(report));
    }

    /// Takes what is bounded by the open requests and calls.
    pub(crate) fn push(&mut self, work: Work) {
        self.items.push_back(work);
    }

    /// Takes a request out that has not begun.
    pub(crate) fn remove_request(&mut self, key: RequestKey) -> Option<OwnedRequest> {
        let is_wanted =
            |work: &Work| matches!(work, Work::Request(request) if request.key() == key);
        let position = self.items.iter().position(is_wanted)?;
        match self.items.remove(position)? {
            Work::Request(request) => {
                self.bytes -= request.origin().bytes;
                Some(request)
            }
            _ => None,
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Work> {
        let work = self.items.pop_front()?;
        match &work {
            Work::Request(request) => self.bytes -= request.origin().bytes,
            Work::Notification(notification) => {
                self.messages -= 1;
                self.bytes -= notification.origin().bytes;
            }
            Work::Report(_) => self.messages -= 1,
            Work::Dropped => {
                let messages = std::mem::take(&mut self.dropped);
                return Some(Work::Report(Report::Dropped { messages }));
            }
            Work::Cancelled(..) | Work::Settled(..) => {}
        }
        Some(work)
    }

    fn drop_one(&mut self) {
        if self.dropped == 0 {
            self.items.push_back(Work::Dropped);
        }
        self.dropped += 1;
    }
}
