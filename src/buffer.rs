//! The input buffer of a driver.
//!
//! [`ReadBuffer`] stores bytes between a socket and a framer. It knows nothing of frames; output is
//! stored in a connection.
//!
//! The storage never exceeds its capacity, whatever the peer sends, and shrinks after a burst. If
//! the driver consumes whole frames, each byte is moved a bounded number of times.
//!
//! ```text
//!  0          start                end              storage        max_bytes
//!  ├───────────┼────────────────────┼──────────────────┤ ─ ─ ─ ─ ─ ─ ─ ┤
//!  │ consumed  │ filled()           │ spare()          │ not allocated │
//! ```

use alloc::vec;
use alloc::vec::Vec;

/// The first allocation in bytes: a page, enough for dozens of ordinary messages.
const STORAGE_BYTES_FIRST: usize = 4 * 1024;

/// Up to this many bytes the storage grows just because reads fill it, and a storage of at most
/// this size is freed only by `release`. It is the size of a pipe on Linux: a larger read rarely
/// returns more.
const STORAGE_BYTES_KEPT: usize = 64 * 1024;

/// After the buffer has become empty this often in a row with three quarters of a large storage
/// unused, the storage is freed. So a stream with a large message now and then does not allocate
/// each time.
const QUIET_TURNS: u8 = 16;

/// A driver's input buffer: read into [`spare`](Self::spare), pass [`filled`](Self::filled) to the
/// connection.
///
/// Give it a capacity of `Framer::max_input_bytes()` or `Config::max_input_bytes()`; then it always
/// has space for the rest of a message.
///
/// # Memory
///
/// Nothing is allocated until the first `spare`, which allocates 4 KiB. The storage is doubled
/// whenever a message does not fit, and up to 64 KiB also when a read fills all free space and that
/// is more than half of the storage. It never exceeds the capacity, but while it grows the old
/// storage is held beside the new one.
///
/// After a burst a storage above 64 KiB is kept until the buffer has run empty 16 times in a row
/// with at most a quarter of it used. Then it is dropped, and the next `spare` allocates the most
/// that was in use at once during this time, rounded up to a power of two.
/// [`release`](Self::release) drops it immediately, for drivers that know a connection is idle.
///
/// # Cost
///
/// Bytes are moved to the front only if at least as many were consumed before, if no other space is
/// left, or if the storage grows. A driver that consumes whole frames before it reads again moves
/// each byte a bounded number of times.
///
/// ```
/// use antiphon::ReadBuffer;
///
/// let mut buf = ReadBuffer::new(1024);
/// let read = b"{}\n[";
/// buf.spare()[..read.len()].copy_from_slice(read); // a socket would do this
/// buf.advance(read.len());
/// assert_eq!(buf.filled(), b"{}\n[");
/// buf.consume(3);
/// assert_eq!(buf.filled(), b"[");
/// ```
#[derive(Debug)]
pub struct ReadBuffer {
    /// The allocated bytes: received bytes in `start..end`, zeros where nothing was ever written.
    storage: Vec<u8>,
    start: usize,
    end: usize,
    max_bytes: usize,
    /// The last read filled its space, more than half of the storage: more is probably waiting.
    read_was_full: bool,
    /// The most bytes in the buffer since it was last empty.
    peak: usize,
    /// The largest `peak` of the quiet turns counted in `quiet_turns`.
    quiet_peak: usize,
    quiet_turns: u8,
    #[cfg(test)]
    bytes_moved: u64,
}

