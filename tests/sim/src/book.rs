//! The records of one end: what it sent, which answers it owes, what it waits for, which events
//! must come.
//!
//! Rule: the records are made from the commands that were accepted, the events that were returned, the
//! bytes that were written and, if the peer is honest, the bytes that arrived. Of the connection's own
//! state they use one thing: whether it has dropped output (`silenced`).
//!
//! Words: a message is *said* when a command has put it into the output, and has *left* when all of
//! it was written. A message has *arrived* when all of it was received, and is *told* by an event. A
//! *mark* is the number in a payload by which messages are told apart (`skim::mark`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use antiphon::{Closed, Config, IdScheme, ReplyToken, RequestKey};

use crate::checks::{Broken, Check, Checked};
use crate::observer::{Frame, Item, ItemKind};

/// A call of this end's that has not settled.
#[derive(Debug)]
pub struct Call {
    /// Its mark, which is also its tag.
    pub mark: u64,
    /// The number of its `CallId`.
    pub number: u64,
    /// Its id as it stands on the wire.
    pub id: String,
    /// When it times out, in nanoseconds.
    pub deadline: Option<u64>,
    /// Why it was made.
    pub purpose: Purpose,
    /// Its whole frame has left.
    pub left: bool,
}

/// Why a call was made.
#[derive(Debug)]
pub enum Purpose {
    /// The application made it by itself.
    Plain,
    /// To answer a request with what this call gives.
    For {
        /// The end at which the request is open, by its place among all.
        end: usize,
        /// The `epoch` of that end's link when the request came.
        epoch: u64,
        /// The request.
        held: Held,
    },
}

/// A request that was delivered and has not been answered.
#[derive(Debug)]
pub struct Held {
    /// The right to answer.
    pub token: ReplyToken,
    /// The payload's mark, which the answer repeats.
    pub mark: Option<u64>,
    /// Its method.
    pub method: String,
}

/// A request that this end owes an answer.
#[derive(Debug)]
pub struct Debt {
    /// The id as the peer wrote it.
    pub id: String,
    /// The answer goes into a batch.
    pub batch: bool,
    /// The payload's mark.
    pub mark: Option<u64>,
}

/// The id that an answer must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedId {
    /// Byte for byte this one.
    Exact(String),
    /// Null, or none at all.
    Null,
    /// Any: the event does not say which id is answered.
    Any,
}

/// An answer that was given and has not left.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its id.
    pub id: WantedId,
    /// A result, or an error with this code.
    pub kind: ItemKind,
    /// The payload's mark.
    pub mark: Option<u64>,
}

/// Something said that has not left, in the order in which it was said.
#[derive(Clone, Debug)]
pub enum Said {
    /// A call or notification: its id if it is a call, and its mark.
    One(Option<String>, u64),
    /// The same for the entries of a batch.
    Batch(Vec<(Option<String>, u64)>),
    /// An answer.
    Answer(Answer),
}

/// What an event says, as far as it can be compared with what arrived.
#[derive(Clone, Debug)]
pub enum Told {
    /// A request with its id, method and mark.
    Request(String, String, Option<u64>),
    /// A notification with its method and mark.
    Notification(String, Option<u64>),
    /// The answer to the call with this id: its length in bytes, and whether it is an error.
    Response(String, usize, bool),
    /// An answer with this id that fits nothing.
    UnmatchedResponse(Option<String>),
    /// A cancel.
    Cancel,
    /// One message or one entry of a batch that was refused or malformed.
    Item,
    /// A frame that was refused or malformed as a whole.
    Frame,
    /// A frame that was refused for its size, perhaps before all of it had come.
    TooLarge,
}

/// One message, or one entry of a batch, that has arrived whole.
#[derive(Debug)]
pub struct Arrived {
    /// Which frame it came in, counted from 1.
    frame: u64,
    /// What it says.
    pub item: Item,
    /// How many calls it has settled so far, if it is an error without an id.
    settled: u32,
}

impl Arrived {
    /// Whether it is an error without an id, of so many bytes.
    fn is_error_of(&self, bytes: usize) -> bool {
        matches!(self.item.kind, ItemKind::Err(_))
            && is_null(&self.item)
            && self.item.bytes == bytes
    }
}

