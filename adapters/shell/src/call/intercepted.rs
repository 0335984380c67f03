//! Our calls and their interceptors: before a call is sent, and after its outcome.

use std::borrow::Cow;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use antiphon::service::{
    AnyRequest, Asked, Authorization, Chain, Cx, Decision, Deferred, Failure, NoAnswer, Reply,
    ResultText, SpanFields,
};
use antiphon::{CallId, Collector, Instant, Json, OwnedError, OwnedJson, OwnedOutcome, SendError};
use futures_util::future::join_all;

use crate::call::batch::Entries;
use crate::call::call_error::CallError;
use crate::call::call_request::CallRequest;
use crate::context::Headers;
use crate::guard::{Contained, contained};
use crate::http::error::HttpError;
use crate::outgoing::OutgoingCall;
use crate::runtime::{SharedRuntime, until};
use crate::session::Session;
use crate::text::Text;
use crate::wait::Wait;

/// The interceptors of a connection or a client, and what they are told about the connection.
pub(crate) struct Interception<'c> {
    pub(crate) chain: &'c Chain<OutgoingCall>,
    /// The connection, to whose service panics are reported.
    pub(crate) session: Option<&'c Arc<Session>>,
    pub(crate) runtime: &'c SharedRuntime,
    pub(crate) connection: u32,
    pub(crate) peer_addr: Option<SocketAddr>,
    /// The server's host and port, if the client has them from a URL.
    pub(crate) server: Option<(&'c str, u16)>,
}

impl<'c> Interception<'c> {
    /// The interceptors of a client that is bound to no connection; `None` if it has none.
    pub(crate) fn of_client(
        chain: Option<&'c Chain<OutgoingCall>>,
        runtime: &'c SharedRuntime,
        server: Option<(&'c str, u16)>,
    ) -> Option<Self> {
        Some(Self {
            chain: chain?,
            session: None,
            runtime,
            connection: 0,
            peer_addr: None,
            server,
        })
    }
}

/// The answer of an interceptor in place of the peer's, or the outcome of the call.
type Answered = Result<OwnedOutcome, CallError>;

/// The result of showing a call to the interceptors.
pub(crate) enum Shown {
    /// The call may be sent.
    Passed(Intercepted),
    /// An interceptor has answered the call, so it is not sent.
    Answered(Answered),
    /// One of them decides later.
    Waiting(Undecided),
}

impl Interception<'_> {
    /// Shows a call to the interceptors, which may change it.
    pub(crate) fn call(&self, call: &mut CallRequest<'_>) -> Shown {
        self.begin(call, false)
    }

    /// Shows a notification to the interceptors, as [`call`](Self::call).
    pub(crate) fn notification(&self, call: &mut CallRequest<'_>) -> Shown {
        self.begin(call, true)
    }

    fn begin(&self, call: &mut CallRequest<'_>, is_notification: bool) -> Shown {
        let params = call.params.as_ref().ok().and_then(Text::to_json);
        let address = self.peer_addr;
        let address = address.map(|address| (address.ip().to_string(), address.port()));
        let outgoing = OutgoingCall {
            method: call.method.clone().into_owned(),
            params,
            id: call.id.clone(),
            is_notification,
            connection: self.connection,
            peer_addr: self.peer_addr,
            server: self
                .server
                .map(|(name, port)| (name.into(), port))
                .or(address),
            runtime: SharedRuntime::clone(self.runtime),
        };
        let mut intercepted = Intercepted {
            cx: Contained::new(Cx::new(outgoing.now(), true), self.session.cloned()),
            chain: self.chain.clone(),
            session: self.session.cloned(),
            call: outgoing,
            asked: 0,
        };
        let asked = intercepted.ask(Decision::Continue);
        intercepted.go_on(asked, call)
    }

    /// Shows the entries of a batch to the interceptors, each by itself.
    pub(crate) fn batch(&self, entries: &Entries) -> ShownBatch {
        let all = entries.calls_apart().into_iter();
        let show = |(name, mut call): (Option<CallId>, _)| {
            let shown = self.begin(&mut call, name.is_none());
            (name, call, shown)
        };
        ShownBatch {
            chain: self.chain.clone(),
            connection: self.connection,
            entries: all.map(show).collect(),
        }
    }
}

