//! The head of the handshake's request or answer, gathered until its blank line.
//!
//! The rule guarded here: it never grows beyond its limit, and what follows it is left for whom it
//! is meant.

/// What has come in of a head.
#[derive(Debug)]
pub(super) struct Head {
    bytes: Vec<u8>,
    bytes_max: usize,
}

/// How far a head is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    Part,
    Whole,
    TooLong,
}

impl Head {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            bytes_max,
        }
    }

    /// Takes what belongs to the head out of `input`.
    pub(super) fn gather(&mut self, input: &mut &[u8]) -> Gathered {
        const BLANK: &[u8] = b"\r\n\r\n";
        let from = self.bytes.len().saturating_sub(BLANK.len() - 1);
        let had = self.bytes.len();
        let room = self.bytes_max.saturating_sub(had);
        self.bytes
            .extend_from_slice(&input[..input.len().min(room)]);
        let mut windows = self.bytes[from..].windows(BLANK.len());
        if let Some(at) = windows.position(|window| window == BLANK) {
            let len = from + at + BLANK.len();
            self.bytes.truncate(len);
            *input = &input[len - had..];
            return Gathered::Whole;
        }
        let is_too_long = input.len() > room;
        *input = &[];
        if is_too_long {
            Gathered::TooLong
        } else {
            Gathered::Part
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{Gathered, Head};

    // WSK-15
    #[test]
    fn a_head_ends_at_its_blank_line_however_it_is_split() {
        let whole = b"GET / HTTP/1.1\r\nhost: x\r\n\r\nframes";
        for split in 0..=whole.len() {
            let mut head = Head::new(100);
            let (mut first, mut second) = whole.split_at(split);
            if head.gather(&mut first) == Gathered::Part {
                assert_eq!(head.gather(&mut second), Gathered::Whole, "{split}");
            }
            assert!(head.as_bytes().ends_with(b"x\r\n\r\n"));
            assert_eq!([first, second].concat(), b"frames", "{split}");
        }
    }

    // WSK-15
    #[test]
    fn a_head_beyond_its_limit_is_not_held() {
        for (bytes_max, wanted) in [(27, Gathered::Whole), (26, Gathered::TooLong)] {
            let mut head = Head::new(bytes_max);
            let gathered = head.gather(&mut &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..]);
            assert_eq!(gathered, wanted);
            assert!(head.as_bytes().len() <= bytes_max);
        }
        let mut head = Head::new(8);
        let mut last = Gathered::Part;
        for _ in 0..9 {
            last = head.gather(&mut &b"x"[..]);
        }
        assert_eq!(last, Gathered::TooLong);
        assert_eq!(head.as_bytes().len(), 8);
    }
}
