//! Several calls and notifications in one message.
//!
//! The builder writes directly into the output, after the queued messages. If it is dropped without
//! being sent, its bytes are removed; if it is leaked, the next command removes them.

use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroU64;

use super::Connection;
use super::commands::{Rejected, SendError, check_method};
use super::parts::Parts;
use crate::config::{Config, Settings};
use crate::deadlines::NEVER;
use crate::encode::{self, Payload};
use crate::frame::write::FrameStart;
use crate::id::{CallId, Id, OwnedId};
use crate::time::Instant;

/// Builds one batch. Made by [`Connection::batch`].
///
/// Every call ends separately, as [`Event::Response`](crate::Event::Response), whatever the form
/// and order of the peer's answer. [`Collector`](crate::Collector) keeps the outcomes until they
/// are fetched by handle.
///
/// ```
/// use antiphon::{Config, Connection};
/// let mut conn = Connection::new(Config::new());
/// let mut batch = conn.batch(None);
/// let sum = batch.call::<i64>("add", &(1, 2), "first")?;
/// batch.notify("log", &["adding"])?;
/// batch.send()?;
/// assert_eq!(sum.call().number(), 1);
/// # Ok::<(), antiphon::SendError>(())
/// ```
#[must_use = "a batch that is not sent is taken back"]
pub struct Batch<'c, T, S: Settings = Config> {
    conn: &'c mut Connection<T, S>,
    frame: Result<FrameStart, SendError>,
    start: usize,
    /// The end of the last complete entry. If the code that writes a value panics, the bytes after
    /// this end are removed.
    whole: usize,
    deadline: u64,
    first: u64,
    items: usize,
    calls: usize,
}

/// Identifies one call of a batch, and the type of its result. It is valid once the batch has been
/// sent: if the batch is dropped, another call gets the same number.
pub struct Handle<R> {
    call: CallId,
    result: PhantomData<fn() -> R>,
}

impl<R> Handle<R> {
    /// Makes a handle for a driver that has a batch builder of its own, and numbers the calls of a
    /// batch itself.
    pub fn new(call: CallId) -> Self {
        Self {
            call,
            result: PhantomData,
        }
    }

    /// The call's id.
    pub fn call(&self) -> CallId {
        self.call
    }
}

impl<R> Clone for Handle<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Handle<R> {}

impl<R> fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.call.number())
    }
}

impl<T, S: Settings> Connection<T, S> {
    /// Begins a batch whose calls share one deadline. Nothing is sent before [`Batch::send`]. If no
    /// batch can be sent at all, the first entry returns the reason.
    pub fn batch(&mut self, deadline: Option<Instant>) -> Batch<'_, T, S> {
        self.forget_builder();
        let first = self.calls.next();
        let allowed = self.may_queue().and_then(|()| {
            if self.speaks_batches() {
                Ok(())
            } else {
                Err(SendError::BatchesOff)
            }
        });
        let frame = allowed.map(|()| {
            // Call numbers begin at 1.
            self.building = NonZeroU64::new(first);
            // Room for a few small calls; more is reserved when it is needed.
            self.outbox.begin(256)
        });
        let start = self.outbox.body().len();
        if frame.is_ok() {
            self.outbox.body().push(b'[');
        }
        let whole = self.outbox.body().len();
        let deadline = deadline.map_or(NEVER, Instant::as_nanos);
        Batch {
            conn: self,
            frame,
            start,
            whole,
            deadline,
            first,
            items: 0,
            calls: 0,
        }
    }

    /// Removes a batch that was neither sent nor dropped.
    #[inline]
    pub(super) fn forget_builder(&mut self) {
        if self.building.is_some() {
            self.roll_back();
        }
    }

    #[cold]
    #[inline(never)]
    fn roll_back(&mut self) {
        if let Some(first) = self.building.take() {
            self.calls.rollback(first.get());
            self.outbox.rollback();
        }
    }
}

