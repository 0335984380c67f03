//! What a side does with its work: handlers of every kind, and what they answer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use antiphon::service::{Member, Scheduler};
use antiphon::session::{Order, Phase, Report, Session, Ticket, UnmatchedDetails, Work};
use antiphon::{ErrorObject, RequestKey};

use super::book::Ending;
use super::checks::{Broken, Check, Checked};
use super::plant::Plant;
use super::side::Side;
use crate::skim;
use antiphon_test_support::random::Random;

/// How many requests a shell serves at once.
const MAX_HANDLERS: usize = 4;

/// What a handler is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Answer,
    Error,
    UnknownMethod,
    Unserialisable,
    Abandon,
    Panic,
    Refuse,
    Never,
    CallBack,
    /// Makes a call on another link and answers as that is answered.
    Relay,
    /// Waits for the call of this number, which it has made on another link.
    Relayed(u64),
}

/// A request that is being served.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) ticket: Ticket,
    pub(super) number: u64,
    pub(super) plan: Plan,
    is_postponed: bool,
    is_cancelled: bool,
    /// The server has given a permit for it.
    pub(super) has_permit: bool,
}

/// One link's part in the server of an application, which limits the requests of all its links.
#[derive(Debug)]
pub(super) struct Membership {
    server: Rc<RefCell<Scheduler<()>>>,
    member: Member,
}

impl Membership {
    pub(super) fn new(server: &Rc<RefCell<Scheduler<()>>>) -> Self {
        let member = server.borrow_mut().join();
        let server = Rc::clone(server);
        Self { server, member }
    }
}

/// What a handler wants of the world around it.
pub(super) enum Wish {
    Nothing,
    /// To call the peer that asked.
    CallBack,
    /// To ask another link for the request of this number.
    Relay(u64),
}

/// What `poll_work` returned, without the memory of a message: that counts as the session's, and so is
/// dropped before the measurement ends.
enum Seen {
    Opened,
    Batch,
    Request(Option<u64>, Ticket),
    Notification(Option<u64>),
    Cancelled(RequestKey),
    Report(&'static str, u64),
    Nothing,
}

impl Side {
    /// Asks for work once. False if there is none for now.
    pub(super) fn work(&mut self, rng: &mut Random, is_healed: bool) -> Result<bool, Broken> {
        // While notifications are served, only a side that serves in any order asks for more.
        let may_go_on = match self.plant {
            Some(Plant::NotificationOvertaken) => true,
            _ => self.order == Order::Free && self.session.has_work(),
        };
        if self.serving > 0 && !may_go_on {
            return Ok(false);
        }
        let has_room = self.running.len() < MAX_HANDLERS;
        let may_begin = has_room && self.may_begin();
        let asked = may_begin || self.plant == Some(Plant::PlaceInvented);
        let [is_unread, may_be_unread] = self.is_unread();
        let mut seen = self.poll_work(asked)?;
        let is_notification = matches!(seen, Seen::Notification(Some(_)));
        if is_notification && self.plant == Some(Plant::WorkSwapped) {
            let next = self.poll_work(false)?;
            if let Seen::Notification(Some(number)) = next {
                self.book.begin(number)?;
            }
        }
        if is_notification && self.plant == Some(Plant::WorkLost) {
            seen = Seen::Report("report: panicked", 0);
        }
        match seen {
            Seen::Nothing => {
                self.check_held(asked, may_be_unread)?;
                return Ok(false);
            }
            Seen::Opened => self.counts.add("work: opened"),
            Seen::Batch => self.counts.add("work: batch"),
            Seen::Report(name, dropped) => {
                self.counts.add(name);
                self.book.dropped += dropped;
            }
            Seen::Cancelled(key) => {
                self.counts.add("work: cancelled");
                let is_it = |running: &&mut Running| running.ticket.key() == key;
                if let Some(running) = self.running.iter_mut().find(is_it) {
                    running.is_cancelled = true;
                }
            }
            Seen::Notification(number) => {
                self.counts.add("work: notification");
                self.check_order()?;
                let waits = self.running.iter().any(|running| running.is_postponed);
                Check::BegunWhenAllowed.that(!waits || self.is_over(), || {
                    "a notification while a request before it waits".into()
                })?;
                if let Some(number) = number {
                    self.book.begin(number)?;
                }
                self.serving += usize::from(!is_healed && rng.chance(50));
            }
            Seen::Request(number, ticket) => {
                Check::BegunWhenAllowed.that(self.is_over() || !is_unread, || {
                    format!("the peer has to read first: {}", self.summary())
                })?;
                self.begin(number, ticket, may_begin, is_healed, rng)?
            }
        }
        Ok(true)
    }