/// The error without an id that was told last. An error that follows it and has as many bytes cannot
/// be told apart from it by an event, so all calls were counted as settled by the first, though all
/// but one of them may have been settled by those that follow.
#[derive(Clone, Copy, Debug, Default)]
struct Alike {
    /// How long the error is.
    bytes: usize,
    /// How many of the errors that follow may have been told already.
    most: u32,
}

/// The records of one end, from the opening of its link until the link is opened again.
#[derive(Debug, Default)]
pub struct Book {
    /// Open calls by their mark, which is also their tag.
    pub calls: BTreeMap<u64, Call>,
    /// Requests owed an answer.
    pub debts: BTreeMap<RequestKey, Debt>,
    /// What has been said and not left.
    pub said: VecDeque<Said>,
    /// Answers that leave in the array of their batch.
    pub batch_answers: Vec<Answer>,
    /// Ids of calls for which a cancel may leave.
    pub cancels: Vec<String>,
    /// How many answers may leave that no command gave and no event announced: to a hostile peer, and
    /// acknowledgements of 1.0 notifications.
    pub excused: u32,
    /// Messages of an honest peer that have arrived whole and not been told.
    pub expected: VecDeque<Arrived>,
    alike: Alike,
    /// Ids of answers in frames that this end refused or could not read: their calls may time out.
    pub unreadable: BTreeSet<String>,
    /// Marks of requests that were delivered here and not silently cancelled.
    pub delivered: BTreeSet<u64>,
    /// Why the connection ended, once an event has told it.
    pub closed: Option<Closed>,
    /// The connection is ending, or may be: calls of which no byte has left may never leave.
    pub ending: bool,
    /// Reading stopped before all events were taken: some of a message may not have been told.
    pub half_read: bool,
    /// The connection has dropped its output: what was said may never leave.
    pub silenced: bool,
    /// How many messages were refused for their size and have not arrived whole yet.
    early: u32,
    /// How many frames have arrived.
    frames: u64,
}

impl Book {
    /// The earliest deadline of an open call.
    pub fn earliest(&self) -> Option<u64> {
        self.calls.values().filter_map(|call| call.deadline).min()
    }

    /// The open call with this number.
    pub fn numbered(&self, number: u64) -> Option<(u64, &Call)> {
        let mut all = self.calls.iter();
        all.find(|(_, call)| call.number == number)
            .map(|(mark, call)| (*mark, call))
    }

    /// A call has settled.
    ///
    /// # Errors
    /// If it was not open, or if another call has its tag.
    pub fn settle(&mut self, tag: u64, number: u64) -> Result<Call, Broken> {
        let Some(call) = self.calls.remove(&tag) else {
            let why = format!("call {number} with tag {tag} settled and was not open");
            return Err(Check::SettlesOnce.broken(why));
        };
        Check::RightCall.that(call.number == number, || {
            format!(
                "tag {tag} of call {} came back for call {number}",
                call.number
            )
        })?;
        Ok(call)
    }

    /// A request was answered, by a command or by the core itself.
    pub fn answered(&mut self, answer: Answer, in_batch: bool) {
        match in_batch {
            true => self.batch_answers.push(answer),
            false => self.said.push_back(Said::Answer(answer)),
        }
    }

