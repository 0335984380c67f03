//! Methods that begin and end the peer's subscriptions, and those that open flows.

use super::invoked::{Invoked, Served};
use super::shell::Streams;
use crate::error_object::{ErrorObject, OwnedError};
use crate::json::{Json, JsonKind};
use crate::subscription::{Style, is_id};

/// Serves a method that subscribes or opens a flow: its result is the id of the stream that was opened with the call,
/// into whose sink `handler` sends the events. If the handler fails before it waits for the first time, there is no
/// stream, and the request fails.
pub(super) fn subscribed<K: Streams>(
    opened: Result<K::Call, OwnedError>,
    text: &mut K::Text,
    handler: impl FnOnce(&K::Call) -> Served<'static, K>,
) -> Served<'static, K> {
    let call = match opened {
        Ok(call) => call,
        Err(error) => return Served::Done(Err(error.into())),
    };
    let begun = match handler(&call) {
        Served::Later(events) => K::sustain(&call, events),
        Served::Done(done) => done,
        Served::Deferred => Ok(()),
    };
    Served::Done(begun.map(|()| K::write_id(&call, text)))
}

/// Serves a method that unsubscribes: its result says whether there was such a subscription.
pub(super) fn unsubscribed<S, K: Streams>(
    on: &Invoked<'_, S, K>,
    style: Style,
    text: &mut K::Text,
) -> Served<'static, K> {
    let Some(id) = only(on.given.params) else {
        return Served::Done(Err(ErrorObject::invalid_params().into_owned().into()));
    };
    let has_ended = K::unsubscribe(on.call, style, id);
    let result: &[u8] = if has_ended { b"true" } else { b"false" };
    text.as_mut().extend_from_slice(result);
    Served::Done(Ok(()))
}

/// Returns the id that is the only parameter, by position or by name.
fn only(params: Option<Json<'_>>) -> Option<Json<'_>> {
    let params = params?;
    let (mut elements, mut members) = (params.elements(), params.members());
    let mut next = || match params.kind() {
        JsonKind::Array => elements.next(),
        _ => members.next().map(|(_, value)| value),
    };
    let (first, more) = (next(), next());
    first.filter(|id| is_id(id) && more.is_none())
}
