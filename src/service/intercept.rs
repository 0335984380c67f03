//! Interceptors, which see every call before it is handled and its answer afterwards.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::call_end::CallEnd;
use super::cx::Cx;
use super::decision::{Asked, Decision};
use super::describe::MethodInfo;
use super::errors::{Failure, NoAnswer};
use super::methods::ResultText;
use crate::error_object::{ErrorObject, OwnedError};
use crate::json::OwnedJson;
use crate::shared::{Arc, erased};

/// The answer to a call: before a server sends it, or before the caller gets it.
#[derive(Debug)]
pub struct Reply {
    outcome: Option<Result<ResultText, Failure>>,
    duration: Duration,
    /// Whether an interceptor has replaced the outcome.
    is_replaced: bool,
}

impl Reply {
    /// Makes a reply with the outcome of a call and its duration. The outcome is `None` if the
    /// handler answers later.
    pub const fn new(outcome: Option<Result<ResultText, Failure>>, duration: Duration) -> Self {
        Self {
            outcome,
            duration,
            is_replaced: false,
        }
    }

    /// How long the call took.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// The result, as JSON text; `None` if the call failed or is answered later.
    pub fn result(&self) -> Option<&str> {
        let text = self.outcome.as_ref()?.as_ref().ok()?;
        core::str::from_utf8(text).ok()
    }

    /// Why there is no result, with the cause, which is not sent to the peer.
    pub fn failure(&self) -> Option<&Failure> {
        self.outcome.as_ref()?.as_ref().err()
    }

    /// The error that is sent to the peer, or that the peer has sent. `None` if there is a result, if
    /// the handler answers later, and if a call of ours got [no answer](Self::no_answer).
    pub fn error(&self) -> Option<ErrorObject<'_>> {
        match self.failure()? {
            Failure::NoAnswer(_) => None,
            failure => Some(failure.as_error()),
        }
    }

    /// How a call of ours ended without an answer, if it did.
    pub fn no_answer(&self) -> Option<NoAnswer> {
        match self.failure()? {
            Failure::NoAnswer(why) => Some(*why),
            _ => None,
        }
    }

    /// How the call has ended; `None` if its handler answers later.
    pub fn end(&self) -> Option<CallEnd> {
        let code = self.error().map(|error| error.code());
        let instead = self.no_answer().map(NoAnswer::as_str);
        let mut end = CallEnd::new(self.duration, code, instead);
        end.answer_bytes = match self.outcome.as_ref()? {
            Ok(text) => text.len(),
            Err(_) => self.error().map_or(0, |error| error.encoded_len()),
        };
        Some(end)
    }

    /// Whether the handler answers later, so that its outcome is not known yet.
    pub const fn is_deferred(&self) -> bool {
        self.outcome.is_none()
    }

    /// Replaces the answer that is sent, or that the caller gets. It does nothing for a call that
    /// is answered later.
    pub fn replace(&mut self, answer: Result<OwnedJson, OwnedError>) {
        if let Some(outcome) = &mut self.outcome {
            *outcome = outcome_of(answer);
            self.is_replaced = true;
        }
    }

    /// Whether an interceptor has [replaced](Self::replace) the answer.
    pub const fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    /// Returns the outcome; `None` if the handler answers later.
    pub fn into_outcome(self) -> Option<Result<ResultText, Failure>> {
        self.outcome
    }
}

/// Returns the failure of a call for which [`Chain::enter`] returned false.
pub(super) fn left_group() -> Failure {
    Failure::Interceptor("an interceptor has replaced the method by one outside its group".into())
}

/// Converts the answer of an interceptor to an outcome.
fn outcome_of(answer: Result<OwnedJson, OwnedError>) -> Result<ResultText, Failure> {
    match answer {
        Ok(result) => Ok(result.into_string().into_bytes()),
        Err(error) => Err(Failure::Error(error)),
    }
}

