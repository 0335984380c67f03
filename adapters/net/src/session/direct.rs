//! Interfaces by which a thread reads or writes itself, in place of the connection's reading or writing
//! thread.

use std::io;

/// The output, for a thread that sends a message and then waits anyway: if that thread writes itself,
/// the writing thread need not be woken.
pub trait Outlet: Send + Sync {
    /// Writes as much as the transport takes, without waiting for more than a moment, and returns
    /// how many bytes that were. No other thread writes meanwhile.
    ///
    /// # Errors
    /// No more can be written.
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize>;
}

/// The input, for a thread that waits for messages anyway: if that thread reads itself, the reading
/// thread need not wake it.
pub trait Inlet: Send {
    /// Reads once, and passes the bytes to `receiver` in one piece. If `is_hasty`, it waits some
    /// milliseconds at most. Only one thread at a time has the inlet.
    fn read(&mut self, receiver: &dyn Receiver, is_hasty: bool) -> Came;
}

/// Receives input: a session, or a value that passes the input on to a session.
pub trait Receiver {
    /// Takes bytes, all of them.
    fn receive(&self, bytes: &[u8]);

    /// The input has ended: the other side ended its stream, or reading failed.
    fn input_ended(&self, failed: Option<io::Error>);
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The session received something, or the read was interrupted: another read may bring more.
    Something,
    /// There was nothing to read.
    Nothing,
    /// The input has ended, and the session knows it.
    End,
}
