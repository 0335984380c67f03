//! The connections of a client to one server: which are open, when each is made again, and how many
//! callers wait for one.
//!
//! A call goes to the open connection with the fewest open calls. A limited number of callers may
//! wait for a connection. After the last attempt has failed, no caller waits any more.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use antiphon::session::Fault;
use antiphon::{
    CloseReason, Closed, ConnectionState, Instant, InvalidStrategy, Lifecycle, Reconnect, Sending,
};
use smallvec::SmallVec;

use super::config::{ClientConfig, ConnectionChange};
use crate::call::call_error::{CallError, NoConnection};
use crate::entropy::Entropy;
use crate::fault::{broken, is_permanent, to_error};
use crate::lock::Lock;
use crate::peer::Peer;

/// Returns why a connection was lost; `None` if this side drained it, or closed it as
/// [`CloseReason::Done`] or [`CloseReason::GoingAway`].
pub(crate) fn lost_because(ended: io::Result<Closed>) -> Option<io::Error> {
    let text = match ended {
        Err(error) => return Some(error),
        Ok(Closed::Local(CloseReason::Done | CloseReason::GoingAway) | Closed::Drained) => {
            return None;
        }
        Ok(Closed::EndOfInput) => "the server ended the connection",
        Ok(Closed::Failed(error)) => return Some(broken(error)),
        Ok(Closed::Local(CloseReason::PeerMisbehaved)) => "the server broke the protocol",
        Ok(Closed::Local(CloseReason::Other(why))) => why,
        Ok(_) => "the connection was given up",
    };
    Some(io::Error::new(io::ErrorKind::ConnectionAborted, text))
}

/// The connections of one client.
pub(crate) struct Roster {
    places: Lock<Places>,
    options: Arc<ClientConfig>,
    entropy: Entropy,
    /// Whether the server has sent a message over any connection: then the client was configured right
    /// once, and a fault that seems to last may pass.
    was_heard: AtomicBool,
}

struct Places {
    members: Vec<Place>,
    waiting: usize,
    /// The tasks that wait for a change, by the number of their [`Watch`].
    watchers: BTreeMap<u64, Waker>,
    /// The number of the next [`Watch`].
    next_watch: u64,
    is_closed: bool,
    /// The index at which the search for an open connection begins. It moves on with each search, so
    /// that connections with equally many calls take turns.
    turn: usize,
    /// Why the last connection, or the last attempt at one, failed.
    last_error: Option<Fault>,
}

impl Places {
    /// The state of all connections together, for a caller that has found none open: `Connecting` as
    /// long as there may be another attempt.
    fn outlook(&self) -> ConnectionState {
        let is_given_up = self.members.iter().all(|member| member.is_given_up);
        match self.is_closed || is_given_up {
            true => ConnectionState::Closed,
            false => ConnectionState::Connecting,
        }
    }

    fn no_connection(&self) -> CallError {
        CallError::NoConnection(NoConnection {
            is_final: self.outlook() == ConnectionState::Closed,
            last_error: self.last_error.clone(),
        })
    }
}

struct Place {
    lifecycle: Lifecycle,
    peer: Option<Peer>,
    reconnect: Reconnect,
    /// Whether there will be no more attempts at this connection.
    is_given_up: bool,
}

impl Place {
    /// Its connection, if it is open.
    fn open(&self) -> Option<Peer> {
        self.peer.as_ref().map(Peer::to_unowned)
    }
}

impl Roster {
    /// Makes a list of connections that are still to be made.
    ///
    /// # Errors
    /// The strategy is not valid.
    pub(crate) fn new(options: &Arc<ClientConfig>) -> Result<Self, InvalidStrategy> {
        let reconnect = Reconnect::new(options.reconnect)?;
        let member = || Place {
            lifecycle: Lifecycle::new(),
            peer: None,
            reconnect: reconnect.clone(),
            is_given_up: false,
        };
        let seed = options
            .connection
            .retry
            .as_ref()
            .and_then(|retry| retry.seed);
        Ok(Self {
            places: Lock::new(Places {
                members: (0..options.connections.max(1)).map(|_| member()).collect(),
                waiting: 0,
                watchers: BTreeMap::new(),
                next_watch: 0,
                is_closed: false,
                turn: 0,
                last_error: None,
            }),
            entropy: Entropy::new(seed),
            options: Arc::clone(options),
            was_heard: AtomicBool::new(false),
        })
    }

    /// The client's options.
    pub(crate) fn options(&self) -> &ClientConfig {
        &self.options
    }