/// Sees every call before it is handled, and its answer afterwards: for logs, limits, permissions,
/// metrics.
///
/// A router's interceptors see the requests of the peer; those of a connection or a client see the
/// calls of this side. An interceptor for any [`AnyRequest`](super::AnyRequest) works for both.
/// Interceptors see requests in the order in which they were registered, and answers in reverse.
/// They see each entry of a batch and each notification separately, and extensions too.
///
/// ```
/// use antiphon::OwnedError;
/// use antiphon::service::{AnyRequest, Cx, Interceptor, Decision};
///
/// struct ReadOnly;
///
/// impl<R: AnyRequest + ?Sized> Interceptor<R> for ReadOnly {
///     fn request(&self, _: &mut Cx, request: &R) -> Decision {
///         match request.method().starts_with("get") {
///             true => Decision::Continue,
///             false => OwnedError::new(1001, "Read only").into(),
///         }
///     }
/// }
/// ```
pub trait Interceptor<R: ?Sized>: Send + Sync + 'static {
    /// Called before a call is handled, or sent.
    fn request(&self, cx: &mut Cx, request: &R) -> Decision {
        let _ = (cx, request);
        Decision::Continue
    }

    /// Called before an answer is sent, or passed to the caller, if [`request`](Self::request) was
    /// called. Also called when a call of ours ends without an answer: see [`Reply::no_answer`]. A
    /// notification has the result `null`; if it names a method that is no notification, it has the
    /// result of that method, which is not sent.
    fn response(&self, cx: &Cx, request: &R, reply: &mut Reply) {
        let _ = (cx, request, reply);
    }

    /// Called when a request whose handler had returned without an answer is answered, or ends
    /// without one: see [`Reply::is_deferred`]. It is called once, some time after
    /// [`response`](Self::response), on the thread that answers.
    fn answered(&self, cx: &Cx, request: &R, end: &CallEnd) {
        let _ = (cx, request, end);
    }

    /// Called instead of [`response`](Self::response) when the handler of a call of the peer gives
    /// no answer, because the call was cancelled, its connection closed, or the handler panicked;
    /// or when a call of ours was cancelled here. Any other end of a call of ours is passed to
    /// `response`.
    fn given_up(&self, cx: &Cx, request: &R) {
        let _ = (cx, request);
    }

    /// Called when a connection has begun, before anything from its peer is handled: over HTTP
    /// before its first request, and a WebSocket that follows on it is the connection that it was. In a web framework,
    /// which has the connections, each request is one of its own.
    fn opened(&self, connection: u32) {
        let _ = connection;
    }

    /// Called when a connection has ended, once for each that has begun.
    fn closed(&self, connection: u32) {
        let _ = connection;
    }

    /// Called when the peer has sent a batch. `items` also counts invalid items. The calls of the batch
    /// follow, one by one.
    fn batch_received(&self, connection: u32, items: usize) {
        let _ = (connection, items);
    }

    /// Called when this side sends a batch. `items` counts the calls and notifications in it, without those
    /// that an interceptor has answered.
    fn batch_sent(&self, connection: u32, items: usize) {
        let _ = (connection, items);
    }

    /// Whether `rpc.discover` and `rpc.listMethods` show a method to the caller `request`, which has passed
    /// [`request`](Self::request) with the same `cx`. A method is shown unless an interceptor says no:
    /// one that refuses calls by their method should refuse to show it, too.
    fn shows(&self, cx: &mut Cx, request: &R, info: &MethodInfo) -> bool {
        let _ = (cx, request, info);
        true
    }

    /// Surrounds each step of the handler, and calls `step` once: for spans, and for values that
    /// belong to a task. Not called for a call of ours.
    fn scope(&self, cx: &Cx, request: &R, step: &mut dyn FnMut()) {
        let _ = (cx, request);
        step();
    }
}

/// Interceptors in their order: those of a router or a caller, then those of the group of the method that is
/// served. A clone is cheap.
pub struct Chain<R: ?Sized> {
    all: Interceptors<R>,
    group: Option<Interceptors<R>>,
}

type Interceptors<R> = Arc<[Arc<dyn Interceptor<R>>]>;

impl<R: ?Sized> Clone for Chain<R> {
    fn clone(&self) -> Self {
        Self {
            all: Arc::clone(&self.all),
            group: self.group.clone(),
        }
    }
}

impl<R: ?Sized> Default for Chain<R> {
    fn default() -> Self {
        Self {
            all: Arc::from(Vec::new()),
            group: None,
        }
    }
}

