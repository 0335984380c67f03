//! What the threads that move bytes have to know of the conversation, which is next to nothing.
//!
//! A pump reads, writes and sleeps for a [`Machine`]. The real one is a
//! [`Session`](crate::Session); the transports' own tests run them with an echo of bytes instead,
//! which proves that no rule of the protocol hides in them.

use std::io;

use antiphon::Instant;

/// One side of a byte stream, without the stream, for threads: one reads, one writes, one keeps time.
pub trait Machine: Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Instant;

    /// Takes bytes that came in, all of them.
    fn receive(&self, bytes: &[u8]);

    /// Nothing more comes in: the other side ended its stream, or reading failed.
    fn input_ended(&self, failed: Option<io::Error>);

    /// All that was taken has been written and flushed.
    fn output_written(&self);

    /// What was taken could not be written, nor can anything else be.
    fn output_failed(&self, error: io::Error);

    /// Whether more is to be read. False from some time on after the end: what comes in then is of
    /// no use.
    fn wants_input(&self) -> bool {
        true
    }

    /// The transport has been let go.
    fn finished(&self);

    /// How long the other side's end of stream is awaited after ours. Nothing, if it has been given
    /// up.
    fn linger(&self) -> std::time::Duration;

    /// Lets others than the writing thread write, too. Once, before anything is written.
    fn set_outlet(&self, outlet: Box<dyn Outlet>) {
        drop(outlet);
    }

    /// Lets others than the reading thread go on reading if what has just come in was for them, and
    /// the thread wait until it is to read again: nobody else has done so for some milliseconds,
    /// somebody waits who does not, or `is_over` says that the end is awaited. Gives the inlet back.
    fn lend_input(&self, inlet: Box<dyn Inlet>, is_over: &dyn Fn() -> bool) -> Box<dyn Inlet> {
        let _ = is_over;
        inlet
    }

    /// Lets the thread wait until more may be read, or `is_over` says that the end is awaited.
    fn wait_readable(&self, is_over: &dyn Fn() -> bool) {
        let _ = is_over;
    }

    /// Lets the thread wait for output, and puts it into `into`, which is empty. False if there is
    /// none and `is_over` says that there is to be no more.
    fn wait_output(&self, into: &mut Vec<u8>, is_over: &dyn Fn() -> bool) -> bool;

    /// Lets time pass, and the thread wait until it is to be looked at again.
    fn wait_turn(&self) -> Turn;

    /// Lets the thread wait until `deadline`, or until somebody [nudges](Self::nudge).
    fn wait_nudge(&self, deadline: Instant);

    /// Has everybody look again.
    fn nudge(&self);

    /// Ends it, because a thread could not be started or has panicked.
    fn abort(&self, error: Option<io::Error>);
}

/// What the thread that keeps time is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Go on; come back at this time at the latest.
    Open {
        /// [`Instant::FAR_FUTURE`] for never.
        wake_at: Instant,
    },
    /// Nothing more is to be read or written: end the stream, and let the transport go.
    Over,
}

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

/// Takes what comes in: a [`Machine`], or a thread on its behalf.
pub trait Receiver {
    /// See [`Machine::receive`].
    fn receive(&self, bytes: &[u8]);

    /// See [`Machine::input_ended`].
    fn input_ended(&self, failed: Option<io::Error>);
}

impl<M: Machine + ?Sized> Receiver for M {
    fn receive(&self, bytes: &[u8]) {
        Machine::receive(self, bytes);
    }

    fn input_ended(&self, failed: Option<io::Error>) {
        Machine::input_ended(self, failed);
    }
}

/// What came of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The machine was given something.
    Something,
    /// There was nothing to read.
    Nothing,
    /// Nothing more comes in, as the machine knows.
    End,
}
