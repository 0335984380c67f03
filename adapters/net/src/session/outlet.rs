//! A caller writes its message itself, instead of waking the thread or task that writes.
//!
//! Only one thread writes at a time, and messages are written in their order. A caller does not wait for a
//! peer that does not read: the writer writes the rest. No thread writes while it holds the lock.

use super::turn::Sent;
use super::{Guard, Session, Sleeper};

/// The largest output buffer that is kept for the next time, in bytes.
const OUTPUT_BYTES_KEPT: usize = 16 * 1024;

impl Session {
    /// Writes the queued output for a thread that is about to wait, unless other threads wait already:
    /// the writer then writes for all of them.
    pub(crate) fn write_if_alone(&self, state: Guard<'_>) {
        if state.reading.callers == 0 {
            drop(self.write_out(state));
        }
    }

    /// Writes the queued output, if that is possible at once, or makes the writer do it. Returns
    /// the lock, which was free meanwhile.
    pub(super) fn write_out<'s>(&'s self, mut state: Guard<'s>) -> Guard<'s> {
        let Some(outlet) = self.outlet.get().filter(|_| state.conn.has_transmit()) else {
            return state;
        };
        let mut output = std::mem::take(&mut state.left_over);
        state.conn.take_transmit(&mut output);
        drop(state);
        let written = outlet.write_now(&output);
        let mut state = self.lock();
        match written {
            Ok(written) if written < output.len() => {
                state.conn.handle_write_progress(self.now());
                output.drain(..written);
                state.left_over = output;
                state.rouse(Sleeper::Writer);
                return state;
            }
            Ok(_) => state.take_sent(&Sent::All, self.now()),
            Err(error) => {
                drop(state);
                self.output_sent(Sent::Failed(error.into()));
                return self.lock();
            }
        }
        if output.capacity() <= OUTPUT_BYTES_KEPT {
            output.clear();
            state.left_over = output;
        }
        state
    }
}