impl<R: ?Sized + 'static> Chain<R> {
    /// Adds an interceptor after the others.
    pub fn push(&mut self, interceptor: impl Interceptor<R>) {
        let mut all = self.all.to_vec();
        all.push(erased(Box::new(interceptor)));
        self.all = all.into();
    }

    /// Adds all interceptors of another chain after its own.
    pub fn extend(&mut self, inner: &Self) {
        self.all = self.iter().chain(inner.iter()).cloned().collect();
    }

    /// Adds the interceptors of the group of the method that is served, if it has one. Returns false if those
    /// of another group were added before: then one of these has replaced the method, and the new one's own
    /// interceptors would not see the call.
    pub fn enter(&mut self, group: Option<&Self>) -> bool {
        let Some(known) = &self.group else {
            self.group = group.map(|group| Arc::clone(&group.all));
            return true;
        };
        group.is_some_and(|group| {
            let mut pairs = known.iter().zip(group.all.iter());
            known.len() == group.all.len() && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
        })
    }

    /// Whether the interceptors of a group have been [added](Self::enter).
    pub fn is_in_group(&self) -> bool {
        self.group.is_some()
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<dyn Interceptor<R>>> {
        self.all
            .iter()
            .chain(self.group.as_deref().unwrap_or_default())
    }

    fn get(&self, place: usize) -> Option<&Arc<dyn Interceptor<R>>> {
        let inner = place.checked_sub(self.all.len());
        inner.map_or_else(
            || self.all.get(place),
            |place| self.group.as_ref()?.get(place),
        )
    }

    /// Whether `other` is a clone of this chain.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.all, &other.all)
    }

    /// Whether there are no clones of this chain.
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.all) == 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Takes a decision, and calls the remaining interceptors in their order until one answers or decides later.
    /// Counts the called ones in `asked`. The first decision is [`Decision::Continue`].
    pub fn decide(
        &self,
        mut decision: Decision,
        asked: &mut usize,
        cx: &mut Cx,
        request: &R,
    ) -> Asked {
        loop {
            match decision {
                Decision::Continue => {}
                Decision::Answer(answer) => return Asked::Answered(outcome_of(answer)),
                Decision::Fail(cause) => return Asked::Answered(Err(Failure::Interceptor(cause))),
                Decision::Defer(deferred) => return Asked::Deferred(deferred),
            }
            let Some(next) = self.get(*asked) else {
                return Asked::Passed;
            };
            decision = next.request(cx, request);
            *asked += 1;
        }
    }

    /// Passes the answer to the first `asked` interceptors, in reverse order. Each is subtracted
    /// from `asked` before it is called.
    pub fn response(&self, asked: &mut usize, cx: &Cx, request: &R, reply: &mut Reply) {
        while let Some(place) = asked.checked_sub(1) {
            *asked = place;
            if let Some(interceptor) = self.get(place) {
                interceptor.response(cx, request, reply);
            }
        }
    }

    /// Reports to the first `asked` interceptors, in reverse order, how a call has ended whose
    /// handler had returned before it was answered.
    pub fn answered(&self, asked: usize, cx: &Cx, request: &R, end: &CallEnd) {
        for place in (0..asked).rev() {
            if let Some(interceptor) = self.get(place) {
                interceptor.answered(cx, request, end);
            }
        }
    }

    /// Reports to the interceptor at this place that the call was cancelled or its handler panicked, as
    /// [`given_up`](Interceptor::given_up) does. One by one and in reverse order, so that the others hear of it
    /// although one has panicked.
    pub fn given_up_at(&self, place: usize, cx: &Cx, request: &R) {
        if let Some(interceptor) = self.get(place) {
            interceptor.given_up(cx, request);
        }
    }

    /// Reports to all interceptors, in their order, that a connection has begun.
    pub fn opened(&self, connection: u32) {
        for interceptor in self.iter() {
            interceptor.opened(connection);
        }
    }

    /// Reports to all interceptors, in reverse order, that a connection has ended. Each is called within `contained`,
    /// which may keep a panic from the others.
    pub fn closed(&self, connection: u32, contained: impl Fn(&dyn Fn())) {
        for interceptor in self.iter().rev() {
            contained(&|| interceptor.closed(connection));
        }
    }

    /// Reports to all interceptors, in their order, that the peer has sent a batch.
    pub fn batch_received(&self, connection: u32, items: usize) {
        for interceptor in self.iter() {
            interceptor.batch_received(connection, items);
        }
    }

    /// Reports to all interceptors, in their order, that this side sends a batch.
    pub fn batch_sent(&self, connection: u32, items: usize) {
        for interceptor in self.iter() {
            interceptor.batch_sent(connection, items);
        }
    }

    /// Whether every interceptor [shows](Interceptor::shows) a method, and those of the method's group do.
    pub fn shows(&self, cx: &mut Cx, request: &R, info: &MethodInfo, group: Option<&Self>) -> bool {
        let group = group.into_iter().flat_map(Self::iter);
        self.iter()
            .chain(group)
            .all(|interceptor| interceptor.shows(cx, request, info))
    }

    /// Runs a step of the handler within the `scope` of every interceptor, that of the first
    /// outermost.
    pub fn scope(&self, cx: &Cx, request: &R, step: &mut dyn FnMut()) {
        fn inside<R: ?Sized + 'static>(
            (chain, place): (&Chain<R>, usize),
            cx: &Cx,
            request: &R,
            step: &mut dyn FnMut(),
        ) {
            match chain.get(place) {
                None => step(),
                Some(next) => {
                    let inner = (chain, place + 1);
                    next.scope(cx, request, &mut || inside(inner, cx, request, step));
                }
            }
        }
        inside((self, 0), cx, request, step);
    }
}