    /// Checks, when something begins, that what it has to wait for has ended.
    fn check_order(&mut self) -> Checked {
        if self.phase.closed().is_some() {
            // After the end, work waits for nothing.
            return Ok(());
        }
        if self.order == Order::Free && self.serving > 0 {
            self.counts
                .add("order: begun while a notification is served");
        }
        let is_alone = self.order == Order::Free || self.serving == 0;
        // If cancelled requests get no answer, nothing waits for them.
        let is_given_up = |running: &Running| running.is_cancelled && self.cancel_is_silent;
        let is_last = self.order != Order::Serial || self.running.iter().all(is_given_up);
        Check::OrderKept.that(is_alone && is_last, || {
            let (order, serving, running) = (self.order, self.serving, &self.running);
            format!("{order:?}: {serving} notifications are served, and {running:?}")
        })
    }

    /// Checks, when nothing was handed out, that what is queued has to wait: for a place, for the end of
    /// something that was handed out earlier, or, if it is a request, for the peer to read.
    fn check_held(&mut self, asked: bool, may_be_unread: bool) -> Checked {
        let needs_place = self.session.is_request_next() && !asked;
        if !self.session.has_work() || needs_place || self.phase == Phase::Opening {
            return Ok(());
        }
        let is_serial = self.order == Order::Serial && !self.running.is_empty();
        if is_serial {
            self.counts.add("order: held by a request");
        }
        let is_postponed = self.running.iter().any(|running| running.is_postponed);
        let is_unread = may_be_unread && self.book.may_be_request_next();
        if is_unread {
            self.counts.add("order: held by answers that wait");
        }
        Check::NothingHeld.that(is_serial || is_postponed || is_unread, || {
            format!("{:?}: {}", self.order, self.summary())
        })
    }

    fn begin(
        &mut self,
        number: Option<u64>,
        ticket: Ticket,
        may_begin: bool,
        is_healed: bool,
        rng: &mut Random,
    ) -> Checked {
        self.counts.add("work: request");
        self.check_order()?;
        Check::BegunWhenAllowed.that(may_begin || self.is_over(), || {
            "a request without a place".into()
        })?;
        if let Some(number) = number {
            self.book.begin(number)?;
        }
        let is_postponed = !is_healed && rng.chance(15);
        if is_postponed {
            self.counts.add("handler: postponed");
            self.tell(Session::postpone)?;
        }
        if self.plant == Some(Plant::Panics) && rng.chance(2) {
            panic!("planted");
        }
        let plan = match rng.below(24) {
            0 | 1 => Plan::Error,
            2 => Plan::UnknownMethod,
            3 => Plan::Unserialisable,
            4 | 5 => Plan::Abandon,
            6 => Plan::Panic,
            7 => Plan::Refuse,
            8 => Plan::Never,
            9 | 10 => Plan::CallBack,
            11..=13 => Plan::Relay,
            _ => Plan::Answer,
        };
        self.running.push(Running {
            ticket,
            number: number.unwrap_or_default(),
            plan,
            is_postponed,
            is_cancelled: false,
            has_permit: self.membership.is_some() && may_begin,
        });
        Ok(())
    }

    /// Whether the side may begin a request. One with a server asks it for a permit if a request comes
    /// next; if not, it leaves the line of those that wait for a permit.
    fn may_begin(&mut self) -> bool {
        let Some(Membership { server, member }) = &mut self.membership else {
            return true;
        };
        let mut server = server.borrow_mut();
        if !self.session.is_request_next() {
            server.step_out(member, &mut Vec::new());
            return false;
        }
        let has_permit = server.begin(member, 1, || ()) > 0;
        if !has_permit {
            self.counts.add("server: no permit");
        }
        has_permit || self.plant == Some(Plant::PermitInvented)
    }

    /// Gives back the permit of a request that has ended, if it has one.
    fn give_back(&self, has_permit: bool) {
        if let Some(Membership { server, .. }) = self.membership.as_ref().filter(|_| has_permit) {
            server.borrow_mut().end(1, &mut Vec::new());
        }
    }

    fn poll_work(&mut self, may_begin: bool) -> Result<Seen, Broken> {
        self.tell(|session| {
            let mark = |params: Option<antiphon::Json<'_>>| skim::mark(params?.as_bytes());
            match session.poll_work(may_begin) {
                Some(Work::Opened) => Seen::Opened,
                Some(Work::Batch(_)) => Seen::Batch,
                Some(Work::Request(message, ticket)) if message.method() == "m" => {
                    Seen::Request(mark(message.params()), ticket)
                }
                Some(Work::Request(_, ticket)) => Seen::Request(None, ticket),
                Some(Work::Notification(message)) if message.method() == "n" => {
                    Seen::Notification(mark(message.params()))
                }
                Some(Work::Notification(_)) => Seen::Notification(None),
                Some(Work::Cancelled(key, _)) => Seen::Cancelled(key),
                Some(Work::Report(report)) => {
                    let dropped = match &report {
                        Report::Dropped { messages } => *messages,
                        _ => 0,
                    };
                    Seen::Report(name_of_report(&report), dropped)
                }
                _ => Seen::Nothing,
            }
        })
    }