    /// Changes the member with the index `number`, wakes the tasks that wait for a connection, and
    /// calls `on_change`, with the error that caused the change.
    fn change<R>(
        &self,
        number: usize,
        error: Option<&Fault>,
        change: impl FnOnce(&mut Place) -> R,
    ) -> R {
        let mut places = self.places.lock();
        if let Some(error) = error {
            places.last_error = Some(error.clone());
        }
        let member = &mut places.members[number];
        let result = change(member);
        let mut changes = Vec::new();
        while let Some(state) = member.lifecycle.poll_change() {
            changes.push(state);
        }
        let watchers = std::mem::take(&mut places.watchers);
        drop(places);
        watchers.into_values().for_each(Waker::wake);
        for state in changes {
            self.tell(number, state, error);
        }
        result
    }

    fn tell(&self, connection: usize, state: ConnectionState, error: Option<&Fault>) {
        if let Some(on_change) = &self.options.on_change {
            let error = error.map(to_error);
            on_change(&ConnectionChange {
                connection,
                state,
                error,
            });
        }
    }

    /// Notes that an attempt at the connection with the index `number` begins. Returns false if the
    /// client has been closed, so that there must be no more attempts.
    pub(crate) fn connecting(&self, number: usize) -> bool {
        if self.places.lock().is_closed {
            return false;
        }
        self.change(number, None, |member| member.lifecycle = Lifecycle::new());
        self.tell(number, ConnectionState::Connecting, None);
        true
    }

    /// Notes that the connection with the index `number` is open. If the client has been closed
    /// meanwhile, closes the connection and returns false.
    pub(crate) fn opened(&self, number: usize, peer: Peer, now: Instant) -> bool {
        self.change(number, None, |member| {
            member.lifecycle.go(ConnectionState::Open);
            member.reconnect.handle_open(now);
            member.peer = Some(peer.clone());
        });
        let is_closed = self.places.lock().is_closed;
        if is_closed {
            peer.close(CloseReason::Done);
        }
        !is_closed
    }

    /// Notes that the connection with the index `number`, or the attempt at it, has ended, with `error`
    /// if there was one. Returns when to try again; `None` for never.
    pub(crate) fn lost(
        &self,
        number: usize,
        now: Instant,
        error: Option<io::Error>,
    ) -> Option<Instant> {
        let is_closed = self.places.lock().is_closed;
        let is_permanent = error.as_ref().is_some_and(is_permanent);
        let error = error.filter(|_| !is_closed).map(Fault::from);
        // The lock of a session is taken without that of the roster, because its release wakes tasks. For
        // the same reason the peer is dropped without it: the last one closes the connection.
        let peer = self.places.lock().members[number].peer.take();
        let is_heard = peer.is_some_and(|peer| peer.session().lock().conn.has_heard());
        self.change(number, error.as_ref(), |member| {
            member.lifecycle.go(ConnectionState::Closed);
            // A connection over which the peer has sent a message counts as a success, after which
            // the attempts are counted anew. So does one that was open for long, which
            // `handle_lost` finds out by itself.
            if is_heard {
                member.reconnect.handle_message();
                self.was_heard.store(true, Ordering::Relaxed);
            }
            let next = if is_closed || (is_permanent && !self.was_heard.load(Ordering::Relaxed)) {
                None
            } else {
                member.reconnect.handle_lost(now, self.entropy.next())
            };
            member.is_given_up = next.is_none();
            next
        })
    }

    /// Notes that there will be no more attempts at the connection with the index `number`.
    pub(crate) fn given_up(&self, number: usize) {
        let peer = self.change(number, None, |member| {
            member.lifecycle.go(ConnectionState::Closed);
            member.is_given_up = true;
            member.peer.take()
        });
        // Dropped without the lock, for the reason given in `lost`.
        drop(peer);
    }

    /// The state of each connection.
    pub(crate) fn states(&self) -> Vec<ConnectionState> {
        let state = |member: &Place| (member.lifecycle.state(), member.open());
        let states: Vec<_> = self.places.lock().members.iter().map(state).collect();
        let states = states.into_iter().map(|(state, peer)| match state {
            ConnectionState::Open if peer.is_some_and(|peer| peer.is_closing()) => {
                ConnectionState::Closing
            }
            state => state,
        });
        states.collect()
    }

