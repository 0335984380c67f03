//! Ways in and out for threads that read and write for themselves.

use std::io;

/// A way out for a thread that has something to say and is about to wait anyway: if it writes by
/// itself, the thread that writes need not be woken.
pub trait Outlet: Send + Sync {
    /// Writes what there is room for, without waiting for more than a moment, and says how many
    /// bytes that were. Nobody else writes meanwhile.
    ///
    /// # Errors
    /// Nothing more can be written.
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize>;
}

/// A way in for a thread that waits for what is to come: if it reads by itself, the thread that
/// reads need not wake it.
pub trait Inlet: Send {
    /// Reads once, and gives `receiver` what came in, in one piece. If `is_hasty`, it waits some
    /// milliseconds for it at the most. One thread at a time has the inlet.
    fn read(&mut self, receiver: &dyn Receiver, is_hasty: bool) -> Came;
}

/// Takes what comes in: a session, or a thread on its behalf.
pub trait Receiver {
    /// Takes bytes, all of them.
    fn receive(&self, bytes: &[u8]);

    /// Nothing more comes in: the other side ended its stream, or reading failed.
    fn input_ended(&self, failed: Option<io::Error>);
}

/// What came of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The session was given something.
    Something,
    /// There was nothing to read.
    Nothing,
    /// Nothing more comes in, as the session knows.
    End,
}
