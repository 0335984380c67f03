//! Decides which connections of a server may begin requests.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

/// A connection of a [`Scheduler`], and whether it is in line.
#[derive(Debug)]
pub struct Member {
    number: u64,
    is_in_line: bool,
}

impl Member {
    /// Whether it is in line, or was called and has not asked for its permit since.
    pub const fn is_in_line(&self) -> bool {
        self.is_in_line
    }
}

/// Decides which connections of a server may begin requests, if the number of running requests is
/// limited.
///
/// It gives permits and starts nothing itself. A connection that gets no permit stands in line,
/// only once however many requests it has. When a permit is free, it is reserved for the first in
/// line, which is called by the value `W` that it gave when it began to wait. So a connection that
/// floods the server delays every other connection only by its turn.
///
/// ```
/// use antiphon::service::Scheduler;
///
/// let mut scheduler = Scheduler::new(1);
/// let (mut one, mut other) = (scheduler.join(), scheduler.join());
/// assert_eq!(scheduler.begin(&mut one, 5, || "one"), 1);
/// assert_eq!(scheduler.begin(&mut other, 5, || "other"), 0);
/// assert_eq!(scheduler.begin(&mut one, 4, || "one"), 0);
/// // A permit is free: it is reserved for the first in line.
/// let mut called = Vec::new();
/// scheduler.end(1, &mut called);
/// assert_eq!(called, ["other"]);
/// assert_eq!(scheduler.begin(&mut one, 4, || "one"), 0);
/// assert_eq!(scheduler.begin(&mut other, 5, || "other"), 1);
/// # scheduler.step_out(&mut one, &mut called);
/// # scheduler.step_out(&mut other, &mut called);
/// ```
pub struct Scheduler<W> {
    max_running: usize,
    /// How many permits are taken, including those that are reserved for the connections in
    /// `called`.
    running: usize,
    /// How many permits came back before [`exceed`](Self::exceed) took them.
    owed: usize,
    /// The connections in line, and how each is called.
    line: VecDeque<(u64, W)>,
    /// The connections that were called and have not asked for their permit since.
    called: Vec<u64>,
    next_number: u64,
}

impl<W> Scheduler<W> {
    /// Lets at most `max_running` requests run at the same time, but at least one.
    pub const fn new(max_running: usize) -> Self {
        Self {
            max_running: if max_running == 0 { 1 } else { max_running },
            running: 0,
            owed: 0,
            line: VecDeque::new(),
            called: Vec::new(),
            next_number: 0,
        }
    }

    /// Adds a connection, which is to [step out](Self::step_out) at its end. It does not stand in line
    /// yet.
    pub const fn join(&mut self) -> Member {
        self.next_number += 1;
        Member {
            number: self.next_number,
            is_in_line: false,
        }
    }

    /// Returns how many permits a connection gets for its requests, of which `wanted` are to begin: at
    /// most half of the free ones, rounded up, so that others get some too. Each permit is held until
    /// [`end`](Self::end). If there is none, the connection stands in line, and asks again when it is
    /// called by the value that `call` returns; then it gets one. `wanted` is at least 1.
    pub fn begin(&mut self, member: &mut Member, wanted: usize, call: impl FnOnce() -> W) -> usize {
        if member.is_in_line {
            return usize::from(self.take_call(member));
        }
        let permits = share(self.free(), wanted);
        if permits == 0 {
            member.is_in_line = true;
            self.line.push_back((member.number, call()));
        }
        self.running += permits;
        permits
    }

    /// Counts one more running request, even above the limit, until [`end`](Self::end): for a handler that
    /// goes on after its permit was given back.
    pub const fn exceed(&mut self) {
        match self.owed {
            0 => self.running += 1,
            _ => self.owed -= 1,
        }
    }

    /// Takes permits back, and gives them to the first connections in line. Appends the values that
    /// call these connections to `called`. More permits than are taken may come back, if
    /// [`exceed`](Self::exceed) takes as many later: a connection may end while its handler waits without a permit.
    pub fn end(&mut self, permits: usize, called: &mut impl Extend<W>) {
        let early = permits.saturating_sub(self.running);
        self.owed += early;
        self.running -= permits - early;
        while self.running < self.max_running {
            let Some((number, call)) = self.line.pop_front() else {
                return;
            };
            self.running += 1;
            self.called.push(number);
            called.extend([call]);
        }
    }

    /// Removes a connection from the line, because it has no more requests to begin. A permit that is
    /// reserved for it goes to the next in line.
    pub fn step_out(&mut self, member: &mut Member, called: &mut impl Extend<W>) {
        if !member.is_in_line {
            return;
        }
        if self.take_call(member) {
            self.end(1, called);
        } else {
            self.line.retain(|(number, _)| *number != member.number);
            member.is_in_line = false;
        }
    }

    /// How many requests run.
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Whether permits came back before [`exceed`](Self::exceed) took them.
    pub const fn is_ahead(&self) -> bool {
        self.owed > 0
    }

    /// How many requests may begin without standing in line.
    pub fn free(&self) -> usize {
        match self.line.is_empty() {
            true => self.max_running.saturating_sub(self.running),
            false => 0,
        }
    }

    /// Sets how many requests run, after others have counted them while there was room.
    pub const fn set_running(&mut self, running: usize) {
        self.running = running;
    }

    /// Takes the permit that is reserved for a connection in `called`. Returns false if none is.
    fn take_call(&mut self, member: &mut Member) -> bool {
        let found = self
            .called
            .iter()
            .position(|called| *called == member.number);
        let Some(found) = found else {
            return false;
        };
        self.called.swap_remove(found);
        member.is_in_line = false;
        true
    }
}

/// How many of the free permits a connection gets that wants so many: at most half, rounded up, so
/// that others get some too.
pub const fn share(free: usize, wanted: usize) -> usize {
    let half = free.div_ceil(2);
    if wanted < half { wanted } else { half }
}

impl<W> fmt::Debug for Scheduler<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("running", &self.running)
            .field("in_line", &self.line.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