    /// The service has finished its notifications; one in ten has panicked.
    pub(super) fn finish_notification(&mut self, rng: &mut Random) -> Checked {
        for _ in 0..std::mem::take(&mut self.serving) {
            if rng.chance(10) {
                self.tell(|session| session.handle_panic(None, ""))?;
            }
        }
        Ok(())
    }

    /// Lets one handler go on, chosen by chance. Once the network is healed, it is neither late nor
    /// silent.
    pub(super) fn serve(&mut self, rng: &mut Random, is_healed: bool) -> Result<Wish, Broken> {
        if self.running.is_empty() {
            return Ok(Wish::Nothing);
        }
        let at = rng.below(self.running.len() as u64) as usize;
        let running = &mut self.running[at];
        if std::mem::take(&mut running.is_postponed) {
            self.tell(Session::handle_begun)?;
        }
        let running = &mut self.running[at];
        match running.plan {
            Plan::Never if !is_healed => {
                self.counts.add("handler: never");
                return Ok(Wish::Nothing);
            }
            Plan::Relay => return Ok(Wish::Relay(running.number)),
            Plan::Relayed(_) => return Ok(Wish::Nothing),
            Plan::CallBack => {
                running.plan = Plan::Answer;
                self.counts.add("handler: calls back");
                return Ok(Wish::CallBack);
            }
            Plan::Answer if !is_healed && rng.chance(40) => {
                self.counts.add("handler: late");
                return Ok(Wish::Nothing);
            }
            _ => {}
        }
        self.answer_at(at, rng)?;
        Ok(Wish::Nothing)
    }

    /// Answers for the handler that has asked another link.
    pub(super) fn finish_relay(&mut self, asked: u64, how: Ending, rng: &mut Random) -> Checked {
        let is_it = |running: &Running| running.plan == Plan::Relayed(asked);
        if let Some(at) = self.running.iter().position(is_it) {
            self.counts.add("handler: relays");
            self.running[at].plan = match how {
                Ending::Ok(_) => Plan::Answer,
                _ => Plan::Error,
            };
            self.answer_at(at, rng)?;
        }
        Ok(())
    }

    fn answer_at(&mut self, at: usize, rng: &mut Random) -> Checked {
        let Running {
            ticket,
            number,
            plan,
            is_postponed,
            is_cancelled,
            has_permit,
        } = self.running.swap_remove(at);
        self.give_back(has_permit);
        if is_postponed {
            self.tell(Session::handle_begun)?;
        }
        if self.is_over() {
            self.counts.add("handler: answers after the end");
        }
        if is_cancelled && rng.chance(60) {
            self.counts.add("handler: cancelled code");
            let _ = self.tell_answer(|session| session.respond_cancelled(ticket))?;
            return Ok(());
        }
        if is_cancelled {
            self.counts.add("handler: answers after a cancel");
        }
        let number = number + u64::from(self.plant == Some(Plant::ForeignResult));
        self.counts.add(match plan {
            Plan::Error => "handler: error",
            Plan::UnknownMethod => "handler: unknown method",
            Plan::Unserialisable => "handler: unserialisable",
            Plan::Abandon => "handler: abandoned",
            Plan::Panic => "handler: panicked",
            Plan::Refuse => "handler: refused for capacity",
            _ => "handler: at once",
        });
        // JSON has no objects with pairs as keys.
        let odd = BTreeMap::from([((1, 2), 3)]);
        // Each may be refused: the request may be over.
        let _ = self.tell_answer(|session| match plan {
            Plan::Error => session.respond_err(ticket, &ErrorObject::invalid_params()),
            Plan::UnknownMethod => session.respond_unknown_method(ticket, "m"),
            Plan::Unserialisable => session.respond(ticket, &odd),
            Plan::Abandon => {
                session.abandon(ticket);
                Ok(())
            }
            Plan::Panic => {
                session.handle_panic(Some(ticket), "");
                Ok(())
            }
            Plan::Refuse => {
                session.refuse(ticket);
                Ok(())
            }
            _ => session.respond(ticket, &[number]),
        })?;
        Ok(())
    }
}

fn name_of_report(report: &Report) -> &'static str {
    match report {
        Report::Malformed { .. } => "report: malformed",
        Report::Refused { .. } => "report: refused",
        Report::UnmatchedResponse { kind, .. } => match kind {
            UnmatchedDetails::Late(_) => "report: unmatched, late",
            UnmatchedDetails::Unknown(_) => "report: unmatched, unknown",
            UnmatchedDetails::NullId(_) => "report: unmatched, null id",
            _ => "report: unmatched, cancel",
        },
        Report::QueueFull(_) => "report: queue full",
        Report::NoCapacity(_) => "report: no capacity",
        Report::Unanswered(_) => "report: unanswered",
        Report::Panicked(Some(_)) => "report: panicked in a request",
        Report::Panicked(None) => "report: panicked",
        Report::QueueOverflow => "report: queue overflow",
        Report::Dropped { .. } => "report: dropped",
        Report::Transport(_) => "report: transport",
        Report::Layer(_) => "report: layer",
        _ => "report: http request",
    }
}
