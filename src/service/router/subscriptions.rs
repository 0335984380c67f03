//! Subscriptions: a method whose answer is the id of a stream, a notification that carries each event with that
//! id, and a method that ends the stream.

use super::{Routes, expect};
use crate::service::describe::MethodInfo;
use crate::service::handler::{Handler, described};
use crate::service::invoked::Invoked;
use crate::service::served::{Answers, Method, calling};
use crate::service::shell::Streams;
use crate::service::subscriptions::{subscribed, unsubscribed};
use crate::subscription::Style;

impl<S: 'static, K: Streams> Routes<S, K> {
    /// Serves subscriptions: `style` names the method that subscribes, the notification that carries an event, and
    /// the method that unsubscribes. `names` are the names of the handler's parameters, and one of its further
    /// arguments is the `SubscriptionSink` into which it sends the events.
    ///
    /// The answer to the request is the id of the subscription, and events are sent after it, even if it is part of a
    /// batch. An `async` handler lives as long as the subscription: it is dropped when the peer unsubscribes or the
    /// connection ends, and when it ends, so does the subscription, of which the peer is told. If it fails before it
    /// waits for the first time, that error is the answer. A handler that returns at once refuses the subscription by an
    /// error; otherwise it has given the sink to a thread or a task, and the subscription ends when the last clone of
    /// the sink is dropped. Neither counts as a request that runs, and neither holds up a shutdown.
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
        let info = MethodInfo::subscription(subscribe, &[], style);
        let info = described::<K::Request, S, A, H>(info, &names);
        let handler = calling(names, handler);
        let method = Method::of(move |on: Invoked<'_, S, K>, text: &mut K::Text| {
            subscribed::<K>(K::subscribe(on.call, style), text, |call| {
                // What the handler returns is not sent.
                handler(Invoked { call, ..on }, &mut K::Text::default())
            })
        });
        expect(info.and_then(|info| self.insert(info, method)));
        if !self.serves(unsubscribe) {
            let method = Method::of(move |on: Invoked<'_, S, K>, text: &mut K::Text| {
                unsubscribed(&on, style, text)
            });
            expect(self.insert(MethodInfo::unsubscription(unsubscribe, style), method));
        }
        self
    }
}
