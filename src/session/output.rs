//! Output: one piece at a time, the next only after the last was reported as written.

use alloc::vec::Vec;

use super::machine::{Session, Writing};
use super::phase::Phase;
use super::report::Fault;
use super::wire::Wire;
use crate::event::CloseReason;
use crate::time::Instant;

/// How many bytes of a layer's output one write has before no further message is joined to it.
const COALESCED_BYTES: usize = 64 * 1024;

impl<W> Session<W> {
    /// Whether there is something to write, and nothing is being written.
    pub fn has_transmit(&self) -> bool {
        if self.writing != Writing::Idle || self.phase.is_over() {
            return false;
        }
        let has_messages = self.conn.poll_transmit().is_some();
        match &self.wire {
            Wire::Layered(layer) => layer.has_transmit() || (layer.may_send() && has_messages),
            Wire::Stream | Wire::Messages => has_messages,
        }
    }

    /// Moves the output to be written next to the end of `into`: one whole message under
    /// [`Wire::Messages`], otherwise any number of bytes. Returns false if there is none, or if the
    /// last output was not reported as [written](Self::handle_written).
    pub fn take_transmit(&mut self, into: &mut Vec<u8>) -> bool {
        if !self.has_transmit() {
            return false;
        }
        let was_paused = self.is_paused();
        match &mut self.wire {
            Wire::Stream => {
                self.conn.take_transmit(into);
                self.taken = self.conn.transmit_done();
            }
            Wire::Messages => {
                if let Some(message) = self.conn.poll_transmit() {
                    into.extend_from_slice(message);
                    let len = message.len();
                    self.conn.consume_transmit(len);
                }
                self.taken = self.conn.transmit_done();
            }
            Wire::Layered(layer) => {
                let start = into.len();
                layer.take_transmit(into);
                while into.len() - start < COALESCED_BYTES {
                    let Some(message) = self.conn.poll_transmit() else {
                        break;
                    };
                    if !layer.send(message, into) {
                        break;
                    }
                    let len = message.len();
                    self.conn.consume_transmit(len);
                    // A message that could not be sent is not counted as taken.
                    self.taken = self.conn.transmit_done();
                }
            }
        }
        self.writing = Writing::Busy(self.now);
        self.resume_after(was_paused);
        true
    }

    /// Reports that a write begins to wait for space, or that a part of the output was written: the
    /// write timeout starts again now.
    pub fn handle_write_progress(&mut self, now: Instant) {
        self.handle_time(now);
        // Output that waits behind this write waits for the same peer, which has read.
        self.conn.restart_write_time();
        if let Writing::Busy(since) = &mut self.writing {
            *since = now;
        }
    }

    /// Reports that all output that was taken has been written and flushed.
    pub fn handle_written(&mut self) {
        if let Writing::Busy(_) = self.writing {
            self.writing = Writing::Idle;
            self.written = self.taken;
        }
        self.advance();
    }

    /// Reports that writing has failed, and that nothing more can be written. Input that the peer
    /// had sent before may still arrive for a while.
    pub fn handle_write_failed(&mut self, fault: impl Into<Fault>) {
        self.note_fault(fault.into());
        self.writing = Writing::Failed;
        match self.phase {
            Phase::Opening | Phase::Open | Phase::Draining => {
                self.phase = Phase::LastWords { since: self.now };
            }
            // The input has ended too.
            Phase::InputEnded { .. } => self.close_now(CloseReason::TransportFailed),
            Phase::LastWords { .. } | Phase::Closing { .. } | Phase::Over(_) => {}
        }
        self.advance();
    }

    /// Drops output that can no longer be written.
    pub(super) fn throw_output_away(&mut self) {
        while let Some(bytes) = self.conn.poll_transmit() {
            let len = bytes.len();
            self.conn.consume_transmit(len);
        }
    }
}
