//! How an end handles an event: it updates the records, counts every variant, and passes the event
//! to the application.
//!
//! Rule: each event about what an honest peer has sent is compared with what arrived (`Book::told`).

use antiphon::{Event, Id, Outcome, RefusedCause};

use crate::book::{Answer, Debt, Held, Told, WantedId};
use crate::checks::{Broken, Check, Checked};
use crate::counts::{self, Counts};
use crate::end::{End, Seen, Settled};
use crate::observer::ItemKind;
use crate::plant::Plant;
use crate::skim;

impl End {
    /// Checks an event, updates the records, and says what the application has to do.
    ///
    /// # Errors
    /// If an invariant breaks.
    pub fn digest(&mut self, event: Event<'_, u64>, counts: &mut Counts) -> Result<Seen, Broken> {
        self.heard = true;
        // A connection that has ended only gives its open requests up, one by one.
        let is_late = self.book.closed.is_some();
        let is_allowed = matches!(&event, Event::Cancelled(cancelled) if !cancelled.answer_owed);
        Check::ClosedOnce.that(!is_late || is_allowed, || {
            format!("{event:?} after the end")
        })?;
        match event {
            Event::Request(request) => {
                counts.add("event: request");
                let mark = request
                    .params
                    .and_then(|params| skim::mark(params.as_bytes()));
                let (id, method) = (request.id.text().to_string(), request.method.to_string());
                let batch = request.origin.batch_index.is_some();
                if batch {
                    counts.add("event: request in a batch");
                }
                let token = request.token;
                let key = token.key();
                self.release(request.method);
                let told = Told::Request(id.clone(), method.clone(), mark);
                self.tell(&told)?;
                if self.plant != Some(Plant::GetterOff) {
                    self.book.debts.insert(key, Debt { id, batch, mark });
                }
                self.book.delivered.extend(mark);
                let held = Held {
                    token,
                    mark,
                    method,
                };
                Ok(Seen::Request(held, key))
            }
            Event::Notification(notification) => {
                counts.add("event: notification");
                let params = notification.params;
                let mark = params.and_then(|params| skim::mark(params.as_bytes()));
                let method = notification.method.to_string();
                self.release(notification.method);
                if self.config.dialect.v1_null_id == antiphon::V1NullId::AckAllNull {
                    // A notification of 1.0 is acknowledged, one of 2.0 is not, and the event does not
                    // say which it was: an acknowledgement may leave.
                    self.book.excused += 1;
                }
                self.tell(&Told::Notification(method, mark))?;
                Ok(Seen::Other)
            }
            Event::Response(response) => {
                counts.add("event: response");
                let (tag, number) = (response.tag, response.call.number());
                let origin_bytes = response.origin.map(|origin| origin.bytes);
                let seen = self.settled(tag, number, &response.outcome, origin_bytes, counts);
                self.release(response.outcome);
                if self.plant == Some(Plant::SettledTwice) {
                    self.book.settle(tag, number)?;
                }
                seen
            }
            Event::Cancelled(cancelled) => {
                counts.add("event: cancelled");
                if !cancelled.answer_owed && !self.book.cancel_is_next(&self.config) {
                    // The peer sent no cancel: the connection was closed and gives its requests up.
                    self.book.ending = true;
                }
                let is_told = self.book.closed.is_none() && !self.book.ending;
                if is_told {
                    self.tell(&Told::Cancel)?;
                }
                if !self.honest_peer {
                    // The cancel may have had an id of its own.
                    self.book.excused += 1;
                }
                if cancelled.answer_owed {
                    counts.add("event: cancelled, answer owed");
                } else {
                    counts.add("event: cancelled, no answer owed");
                    if let Some(debt) = self.book.debts.remove(&cancelled.key) {
                        if let Some(mark) = debt.mark {
                            self.book.delivered.remove(&mark);
                        }
                    }
                }
                Ok(Seen::Cancelled(cancelled.key))
            }
            Event::Malformed(malformed) => {
                counts.add("event: malformed");
                let (cause, rule) = counts::malformed(malformed.cause);
                counts.add(cause);
                if let Some(rule) = rule {
                    counts.add(rule);
                }
                let in_batch = malformed.origin.batch_index.is_some();
                if let Some(code) = malformed.answered {
                    counts.add(counts::code(code));
                    let id = match self.config.dialect.invalid_request_id {
                        antiphon::InvalidRequestId::AlwaysNull => None,
                        _ => malformed.id,
                    };
                    let id = id.map_or(WantedId::Null, |id| self.echo(id.text()));
                    self.owed_by_the_core(id, code, in_batch);
                }
                self.tell(if in_batch { &Told::Item } else { &Told::Frame })?;
                Ok(Seen::Other)
            }
            Event::Refused(refused) => {
                counts.add("event: refused");
                counts.add(counts::refused(refused.cause));
                let in_batch = refused.origin.batch_index.is_some();
                if let Some(code) = refused.answered {
                    counts.add(counts::code(code));
                    let too_long = |id: &Id<'_>| id.text().len() > self.config.limits.max_id_bytes;
                    let unsaid = |id: &Id<'_>| id.is_null() && !self.config.dialect.null_ids;
                    let id = refused.id.filter(|id| !too_long(id) && !unsaid(id));
                    let first =
                        self.config.dialect.limit_errors == antiphon::LimitErrors::FirstCall;
                    let is_long = matches!(refused.cause, RefusedCause::BatchTooLong { .. });
                    if is_long && first {
                        self.owed_by_the_core(WantedId::Any, code, true);
                    } else {
                        let id = id.map_or(WantedId::Null, |id| self.echo(id.text()));
                        self.owed_by_the_core(id, code, in_batch);
                    }
                }
                self.release(refused.method);
                self.tell(match refused.cause {
                    RefusedCause::TooLarge { .. } => &Told::TooLarge,
                    RefusedCause::BatchTooLong { .. } => &Told::Frame,
                    _ => &Told::Item,
                })?;
                Ok(Seen::Other)
            }
            Event::UnmatchedResponse(unmatched) => {
                counts.add("event: unmatched");
                counts.add(counts::unmatched(&unmatched.kind));
                let is_cancel = matches!(unmatched.kind, antiphon::UnmatchedKind::Cancel);
                let id = unmatched.id.map(|id| id.text().to_string());
                self.release(unmatched.kind);
                if is_cancel && !self.honest_peer {
                    self.book.excused += 1;
                }
                let told = if is_cancel {
                    Told::Cancel
                } else {
                    Told::UnmatchedResponse(id)
                };
                self.tell(&told)?;
                Ok(Seen::Other)
            }
            Event::Closed(why) => {
                counts.add("event: closed");
                counts.add(counts::closed(why));
                Check::ClosedOnce.that(self.book.calls.is_empty(), || {
                    format!("{} calls were open at the end", self.book.calls.len())
                })?;
                self.book.closed = Some(why);
                self.book.ending = true;
                if self.plant == Some(Plant::ClosedTwice) {
                    return self.digest(Event::Closed(why), counts);
                }
                Ok(Seen::Closed)
            }
            _ => Err(Check::ToldOnce.broken("an event that nobody knows")),
        }
    }

