//! Writing by whoever has something to say, instead of waking the thread that writes.
//!
//! The rules guarded here: one writes at a time, and what is said first leaves first; nobody waits
//! for a peer that does not read but the thread whose task that is, to which the rest goes over; and
//! nobody writes while holding the lock.

use std::io;

use super::{Guard, Session, Signal, State};
use crate::rare::rare;

/// The largest output buffer that is kept for the next time.
const OUTPUT_BYTES_KEPT: usize = 16 * 1024;

impl State {
    /// Whether somebody else has begun to write what the writer is to go on with.
    pub(super) fn has_left_over(&self) -> bool {
        !self.left_over.is_empty()
    }

    /// Takes it.
    pub(super) fn take_left_over(&mut self, into: &mut Vec<u8>) -> bool {
        let is_some = self.has_left_over();
        if is_some {
            std::mem::swap(&mut self.left_over, into);
        }
        is_some
    }
}

impl Session {
    /// Writes what is queued, where that can be done at once, or has the writer do it. Gives the lock back, which was
    /// free meanwhile.
    pub(crate) fn write_out<'s>(&'s self, mut state: Guard<'s>) -> Guard<'s> {
        let outlet = self.outlet.get().filter(|_| state.writing_since.is_none());
        let Some(outlet) = outlet else {
            self.wake(&mut state);
            return state;
        };
        let mut output = std::mem::take(&mut state.left_over);
        if !self.take_output_of(&mut state, &mut output) {
            self.wake(&mut state);
            return state;
        }
        drop(state);
        let written = outlet.write_now(&output);
        let mut state = self.lock();
        match written {
            Ok(written) if written < output.len() => {
                rare();
                state.writing_since = Some(self.now());
                output.drain(..written);
                state.left_over = output;
                self.signal(&mut state, Signal::Writable);
                self.signal(&mut state, Signal::Turn);
                return state;
            }
            Ok(_) => {
                self.note_written(&mut state);
                self.wake(&mut state);
            }
            Err(error) => self.note_write_failed(&mut state, error),
        }
        if output.capacity() <= OUTPUT_BYTES_KEPT {
            output.clear();
            state.left_over = output;
        }
        state
    }

    /// Whether somebody writes who is not the writer. A write that has been given up is of no matter.
    pub(super) fn is_other_writing(&self, state: &State) -> bool {
        let is_writing = state.writing_since.is_some() && state.write_failed.is_none();
        is_writing && self.outlet.get().is_some()
    }

    /// Whether whoever is about to wait for what comes of the output can write it.
    pub(crate) fn is_to_write_first(&self, state: &State) -> bool {
        let may_write = self.outlet.get().is_some() && state.writing_since.is_none();
        may_write && state.has_output()
    }

    /// All that was taken has been written.
    pub(super) fn note_written(&self, state: &mut State) {
        state.writing_since = None;
        state.written = state.taken;
        if state.closing {
            rare();
            self.signal(state, Signal::Turn);
        }
        self.signal(state, Signal::Changed);
    }

    /// What was taken cannot be written.
    #[cold]
    pub(super) fn note_write_failed(&self, state: &mut State, error: io::Error) {
        state.writing_since = None;
        self.fail_write(state, error);
        self.signal(state, Signal::Turn);
        self.signal(state, Signal::Changed);
    }
}
