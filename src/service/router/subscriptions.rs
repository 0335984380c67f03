//! Subscriptions: a method whose answer is the id of a stream, a notification that carries each event with that
//! id, and a method that ends the stream.

use serde::de::IgnoredAny;

use super::{Routes, expect};
use crate::error_object::ErrorObject;
use crate::json::{Json, JsonKind};
use crate::service::describe::{MethodInfo, ParamInfo};
use crate::service::handler::{Handler, described};
use crate::service::served::{Answers, Invoked, Method, Served, calling};
use crate::service::shell::Streams;
use crate::subscription::{Style, is_id};

impl<S: 'static, K: Streams> Routes<S, K> {
    /// Serves subscriptions: `style` names the method that subscribes, the notification that carries an event, and
    /// the method that unsubscribes. `names` are the names of the handler's parameters, and one of its further
    /// arguments is the `SubscriptionSink` into which it sends the events.
    ///
    /// The answer to the request is the id of the subscription, and events are sent after it, even if it is part of a
    /// batch. An `async` handler lives as long as the subscription: it is dropped when the peer unsubscribes or the
    /// connection ends, and when it ends, so does the subscription, of which the peer is told. A handler that returns
    /// at once refuses the subscription by an error; otherwise it has given the sink to a thread or a task, and the
    /// subscription ends when the last clone of the sink is dropped. Neither counts as a request that runs, and
    /// neither holds up a shutdown.
    ///
    /// A connection that cannot carry notifications (HTTP, JSON-RPC 1.0) gets −32601, and one that has as many
    /// subscriptions as it may −32002.
    ///
    /// # Panics
    /// `style` has no methods, or a name is blank, taken or reserved, or the names do not fit the handler. (Several
    /// subscriptions may share one method that unsubscribes.)
    #[track_caller]
    pub fn subscription<A, W, const N: usize, H>(
        self,
        style: Style,
        names: [&'static str; N],
        handler: H,
    ) -> Self
    where
        H: Handler<K::Request, S, A, Output: Answers<K, W>> + Send + Sync,
    {
        let methods = style.subscribe_method().zip(style.unsubscribe_method());
        let (subscribe, unsubscribe) =
            methods.expect("the style of a subscription has methods that begin and end it");
        let info = MethodInfo::request(subscribe, &[]).with_subscription(style);
        let info = described::<K::Request, S, A, H>(info, &names);
        let method = subscribes(style, calling(names, handler));
        expect(info.and_then(|info| self.insert(info, method)));
        if !self.serves(unsubscribe) {
            const ID: &[ParamInfo] = &[ParamInfo::of::<IgnoredAny>("subscription")];
            let info = MethodInfo::request(unsubscribe, ID);
            expect(self.insert(info, unsubscribes(style)));
        }
        self
    }
}

/// Makes the handler of a method that subscribes.
fn subscribes<S: 'static, K: Streams>(
    style: Style,
    handler: impl Fn(Invoked<'_, S, K>, &mut K::Text) -> Served<'static, K> + Send + Sync + 'static,
) -> Method<S, K> {
    Method::of(move |on: Invoked<'_, S, K>, text: &mut K::Text| {
        let call = match K::subscribe(on.call, style) {
            Ok(call) => call,
            Err(error) => return Served::Done(Err(error.into())),
        };
        let begun = Invoked { call: &call, ..on };
        // What the handler returns is not sent: the result is the id.
        match handler(begun, &mut K::Text::default()) {
            Served::Done(Err(failure)) => return Served::Done(Err(failure)),
            Served::Done(Ok(())) | Served::Deferred => {}
            Served::Later(events) => K::sustain(&call, events),
        }
        K::write_id(&call, text);
        Served::Done(Ok(()))
    })
}

/// Makes the handler of a method that unsubscribes. Its result says whether there was such a subscription.
fn unsubscribes<S: 'static, K: Streams>(style: Style) -> Method<S, K> {
    Method::of(
        move |on: Invoked<'_, S, K>, text: &mut K::Text| match only(on.given.params) {
            Some(id) => {
                let has_ended = K::unsubscribe(on.call, style, id);
                let result: &[u8] = if has_ended { b"true" } else { b"false" };
                text.as_mut().extend_from_slice(result);
                Served::Done(Ok(()))
            }
            None => Served::Done(Err(ErrorObject::invalid_params().into_owned().into())),
        },
    )
}

/// Returns the id that is the only parameter, by position or by name.
fn only(params: Option<Json<'_>>) -> Option<Json<'_>> {
    let params = params?;
    let (mut items, mut members) = (params.elements(), params.members());
    let (first, more) = match params.kind() {
        JsonKind::Array => (items.next(), items.next()),
        _ => (
            members.next().map(|(_, value)| value),
            members.next().map(|(_, value)| value),
        ),
    };
    first.filter(|id| is_id(id) && more.is_none())
}
