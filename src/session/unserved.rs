//! Reports of requests and notifications that nobody serves.

use super::machine::Session;
use super::report::{Report, RequestDetails};
use super::ticket::Ticket;

/// How many names a connection reports.
const MAX_NAMES: usize = 16;

/// The longest part of a name that is kept and reported, in bytes.
const MAX_NAME_BYTES: usize = 256;

impl<W> Session<W> {
    /// Reports that nobody serves `method`: that of the request of `ticket`, or of a notification. See
    /// [`Report::Unserved`].
    pub fn report_unserved(&mut self, method: &str, ticket: Option<&Ticket>) {
        let mut end = method.len().min(MAX_NAME_BYTES);
        while !method.is_char_boundary(end) {
            end -= 1;
        }
        let name = &method[..end];
        let mut about = RequestDetails::of_notification(name);
        if let Some(ticket) = ticket {
            let Some(request) = self.about(ticket.key(), &ticket.method, ticket.begun) else {
                return;
            };
            (about.id, about.duration) = (request.id, request.duration);
        }
        let Some(unserved) = &mut self.unserved else {
            return;
        };
        let is_known = unserved.names.iter().any(|known| **known == *name);
        if is_known || unserved.names.len() >= MAX_NAMES {
            unserved.more += 1;
            return;
        }
        unserved.names.push(name.into());
        self.report(Report::Unserved(about));
    }

    /// Takes the report of further messages, after the end of the session.
    pub(super) fn take_unserved(&mut self) -> Option<Report> {
        let unserved = self.unserved.as_mut().filter(|_| self.phase.is_over())?;
        let messages = core::mem::take(&mut unserved.more);
        (messages > 0).then_some(Report::MoreUnserved { messages })
    }
}
