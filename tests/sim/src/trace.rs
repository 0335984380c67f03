//! What happens in a run, as a hash that two equal runs share, and as lines for a reader.

/// The trace of a run.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    /// Lines are printed as they come.
    pub printing: bool,
}

impl Trace {
    /// An empty trace.
    pub fn new(printing: bool) -> Self {
        Self {
            // The start value and, in `mix`, the factor of the hash FNV-1a.
            hash: 0xcbf2_9ce4_8422_2325,
            printing,
        }
    }

    /// Adds a number.
    pub fn mix(&mut self, number: u64) {
        self.hash = (self.hash ^ number)
            .wrapping_mul(0x100_0000_01b3)
            .rotate_left(23);
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(eight));
        }
        self.mix(bytes.len() as u64);
    }

    /// Prints a line, if `printing` is on.
    pub fn say(&self, line: impl FnOnce() -> String) {
        if self.printing {
            println!("{}", line());
        }
    }

    /// The hash of all that was added.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
