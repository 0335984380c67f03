//! What a handler may hold up, and for how long: the end that the peer asks for, and the messages after it.
//!
//! A driver handles messages in order, so a handler that waits for something may hold up everything after
//! it. Under [`EndStyle::Lsp`] the peer's `shutdown` overtakes such a handler, and `exit` does not wait.

use super::machine::Session;
use super::options::Order;
use super::queue::{Holder, Work};
use super::report::{Report, RequestDetails};
use super::ticket::Method;
use crate::config::EndStyle;
use crate::id::RequestKey;
use crate::time::Instant;
use core::time::Duration;

/// How long a `shutdown` may wait. This is less than the 1.5 s that a drain of [`Config::lsp`] may take, so that
/// it is answered even if `exit` has come together with it.
///
/// [`Config::lsp`]: crate::Config::lsp
const MAX_SHUTDOWN_WAIT: Duration = Duration::from_secs(1);

impl<W> Session<W> {
    /// Returns work that has waited long enough, even while other work is being handled: under
    /// [`EndStyle::Lsp`] a `shutdown` that has waited for 1 s; and a [report](Report::HoldsOrder) of a
    /// handler that holds up other work for more than 5 s. [`poll_work`](Self::poll_work) returns it too.
    pub fn poll_overdue(&mut self) -> Option<Work<W>> {
        let late = self.ordered.shutdown.filter(|(_, due)| *due <= self.now);
        if let Some((key, _)) = late {
            self.ordered.shutdown = None;
            if let Some(request) = self.queue.take_request(key) {
                let (message, ticket) = self.ticket(request);
                return Some(Work::Request(message, ticket));
            }
        }
        let holder = self.ordered.holder.as_mut();
        let holder = holder.filter(|holder| holder.due().is_some_and(|due| due <= self.now))?;
        holder.is_reported = true;
        let request = holder.request.and_then(|key| self.conn.request_id(key));
        Some(Work::Report(Report::HoldsOrder(RequestDetails {
            method: holder.method.as_str().into(),
            id: request.map(Into::into),
            duration: self.now.saturating_since(holder.since),
        })))
    }

    /// Reports that the driver takes no other work until this request has been handled: its service
    /// handles one message at a time.
    pub fn handle_held(&mut self, method: &str, request: RequestKey) {
        self.hold(method, Some(request));
    }

    /// Whether the peer has asked for the end of the connection by a message: `exit`, under
    /// [`EndStyle::Lsp`]. Handlers of notifications are not awaited then.
    pub fn has_exited(&self) -> bool {
        self.ordered.has_exited
    }

    /// Notes that `work` is handled from now on, if other work has to wait for its end.
    pub(super) fn note_held(&mut self, work: &Work<W>) {
        match (work, self.order) {
            (Work::Notification(message), Order::Notifications | Order::Serial) => {
                self.hold(message.method(), None);
            }
            (Work::Request(message, ticket), Order::Serial) => {
                self.hold(message.method(), Some(ticket.key()));
            }
            _ => {}
        }
    }

    fn hold(&mut self, method: &str, request: Option<RequestKey>) {
        self.ordered.holder = Some(Holder {
            method: Method::new(method),
            request,
            since: self.now,
            is_reported: false,
        });
    }

    /// Notes that no handler holds up other work any more.
    pub(super) fn note_free(&mut self) {
        self.ordered.holder = None;
    }

    /// Notes a request that has come.
    pub(super) fn note_request(&mut self, method: &str, key: RequestKey) {
        if self.conn.config().dialect.end == EndStyle::Lsp && method == "shutdown" {
            self.ordered.shutdown = Some((key, self.now + MAX_SHUTDOWN_WAIT));
        }
    }

    /// Notes a notification that has come. With `exit` the input counts as ended.
    pub(super) fn note_notification(&mut self, is_exit: bool) {
        if is_exit && self.conn.config().dialect.end == EndStyle::Lsp {
            self.ordered.has_exited = true;
            self.conn.handle_eof();
        }
    }

    /// Returns when [`poll_overdue`](Self::poll_overdue) has to be called.
    pub(super) fn overdue_at(&self) -> Option<Instant> {
        let shutdown = self.ordered.shutdown.map(|(_, due)| due);
        let holder = self.ordered.holder.as_ref().and_then(Holder::due);
        let dues = shutdown.into_iter().chain(holder);
        // What is due by now is returned by the next `poll_overdue`.
        dues.filter(|due| *due > self.now).min()
    }
}
