//! Calls of ours past interceptors: on their way out, and with what came of them.

use std::borrow::Cow;
use std::net::SocketAddr;

use antiphon::service::{
    AnyRequest, Authorization, Chain, Cx, Failure, NoAnswer, Reply, ResultText, SpanFields,
};
use antiphon::{CallId, Collector, Json, OwnedError, OwnedJson, OwnedOutcome};

use crate::batch::Entries;
use crate::call_error::CallError;
use crate::call_request::CallRequest;
use crate::context::Headers;
#[cfg(feature = "http")]
use crate::http::error::HttpError;
use crate::outgoing::OutgoingCall;
use crate::runtime::SharedRuntime;
use crate::text::Text;

/// What sees the calls of a connection or a client, and by whose clock.
pub(crate) struct Interception<'c> {
    pub(crate) chain: &'c Chain<OutgoingCall>,
    pub(crate) runtime: &'c SharedRuntime,
    pub(crate) connection: u32,
    pub(crate) peer_addr: Option<SocketAddr>,
    /// The server's name and port, where it was given by name.
    pub(crate) server: Option<(&'c str, u16)>,
}

impl<'c> Interception<'c> {
    /// What sees the calls of a client that is bound to no connection; none without interceptors.
    pub(crate) fn of_client(
        chain: Option<&'c Chain<OutgoingCall>>,
        runtime: &'c SharedRuntime,
        server: Option<(&'c str, u16)>,
    ) -> Option<Self> {
        Some(Self {
            chain: chain?,
            runtime,
            connection: 0,
            peer_addr: None,
            server,
        })
    }
}

/// What an interceptor has answered in place of the peer, or how the call has ended.
type Answered = Result<OwnedOutcome, CallError>;

impl Interception<'_> {
    /// Shows a call to the interceptors, which may change it. One that they answer is over.
    pub(crate) fn call(&self, call: &mut CallRequest<'_>) -> Result<Intercepted, Answered> {
        self.begin(call, false)
    }

    /// Shows a notification to the interceptors, as [`call`](Self::call).
    pub(crate) fn notification(&self, call: &mut CallRequest<'_>) -> Result<Intercepted, Answered> {
        self.begin(call, true)
    }

    fn begin(
        &self,
        call: &mut CallRequest<'_>,
        is_notification: bool,
    ) -> Result<Intercepted, Answered> {
        let params = call.params.as_ref().ok().and_then(Text::to_json);
        let address = self.peer_addr;
        let address = address.map(|address| (address.ip().to_string(), address.port()));
        let outgoing = OutgoingCall {
            method: call.method.clone().into_owned(),
            params,
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
            cx: Cx::new(outgoing.now(), true),
            chain: self.chain.clone(),
            call: outgoing,
            asked: 0,
        };
        if let Some(answer) = intercepted.ask() {
            return Err(answered(intercepted.show(answer)));
        }
        call.headers = intercepted.headers();
        let cx = &intercepted.cx;
        if let Some(method) = cx.method() {
            call.method = Cow::Owned(method.into());
        }
        if let Some(params) = cx.params() {
            call.params = Ok(Text::of_json(params.as_bytes().to_vec()));
        }
        Ok(intercepted)
    }

    /// Shows the entries of a batch to the interceptors, each by itself, and takes those out that
    /// they answer.
    pub(crate) fn batch(&self, entries: &mut Entries) -> InterceptedBatch {
        let mut batch = InterceptedBatch::default();
        entries.retain(|name, call| {
            match self.begin(call, name.is_none()) {
                Ok(intercepted) => batch.sent.push((name, intercepted)),
                Err(answered) => {
                    if let Some(name) = name {
                        batch.answered.push((name, outcome_of(answered)));
                    }
                    return false;
                }
            }
            true
        });
        batch
    }
}

/// A call that interceptors have seen leave, and not all of them come back: dropped, it was given up.
pub(crate) struct Intercepted {
    chain: Chain<OutgoingCall>,
    call: OutgoingCall,
    asked: usize,
    cx: Cx,
}

