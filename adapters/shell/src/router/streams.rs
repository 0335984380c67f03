//! Subscriptions and topics in the router.

use antiphon::pubsub::{TopicHub, TopicMethod};
use antiphon::service::{Failure, Later, Streams};
use antiphon::{Json, OwnedError, Style};

use super::shell::On;
use crate::serve::answer::Answer;
use crate::serve::request::Request;
use crate::streams::hub::Hub;
use crate::streams::sink;
use crate::text::Text;

impl<const WAITS: bool> Streams for On<WAITS> {
    fn subscribe(request: &Request, style: Style) -> Result<Request, OwnedError> {
        sink::subscribe(request, style)
    }

    fn write_id(request: &Request, text: &mut Text) {
        if let Some(stream) = request.sink.get() {
            stream.accept(request.key());
            text.as_mut().extend_from_slice(stream.key.id().as_bytes());
        }
    }

    fn sustain(request: &Request, events: Later<'static, Text>) -> Result<(), Failure> {
        sink::sustain(request, events)
    }

    fn unsubscribe(request: &Request, style: Style, id: Json<'_>) -> bool {
        let session = request.responder.session();
        session.act(|state| state.unsubscribe(style, id))
    }
}

impl<const WAITS: bool> TopicHub<On<WAITS>> for Hub {
    fn serve(&self, request: &Request, method: TopicMethod) -> Result<Answer, OwnedError> {
        self.serve(request, method)
    }
}
