//! How received bytes reach a connection: in pieces, after it was told the time or not, until there
//! are no more events or reading stops half way.

use antiphon::{Event, Framing, Input, ReadBuffer};

use crate::checks::{Check, Checked};
use crate::end::{End, Seen};
use crate::plant::Plant;
use crate::world::{Split, World};

/// More events than any message here can cause.
const MAX_EVENTS: usize = 20_000;

impl World {
    /// Lets up to `most` of the bytes that have arrived reach an end, or one whole message. If nothing
    /// is left to read and the writer has closed its side, tells the end that the input has ended.
    ///
    /// # Errors
    /// What breaks on the way.
    pub fn deliver(&mut self, e: usize, most: usize) -> Checked {
        self.poll(e, usize::MAX)?;
        let whole = self.end(e).config.framing == Framing::Messages;
        let wire = &mut self.links[e / 2].wires[1 - e % 2];
        let ready = wire.readable(self.now, whole);
        let n = if whole { ready } else { ready.min(most) };
        let bytes = wire.read(n);
        if bytes.is_empty() && wire.shut && !wire.end_told && wire.waiting() == 0 && !wire.stalled {
            wire.end_told = true;
            self.trace.say(|| format!("  {e} is told the end of input"));
            // A last line without its line feed is a message too.
            let link = &self.links[e / 2];
            let (writer, wire) = (&link.ends[1 - e % 2], &link.wires[1 - e % 2]);
            let is_lines = wire_is_lines(writer);
            let all_came = wire.arrived() == writer.observer.seen();
            let cut_off = writer.observer.unfinished().filter(|_| all_came);
            let last = self.links[e / 2].wires[1 - e % 2].last_line().or(cut_off);
            if let Some(frame) = last.filter(|_| is_lines && self.is_honest(e)) {
                self.end(e).book.arrived(frame);
            }
            self.end(e).run(|conn| conn.handle_eof());
            return self.poll(e, usize::MAX);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.trace
            .say(|| format!("  {e} reads {:?}", String::from_utf8_lossy(&bytes)));
        if whole {
            return self.deliver_message(e, &bytes);
        }
        if self.options.plant == Some(Plant::SplitMinded) && self.options.split == Split::Bytes {
            self.notify(e, 3)?;
        }
        let mut rest = &bytes[..];
        let (split, salt) = (self.options.split, self.split_rng.below(3));
        if self.options.split == Split::Chance && salt == 1 {
            self.fault("fault: byte by byte");
        }
        while !rest.is_empty() {
            let room = self.end(e).buffer.spare().len();
            let wanted = match split {
                Split::Whole => rest.len(),
                Split::Bytes => 1,
                // By `salt`, a third of the reads bring pieces of any size, a third single bytes, and a
                // third all there is.
                Split::Chance | Split::Pieces if salt == 0 => self.split_rng.size(1, rest.len()),
                Split::Chance | Split::Pieces if salt == 1 => 1,
                Split::Chance | Split::Pieces | Split::Each => rest.len(),
            };
            let n = wanted.min(rest.len()).min(room);
            Check::InputProgress.that(n > 0, || format!("{e}: the buffer is full"))?;
            if n < rest.len() {
                self.fault("fault: read split");
            }
            let end = self.end(e);
            end.buffer.spare()[..n].copy_from_slice(&rest[..n]);
            end.buffer.advance(n);
            rest = &rest[n..];
            self.arrive(e, n);
            // Reading may stop after one event, and go on at the next turn.
            let stops = split == Split::Chance && rest.is_empty() && !self.healing;
            if stops && self.rng.chance(6) {
                self.fault("fault: reading stops half way");
                self.poll(e, 1)?;
            } else {
                self.poll(e, usize::MAX)?;
            }
        }
        Ok(())
    }

    fn arrive(&mut self, e: usize, n: usize) {
        let link = &mut self.links[e / 2];
        for frame in link.wires[1 - e % 2].arrive(n) {
            link.ends[e % 2].book.arrived(frame);
        }
    }

    fn deliver_message(&mut self, e: usize, bytes: &[u8]) -> Checked {
        self.arrive(e, bytes.len());
        let limit = self.end(e).config.limits.max_message_bytes;
        let mut input = match bytes.len() > limit && self.rng.chance(50) {
            true => {
                self.fault("fault: oversized for the transport");
                Input::oversize(bytes.len() as u64)
            }
            false => Input::message(bytes),
        };
        self.tell_time(e);
        let mut events = 0;
        while let Some(event) = self.end(e).run(|conn| conn.poll_event(&mut input)) {
            self.handle(e, event)?;
            events += 1;
            Check::NoPanic.that(events < MAX_EVENTS, || "events without end".into())?;
        }
        self.end(e).check_drained()
    }

    /// Tells an end the present, or with a faulty clock the past or nothing.
    fn tell_time(&mut self, e: usize) {
        let mut now = self.now;
        if !self.healing && self.options.split == Split::Chance {
            match self.split_rng.below(40) {
                0 => {
                    self.fault("fault: clock stands still");
                    return;
                }
                1 => {
                    self.fault("fault: clock steps back");
                    now -= now / 3;
                }
                _ => {}
            }
        }
        self.end(e).tell_time(now);
    }

    /// Tells an end the time and takes up to `limit` events out of it.
    ///
    /// # Errors
    /// What breaks.
    pub fn poll(&mut self, e: usize, limit: usize) -> Checked {
        self.tell_time(e);
        let mut buffer = core::mem::replace(&mut self.end(e).buffer, ReadBuffer::new(0));
        let mut events = 0;
        let mut input = Input::stream(buffer.filled());
        let drained = loop {
            if events >= limit {
                break false;
            }
            let Some(event) = self.end(e).run(|conn| conn.poll_event(&mut input)) else {
                break true;
            };
            self.handle(e, event)?;
            events += 1;
            Check::NoPanic.that(events < MAX_EVENTS, || "events without end".into())?;
        };
        let consumed = input.consumed();
        buffer.consume(consumed);
        let (left, mut room) = (buffer.len(), buffer.max_capacity());
        if self.options.plant == Some(Plant::BufferSmall) {
            room /= 8;
        }
        self.end(e).buffer = buffer;
        self.end(e).book.half_read = !drained;
        if !drained {
            return Ok(());
        }
        Check::InputProgress.that(left < room, || format!("{e}: {left} bytes of {room} stay"))?;
        self.end(e).check_drained()
    }

    fn handle(&mut self, e: usize, event: Event<'_, u64>) -> Checked {
        self.trace.say(|| format!("  {e} is told {event:?}"));
        let kind = match &event {
            Event::Request(_) => 1,
            Event::Notification(_) => 2,
            Event::Response(response) => 10 + response.call.number(),
            Event::Cancelled(_) => 3,
            Event::Malformed(_) => 4,
            Event::Refused(_) => 5,
            Event::UnmatchedResponse(_) => 6,
            _ => 7,
        };
        self.trace.mix(kind);
        let link = &mut self.links[e / 2];
        let seen = link.ends[e % 2].digest(event, &mut self.counts)?;
        if matches!(seen, Seen::Settled(..)) {
            self.settled += 1;
        }
        self.react(e, seen)
    }
}

/// Whether an end writes lines.
fn wire_is_lines(writer: &End) -> bool {
    matches!(writer.config.framing, Framing::Newline | Framing::Detect)
}
