//! One attached subscription: its position, and the messages that were read for its consumer.
//!
//! ```text
//!                      Attached ─▶ Opening ── the answer is sent ──▶ Open ◀─┐ the store fails
//!   rpc.subscribe.persistent           │                              │ ──▶ Deleting ──▶ (deleted)
//!                                      ▼                              ▼
//!                      (forgotten) ◀── the connection ends, another takes over, keep_position
//! ```
//!
//! Only in `Open` are messages read and sent. What is forgotten here is still in the store.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::commands::Waiter;
use super::settings::DurableSettings;
use super::store::{CommandId, Record};
use super::window::Window;
use crate::shared::Arc;
use crate::time::Instant;

/// The most messages that are read at once.
pub(super) const MAX_RECORDS: usize = 64;

#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) topic: Arc<str>,
    pub(super) connection: u64,
    /// The request that has attached it.
    pub(super) request: u64,
    pub(super) fence: u64,
    pub(super) life: Life,
    pub(super) window: Window,
    /// Messages that were read and not sent.
    ready: VecDeque<Record>,
    ready_bytes: usize,
    /// The open read, and up to where the window went when it began.
    pub(super) reading: Option<(CommandId, u64)>,
    /// Nothing is read before this time, because a read has failed.
    pub(super) retry_at: Instant,
    /// Whether the topic may have more than is known.
    pub(super) may_have_more: bool,
    /// Whether it is in the list of its connection.
    pub(super) is_active: bool,
    pub(super) is_saving: bool,
    /// Whether the position is another than what was last given to the store.
    pub(super) is_dirty: bool,
    /// Acknowledgements that the next save answers.
    pub(super) waiters: Vec<Waiter>,
    pub(super) timer: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Attached by a request whose answer is not sent.
    Opening,
    Open,
    Deleting,
}

impl Subscription {
    pub(super) fn new(topic: Arc<str>, by: (u64, u64), fence: u64, window: Window) -> Self {
        let (connection, request) = by;
        Self {
            topic,
            connection,
            request,
            fence,
            life: Life::Opening,
            window,
            ready: VecDeque::new(),
            ready_bytes: 0,
            reading: None,
            retry_at: Instant::ZERO,
            // It may have grown since the store has answered.
            may_have_more: true,
            is_active: false,
            is_saving: false,
            is_dirty: false,
            waiters: Vec::new(),
            timer: None,
        }
    }

    /// Whether it waits for the answer to this request.
    pub(super) fn is_opened_by(&self, request: u64) -> bool {
        self.life == Life::Opening && self.request == request
    }

    /// The next message to read, if one is to be read now.
    pub(super) fn to_read(&self, last: u64, now: Instant, size: usize) -> Option<u64> {
        let is_idle = self.reading.is_none() && self.ready.is_empty() && now >= self.retry_at;
        let last = if self.may_have_more { u64::MAX } else { last };
        let wanted = self.window.wanted(last, size);
        wanted.filter(|_| is_idle && self.life == Life::Open)
    }

    /// Whether its connection can do something for it.
    pub(super) fn has_work(&self, last: u64, now: Instant, size: usize) -> bool {
        let has_ready = self.life == Life::Open && !self.ready.is_empty();
        has_ready || self.to_read(last, now, size).is_some()
    }

    /// Offers a message that was just stored. It is taken if it is the next one and there is space; otherwise it is
    /// read later.
    pub(super) fn offer(&mut self, record: &Record, now: Instant, settings: &DurableSettings) {
        let (next, size) = (record.sequence, settings.window);
        let bytes = self.ready_bytes + record.data.bytes();
        let fits = match self.ready.back() {
            None => self.to_read(next, now, size) == Some(next),
            Some(last) => {
                last.sequence + 1 == next
                    && self.reading.is_none()
                    && self.ready.len() < MAX_RECORDS
                    && bytes <= settings.max_read_bytes as usize
            }
        };
        if fits && next <= self.window.floor() + size as u64 {
            self.may_have_more = false;
            self.add(record.clone());
        }
    }

    /// Forgets what was read.
    pub(super) fn clear(&mut self) {
        (self.ready, self.ready_bytes) = (VecDeque::new(), 0);
        (self.reading, self.may_have_more) = (None, true);
    }

    pub(super) fn add(&mut self, record: Record) {
        self.ready_bytes += record.data.bytes();
        self.ready.push_back(record);
    }

    /// Returns the next message to send.
    pub(super) fn send(&mut self, size: usize, due_at: Instant) -> Option<Record> {
        while let Some(record) = self.ready.pop_front().filter(|_| self.life == Life::Open) {
            self.ready_bytes -= record.data.bytes();
            // What is idle holds no memory of what was read once.
            if self.ready.is_empty() && self.ready.capacity() > 8 {
                self.ready = VecDeque::new();
            }
            if self.window.send(record.sequence, size, due_at) {
                return Some(record);
            }
        }
        None
    }
}
