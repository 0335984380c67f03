//! A call over HTTP whose events are read: its progress, its parts, what it listens for.
//!
//! The call has a session of its own, which ends with it: there the events find their reader as on any
//! connection, and there its deadline moves. Nothing but the call is ever sent.

use std::sync::Arc;
use std::time::Duration;

use antiphon::{Input, Instant, OwnedOutcome};

use crate::call::call_error::CallError;
use crate::call::call_request::CallRequest;
use crate::call::pending::PendingCall;
use crate::context::Context;
use crate::options::ConnectionConfig;
use crate::peer::Peer;
use crate::runtime::SharedRuntime;
use crate::session::{Carries, Session};

/// The shortest time to the next look at a deadline.
const MIN_SLEEP: Duration = Duration::from_millis(1);

/// A call over HTTP, and the session that has its events.
pub(crate) struct Listening {
    session: Arc<Session>,
    pending: PendingCall,
}

impl Listening {
    /// Begins a call, and returns the body of its request.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub(crate) async fn begin(
        options: ConnectionConfig,
        call: CallRequest<'_>,
        runtime: &SharedRuntime,
    ) -> Result<(Self, Vec<u8>), CallError> {
        let (context, runtime) = (Context::default(), Arc::clone(runtime));
        let session = Session::new(options, Carries::Messages, context, runtime);
        let pending = Peer::unowned(Arc::clone(&session))
            .start(Some(call))
            .await?;
        let mut body = Vec::new();
        session.act(|state| {
            state.conn.take_transmit(&mut body);
            state.conn.handle_written();
        });
        Ok((Self { session, pending }, body))
    }

    /// Takes a message. Returns whether the call has ended.
    pub(crate) fn receive(&self, message: &[u8]) -> bool {
        let has_ended = self.session.act(|state| {
            state.conn.handle_message(Input::message(message));
            // The server cannot be answered on its own reply.
            state.conn.take_transmit(&mut Vec::new());
            state.conn.handle_written();
            state.conn.calls_open() == 0
        });
        // What is no event of the call has no reader.
        self.session.let_work_go();
        has_ended
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The outcome of the call, if it has ended.
    pub(crate) async fn end(self) -> Result<OwnedOutcome, CallError> {
        let is_open = self.session.lock().conn.calls_open() > 0;
        match is_open {
            true => Err(CallError::Missing),
            false => Ok(self.pending.await),
        }
    }
}

/// Ends the call if it is due. Otherwise returns its deadline, which events may have moved.
pub(crate) fn deadline(session: &Session) -> Option<Instant> {
    let now = session.now();
    session.act(|state| {
        state.conn.handle_timeout(now);
        let due = state.conn.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        (state.conn.calls_open() > 0).then(|| due.max(now + MIN_SLEEP))
    })
}