/// The entries of a batch, each with the result of showing it to the interceptors.
pub(crate) struct ShownBatch {
    chain: Chain<OutgoingCall>,
    connection: u32,
    entries: Vec<(Option<CallId>, CallRequest<'static>, Shown)>,
}

impl ShownBatch {
    /// Whether an interceptor decides later.
    pub(crate) fn is_waiting(&self) -> bool {
        let mut all = self.entries.iter();
        all.any(|(_, _, shown)| matches!(shown, Shown::Waiting(_)))
    }

    /// Waits for the decisions that are open, all at the same time and for `timeout` at most. Returns what
    /// is left of `timeout`.
    pub(crate) async fn decide(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let waiting = mem::take(&mut self.entries).into_iter();
        let decided = waiting.map(|(name, mut call, shown)| async move {
            call.timeout = timeout;
            let shown = match shown.decided(&mut call).await {
                Ok(intercepted) => Shown::Passed(intercepted),
                Err(answered) => Shown::Answered(answered),
            };
            (name, call, shown)
        });
        self.entries = join_all(decided).await;
        // Each entry has the time that was left when it was decided. The last was decided now.
        self.entries
            .iter()
            .filter_map(|(_, call, _)| call.timeout)
            .min()
    }

    /// Removes the entries that interceptors have answered from the batch, and changes the others as
    /// interceptors have. If an interceptor failed at a notification, the whole batch is refused with this
    /// error, because a notification has no outcome that could say so.
    pub(crate) fn finish(self, batch: &mut Entries) -> Result<InterceptedBatch, CallError> {
        let mut intercepted = InterceptedBatch::default();
        let mut failed = None;
        let kept = self.entries.into_iter().filter_map(|(name, call, shown)| {
            match (shown.at_once(), name) {
                (Ok(passed), _) => {
                    intercepted.sent.push((name, passed));
                    return Some((name, call));
                }
                (Err(answered), Some(name)) => {
                    intercepted.answered.push((name, outcome_of(answered)));
                }
                (Err(Ok(_)), None) => {}
                (Err(Err(error)), None) => failed = Some(error),
            }
            None
        });
        batch.replace(kept);
        if let Some(error) = failed {
            // This is how the other entries end, whatever the interceptors make of it.
            let _ = intercepted.end(Err(CallError::Unsent));
            return Err(error);
        }
        if !batch.is_empty() {
            self.chain.batch_sent(self.connection, batch.len());
        }
        Ok(intercepted)
    }
}

/// A call that interceptors have seen before it was sent. If it is dropped without an outcome, they
/// see that it was cancelled.
pub(crate) struct Intercepted {
    chain: Chain<OutgoingCall>,
    call: OutgoingCall,
    /// How many of the interceptors have been asked.
    asked: usize,
    cx: Contained<Cx, Session>,
    /// The connection; `None` for a client that is bound to none.
    session: Option<Arc<Session>>,
}

/// A call on which an interceptor decides later. Dropping it cancels the call.
pub(crate) struct Undecided {
    intercepted: Intercepted,
    deferred: Deferred,
}

impl Undecided {
    /// Waits for the decision, for the call's timeout at most, and then sets that timeout to what is left
    /// of it. Returns the answer if an interceptor has answered the call.
    pub(crate) async fn decide(self, call: &mut CallRequest<'_>) -> Result<Intercepted, Answered> {
        let Self {
            mut intercepted,
            mut deferred,
        } = self;
        let runtime = SharedRuntime::clone(&intercepted.call.runtime);
        let due = call.timeout.map(|span| runtime.now() + span);
        loop {
            let at = due.unwrap_or(Instant::FAR_FUTURE);
            let asked = match until(&*runtime, at, deferred).await {
                Some(resolve) => {
                    let decision = resolve(&mut intercepted.cx);
                    intercepted.ask(decision)
                }
                None => refused("an interceptor has not decided in time"),
            };
            call.timeout = due.map(|due| due.saturating_since(runtime.now()));
            match intercepted.go_on(asked, call) {
                Shown::Passed(intercepted) => return Ok(intercepted),
                Shown::Answered(answered) => return Err(answered),
                Shown::Waiting(next) => {
                    Self {
                        intercepted,
                        deferred,
                    } = next
                }
            }
        }
    }
}

impl Shown {
    /// Waits for an interceptor that decides later, if there is one: for the timeout of `call` at most.
    pub(crate) async fn decided(self, call: &mut CallRequest<'_>) -> Result<Intercepted, Answered> {
        match self {
            Self::Passed(intercepted) => Ok(intercepted),
            Self::Answered(answered) => Err(answered),
            Self::Waiting(undecided) => undecided.decide(call).await,
        }
    }