    /// A frame has left.
    ///
    /// # Errors
    /// If it was not said, or stands before something that was said earlier.
    pub fn has_left(&mut self, frame: &Frame, config: &Config) -> Checked {
        let is_answer = |item: &Item| matches!(item.kind, ItemKind::Ok | ItemKind::Err(_));
        if frame.array && frame.items.iter().all(is_answer) {
            return frame
                .items
                .iter()
                .try_for_each(|item| self.batch_answer(item));
        }
        if let [item] = &frame.items[..] {
            if !frame.array && self.is_cancel(item, config) {
                return Ok(());
            }
        }
        let mut wrong = None;
        let mut found = None;
        let mut joined = 1;
        let may_join = frame.array && frame.items.len() <= config.limits.max_joined_calls;
        for (at, said) in self.said.iter().enumerate() {
            match said {
                Said::One(Some(_), _) if may_join && self.are_joined(at, &frame.items) => {
                    joined = frame.items.len();
                    found = Some(at + joined - 1);
                    break;
                }
                Said::Answer(answer) if !frame.array && is_answer(&frame.items[0]) => {
                    let item = &frame.items[0];
                    if fits(answer, item) {
                        found = Some(at);
                    } else {
                        wrong = Some(wrong_answer(answer, item));
                    }
                    break;
                }
                Said::One(id, mark) if !frame.array && is_said(&frame.items[0], id, *mark) => {
                    found = Some(at);
                    break;
                }
                Said::Batch(entries) if frame.array && entries.len() == frame.items.len() => {
                    let mut both = entries.iter().zip(&frame.items);
                    if both.all(|((id, mark), item)| is_said(item, id, *mark)) {
                        found = Some(at);
                        break;
                    }
                }
                _ => {}
            }
            // Once the connection has ended, calls of which no byte has left never leave.
            let may_be_gone = match said {
                Said::One(id, _) => id.is_some(),
                Said::Batch(entries) => entries.iter().any(|(id, _)| id.is_some()),
                Said::Answer(_) => false,
            };
            if !(may_be_gone && (self.ending || self.half_read)) {
                break;
            }
        }
        let Some(at) = found else {
            let excused = is_answer(&frame.items[0]) && wrong.is_some() && self.excuse();
            return match wrong {
                Some(wrong) if !excused => Err(wrong),
                Some(_) => Ok(()),
                None => self.unforeseen(frame),
            };
        };
        let left: Vec<Said> = self.said.drain(..=at).rev().take(joined).collect();
        for said in left {
            match said {
                Said::One(_, mark) => self.leave(mark),
                Said::Batch(entries) => entries.iter().for_each(|(_, mark)| self.leave(*mark)),
                Said::Answer(_) => {}
            }
        }
        Ok(())
    }

    /// Whether the items of a batch are calls that were said one after another, from place `at` on.
    fn are_joined(&self, at: usize, items: &[Item]) -> bool {
        let run: Vec<&Said> = self.said.iter().skip(at).take(items.len()).collect();
        let is_call = |(said, item): (&&Said, &Item)| match said {
            Said::One(id @ Some(_), mark) => is_said(item, id, *mark),
            _ => false,
        };
        items.len() > 1 && run.len() == items.len() && run.iter().zip(items).all(is_call)
    }

    /// Notes the answers among these items as unreadable.
    fn unread(&mut self, items: &[Item]) {
        let answers = items
            .iter()
            .filter(|item| matches!(item.kind, ItemKind::Ok | ItemKind::Err(_)));
        self.unreadable
            .extend(answers.filter_map(|item| item.id.clone()));
    }

    /// Notes that the call with this mark has left.
    fn leave(&mut self, mark: u64) {
        if let Some(call) = self.calls.get_mut(&mark) {
            call.left = true;
        }
    }

    /// Uses up one of the `excused` answers. False if there is none.
    fn excuse(&mut self) -> bool {
        let excused = self.excused > 0;
        self.excused -= u32::from(excused);
        excused
    }

    /// A frame that is not the next thing said.
    fn unforeseen(&mut self, frame: &Frame) -> Checked {
        let is_answer = |item: &Item| matches!(item.kind, ItemKind::Ok | ItemKind::Err(_));
        if frame.items.iter().all(is_answer) {
            if frame.items.iter().all(|_| self.excuse()) {
                return Ok(());
            }
            let why = format!(
                "{:?} left unasked; next is {:?}",
                frame.items,
                self.said.front()
            );
            return Err(Check::AnsweredOnce.broken(why));
        }
        let why = format!("{:?} left; next is {:?}", frame.items, self.said.front());
        Err(Check::OutputOrder.broken(why))
    }

    fn batch_answer(&mut self, item: &Item) -> Checked {
        let known = |answer: &Answer| answer.id != WantedId::Any && fits(answer, item);
        let given = &self.batch_answers;
        let at = given.iter().position(known);
        if let Some(at) = at.or_else(|| given.iter().position(|answer| fits(answer, item))) {
            self.batch_answers.remove(at);
            return Ok(());
        }
        // A connection that ends in the middle of a batch answers those of its requests that no event
        // has told.
        let given_up = matches!(item.kind, ItemKind::Err(_)) && (self.ending || self.half_read);
        if given_up || self.excuse() {
            return Ok(());
        }
        let same = |answer: &&Answer| answer.kind == item.kind && answer.mark == item.mark;
        if let Some(answer) = self.batch_answers.iter().find(same) {
            return Err(wrong_answer(answer, item));
        }
        let why = format!("{item:?} left in a batch, unasked");
        Err(Check::AnsweredOnce.broken(why))
    }

