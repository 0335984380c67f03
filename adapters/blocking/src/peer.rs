//! The handle to the other side: [`antiphon_net::Peer`], and the thread that waits.

use std::fmt;
use std::io;
use std::time::Duration;

use antiphon::{
    CallId, CloseReason, Closed, Collector, OwnedJson, OwnedOutcome, Payload, SendError,
};
use antiphon_net::{
    BatchBuilder, CallError, CallRefused, Context, DEFAULT_CALL_TIMEOUT, Responder, block_on,
    within,
};
use serde::de::DeserializeOwned;

use crate::call::PendingCall;

/// The other side of a connection. Clones are the same peer; any thread may use one.
///
/// When the last clone of a peer given by [`connect`](crate::connect) or
/// [`drive`](crate::drive) is dropped, the connection closes; [`flush`](Self::flush) first what
/// must arrive. The peer that a service is shown does not keep the connection open.
#[derive(Clone)]
pub struct Peer(pub(crate) antiphon_net::Peer);

impl Peer {
    /// The other side of a request, to notify or call before the answer. It does not keep the
    /// connection open.
    pub fn of(reply: &Responder) -> Self {
        Self(antiphon_net::Peer::of(reply))
    }

    /// What the transport knows of the other side.
    pub fn context(&self) -> &Context {
        self.0.context()
    }