    /// Calls `step` as soon as it is decided whether the call is sent: with the call, or with the
    /// interceptors' answer.
    pub(crate) fn then<'c, T: Send + 'c>(
        self,
        mut call: CallRequest<'c>,
        step: impl FnOnce(Result<(CallRequest<'c>, Intercepted), Answered>) -> Wait<'c, T> + Send + 'c,
    ) -> Wait<'c, T> {
        match self {
            Self::Passed(intercepted) => step(Ok((call, intercepted))),
            Self::Answered(answered) => step(Err(answered)),
            Self::Waiting(undecided) => Wait::on(async move {
                let decided = undecided.decide(&mut call).await;
                step(decided.map(|intercepted| (call, intercepted))).await
            }),
        }
    }

    /// Returns the result for a caller that cannot wait: a call that is not decided yet is refused.
    pub(crate) fn at_once(self) -> Result<Intercepted, Answered> {
        match self {
            Self::Passed(intercepted) => Ok(intercepted),
            Self::Answered(answered) => Err(answered),
            Self::Waiting(Undecided { intercepted, .. }) => {
                let cause = "an interceptor decides later, where nothing can wait for it";
                Err(intercepted.refuse(cause))
            }
        }
    }
}

/// The answer for a call that is not sent, for this reason.
fn refused(cause: &'static str) -> Asked {
    Asked::Answered(Err(Failure::Interceptor(cause.into())))
}

impl Intercepted {
    /// Applies the decision of the interceptor that was asked last, and asks those that were not asked yet.
    fn ask(&mut self, decision: Decision) -> Asked {
        self.chain
            .decide(decision, &mut self.asked, &mut self.cx, &self.call)
    }

    /// Changes the call as interceptors have, or ends it with their answer, or waits for their decision.
    fn go_on(mut self, asked: Asked, call: &mut CallRequest<'_>) -> Shown {
        match asked {
            Asked::Passed => {}
            Asked::Answered(answer) => return Shown::Answered(answered(self.show(answer))),
            Asked::Deferred(deferred) => {
                return Shown::Waiting(Undecided {
                    intercepted: self,
                    deferred,
                });
            }
        }
        call.headers = self.headers();
        if let Some(method) = self.cx.method() {
            call.method = Cow::Owned(method.into());
        }
        if let Some(params) = self.cx.params() {
            call.params = Ok(Text::from(params.as_bytes().to_vec()));
        }
        Shown::Passed(self)
    }

    /// Ends the call, which is not sent for this reason.
    fn refuse(mut self, cause: &'static str) -> Answered {
        answered(self.show(Err(Failure::Interceptor(cause.into()))))
    }

    /// The headers that interceptors have added for this call.
    fn headers(&self) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        let attributes = self.cx.attributes();
        if let Some(others) = attributes.get::<Headers>() {
            headers.extend(others.texts());
        }
        if let Some(fields) = attributes.get::<SpanFields>() {
            let fields = fields.iter();
            headers.extend(fields.map(|(name, value)| (name.into(), value.into())));
        }
        if let Some(authorization) = attributes.get::<Authorization>() {
            headers.push(("authorization".into(), authorization.as_str().into()));
        }
        headers
    }

    /// Passes the outcome to the interceptors, and returns it as they have changed it.
    pub(crate) fn end(mut self, ended: Answered) -> Answered {
        let outcome = match &ended {
            // This is a copy: the answer itself stays as it was received unless it is replaced.
            Ok(OwnedOutcome::Ok(result)) => Ok(result.as_str().into()),
            Ok(OwnedOutcome::Err(error)) => Err(Failure::Error(error.clone())),
            Ok(outcome) => Err(Failure::NoAnswer(no_answer(outcome))),
            Err(error) => Err(failure_of(error)),
        };
        let reply = self.show(outcome);
        match reply.is_replaced() {
            true => answered(reply),
            false => ended,
        }
    }

    /// As [`end`](Self::end), for callers that await an outcome.
    pub(crate) fn end_outcome(self, outcome: OwnedOutcome) -> OwnedOutcome {
        outcome_of(self.end(Ok(outcome)))
    }

    /// Reports to the interceptors that a notification was sent, or that it was refused.
    pub(crate) fn end_notification(self, is_sent: bool) {
        let told = OwnedOutcome::Ok(Json::NULL.to_owned_json());
        // Nobody awaits an answer to a notification.
        let _ = self.end(is_sent.then_some(told).ok_or(CallError::Unsent));
    }