    /// How an id comes back: byte for byte, but braces are escaped if the dialect says so.
    pub(crate) fn echo(&self, id: &str) -> WantedId {
        WantedId::Exact(match self.config.dialect.escape_braces {
            true => id.replace('{', "\\u007b").replace('}', "\\u007d"),
            false => id.to_string(),
        })
    }

    /// An error that the core has answered by itself.
    fn owed_by_the_core(&mut self, id: WantedId, code: i64, in_batch: bool) {
        let kind = ItemKind::Err(code);
        let mark = None;
        self.book.answered(Answer { id, kind, mark }, in_batch);
    }

    /// Compares an event with what arrived, if the peer is honest.
    fn tell(&mut self, told: &Told) -> Checked {
        match self.honest_peer {
            true => self.book.told(told, &self.config),
            false => Ok(()),
        }
    }

    fn settled(
        &mut self,
        tag: u64,
        number: u64,
        outcome: &Outcome<'_>,
        origin_bytes: Option<usize>,
        counts: &mut Counts,
    ) -> Result<Seen, Broken> {
        let call = self.book.settle(tag, number)?;
        self.call_ids.retain(|(mark, _)| *mark != tag);
        // The mark in an answer, if it is that of another call.
        let marked = |text: &[u8]| match text.first() {
            Some(b'[') => skim::mark(text).filter(|mark| *mark != tag),
            _ => None,
        };
        let settled_by_error = matches!(outcome, Outcome::Err(_));
        let partly = self.observer.inside().is_some();
        let (name, settled, other) = match outcome {
            Outcome::Ok(json) => {
                let other = marked(json.as_bytes());
                ("outcome: ok", Settled::Ok(json.as_str().to_string()), other)
            }
            Outcome::Err(error) => {
                counts.add(counts::code(error.code()));
                let other = error.data().and_then(|data| marked(data.as_bytes()));
                ("outcome: error", Settled::Err(error.code()), other)
            }
            Outcome::Invalid(invalid) => {
                counts.add(counts::invalid(invalid.reason));
                ("outcome: invalid", Settled::Otherwise, None)
            }
            Outcome::TimedOut => {
                let due = call.deadline.is_some_and(|deadline| deadline <= self.told);
                Check::NotEarly.that(due, || {
                    let told = self.told;
                    format!(
                        "call {number} timed out at {told}, due at {:?}",
                        call.deadline
                    )
                })?;
                if self.config.dialect.cancel_on_timeout {
                    self.book.cancels.push(call.id.clone());
                }
                ("outcome: timed out", Settled::TimedOut, None)
            }
            Outcome::Missing => {
                let is_client = self.config.exchange && self.config.role == antiphon::Role::Client;
                Check::UnsentTrue.that(is_client, || "missing without an exchange".into())?;
                ("outcome: missing", Settled::Otherwise, None)
            }
            Outcome::Unsent => {
                Check::UnsentTrue.that(!call.left, || {
                    format!("call {number} has left and is told as unsent")
                })?;
                ("outcome: unsent", Settled::Otherwise, None)
            }
            Outcome::Aborted => {
                Check::UnsentTrue.that(call.left || partly, || {
                    format!("no byte of call {number} has left and it is told as aborted")
                })?;
                ("outcome: aborted", Settled::Otherwise, None)
            }
            _ => return Err(Check::SettlesOnce.broken("an outcome that nobody knows")),
        };
        counts.add(name);
        // Several calls may have the id null, and an error without an id may settle any call.
        let is_plain = call.id != "null" && !(settled_by_error && self.book.next_has_no_id());
        if let Some(other) = other.filter(|_| is_plain) {
            let why = format!("call {number}, marked {tag}, got the answer to {other}");
            return Err(Check::RightCall.broken(why));
        }
        if let Some(bytes) = origin_bytes {
            self.tell(&Told::Response(call.id.clone(), bytes, settled_by_error))?;
        }
        Ok(Seen::Settled(call, settled))
    }
}