    /// Whether a cancel left for a call of `cancels`, which is then taken out of them.
    fn is_cancel(&mut self, item: &Item, config: &Config) -> bool {
        if item.kind != ItemKind::Notification || Some(&item.method[..]) != cancel_method(config) {
            return false;
        }
        let mark = item.mark;
        let fits = |id: &String| crate::skim::mark(id.as_bytes()) == mark;
        match self.cancels.iter().position(fits) {
            Some(at) => {
                self.cancels.swap_remove(at);
                true
            }
            None => false,
        }
    }

    /// A frame of an honest peer has arrived whole.
    pub fn arrived(&mut self, frame: Frame) {
        self.frames += 1;
        if self.early > 0 {
            // It was refused before all of it had come.
            self.early -= 1;
            self.unread(&frame.items);
            return;
        }
        let items = frame.items.into_iter();
        self.expected.extend(items.map(|item| Arrived {
            frame: self.frames,
            item,
            settled: 0,
        }));
    }

    /// An event has come out. Compares it with what arrived, in order.
    ///
    /// # Errors
    /// If it is not the next thing that arrived.
    pub fn told(&mut self, told: &Told, config: &Config) -> Checked {
        self.pass_settled(told);
        let Some(Arrived {
            frame,
            item,
            settled,
        }) = self.expected.front_mut()
        else {
            if matches!(told, Told::TooLarge) {
                self.early += 1;
                return Ok(());
            }
            let why = format!("{told:?} was told, and nothing has arrived");
            return Err(Check::ToldOnce.broken(why));
        };
        let is_answer = matches!(item.kind, ItemKind::Ok | ItemKind::Err(_));
        let is_null = is_null(item);
        let fits = match told {
            Told::Request(id, method, mark) => {
                // 1.0 marks a notification by a null id, and some dialects answer even that.
                let null = id == "null" && config.dialect.v1_null_id == antiphon::V1NullId::Answer;
                let is_request =
                    item.kind == ItemKind::Request || item.kind == ItemKind::Notification && null;
                let same = is_request && item.method == *method;
                if same && item.mark == *mark && item.id.as_ref() != Some(id) {
                    let why = format!("request {item:?} was told with id {id}");
                    return Err(Check::IdsVerbatim.broken(why));
                }
                same && item.mark == *mark
            }
            Told::Notification(method, mark) => {
                item.kind == ItemKind::Notification && item.method == *method && item.mark == *mark
            }
            Told::Response(id, _, true)
                if is_answer && is_null && (id != "null" || item.id.is_none()) =>
            {
                // An error without an id may settle any number of calls.
                *settled += 1;
                return Ok(());
            }
            Told::Response(id, ..) => {
                if is_answer && !is_null && item.id.as_ref() != Some(id) {
                    let why = format!("{item:?} settled the call with id {id}");
                    return Err(Check::RightCall.broken(why));
                }
                is_answer
            }
            Told::UnmatchedResponse(id) => is_answer && item.id == *id,
            Told::Cancel => {
                item.kind == ItemKind::Notification
                    && Some(&item.method[..]) == receive_method(config)
            }
            Told::Item => true,
            Told::Frame | Told::TooLarge => {
                let frame = *frame;
                while let Some(Arrived { item, .. }) = self.next_if(|next| next.frame == frame) {
                    if matches!(item.kind, ItemKind::Ok | ItemKind::Err(_)) {
                        self.unreadable.extend(item.id);
                    }
                }
                return Ok(());
            }
        };
        if fits {
            let alike = self.alike.bytes;
            if self.next_if(|next| next.is_error_of(alike)).is_none() {
                self.expected.pop_front();
                self.alike = Alike::default();
            }
            return Ok(());
        }
        if self.pass_alike() {
            return self.told(told, config);
        }
        let why = format!("{told:?} was told, next is {:?}", self.expected.front());
        Err(Check::ToldOnce.broken(why))
    }

    fn next_if(&mut self, is_it: impl FnOnce(&Arrived) -> bool) -> Option<Arrived> {
        self.expected.front().filter(|next| is_it(next))?;
        self.expected.pop_front()
    }

    /// Takes the first message out of `expected` if it is an error without an id that has settled
    /// calls, and this event cannot be about it any more.
    fn pass_settled(&mut self, told: &Told) {
        let goes_on = |next: &Arrived| match told {
            Told::Response(_, bytes, true) => *bytes != next.item.bytes,
            _ => true,
        };
        if let Some(passed) = self.next_if(|next| next.settled > 0 && goes_on(next)) {
            self.alike = Alike {
                bytes: passed.item.bytes,
                most: passed.settled - 1,
            };
        }
    }