    /// Reports to the interceptors whether a notification was `sent`, and returns `sent`.
    pub(crate) fn end_sent(self, sent: Result<(), SendError>) -> Result<(), SendError> {
        self.end_notification(sent.is_ok());
        sent
    }

    fn show(&mut self, outcome: Result<ResultText, Failure>) -> Reply {
        let duration = self.call.now().saturating_since(self.cx.began());
        let mut reply = Reply::new(Some(outcome), duration);
        self.chain
            .response(&mut self.asked, &self.cx, &self.call, &mut reply);
        reply
    }
}

impl Drop for Intercepted {
    fn drop(&mut self) {
        // Each is told by itself: one that panics keeps no other from hearing of it.
        for place in (0..self.asked).rev() {
            let give_up = || self.chain.given_up_at(place, &self.cx, &self.call);
            contained(self.session.as_deref(), give_up);
        }
    }
}

/// The calls and notifications of a batch that interceptors have seen before it was sent.
#[derive(Default)]
pub(crate) struct InterceptedBatch {
    sent: Vec<(Option<CallId>, Intercepted)>,
    /// Calls that are not sent, because interceptors have answered them.
    answered: Vec<(CallId, OwnedOutcome)>,
}

impl InterceptedBatch {
    /// Passes the outcomes to the interceptors, and returns them as they have changed them.
    pub(crate) fn end(self, ended: Result<Collector, CallError>) -> Result<Collector, CallError> {
        let mut came = match ended {
            Ok(came) => came,
            Err(error) => {
                for (_, intercepted) in self.sent {
                    // The batch has failed as a whole.
                    let _ = intercepted.end(Ok(unanswered(&error)));
                }
                return Err(error);
            }
        };
        let mut outcomes = Collector::with_capacity(self.sent.len() + self.answered.len());
        for (name, intercepted) in self.sent {
            match name {
                Some(name) => {
                    let outcome = came.take(name).unwrap_or(OwnedOutcome::Missing);
                    outcomes.put(name, intercepted.end_outcome(outcome));
                }
                None => intercepted.end_notification(true),
            }
        }
        for (name, outcome) in self.answered {
            outcomes.put(name, outcome);
        }
        Ok(outcomes)
    }
}

/// Converts the answer of interceptors.
fn answered(reply: Reply) -> Answered {
    match reply.into_outcome() {
        Some(Err(Failure::Interceptor(cause))) => Err(CallError::Interceptor(cause)),
        Some(Err(failure)) => Ok(OwnedOutcome::Err(failure.into_error())),
        Some(Ok(text)) => {
            // The text is that of a valid value.
            Ok(OwnedJson::of_parts(text).map_or(OwnedOutcome::Missing, OwnedOutcome::Ok))
        }
        None => Ok(OwnedOutcome::Missing),
    }
}

/// Converts how a call ended to an outcome, for callers that get no [`CallError`].
pub(crate) fn outcome_of(answered: Answered) -> OwnedOutcome {
    match answered {
        Ok(outcome) => outcome,
        Err(CallError::Interceptor(cause)) => OwnedOutcome::Err(OwnedError::internal(cause)),
        Err(error) => unanswered(&error),
    }
}

/// Returns the result for a notification that is not sent: an error only if an interceptor failed, because
/// its answer is of no use to a notification.
pub(crate) fn unsent(answered: Answered) -> Result<(), SendError> {
    answered.map(drop).map_err(|_| SendError::Interceptor)
}

/// Returns the outcome for a call without an answer.
fn unanswered(error: &CallError) -> OwnedOutcome {
    match failure_of(error) {
        Failure::NoAnswer(NoAnswer::TimedOut) => OwnedOutcome::TimedOut,
        Failure::NoAnswer(NoAnswer::Unsent) => OwnedOutcome::Unsent,
        Failure::NoAnswer(NoAnswer::Missing | NoAnswer::Invalid) => OwnedOutcome::Missing,
        _ => OwnedOutcome::Aborted,
    }
}

fn no_answer(outcome: &OwnedOutcome) -> NoAnswer {
    match outcome {
        OwnedOutcome::TimedOut => NoAnswer::TimedOut,
        OwnedOutcome::Unsent => NoAnswer::Unsent,
        OwnedOutcome::Missing => NoAnswer::Missing,
        OwnedOutcome::Invalid(_) => NoAnswer::Invalid,
        // A later version of the core may have other outcomes; these are ends without an answer
        // too.
        _ => NoAnswer::Closed,
    }
}

fn failure_of(error: &CallError) -> Failure {
    Failure::NoAnswer(match error {
        CallError::Remote(error) | CallError::Unexpected(error) => {
            return Failure::Error(error.clone());
        }
        CallError::TimedOut => NoAnswer::TimedOut,
        CallError::Missing => NoAnswer::Missing,
        CallError::Invalid(_) | CallError::Decode(_) => NoAnswer::Invalid,
        CallError::Closed => NoAnswer::Closed,
        CallError::Unsent
        | CallError::Rejected(_)
        | CallError::NoConnection(_)
        | CallError::Interceptor(_) => NoAnswer::Unsent,
        CallError::Http(error) if error.is_unsent() => NoAnswer::Unsent,
        CallError::Http(HttpError::Lost(_)) => NoAnswer::Closed,
        CallError::Http(_) => NoAnswer::Invalid,
    })
}

#[cfg(test)]
mod tests {
    use antiphon::{Config, Connection, Event, Input, OwnedError, OwnedOutcome, SendError};