impl<T, S: Settings> Batch<'_, T, S> {
    /// Adds a call whose result is to be decoded into `R`.
    ///
    /// # Errors
    /// Returns the tag with the reason. The entries before this one stay.
    pub fn call<R>(
        &mut self,
        method: &str,
        params: impl Payload,
        tag: T,
    ) -> Result<Handle<R>, Rejected<T>> {
        let id = self.conn.generated_id();
        self.add_call(id.as_ref().map(OwnedId::as_id), method, params, tag)
    }

    /// Adds a call with an id that the caller chose: see [`Connection::call_with_id`].
    ///
    /// # Errors
    /// As [`call`](Self::call); also [`SendError::IdInUse`] for the id of an open call, or of an entry
    /// before this one, and [`SendError::IdNotAllowed`].
    pub fn call_with_id<R>(
        &mut self,
        id: Id<'_>,
        method: &str,
        params: impl Payload,
        tag: T,
    ) -> Result<Handle<R>, Rejected<T>> {
        self.add_call(Some(id), method, params, tag)
    }

    fn add_call<R>(
        &mut self,
        id: Option<Id<'_>>,
        method: &str,
        params: impl Payload,
        tag: T,
    ) -> Result<Handle<R>, Rejected<T>> {
        let number = match self.write_call(id, method, params) {
            Ok(number) => number,
            Err(error) => return Err(Rejected::new(tag, error)),
        };
        self.conn.calls.open_call(number, self.deadline, tag);
        if let Some(id) = id {
            self.conn.calls.name(number, id);
        }
        self.items += 1;
        self.calls += 1;
        let call = CallId {
            connection: self.conn.number.get(),
            number,
        };
        Ok(Handle {
            call,
            result: PhantomData,
        })
    }

    fn write_call(
        &mut self,
        id: Option<Id<'_>>,
        method: &str,
        params: impl Payload,
    ) -> Result<u64, SendError> {
        self.may_add(method)?;
        let first = self.conn.calls.next();
        self.write_next(id, method, params)
            .inspect_err(|_| self.conn.calls.rollback(first))
    }

    fn write_next(
        &mut self,
        id: Option<Id<'_>>,
        method: &str,
        params: impl Payload,
    ) -> Result<u64, SendError> {
        let number = self.conn.next_call(id)?;
        let (style, scheme) = (self.conn.own_style(), self.conn.config.dialect.id_scheme);
        self.write(|out| encode::request(out, style, method, params, id, &scheme, number))?;
        Ok(number)
    }

    /// Adds a notification.
    ///
    /// # Errors
    /// As [`Connection::notify`]; also [`SendError::BatchTooLong`]. The entries before this one
    /// stay.
    pub fn notify(&mut self, method: &str, params: impl Payload) -> Result<(), SendError> {
        self.may_add(method)?;
        let style = self.conn.own_style();
        self.write(|out| encode::notification(out, style, method, params))?;
        self.items += 1;
        Ok(())
    }

    /// Adds a list of calls whose results have one type, and returns their handles.
    ///
    /// # Errors
    /// Stops at the first entry that is refused, and returns its tag with the reason. The entries
    /// before it stay.
    pub fn call_all<'m, R, P: Payload>(
        &mut self,
        calls: impl IntoIterator<Item = (&'m str, P, T)>,
    ) -> Result<alloc::vec::Vec<Handle<R>>, Rejected<T>> {
        calls
            .into_iter()
            .map(|(method, params, tag)| self.call(method, params, tag))
            .collect()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.items
    }

    /// Whether there are no entries yet.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Queues the batch as one message. If it has only notifications, no event follows. It has been
    /// written when [`Connection::transmit_done`] reaches what
    /// [`Connection::transmit_queued`] returns now.
    ///
    /// # Errors
    /// [`SendError::BatchEmpty`] without entries; [`SendError::TooLarge`] for a batch above
    /// `max_outbox_bytes`; [`SendError::Closed`] or a similar error if no batch can be sent at all.
    pub fn send(self) -> Result<(), SendError> {
        let frame = match &self.frame {
            Ok(frame) => *frame,
            Err(error) => return Err(error.clone()),
        };
        if self.items == 0 {
            return Err(SendError::BatchEmpty);
        }
        let conn = &mut *self.conn;
        #[cfg(panic = "unwind")]
        conn.outbox.body().truncate(self.whole);
        conn.outbox.body().push(b']');
        conn.finish_body(self.start)?;
        conn.building = None;
        let last = conn.calls.next() - 1;
        conn.outbox.commit(frame, (self.calls > 0).then_some(last));
        if self.calls > 0 && conn.knows_batches() {
            Parts::of(&mut conn.parts)
                .our_batches
                .push(self.first, last, self.calls);
        }
        Ok(())
    }

    /// Checks whether one more entry may be added.
    fn may_add(&self, method: &str) -> Result<(), SendError> {
        if let Err(error) = &self.frame {
            return Err(error.clone());
        }
        if self.items >= self.conn.config.limits.max_batch_calls {
            return Err(SendError::BatchTooLong);
        }
        check_method(method)
    }

    /// Appends one entry, or nothing if it cannot be written or makes the batch too large.
    fn write(
        &mut self,
        entry: impl FnOnce(&mut alloc::vec::Vec<u8>) -> Result<(), encode::WriteError>,
    ) -> Result<(), SendError> {
        let max_bytes = self.conn.config.limits.max_outbox_bytes;
        let out = self.conn.outbox.body();
        #[cfg(panic = "unwind")]
        out.truncate(self.whole);
        if self.items > 0 {
            out.push(b',');
        }
        let written = entry(out).map_err(SendError::from);
        let fits = out.len() - self.start < max_bytes;
        let result = written.and(if fits {
            Ok(())
        } else {
            Err(SendError::TooLarge)
        });
        match &result {
            Ok(()) => self.whole = out.len(),
            Err(_) => out.truncate(self.whole),
        }
        result
    }
}

impl<T, S: Settings> Drop for Batch<'_, T, S> {
    fn drop(&mut self) {
        // After `send` there is no builder to forget.
        self.conn.forget_builder();
    }
}

impl<T, S: Settings> fmt::Debug for Batch<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("items", &self.items)
            .finish_non_exhaustive()
    }
}
