//! What a router needs of the code that brings it calls and awaits what it hands out: an adapter, or a loop of
//! the program's own.

use alloc::boxed::Box;
use core::cell::{Ref, RefCell, RefMut};
use core::future::Future;
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::time::Duration;

use super::args::GivenParams;
use super::attributes::Attributes;
use super::call_end::CallEnd;
use super::cx::{AnyRequest, Cx};
use super::decision::{Deferred, Resolve};
use super::errors::Failure;
use super::methods::ResultText;
use crate::error_object::OwnedError;
use crate::json::Json;
use crate::subscription::Style;

/// A future of the result of a handler.
pub type Later<'c, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'c>>;

/// Brings calls to a router, and awaits what it hands out. Only adapters implement it; [`Local`](super::Local)
/// is the one without a runtime.
pub trait Shell: Sized + 'static {
    /// A call as interceptors see it.
    type Request: AnyRequest + 'static;
    /// A call as handlers see it, besides its params.
    type Call: 'static;
    /// The other side of a connection.
    type Peer: 'static;
    /// A result while it is written.
    type Text: Default + AsMut<ResultText> + From<ResultText> + Into<ResultText> + Send;
    /// What holds the methods of a router.
    type Cell<T>: Shared<T>;
    /// What is stored with a router whose state is `S`.
    type Own<S>: Default;

    /// Called when a router gets interceptors.
    fn intercepts<S: 'static>(_: &mut Self::Own<S>) {}
}

/// A request or a notification of the peer, as a router in an adapter serves it.
pub trait RoutedRequest: AnyRequest + 'static {
    /// What a handler or a service returns.
    type Answer;

    /// The params, as interceptors have changed them, and what the configuration says about them.
    fn given(&self) -> GivenParams<'_>;

    /// Whether the connection's dialect has the built-in methods.
    fn has_extensions(&self) -> bool;

    /// Copies it under another method, without the right to answer it.
    #[must_use]
    fn renamed(&self, method: &str) -> Self;

    /// Makes an answer of a failure. A cause that is not sent is reported.
    ///
    /// # Errors
    /// The error that is sent.
    fn failed(&self, failure: Failure) -> Result<Self::Answer, OwnedError>;

    /// Reports a failure whose error is not sent: that of a notification, or of a request to which another error
    /// is sent.
    fn report(&self, failure: Failure);

    /// Returns the error for an unknown method.
    fn unknown(&self) -> OwnedError;

    /// Stores the context with the call, and returns it.
    fn keep(&self, cx: Cx) -> &Cx;

    /// Waits for the decision of an interceptor, for `timeout` at most.
    ///
    /// # Errors
    /// It takes longer.
    fn decision(
        &self,
        deferred: Deferred,
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<Resolve, Failure>>;

    /// Waits for a future for `span` at most.
    ///
    /// # Errors
    /// It takes longer.
    fn within<T>(
        &self,
        span: Duration,
        future: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, Failure>>;

    /// Runs code of interceptors in a destructor, unless its panic could leave it.
    fn contained(&self, run: impl FnOnce());

    /// Calls `told` with the end of a call whose handler has returned without an answer.
    fn when_answered(&self, told: impl FnOnce(&Self, &Cx, &CallEnd) + Send + 'static);
}

/// The shell of an adapter: its requests have a peer, and can be answered later.
pub trait Adapter:
    Shell<Call = <Self as Shell>::Request, Request: RoutedRequest<Answer = Self::Answer>>
{
    /// What a handler or a service returns.
    type Answer;
    /// A notification, as a service gets it.
    type Notification;

    /// The number of a connection.
    fn connection(peer: &Self::Peer) -> u32;

    /// The attributes of a connection. Exchanges that [share one](Self::shares_connection) have those of that one.
    fn attributes(peer: &Self::Peer) -> impl DerefMut<Target = Attributes>;

    /// Whether the connection is one of several exchanges of one connection, whose end is not that connection's.
    fn shares_connection(_: &Self::Peer) -> bool {
        false
    }

    /// Runs code of interceptors, and keeps its panic here. It is reported, if there is a connection.
    fn contained(peer: Option<&Self::Peer>, run: impl FnOnce()) {
        let _ = peer;
        run();
    }

    /// Makes a request of a notification, which is never answered.
    fn of_notification(notification: Self::Notification) -> Self::Request;

    /// Makes an answer of a result; `None` if it comes later.
    fn answer(text: Option<Self::Text>) -> Self::Answer;

    /// Returns what the answer of a handler has; `None` if it comes later.
    fn outcome(answer: Self::Answer) -> Option<Result<Self::Text, Failure>>;
}

/// The shell of an adapter whose handlers may be futures.
pub trait Awaits: Streams<Request: Clone + Send + Sync> {
    /// The context of a handler of a [`Method`](crate::Method), besides its params.
    type Context<S>;

    /// Makes the context.
    fn context<S>(request: Self::Request, state: S) -> Self::Context<S>;

    /// Returns a future of the result of `work`. If it is dropped earlier, `work` goes on.
    fn run_to_end<T: Send + 'static>(
        request: &Self::Request,
        work: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static;
}

/// The shell of an adapter whose connections can carry the events of subscriptions.
pub trait Streams: Adapter {
    /// Begins a subscription for a request to `style`'s subscribe method, and returns the request with it: handlers
    /// take the sink of its events from there. It is open for the peer once the request is answered.
    ///
    /// # Errors
    /// The connection cannot carry notifications, or has too many subscriptions.
    fn subscribe(call: &Self::Call, style: Style) -> Result<Self::Call, OwnedError>;

    /// Opens a flow for a request, and returns the request with it.
    ///
    /// # Errors
    /// Flows are off, the connection cannot carry them, or it has too many.
    fn open_flow(call: &Self::Call) -> Result<Self::Call, OwnedError>;

    /// Writes the id of the subscription or the flow of a request, which is the result of the request.
    fn write_id(call: &Self::Call, text: &mut Self::Text);

    /// Runs the rest of a handler, which sends the events or items, until it ends or its stream does.
    ///
    /// # Errors
    /// It fails before it waits for the first time.
    fn sustain(call: &Self::Call, events: Later<'static, Self::Text>) -> Result<(), Failure>;

    /// Ends the subscription of `style` with this id. Returns false if there is none.
    fn unsubscribe(call: &Self::Call, style: Style, id: Json<'_>) -> bool;
}

/// A value that several may use, one after another.
pub trait Shared<T> {
    /// Shares a value.
    fn new(value: T) -> Self;
    /// Lends it for reading.
    fn read(&self) -> impl Deref<Target = T>;
    /// Lends it for changing it.
    fn write(&self) -> impl DerefMut<Target = T>;
}

impl<T> Shared<T> for RefCell<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn read(&self) -> impl Deref<Target = T> {
        let lent: Ref<'_, T> = self.borrow();
        lent
    }

    fn write(&self) -> impl DerefMut<Target = T> {
        let lent: RefMut<'_, T> = self.borrow_mut();
        lent
    }
}