impl ReadBuffer {
    /// An empty buffer that will never hold more than `capacity` bytes. Allocates nothing yet.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            storage: Vec::new(),
            start: 0,
            end: 0,
            max_bytes: capacity,
            read_was_full: false,
            peak: 0,
            quiet_peak: 0,
            quiet_turns: 0,
            #[cfg(test)]
            bytes_moved: 0,
        }
    }

    /// The space to read into; empty only when the buffer holds
    /// [`max_capacity`](Self::max_capacity) bytes.
    ///
    /// Makes space first if there is none: moves the bytes to the front, or grows. The content is
    /// unspecified (zeros or old bytes). After reading call [`advance`](Self::advance).
    pub fn spare(&mut self) -> &mut [u8] {
        self.make_room();
        // `end <= storage.len()` always: `advance` saturates there.
        self.storage.get_mut(self.end..).unwrap_or_default()
    }

    /// Adds the `n` bytes that were read into the front of [`spare`](Self::spare).
    ///
    /// If `n` is more than the length of `spare`, it counts as all of it.
    pub fn advance(&mut self, n: usize) {
        let room = self.storage.len() - self.end;
        // A read that filled only a small space at the end is no sign that more is waiting.
        self.read_was_full = n >= room && room > self.storage.len() / 2;
        self.end += n.min(room);
        self.peak = self.peak.max(self.len());
    }

    /// Drops the `n` oldest bytes, which have been handled. If `n` is more than the buffer holds,
    /// drops all of them.
    pub fn consume(&mut self, n: usize) {
        self.start += n.min(self.len());
        if self.start == self.end && self.end > 0 {
            self.start = 0;
            self.end = 0;
            self.note_empty();
        }
    }

    /// Frees the storage if the buffer is empty; otherwise does nothing. The next
    /// [`spare`](Self::spare) allocates again.
    pub fn release(&mut self) {
        if self.is_empty() {
            *self = Self {
                #[cfg(test)]
                bytes_moved: self.bytes_moved,
                ..Self::new(self.max_bytes)
            };
        }
    }

    /// All bytes read and not yet consumed, oldest first.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        // `start <= end <= storage.len()` always: both setters saturate.
        self.storage.get(self.start..self.end).unwrap_or_default()
    }

    /// The number of bytes in the buffer.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether the buffer is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The most bytes this buffer will hold, as given to [`new`](Self::new).
    #[must_use]
    pub const fn max_capacity(&self) -> usize {
        self.max_bytes
    }

    /// The bytes allocated now.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.storage.capacity()
    }

    /// Makes space for the next read: grows the storage, or moves the bytes to its front.
    fn make_room(&mut self) {
        let storage = self.storage.len();
        let held = self.len();
        let can_grow = storage < self.max_bytes;
        if can_grow && (storage == 0 || (self.read_was_full && storage < STORAGE_BYTES_KEPT)) {
            return self.grow();
        }
        if self.end < storage {
            return;
        }
        // The space at the end is used up. Moving `held` bytes is worth it if at least as many were
        // consumed before (`start`), and necessary if the storage cannot grow.
        if self.start > 0 && (self.start >= held || !can_grow) {
            self.storage.copy_within(self.start..self.end, 0);
            self.note_moved(held);
            self.start = 0;
            self.end = held;
        } else if can_grow {
            self.grow();
        }
    }

    /// Doubles the storage and moves the bytes to its front.
    fn grow(&mut self) {
        let wanted = match self.storage.len() {
            // A power of two that is large enough for the quiet turns, see `note_empty`.
            0 => self.quiet_peak.max(STORAGE_BYTES_FIRST),
            storage => storage.saturating_mul(2),
        };
        let held = self.len();
        let mut storage = vec![0; wanted.min(self.max_bytes)];
        // The storage grows only below `max_bytes`, so the new one is larger and has space for
        // `held` bytes.
        if let Some(front) = storage.get_mut(..held) {
            front.copy_from_slice(self.filled());
        }
        self.note_moved(held);
        self.storage = storage;
        self.start = 0;
        self.end = held;
        self.read_was_full = false;
    }

    /// Ends a turn, because the buffer has become empty. A turn is quiet if it used at most a
    /// quarter of a large storage; after [`QUIET_TURNS`] quiet turns in a row the storage is freed.
    fn note_empty(&mut self) {
        let peak = core::mem::take(&mut self.peak);
        let storage = self.storage.len();
        if storage <= STORAGE_BYTES_KEPT || peak > storage / 4 {
            self.quiet_turns = 0;
            self.quiet_peak = 0;
            return;
        }
        self.quiet_turns += 1;
        self.quiet_peak = self.quiet_peak.max(peak);
        if self.quiet_turns == QUIET_TURNS {
            self.storage = Vec::new();
            self.quiet_turns = 0;
            // At most a quarter of an allocated size, so the power of two cannot overflow.
            self.quiet_peak = self.quiet_peak.next_power_of_two();
        }
    }

    /// Counts moved bytes in tests, which check the cost promised above; otherwise does nothing.
    fn note_moved(&mut self, _bytes: usize) {
        #[cfg(test)]
        {
            self.bytes_moved += _bytes as u64;
        }
    }
}

#[cfg(test)]
mod tests;
