//! A connection whose messages the program receives in a loop of its own.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use antiphon::session::Report;
use antiphon::{Closed, OwnedError};
use async_channel::{Receiver, Sender, bounded};
use futures_util::FutureExt;

use crate::peer::Peer;
use crate::serve::answer::Answer;
use crate::serve::notification::Notification;
use crate::serve::request::{Request, answerable};
use crate::serve::service::Service;
use crate::wait::Wait;

/// How many reports may wait to be received. Further ones are only counted.
const MAX_REPORTS: usize = 64;

/// An event that an [`Inbox`] returns.
#[derive(Debug)]
#[non_exhaustive]
pub enum InboxEvent {
    /// The peer sent a request: [`answer`](Request::answer) it, now or later, on any thread.
    Request(Request),
    /// The peer sent a notification.
    Notification(Notification),
    /// Something went wrong of which the peer was told nothing, or only a part.
    Report(Report),
    /// The connection has ended. The last event.
    Closed(Closed),
}

/// The messages of a connection, in the order in which they arrived. Messages that were not
/// received yet wait in the connection, within its limits.
#[derive(Debug)]
#[must_use = "what the peer says waits here"]
pub struct Inbox {
    messages: Receiver<InboxEvent>,
    reports: Receiver<Report>,
    end: Arc<ConnectionEnd>,
    is_over: bool,
}

/// How the connection ended, and how many reports were not received.
#[derive(Debug, Default)]
struct ConnectionEnd {
    why: OnceLock<Closed>,
    unreceived: AtomicU64,
}

impl Inbox {
    /// Makes an inbox, and the service that fills it.
    pub fn new() -> (impl Service, Self) {
        let (sender, messages) = bounded(1);
        let (reported, reports) = bounded(MAX_REPORTS);
        let end = Arc::<ConnectionEnd>::default();
        let inbox = Self {
            messages,
            reports,
            end: Arc::clone(&end),
            is_over: false,
        };
        (
            ToInbox {
                sender,
                reported,
                end,
            },
            inbox,
        )
    }

    /// Waits for the next event. A report comes before the messages that wait. `None` after
    /// [`InboxEvent::Closed`].
    pub fn recv(&mut self) -> Wait<'_, Option<InboxEvent>> {
        Wait::on(async move {
            if self.is_over {
                return None;
            }
            let mut report = pin!(self.reports.recv().fuse());
            let mut message = pin!(self.messages.recv());
            let next = poll_fn(|cx| {
                // Both channels are closed together, and each fails only after everything in it was
                // received.
                if let Poll::Ready(Ok(report)) = report.as_mut().poll(cx) {
                    return Poll::Ready(Some(InboxEvent::Report(report)));
                }
                message.as_mut().poll(cx).map(Result::ok)
            });
            Some(match next.await {
                Some(event) => event,
                None => self.end(),
            })
        })
    }

    /// The next event, if there is one now.
    pub fn try_recv(&mut self) -> Option<InboxEvent> {
        if let Ok(report) = self.reports.try_recv() {
            return Some(InboxEvent::Report(report));
        }
        match self.messages.try_recv() {
            Ok(event) => Some(event),
            Err(error) => (error.is_closed() && !self.is_over).then(|| self.end()),
        }
    }

    /// Returns the event for the end of the connection. Before it comes one that says how many reports
    /// were not received in the whole time, whatever `when_full` is.
    fn end(&mut self) -> InboxEvent {
        let messages = self.end.unreceived.swap(0, Ordering::Relaxed);
        if messages > 0 {
            return InboxEvent::Report(Report::Dropped { messages });
        }
        self.is_over = true;
        InboxEvent::Closed(self.end.why.get().cloned().unwrap_or(Closed::EndOfInput))
    }
}

/// The service that fills an [`Inbox`]. One message waits in the inbox at most, and one in its handler;
/// the others wait in the connection, within its limits.
struct ToInbox {
    sender: Sender<InboxEvent>,
    reported: Sender<Report>,
    end: Arc<ConnectionEnd>,
}

impl ToInbox {
    /// Puts an event into the inbox, as soon as the event before it was received.
    async fn put(&self, event: InboxEvent) {
        // If the inbox was dropped, the request is dropped too, which answers it.
        let _ = self.sender.send(event).await;
    }

    /// Puts a report into the inbox, or only counts it if 64 reports wait there.
    fn put_report(&self, report: Report) {
        if self.reported.try_send(report).is_err() {
            self.end.unreceived.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the inbox.
    fn close(&self, why: Closed) {
        // A connection ends only once.
        let _ = self.end.why.set(why);
        self.sender.close();
        self.reported.close();
    }
}

impl Service for ToInbox {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        // The request has begun when it is in the inbox. Until then the notifications after it wait, so
        // that none of them enters the inbox first.
        let own = answerable(request.clone(), request.defer());
        let put = pin!(self.put(InboxEvent::Request(own)));
        request.postponed(put).await;
        Ok(Answer::deferred())
    }

    async fn notification(&self, _: &Peer, notification: Notification) {
        self.put(InboxEvent::Notification(notification)).await;
    }

    fn report(&self, _: &Peer, report: Report) {
        self.put_report(report);
    }

    fn closed(&self, _: &Peer, why: Closed) {
        self.close(why);
    }
}