    /// Returns the open connection with the fewest open calls; `None` if none is open.
    pub(crate) fn pick(&self) -> Option<Peer> {
        // They are asked without the lock, for the reason given in `lost`.
        let open: SmallVec<[Peer; 4]> = {
            let mut places = self.places.lock();
            let count = places.members.len();
            places.turn = (places.turn + 1) % count;
            let members = (0..count).map(|at| &places.members[(places.turn + at) % count]);
            members.filter_map(Place::open).collect()
        };
        // A connection that drains would refuse the call, and the next attempt would choose it
        // again.
        let usable = open.into_iter().filter(|peer| !peer.is_closing());
        usable.min_by_key(|peer| peer.session().lock().conn.calls_open())
    }

    /// Closes the client: no more attempts are made, and open connections drain.
    pub(crate) fn close(&self) {
        let peers: Vec<_> = {
            let mut places = self.places.lock();
            places.is_closed = true;
            let members = places.members.iter_mut();
            members.filter_map(|member| member.peer.clone()).collect()
        };
        for peer in peers {
            peer.drain();
        }
        for number in 0..self.options.connections.max(1) {
            self.change(number, None, |member| {
                member.lifecycle.go(ConnectionState::Closing);
            });
        }
    }

    /// Whether the client has been closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.places.lock().is_closed
    }

    /// Why the last connection, or the last attempt at one, failed.
    pub(crate) fn last_error(&self) -> Option<io::Error> {
        self.places.lock().last_error.as_ref().map(to_error)
    }

    /// Adds a caller that waits for a connection. `is_again` says that its call was sent before.
    ///
    /// # Errors
    /// [`CallError::NoConnection`] if there will be no connection, [`CallError::Unsent`] if too
    /// many wait.
    pub(crate) fn wait(self: &Arc<Self>, is_again: bool) -> Result<WaitingCaller, CallError> {
        let mut places = self.places.lock();
        // A call that was sent before may always wait.
        let max_waiting_calls = if is_again {
            usize::MAX
        } else {
            self.options.max_waiting_calls
        };
        if places.outlook() == ConnectionState::Closed {
            return Err(places.no_connection());
        }
        if places.outlook().sending(places.waiting, max_waiting_calls) != Sending::Waits {
            return Err(CallError::Unsent);
        }
        places.waiting += 1;
        drop(places);
        Ok(WaitingCaller(self.watch()))
    }

    /// Runs `future`. Returns `None`, and drops it, as soon as the client is closed.
    pub(crate) async fn unless_closed<F: Future>(self: &Arc<Self>, future: F) -> Option<F::Output> {
        let (watch, mut future) = (self.watch(), pin!(future));
        poll_fn(|cx| {
            watch.set(cx.waker());
            match self.is_closed() {
                true => Poll::Ready(None),
                false => future.as_mut().poll(cx).map(Some),
            }
        })
        .await
    }

    fn watch(self: &Arc<Self>) -> Watch {
        let mut places = self.places.lock();
        places.next_watch += 1;
        Watch {
            roster: Arc::clone(self),
            number: places.next_watch,
        }
    }
}

/// A task that waits for changes. Dropping it drops its waker.
struct Watch {
    roster: Arc<Roster>,
    number: u64,
}

impl Watch {
    /// Wakes a task at the next change of a connection's state, so that it checks again.
    fn set(&self, waker: &Waker) {
        // Cloned and dropped without the lock, because a waker is code of the program's.
        let waker = waker.clone();
        let before = self
            .roster
            .places
            .lock()
            .watchers
            .insert(self.number, waker);
        drop(before);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let waker = self.roster.places.lock().watchers.remove(&self.number);
        drop(waker);
    }
}

/// A caller that waits for a connection. Made by [`Roster::wait`].
pub(crate) struct WaitingCaller(Watch);

impl WaitingCaller {
    /// Returns an open connection, as soon as there is one.
    ///
    /// # Errors
    /// [`CallError::NoConnection`] if there will be no connection.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Peer, CallError>> {
        self.0.set(cx.waker());
        self.look().map_or(Poll::Pending, Poll::Ready)
    }

    /// Returns the error for a caller whose time to wait is over.
    pub(crate) fn timed_out(&self) -> CallError {
        self.0.roster.places.lock().no_connection()
    }

    fn look(&self) -> Option<Result<Peer, CallError>> {
        if let Some(peer) = self.0.roster.pick() {
            return Some(Ok(peer));
        }
        let places = self.0.roster.places.lock();
        (places.outlook() == ConnectionState::Closed).then(|| Err(places.no_connection()))
    }
}

impl Drop for WaitingCaller {
    fn drop(&mut self) {
        self.0.roster.places.lock().waiting -= 1;
    }
}