    /// Takes the first message out of `expected` if it is an error that may have settled some of the
    /// calls counted for the one before. Returns whether it was.
    fn pass_alike(&mut self) -> bool {
        let Alike { bytes, most } = self.alike;
        let passed = self
            .next_if(|next| most > 0 && next.is_error_of(bytes))
            .is_some();
        self.alike.most -= u32::from(passed);
        passed
    }

    /// Whether the next thing that arrived has a null id, or none.
    pub fn next_has_no_id(&self) -> bool {
        self.expected
            .front()
            .is_some_and(|next| is_null(&next.item))
    }

    /// Whether the next message to be told is a cancel. True if none has ever been recorded, as with a
    /// hostile peer: then nobody knows.
    pub fn cancel_is_next(&self, config: &Config) -> bool {
        let next = self.expected.iter().find(|next| next.settled == 0);
        next.is_none_or(|next| Some(&next.item.method[..]) == receive_method(config))
            && !(next.is_none() && self.frames > 0)
    }

    /// All events have been taken.
    ///
    /// # Errors
    /// If something that has arrived was not told.
    pub fn drained(&mut self) -> Checked {
        self.pass_settled(&Told::Item);
        while self.pass_alike() {}
        self.alike = Alike::default();
        if self.closed.is_some() {
            self.expected.clear();
        }
        Check::ToldOnce.that(self.expected.is_empty(), || {
            format!("{:?} arrived and was not told", self.expected.front())
        })
    }
}

fn is_null(item: &Item) -> bool {
    item.id.as_ref().is_none_or(|id| id == "null")
}

/// The method of the notification by which this end cancels a call.
pub fn cancel_method(config: &Config) -> Option<&'static str> {
    method_of(config.dialect.cancel_send)
}

/// The method that this end takes for a cancel.
pub fn receive_method(config: &Config) -> Option<&'static str> {
    method_of(config.dialect.cancel_receive)
}

fn method_of(style: antiphon::CancelStyle) -> Option<&'static str> {
    match style {
        antiphon::CancelStyle::Lsp => Some("$/cancelRequest"),
        antiphon::CancelStyle::Mcp => Some("notifications/cancelled"),
        antiphon::CancelStyle::Acp => Some("$/cancel_request"),
        _ => None,
    }
}

/// Whether `item` is the call with this id and mark or, without an id, the notification.
fn is_said(item: &Item, id: &Option<String>, mark: u64) -> bool {
    let is_call = matches!(item.kind, ItemKind::Request | ItemKind::Notification);
    let same_id = match id {
        Some(id) => item.id.as_ref() == Some(id),
        None => item.kind == ItemKind::Notification,
    };
    is_call && same_id && item.mark == Some(mark)
}

/// Whether `item` is the answer that was given.
fn fits(answer: &Answer, item: &Item) -> bool {
    let same_id = match &answer.id {
        WantedId::Exact(id) => item.id.as_ref() == Some(id),
        WantedId::Null => item.id.as_ref().is_none_or(|id| id == "null"),
        WantedId::Any => true,
    };
    same_id && answer.kind == item.kind && answer.mark == item.mark
}

/// The failed check, when `answer` was given and `item` left instead.
fn wrong_answer(answer: &Answer, item: &Item) -> Broken {
    let why = format!("{item:?} left, given was {answer:?}");
    if answer.kind == item.kind && answer.mark == item.mark {
        return Check::IdsVerbatim.broken(why);
    }
    Check::AnsweredOnce.broken(why)
}

/// How the id of call `number` is spelled.
pub fn spelled(scheme: IdScheme, number: u64) -> String {
    match scheme {
        IdScheme::Prefixed(prefix) => format!("\"{prefix}{number}\""),
        IdScheme::Uuid(random) => {
            let mut bytes = [0u8; 16];
            bytes[..10].copy_from_slice(&random);
            bytes[6] = bytes[6] & 0x0f | 0x40;
            bytes[8] = bytes[8] & 0x3f | 0x80;
            bytes[10..].copy_from_slice(&number.to_be_bytes()[2..]);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let parts = [
                &hex[..8],
                &hex[8..12],
                &hex[12..16],
                &hex[16..20],
                &hex[20..],
            ];
            format!("\"{}\"", parts.join("-"))
        }
        _ => number.to_string(),
    }
}
