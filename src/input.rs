//! The input that the driver passes in: a cursor over received bytes, which the driver owns.
//!
//! The connection takes a message only when all of it is there; a message over the size limit is
//! taken piece by piece. Bytes that were not taken have to be passed again, followed by the bytes
//! that arrive next.

/// Received bytes, and how many of them the connection has taken.
///
/// ```
/// use antiphon::{Config, Connection, Event, Input};
/// let mut conn: Connection = Connection::new(Config::new());
/// let received = b"{\"jsonrpc\":\"2.0\",\"method\":\"tick\"}\n{\"jsonr";
/// let mut input = Input::stream(received);
/// assert!(matches!(conn.poll_event(&mut input), Some(Event::Notification(_))));
/// assert!(conn.poll_event(&mut input).is_none());
/// assert_eq!(&received[input.consumed()..], b"{\"jsonr"); // pass these again
/// ```
#[derive(Clone, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
    consumed: usize,
    kind: InputKind,
    /// How many of the next bytes the last fingerprint was computed from, and the fingerprint. The
    /// number is zero if there is no fingerprint, or if bytes were taken since.
    print: (usize, u64),
}

/// Whether the bytes are a stream, one whole message, or missing because the message was too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputKind {
    Stream,
    Message,
    Oversize(u64),
}

impl<'a> Input<'a> {
    /// Makes an input of bytes of a stream, from the first byte that was not consumed yet.
    pub fn stream(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            consumed: 0,
            kind: InputKind::Stream,
            print: (0, 0),
        }
    }

    /// Makes an input of one whole message, from a transport that delivers separate messages. It is
    /// read as one message under every framing.
    pub fn message(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            consumed: 0,
            kind: InputKind::Message,
            print: (0, 0),
        }
    }

    /// Makes an input of one whole message as text, from a transport that delivers strings.
    pub fn text(message: &'a str) -> Self {
        Self::message(message.as_bytes())
    }

    /// Makes an input in place of a message of `bytes` bytes that was too large for the transport.
    /// The connection answers it like every message over its limit.
    pub fn oversize(bytes: u64) -> Self {
        Self {
            bytes: &[],
            consumed: 0,
            kind: InputKind::Oversize(bytes),
            print: (0, 0),
        }
    }

    /// Makes an input without bytes: for a turn of the loop in which only time has passed.
    pub fn none() -> Self {
        Self::stream(&[])
    }

    /// How many bytes at the beginning were taken. Pass the rest again.
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// The bytes that are left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.consumed..).unwrap_or_default()
    }

    /// Returns a fingerprint of the next `n` bytes. The bytes cannot change while they are
    /// borrowed, so it is computed once.
    #[inline]
    pub(crate) fn print_of(&mut self, n: usize) -> u64 {
        if self.print.0 != n || n == 0 {
            self.print = (n, fingerprint(self.rest(), n));
        }
        self.print.1
    }

    pub(crate) fn kind(&self) -> InputKind {
        self.kind
    }

    pub(crate) fn take(&mut self, n: usize) {
        self.consumed = self.consumed.saturating_add(n).min(self.bytes.len());
        self.print = (0, 0);
    }

    /// Takes the whole message. After it the input is a stream without bytes.
    pub(crate) fn take_message(&mut self) {
        self.consumed = self.bytes.len();
        self.kind = InputKind::Stream;
        self.print = (0, 0);
    }
}

/// Distinguishes one message from another by its length and its first and last 64 bytes. It must be
/// fast, because it is computed for every batch.
fn fingerprint(rest: &[u8], taken: usize) -> u64 {
    let text = rest.get(..taken).unwrap_or(rest);
    match (text.first_chunk(), text.last_chunk()) {
        (Some(head), Some(tail)) => sample_hash(head, tail, taken),
        _ => {
            let mut padded = [0; SAMPLE];
            let place = padded.iter_mut().zip(text);
            place.for_each(|(to, from)| *to = *from);
            sample_hash(&padded, &[0; SAMPLE], taken)
        }
    }
}

/// How many bytes at each end of a text its fingerprint depends on.
const SAMPLE: usize = 64;

/// Returns the fingerprint of a text by its two ends. They are hashed independently, so that the
/// processor can work on both at the same time. Each hash begins with the length in another form,
/// so that two equal ends do not give equal hashes.
#[inline]
fn sample_hash(head: &[u8; SAMPLE], tail: &[u8; SAMPLE], taken: usize) -> u64 {
    // 2^64 divided by the golden ratio: an odd factor spreads a word over the higher bits.
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: &[u8]| {
        let word = word.first_chunk().copied().map_or(0, u64::from_le_bytes);
        (hash.rotate_left(5) ^ word).wrapping_mul(ODD)
    };
    let words = head.chunks_exact(8).zip(tail.chunks_exact(8));
    let start = (0xcbf2_9ce4_8422_2325 ^ taken as u64, !(taken as u64));
    let (head, tail) = words.fold(start, |(head, tail), (first, last)| {
        (mix(head, first), mix(tail, last))
    });
    head ^ tail.rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::{Input, fingerprint};
    use alloc::vec::Vec;

    #[test]
    fn messages_of_other_lengths_or_with_another_byte_at_either_end_are_told_apart() {
        let text: Vec<u8> = (0..200).map(|at| b"{[\"abc,:"[at % 8]).collect();
        for at in (0..64).chain(136..200) {
            for bit in 0..8 {
                let mut changed = text.clone();
                changed[at] ^= 1 << bit;
                assert_ne!(fingerprint(&changed, 200), fingerprint(&text, 200), "{at}");
            }
        }
        let mut prints: Vec<u64> = (0..=200).map(|len| fingerprint(&text, len)).collect();
        let all = prints.len();
        prints.sort_unstable();
        prints.dedup();
        assert_eq!(prints.len(), all);
    }

    #[test]
    fn what_is_next_is_told_by_how_much_of_it_is_asked_for() {
        let text = b"some text";
        let mut input = Input::stream(text);
        for n in [0, 4, 4, 9, 0] {
            assert_eq!(input.print_of(n), fingerprint(text, n), "{n}");
        }
        input.take(5);
        assert_eq!(input.print_of(4), fingerprint(b"text", 4));
    }

    #[test]
    fn every_bit_of_a_print_is_set_as_often_as_not() {
        let mut set = [0; 64];
        for n in 0..1000u32 {
            let text = alloc::format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":{n}}}");
            let print = fingerprint(text.as_bytes(), text.len());
            (0..64).for_each(|bit| set[bit] += print >> bit & 1);
        }
        assert!(
            set.iter().all(|times| (400..600).contains(times)),
            "{set:?}"
        );
    }
}