    use super::{CallError, Failure, failure_of, no_answer, unanswered};

    /// The outcome of a call whose answer has neither a result nor an error.
    fn invalid() -> OwnedOutcome {
        let mut conn: Connection = Connection::new(Config::new());
        conn.call("m", (), None, ()).unwrap();
        let mut input = Input::stream(b"{\"jsonrpc\":\"2.0\",\"id\":1}\n");
        match conn.poll_event(&mut input) {
            Some(Event::Response(response)) => response.outcome.into_owned(),
            event => panic!("{event:?}"),
        }
    }

    // INT-01 USE-17
    #[test]
    fn however_a_call_ends_interceptors_are_told_how_and_a_batch_has_an_outcome() {
        let refused = || OwnedError::new(7, "no");
        // How a call ends, what interceptors are told, and its outcome in a batch.
        let mut ends = vec![
            (CallError::TimedOut, "timeout", "TimedOut"),
            (CallError::Missing, "missing", "Missing"),
            (CallError::Closed, "connection_closed", "Aborted"),
            (CallError::Unsent, "unsent", "Unsent"),
            (CallError::Rejected(SendError::Full), "unsent", "Unsent"),
            (CallError::Interceptor("why".into()), "unsent", "Unsent"),
            (CallError::Remote(refused()), "7", "Aborted"),
            (CallError::Unexpected(refused()), "7", "Aborted"),
        ];
        let OwnedOutcome::Invalid(broken) = invalid() else {
            panic!("it breaks the rules");
        };
        ends.push((CallError::Invalid(broken), "invalid", "Missing"));
        {
            use std::io;

            use crate::http::error::HttpError;
            let lost = HttpError::Lost(io::ErrorKind::ConnectionReset.into());
            let unsent = HttpError::Connect(io::ErrorKind::ConnectionRefused.into());
            ends.push((CallError::Http(lost), "connection_closed", "Aborted"));
            ends.push((CallError::Http(unsent), "unsent", "Unsent"));
            // It stands for every other HTTP error. A real timeout ends as `CallError::TimedOut`.
            ends.push((CallError::Http(HttpError::TimedOut), "invalid", "Missing"));
        }
        for (error, told, outcome) in ends {
            let failure = match failure_of(&error) {
                Failure::NoAnswer(why) => why.as_str().to_owned(),
                failure => failure.as_error().code().to_string(),
            };
            assert_eq!(failure, told, "{error:?}");
            let ended = match unanswered(&error) {
                OwnedOutcome::TimedOut => "TimedOut",
                OwnedOutcome::Missing => "Missing",
                OwnedOutcome::Unsent => "Unsent",
                OwnedOutcome::Aborted => "Aborted",
                other => panic!("{other:?}"),
            };
            assert_eq!(ended, outcome, "{error:?}");
        }
    }

    // INT-01
    #[test]
    fn an_outcome_without_an_answer_says_why() {
        for (outcome, told) in [
            (OwnedOutcome::TimedOut, "timeout"),
            (OwnedOutcome::Unsent, "unsent"),
            (OwnedOutcome::Missing, "missing"),
            (OwnedOutcome::Aborted, "connection_closed"),
            (invalid(), "invalid"),
        ] {
            assert_eq!(no_answer(&outcome).as_str(), told, "{outcome:?}");
        }
    }
}
