//! Flows that this end produces: the items of a stream answer the pulls of the peer.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use antiphon::service::{Failure, Later};
use antiphon::session::{Report, RequestDetails};
use antiphon::{FromCall, Internal, OwnedError, SendError};
use futures_util::Stream;
use serde::Serialize;

use crate::guard::contained;
use crate::runtime::Task;
use crate::serve::request::Request;
use crate::session::PeerFlow;
use crate::streams::sink::begin;
use crate::text::Text;

/// The flow that is the answer to a request: what `#[rpc(flow)]` passes the items of its stream to.
#[derive(Clone)]
pub struct FlowSink {
    flow: Arc<PeerFlow>,
    method: Box<str>,
}

impl FlowSink {
    /// Answers the pulls of the peer with the items of a stream, until that ends or the peer wants no more. The
    /// stream is polled only while a pull waits.
    pub async fn send_all<T: Serialize, E: Into<OwnedError>>(
        &self,
        items: impl Stream<Item = Result<T, E>>,
    ) {
        let (flow, mut items) = (&*self.flow, pin!(items));
        loop {
            let next = poll_fn(|cx| {
                // A change of the flow is noticed while the stream waits.
                match ready!(flow.session.poll_pull(flow.id, cx.waker())) {
                    true => items.as_mut().poll_next(cx).map(Some),
                    false => Poll::Ready(None),
                }
            });
            match next.await {
                Some(Some(Ok(item))) => {
                    let item = Text::of(&item);
                    match self.send(item).await {
                        Ok(true) => {}
                        Ok(false) => return,
                        Err(error) => return self.fail(OwnedError::internal(error.into())),
                    }
                }
                Some(Some(Err(error))) => return self.fail(error.into()),
                Some(None) => return flow.end(),
                None => return,
            }
        }
    }

    /// Answers a pull. Returns false if nobody wants the flow any more.
    async fn send(&self, item: Result<Text, SendError>) -> Result<bool, SendError> {
        let item = item?;
        self.flow
            .send(item.all())
            .await
            .transpose()
            .map(|sent| sent.is_some())
    }

    /// Ends the flow with an error, and reports its cause.
    fn fail(&self, error: OwnedError) {
        let session = &self.flow.session;
        let told = session.dialect().failures.told(error);
        self.flow.fail(&told.as_error());
        if told.source().is_some() {
            let about = RequestDetails::of_notification(&self.method);
            session.report(Report::Failed(about, told));
        }
    }

    /// Runs what sends the items, until it ends.
    async fn sustain(self, mut items: Later<'static, Text>) {
        let session = &self.flow.session;
        // A panic is reported.
        let step =
            |cx: &mut Context<'_>| match contained(Some(&**session), || items.as_mut().poll(cx)) {
                Some(polled) => polled.map(|_| true),
                None => Poll::Ready(false),
            };
        if !poll_fn(step).await {
            self.flow.fail(&session.dialect().failures.error());
        }
        contained(Some(&**session), || drop(items));
    }
}

impl fmt::Debug for FlowSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlowSink").field(&self.flow.id).finish()
    }
}

impl<S> FromCall<Request, S> for FlowSink {
    fn from_call(request: &Request, _: &S) -> Result<Self, OwnedError> {
        let missing = "a flow's sink is an argument of a method that returns a flow";
        let flow = request.flow.get().cloned().ok_or(missing).internal()?;
        let method = request.method().into();
        Ok(Self { flow, method })
    }
}

/// Makes the task that produces a flow in the params of a call to `method`.
pub(crate) fn task<T: Serialize + Send + 'static>(
    flow: Arc<PeerFlow>,
    method: &str,
    items: impl Stream<Item = Result<T, OwnedError>> + Send + 'static,
) -> Task {
    let method = method.into();
    let sink = FlowSink { flow, method };
    let own = sink.clone();
    let sending = async move {
        own.send_all(items).await;
        Ok(Text::default())
    };
    Box::pin(sink.sustain(Box::pin(sending)))
}

/// Opens a flow for a request, and returns the request with it.
pub(crate) fn open(request: &Request) -> Result<Request, OwnedError> {
    let session = request.responder.session();
    if !session.has_flows() {
        return Err(request.unknown_method());
    }
    let busy = || session.dialect().error_profile.busy().into_owned();
    let flow = PeerFlow::open(session).ok_or_else(busy)?;
    let own = request.clone();
    // A clone has none before this.
    let _ = own.flow.set(flow);
    Ok(own)
}

/// Runs what sends the items of a request's flow, as a task. It is polled once before.
///
/// # Errors
/// It fails before it waits for the first time.
pub(crate) fn start(request: &Request, mut items: Later<'static, Text>) -> Result<(), Failure> {
    let sink = FlowSink::from_call(request, &())?;
    let session = Arc::clone(&sink.flow.session);
    if begin(&session, &mut items)? {
        session.runtime().spawn(Box::pin(sink.sustain(items)));
    }
    Ok(())
}
