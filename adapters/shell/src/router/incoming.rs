//! A request, as the router of the core serves it.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use antiphon::service::{CallEnd, Cx, Deferred, Failure, GivenParams, Resolve, RoutedRequest};
use antiphon::session::{Report, RequestDetails};
use antiphon::{OwnedError, SendError};

use crate::guard::{Contained, contained};
use crate::runtime::until;
use crate::serve::answer::Answer;
use crate::serve::later_answer::Given;
use crate::serve::request::Request;

impl RoutedRequest for Request {
    type Answer = Answer;

    fn given(&self) -> GivenParams<'_> {
        let dialect = self.responder.session().dialect();
        GivenParams {
            params: self.raw_params(),
            unknown: dialect.unknown_params,
            progress: self.progress_style(),
        }
    }

    fn has_extensions(&self) -> bool {
        self.responder.session().dialect().system_extensions
    }

    fn renamed(&self, method: &str) -> Self {
        let message = self.message.with_method(method);
        Self::of(message, self.responder.without_ticket())
    }

    fn failed(&self, failure: Failure) -> Result<Answer, OwnedError> {
        match failure {
            Failure::Params(error) => Err(self.invalid_params(error)),
            Failure::Encode(error) => Ok(Answer(Some(Err(SendError::Encode(error))))),
            Failure::Send(error) => Ok(Answer(Some(Err(error)))),
            other => Err(other.into_error()),
        }
    }

    fn report(&self, failure: Failure) {
        let error = match failure {
            Failure::Params(error) => {
                return self.responder.report_invalid_params(self.method(), error);
            }
            Failure::Encode(error) => OwnedError::internal(error.into()),
            Failure::Send(error) => OwnedError::internal(error.into()),
            Failure::Error(error) if self.is_notification() || error.source().is_some() => error,
            Failure::Interceptor(cause) => OwnedError::internal(cause),
            // An unknown method has been reported by `unknown_method`.
            _ => return,
        };
        if self.is_notification() {
            let about = RequestDetails::of_notification(self.method());
            let session = self.responder.session();
            return session.report(Report::Failed(about, error));
        }
        self.responder.report_failure(error);
    }

    fn unknown(&self) -> OwnedError {
        self.unknown_method()
    }

    fn keep(&self, cx: Cx) -> &Cx {
        let session = Arc::clone(self.responder.session());
        self.cx
            .get_or_init(|| Arc::new(Contained::new(cx, Some(session))))
    }

    async fn decision(
        &self,
        deferred: Deferred,
        timeout: Option<Duration>,
    ) -> Result<Resolve, Failure> {
        let resolve = self.postponed(deferred);
        match timeout {
            None => Ok(resolve.await),
            Some(span) => self.within(span, resolve).await,
        }
    }

    async fn within<T>(
        &self,
        span: Duration,
        future: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let session = self.responder.session();
        let done = until(session.runtime(), session.now() + span, future).await;
        done.ok_or_else(|| {
            let error = self.error_profile().timeout().into_owned();
            self.responder.report_failure(error.clone());
            error.into()
        })
    }

    fn contained(&self, run: impl FnOnce()) {
        contained(Some(&**self.responder.session()), run);
    }

    fn when_answered(&self, told: impl FnOnce(&Self, &Cx, &CallEnd) + Send + 'static) {
        let told = |request: &Self, given: Given| {
            if let Some(cx) = request.cx.get() {
                let duration = request.now().saturating_since(cx.began());
                told(request, cx, &given.end(duration));
            }
        };
        if self.is_notification() {
            // Its handler has returned, and no answer comes.
            return told(self, Given::Result(0));
        }
        let Some(later) = self.later.get() else {
            // The handler has left no responder, so the request is answered *internal error*.
            return told(self, Given::error(&self.responder.failures().error()));
        };
        let seen = self.clone();
        later.tell(move |given| {
            let session = Arc::clone(seen.responder.session());
            contained(Some(&*session), move || told(&seen, given));
        });
    }
}
