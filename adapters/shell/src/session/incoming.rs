//! The messages of one durable subscription between its connections and its reader.
//!
//! ```text
//!   turn of the connection ─▶ deliver ── before the answer to the subscribe ──▶ dropped: it comes again
//!                                ├────▶ new ──▶ queue ──▶ the program ── finish ──▶ acknowledged
//!                                └────▶ finished before ──▶ to be acknowledged again
//! ```
//!
//! The lock may be taken under the session's; under it no other is taken.

use std::collections::{BTreeSet, VecDeque};
use std::mem::take;
use std::task::Waker;

use antiphon::OwnedJson;
use antiphon::durable::{DurableReader, Received, Resumed};

use crate::lock::Lock;

/// What comes of a subscription, and what the program has not finished.
pub(crate) struct Incoming(Lock<Waiting>);

struct Waiting {
    reader: DurableReader,
    /// How often it was attached: an acknowledgement that was refused on an earlier connection says nothing.
    attachments: u64,
    queue: VecDeque<Came>,
    /// How many bytes of messages wait.
    bytes: usize,
    max_bytes: usize,
    repeats: BTreeSet<u64>,
    is_refusing: bool,
    is_taken_over: bool,
    waker: Option<Waker>,
}

/// What the reader is told.
pub(crate) enum Came {
    Message(u64, OwnedJson),
    Missed(u64),
    Refused,
    Rewound,
}

/// What is to be done next.
pub(crate) enum Task {
    Tell(Came),
    /// Acknowledge these again.
    Acknowledge(BTreeSet<u64>),
    TakenOver,
    /// Nothing came since; the waker is woken then.
    Wait,
}

impl Incoming {
    pub(crate) fn new(reader: DurableReader) -> Self {
        Self(Lock::new(Waiting {
            reader,
            attachments: 0,
            queue: VecDeque::new(),
            bytes: 0,
            max_bytes: 0,
            repeats: BTreeSet::new(),
            is_refusing: false,
            is_taken_over: false,
            waker: None,
        }))
    }

    /// Takes a message. Returns the waker of the reader, to be woken without a lock.
    pub(crate) fn deliver(&self, sequence: u64, params: OwnedJson) -> Option<Waker> {
        let mut waiting = self.0.lock();
        if !waiting.reader.is_attached() {
            return None;
        }
        waiting.take(sequence, params);
        waiting.waker.take()
    }

    /// Notes that the subscription is being attached, on a connection on which so many bytes of messages may wait.
    pub(crate) fn detach(&self, max_bytes: usize) {
        let mut waiting = self.0.lock();
        waiting.max_bytes = max_bytes;
        waiting.reader.handle_disconnected();
        // They come again.
        waiting.repeats.clear();
    }

    /// Takes the answer to a subscribe, in its place among the messages.
    pub(crate) fn attach(&self, resumed_from: u64) {
        let mut waiting = self.0.lock();
        waiting.attachments += 1;
        let came = match waiting.reader.handle_subscribed(resumed_from) {
            Resumed::Skipped { missed } => Some(Came::Missed(missed)),
            Resumed::Rewound => Some(Came::Rewound),
            _ => None,
        };
        waiting.queue.extend(came);
    }

    /// Notes that another stream has the subscription. Returns the waker of the reader.
    pub(crate) fn take_over(&self) -> Option<Waker> {
        let mut waiting = self.0.lock();
        waiting.is_taken_over = true;
        waiting.waker.take()
    }

    /// Returns what is to be done next.
    pub(crate) fn poll(&self, waker: &Waker) -> Task {
        // A waker is cloned and dropped without the lock.
        let waker = waker.clone();
        let mut waiting = self.0.lock();
        if !waiting.repeats.is_empty() {
            return Task::Acknowledge(take(&mut waiting.repeats));
        }
        if let Some(came) = waiting.queue.pop_front() {
            waiting.bytes -= came.bytes();
            return Task::Tell(came);
        }
        if waiting.is_taken_over {
            return Task::TakenOver;
        }
        let before = waiting.waker.replace(waker);
        drop(waiting);
        drop(before);
        Task::Wait
    }

    /// Notes that the program has finished a message. Returns the number of the connection on which it is acknowledged.
    pub(crate) fn finish(&self, sequence: u64) -> u64 {
        let mut waiting = self.0.lock();
        waiting.reader.finish(sequence);
        waiting.attachments
    }

    pub(crate) fn give_back(&self, sequence: u64) {
        self.0.lock().reader.give_back(sequence);
    }

    /// Takes the answer to an acknowledgement. Returns the waker of the reader, if another consumer has the
    /// subscription.
    pub(crate) fn acknowledged(
        &self,
        sequence: u64,
        success: bool,
        attachment: u64,
    ) -> Option<Waker> {
        let mut waiting = self.0.lock();
        let is_current = attachment == waiting.attachments && waiting.reader.is_attached();
        if success {
            waiting.reader.handle_acknowledged(sequence, true);
        } else if is_current && !waiting.reader.handle_acknowledged(sequence, false) {
            waiting.is_taken_over = true;
            return waiting.waker.take();
        }
        None
    }

    /// The sequence up to which the program has finished everything.
    pub(crate) fn position(&self) -> u64 {
        self.0.lock().reader.position()
    }
}

impl Waiting {
    fn take(&mut self, sequence: u64, params: OwnedJson) {
        let bytes = self.bytes + params.as_str().len();
        let has_space = self.bytes == 0 || bytes <= self.max_bytes;
        match self.reader.handle_limited(sequence, has_space) {
            Received::New { missed } => {
                let missed = Some(missed).filter(|missed| *missed > 0);
                self.queue.extend(missed.map(Came::Missed));
                self.queue.push_back(Came::Message(sequence, params));
                self.bytes = bytes;
                self.is_refusing = false;
            }
            Received::Repeat { acknowledge: true } => {
                self.repeats.insert(sequence);
            }
            Received::Full if !self.is_refusing => {
                self.is_refusing = true;
                self.queue.push_back(Came::Refused);
            }
            _ => {}
        }
    }
}

impl Came {
    fn bytes(&self) -> usize {
        match self {
            Self::Message(_, params) => params.as_str().len(),
            _ => 0,
        }
    }
}
