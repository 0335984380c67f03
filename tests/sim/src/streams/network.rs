//! Reading and writing, and what goes wrong with it.

use std::io;

use super::checks::{Broken, Check, Checked};
use super::end::End;
use super::world::{Link, World};
use crate::sessions::pipe::End as PipeEnd;

/// The most bytes that one read brings.
const MAX_READ_BYTES: usize = 4096;

impl World {
    /// Reads once. Returns whether there was something.
    pub(super) fn read(&mut self, link: usize, at: usize) -> Result<bool, Broken> {
        let (now, most) = (self.now, self.read_size());
        let Link {
            ends, pipes, ears, ..
        } = &mut self.links[link];
        let (end, pipe) = (&mut ends[at], &mut pipes[1 - at]);
        if !end.session.wants_input() {
            return Ok(false);
        }
        // A drain ends with the last answer, and what comes behind it is not taken.
        let most = if end.drains { 1 } else { most };
        if let Some(bytes) = pipe.take(most) {
            end.present(now);
            let mut items = Vec::new();
            if at == 1 {
                let heard = ears.hear(&bytes);
                items = heard.map_err(|why| Check::NoPanic.broken(why))?;
                self.arrive(link, &items);
            }
            let end = &mut self.links[link].ends[at];
            end.session.handle_input(&bytes);
            if end.drains && end.is_closed() {
                self.doubt(link, &items);
            }
            self.deliver(link);
            self.trace.say(|| {
                let phase = self.links[link].ends[at].session.phase();
                format!("  end {at} has read {} bytes: {phase:?}", bytes.len())
            });
            self.after(link)?;
            return Ok(true);
        }
        let Some(how) = pipe.reached_end() else {
            return Ok(false);
        };
        pipe.is_end_told = true;
        end.present(now);
        match how {
            PipeEnd::Lost => end.session.handle_read_failed(reset()),
            _ => {
                if at == 1 {
                    let items = ears.hear_end();
                    self.arrive(link, &items);
                }
                self.links[link].ends[at].session.handle_eof();
            }
        }
        self.deliver(link);
        self.after(link)?;
        Ok(true)
    }

    fn read_size(&mut self) -> usize {
        match self.rng.below(6) {
            0 => {
                self.counts.add("fault: byte by byte");
                1
            }
            1 | 2 => {
                self.counts.add("fault: split read");
                self.rng.size(1, 60)
            }
            _ => MAX_READ_BYTES,
        }
    }

    /// Writes a part of the output. Returns whether there was something.
    pub(super) fn write(&mut self, link: usize, at: usize) -> Result<bool, Broken> {
        let (now, copies) = (self.now, self.hub.settings().once_per_subscription);
        let Self {
            links,
            hub,
            made,
            rng,
            counts,
            trace,
            ..
        } = self;
        let Link {
            ends,
            pipes,
            books,
            key,
            ..
        } = &mut links[link];
        let (end, pipe) = (&mut ends[at], &mut pipes[at]);
        if end.is_over {
            return Ok(false);
        }
        if end.output.is_empty() && !end.session.take_transmit(&mut end.output) {
            return Ok(false);
        }
        if pipe.is_broken() {
            end.output.clear();
            end.written = 0;
            end.session.handle_write_failed(reset());
            self.after(link)?;
            return Ok(true);
        }
        let capacity = pipe.capacity();
        let left = end.output.len() - end.written;
        if capacity == 0 {
            counts.add("fault: pipe full");
            return Ok(false);
        }
        let most = match rng.chance(30) {
            true => rng.size(1, left),
            false => left,
        };
        let part = match capacity == usize::MAX {
            true => left,
            false => most.min(capacity),
        };
        let bytes = end.output[end.written..end.written + part].to_vec();
        pipe.put(&bytes);
        trace.bytes(&bytes);
        trace.say(|| format!("  end {at} writes {:?}", String::from_utf8_lossy(&bytes)));
        end.written += part;
        end.present(now);
        match end.written == end.output.len() {
            true => {
                end.output.clear();
                end.written = 0;
                end.session.handle_written();
            }
            false => end.session.handle_write_progress(end.told),
        }
        books[at].hear(&bytes, *key, copies, &hub.published, made)?;
        self.after(link)?;
        Ok(true)
    }

    /// Breaks the transport, in one of several ways.
    pub(super) fn break_wire(&mut self, link: usize, at: usize, way: u64) {
        let Self {
            links, rng, counts, ..
        } = self;
        let Link { ends, pipes, .. } = &mut links[link];
        match way {
            2 => {
                counts.add("fault: half-close");
                pipes[at].end = PipeEnd::Closed;
            }
            3 => {
                counts.add("fault: failed write");
                let End {
                    session,
                    output,
                    written,
                    ..
                } = &mut ends[at];
                output.clear();
                *written = 0;
                session.handle_write_failed(reset());
                pipes[at].end = PipeEnd::Lost;
            }
            _ => {
                counts.add("fault: cut");
                for pipe in pipes {
                    let keep = rng.size(0, pipe.waiting());
                    if pipe.cut(keep) {
                        counts.add("fault: cut loses bytes");
                    }
                }
            }
        }
    }

    /// Ends the pipes of ends that are over.
    pub(super) fn end_pipes(&mut self, link: usize) -> Checked {
        let Link { ends, pipes, .. } = &mut self.links[link];
        for at in [0, 1] {
            if ends[at].session.phase().is_over() && !ends[at].is_over {
                ends[at].is_over = true;
                ends[at].output.clear();
                if pipes[at].end == PipeEnd::Open {
                    pipes[at].end = PipeEnd::Closed;
                }
                pipes[1 - at].is_unread = true;
            }
        }
        Ok(())
    }
}

fn reset() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionReset)
}