impl Intercepted {
    fn ask(&mut self) -> Option<Result<ResultText, Failure>> {
        self.chain
            .request(&mut self.asked, &mut self.cx, &self.call)
    }

    /// The headers that interceptors have left for this call.
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

    /// Shows the interceptors what the call came to, and gives what they have made of it.
    pub(crate) fn end(mut self, ended: Answered) -> Answered {
        let outcome = match &ended {
            // A copy: the answer itself stays as it came unless it is replaced.
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

    /// As [`end`](Self::end), for who awaits an outcome.
    pub(crate) fn end_outcome(self, outcome: OwnedOutcome) -> OwnedOutcome {
        outcome_of(self.end(Ok(outcome)))
    }

    /// Shows the interceptors that a notification is on its way, or that it was refused.
    pub(crate) fn end_notification(self, is_sent: bool) {
        let told = OwnedOutcome::Ok(Json::NULL.to_owned_json());
        // Nobody awaits it.
        let _ = self.end(is_sent.then_some(told).ok_or(CallError::Unsent));
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
        self.chain.given_up(self.asked, &self.cx, &self.call);
    }
}

/// The calls and notifications of a batch that interceptors have seen leave.
#[derive(Default)]
pub(crate) struct InterceptedBatch {
    sent: Vec<(Option<CallId>, Intercepted)>,
    /// Those that are not sent, because interceptors have answered them.
    answered: Vec<(CallId, OwnedOutcome)>,
}

impl InterceptedBatch {
    /// Shows the interceptors what its calls came to, and gives what they have made of it.
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

/// What interceptors have answered.
fn answered(reply: Reply) -> Answered {
    match reply.into_outcome() {
        Some(Err(Failure::Interceptor(cause))) => Err(CallError::Interceptor(cause)),
        Some(Err(failure)) => Ok(OwnedOutcome::Err(failure.into_error())),
        Some(Ok(text)) => {
            // It was a value before.
            Ok(OwnedJson::of_parts(text).map_or(OwnedOutcome::Missing, OwnedOutcome::Ok))
        }
        None => Ok(OwnedOutcome::Missing),
    }
}

/// The end of a call for who awaits an outcome.
pub(crate) fn outcome_of(answered: Answered) -> OwnedOutcome {
    match answered {
        Ok(outcome) => outcome,
        Err(CallError::Interceptor(cause)) => OwnedOutcome::Err(OwnedError::internal(cause)),
        Err(error) => unanswered(&error),
    }
}

/// The outcome that stands for a call without an answer.
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
        // A later core may add other outcomes; they are ends without an answer, too.
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
        #[cfg(feature = "http")]
        CallError::Http(error) if error.is_unsent() => NoAnswer::Unsent,
        #[cfg(feature = "http")]
        CallError::Http(HttpError::Lost(_)) => NoAnswer::Closed,
        #[cfg(feature = "http")]
        CallError::Http(_) => NoAnswer::Invalid,
    })
}

#[cfg(test)]
mod tests {
    use antiphon::{Config, Connection, Event, Input, OwnedError, OwnedOutcome, SendError};

    use super::{CallError, Failure, failure_of, no_answer, unanswered};

    /// What a peer's answer comes to that has neither a result nor an error.
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
        #[cfg(feature = "http")]
        {
            use std::io;

            use crate::http::error::HttpError;
            let lost = HttpError::Lost(io::ErrorKind::ConnectionReset.into());
            let unsent = HttpError::Connect(io::ErrorKind::ConnectionRefused.into());
            ends.push((CallError::Http(lost), "connection_closed", "Aborted"));
            ends.push((CallError::Http(unsent), "unsent", "Unsent"));
            ends.push((CallError::Http(HttpError::TimedOut), "invalid", "Missing"));
        }
        for (error, told, outcome) in ends {
            let failure = match failure_of(&error) {
                Failure::NoAnswer(why) => why.as_str().to_owned(),
                failure => failure.as_error().code().to_string(),
            };
            assert_eq!(failure, told, "{error:?}");
            assert_eq!(format!("{:?}", unanswered(&error)), outcome, "{error:?}");
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