    /// Calls a method and waits for its result, at most 30 s.
    ///
    /// `params` is anything that antiphon takes as a payload: a reference to a value, JSON text,
    /// or `()` for none.
    ///
    /// # Errors
    /// How the call ended instead: see [`CallError`].
    pub fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload,
    ) -> Result<R, CallError> {
        self.call_timeout(method, params, Some(DEFAULT_CALL_TIMEOUT))
    }

    /// Calls a method and waits for its result until `timeout` has passed; `None` waits for ever.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_timeout<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<R, CallError> {
        self.start_call(method, params, timeout)?.wait()
    }

    /// Calls a method and gives its result as the peer wrote it, without decoding it. Waits until
    /// `timeout` has passed; `None` waits for ever.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_raw(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<OwnedJson, CallError> {
        self.start_call(method, params, timeout)?.wait_raw()
    }

    /// Begins a call and does not wait for its result. Dropping what it gives cancels the call.
    ///
    /// # Errors
    /// [`CallError::Rejected`] if the call was refused, after waiting for room if the output was
    /// full.
    pub fn start_call(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<PendingCall, CallError> {
        block_on(self.0.start_call(method, params, timeout)).map(PendingCall)
    }

    /// Begins a call and runs `then` when it ends, on the service's thread and in its order: what
    /// the peer sent before its answer has then been served, unless that waits for others to end.
    /// For relays, which keep no thread for a call. [`cancel`](Self::cancel) drops `then` unrun.
    ///
    /// # Errors
    /// Gives `then` back with the reason.
    pub fn call_then(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
        then: impl FnOnce(OwnedOutcome) + Send + 'static,
    ) -> Result<CallId, CallRefused> {
        block_on(self.0.call_then(method, params, timeout, then))
    }

    /// Tells the peer something. If the output is full it waits for room, at most 30 s.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room by then; otherwise what is wrong with it.
    pub fn notify(&self, method: &str, params: impl Payload) -> Result<(), SendError> {
        block_on(self.0.notify(method, params))
    }

    /// Tells the peer something, and fails instead of waiting if the output is full.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room now, or if others wait for room already; otherwise
    /// what is wrong with it.
    pub fn try_notify(&self, method: &str, params: impl Payload) -> Result<(), SendError> {
        self.0.try_notify(method, params)
    }

    /// Sends several calls and notifications as one message, and waits at most 30 s for all their
    /// outcomes. `build` gives back the handles by which the outcomes are fetched.
    ///
    /// ```no_run
    /// # fn example(peer: antiphon_blocking::Peer) -> Result<(), antiphon_blocking::CallError> {
    /// let ((sum, name), mut outcomes) = peer.batch(|batch| {
    ///     batch.notify("log", &["adding"])?;
    ///     Ok((batch.call::<i64>("add", &(1, 2))?, batch.call::<String>("name", ())?))
    /// })?;
    /// let sum = outcomes.fetch(sum);
    /// let name = outcomes.fetch(name);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Rejected`] if `build` or the connection refused. How each call ended is told
    /// by the [`Collector`].
    pub fn batch<H>(
        &self,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), CallError> {
        self.batch_timeout(Some(DEFAULT_CALL_TIMEOUT), build)
    }

    /// Sends several calls and notifications as one message, and waits for all their outcomes until
    /// `timeout` has passed; `None` waits for ever.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn batch_timeout<H>(
        &self,
        timeout: Option<Duration>,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), CallError> {
        let (handles, batch) = block_on(self.0.start_batch(timeout, build))?;
        Ok((handles, self.0.session().wait_for(batch)))
    }

    /// Waits until messages can be exchanged: at once on a plain stream, after the handshake of a
    /// WebSocket. What is sent before waits.
    ///
    /// # Errors
    /// Why that will not be; [`TimedOut`](io::ErrorKind::TimedOut) if it takes longer than
    /// `timeout`.
    pub fn wait_open(&self, timeout: Duration) -> io::Result<()> {
        let opened = self.0.session().wait_for(within(timeout, self.0.opened()));
        opened.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Tells the peer that a call is no longer wanted, and goes on waiting for its answer.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if it has settled; [`SendError::NoPush`] if the dialect has no way
    /// to say it.
    pub fn ask_cancel(&self, call: CallId) -> Result<(), SendError> {
        self.0.ask_cancel(call)
    }

    /// Gives a call up and tells the peer, if the dialect does. False if it had settled.
    pub fn cancel(&self, call: CallId) -> bool {
        self.0.cancel(call)
    }

    /// Waits until all that was sent so far has been written.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut) if that takes longer than `timeout`;
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if it will never be.
    pub fn flush(&self, timeout: Duration) -> io::Result<()> {
        self.0.session().wait_for(self.0.flush(timeout))
    }

    /// Ends the conversation in good order: nothing new is taken from either side, and the
    /// connection closes once all is answered and written, or when the configuration's
    /// `drain_timeout` has passed.
    pub fn drain(&self) {
        self.0.drain();
    }

    /// Ends the conversation at once. What is queued is still written; open calls settle as
    /// [`CallError::Closed`], open requests are given up.
    pub fn close(&self, reason: CloseReason) {
        self.0.close(reason);
    }

    /// Waits until the connection is over and its transport let go. `None` if that takes longer
    /// than `timeout`.
    pub fn wait_closed(&self, timeout: Duration) -> Option<Closed> {
        self.0.session().wait_for(self.0.wait_closed(timeout))
    }

    /// Why the connection takes nothing more in; `None` while it does.
    pub fn closed(&self) -> Option<Closed> {
        self.0.closed()
    }

    /// What broke the transport, if anything did before the connection was meant to end.
    pub fn transport_error(&self) -> Option<io::Error> {
        self.0.transport_error()
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{CallError, DEFAULT_CALL_TIMEOUT};
    use crate::driver::drive;
    use antiphon::Config;
    use std::io;
    use std::thread;
    use std::time::Duration;

    // CLI-06
    #[test]
    fn a_call_without_a_timeout_has_one_of_thirty_seconds_and_none_only_on_request() {
        let mut config = Config::new();
        config.timeouts.write_timeout = None;
        let (peer, _driver) = drive((io::empty(), io::sink()), config, ());
        let unlimited = peer.start_call("m", (), None);
        let timeout = |peer: &super::Peer| peer.0.session().lock().conn.poll_timeout();
        assert_eq!(timeout(&peer), None);
        let before = peer.0.session().now();
        let calling = {
            let peer = peer.clone();
            thread::spawn(move || peer.call::<()>("m", ()))
        };
        let deadline = loop {
            match timeout(&peer) {
                Some(deadline) => break deadline,
                None => thread::yield_now(),
            }
        };
        assert_eq!(DEFAULT_CALL_TIMEOUT, Duration::from_secs(30));
        // The connection keeps a bound that is never later than the deadline and not much earlier.
        assert!(deadline >= before + Duration::from_secs(29), "{deadline:?}");
        assert!(deadline <= peer.0.session().now() + Duration::from_secs(30));
        drop(unlimited);
        peer.close(antiphon::CloseReason::Done);
        assert!(matches!(calling.join(), Ok(Err(CallError::Unsent))));
    }
}