impl<R: ?Sized> fmt::Debug for Chain<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.group.as_ref().map_or(0, |group| group.len());
        f.debug_struct("Chain")
            .field("len", &(self.all.len() + inner))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::time::Duration;
    use std::sync::Mutex;

    use super::{Asked, Chain, Cx, Decision, Interceptor, Reply};
    use crate::service::Attributes;
    use crate::{Instant, OwnedError, OwnedJson};

    type Log = Arc<Mutex<Vec<(&'static str, u8)>>>;

    /// An interceptor with its number and the common log. It answers requests if the flag is set.
    struct Numbered(u8, Log, bool);

    impl Interceptor<()> for Numbered {
        fn request(&self, cx: &mut Cx, (): &()) -> Decision {
            self.1.lock().unwrap().push(("request", self.0));
            let before = cx.attributes().get::<u8>().copied();
            assert_eq!(before, (self.0 > 1).then(|| self.0 - 1));
            cx.attributes_mut().insert(self.0);
            match self.2 {
                true => Decision::Answer(Err(OwnedError::new(7, "no"))),
                false => Decision::Continue,
            }
        }

        fn response(&self, cx: &Cx, (): &(), reply: &mut Reply) {
            self.1.lock().unwrap().push(("response", self.0));
            assert_eq!(reply.duration(), Duration::from_secs(2));
            assert!(cx.attributes().get::<u8>().is_some());
            if self.0 == 1 {
                reply.replace(Ok(OwnedJson::from_value(&1).unwrap()));
            }
        }

        fn scope(&self, _: &Cx, (): &(), step: &mut dyn FnMut()) {
            self.1.lock().unwrap().push(("in", self.0));
            step();
            self.1.lock().unwrap().push(("out", self.0));
        }
    }

    // INT-01 INT-02 INT-03
    #[test]
    fn requests_pass_in_order_and_answers_in_reverse() {
        let log = Log::default();
        let mut chain = Chain::default();
        // The second answers, so the third does not see the request.
        for (number, answers) in [(1, false), (2, true), (3, false)] {
            chain.push(Numbered(number, Arc::clone(&log), answers));
        }
        let mut cx = Cx::new(Instant::ZERO, true);
        let mut asked = 0;
        let Asked::Answered(answer) = chain.decide(Decision::Continue, &mut asked, &mut cx, &())
        else {
            panic!("the second answers");
        };
        let answer = Some(answer);
        assert_eq!(asked, 2);
        let mut reply = Reply::new(answer, Duration::from_secs(2));
        assert_eq!(reply.error().unwrap().code(), 7);
        chain.response(&mut asked, &cx, &(), &mut reply);
        assert_eq!(reply.result(), Some("1"));
        chain.scope(&cx, &(), &mut || log.lock().unwrap().push(("step", 0)));
        let expected = [
            ("request", 1),
            ("request", 2),
            ("response", 2),
            ("response", 1),
            ("in", 1),
            ("in", 2),
            ("in", 3),
            ("step", 0),
            ("out", 3),
            ("out", 2),
            ("out", 1),
        ];
        assert_eq!(*log.lock().unwrap(), expected);
    }

    #[test]
    fn there_is_one_value_of_a_type() {
        let mut attributes = Attributes::new();
        attributes.insert(1_u8);
        attributes.insert("text");
        attributes.insert(2_u8);
        assert_eq!(attributes.get::<u8>(), Some(&2));
        *attributes.get_mut::<u8>().unwrap() += 1;
        assert_eq!(attributes.get::<u8>(), Some(&3));
        assert_eq!(attributes.remove::<u8>(), Some(3));
        assert_eq!(attributes.remove::<u8>(), None);
        assert_eq!(attributes.get::<u8>(), None);
        assert_eq!(
            alloc::format!("{attributes:?}"),
            "Attributes { len: 1, .. }"
        );
    }
}
