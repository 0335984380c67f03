//! Subscriptions, flows and topics in the router.

use antiphon::durable::DurableMethod;
use antiphon::pubsub::{TopicHub, TopicMethod};
use antiphon::service::{Answers, Failure, Later, ReturnedAlone, Served, Streams};
use antiphon::{FromCall, Json, OwnedError, Style};
use serde::Serialize;

use super::shell::On;
use crate::durable::Durable;
use crate::serve::request::Request;
use crate::streams::flow::Flow;
use crate::streams::hub::{Hub, TopicAnswer};
use crate::streams::produced::{self, FlowSink};
use crate::streams::sink;
use crate::text::Text;

impl<const WAITS: bool> Streams for On<WAITS> {
    fn subscribe(request: &Request, style: Style) -> Result<Request, OwnedError> {
        sink::subscribe(request, style)
    }

    fn open_flow(request: &Request) -> Result<Request, OwnedError> {
        produced::open(request)
    }

    fn write_id(request: &Request, text: &mut Text) {
        if let Some(stream) = request.sink.get() {
            text.as_mut()
                .extend_from_slice(stream.id.as_str().as_bytes());
        } else if let Some(flow) = request.flow.get() {
            text.as_mut()
                .extend_from_slice(flow.id.to_string().as_bytes());
        }
    }

    fn sustain(request: &Request, events: Later<'static, Text>) -> Result<(), Failure> {
        match request.flow.get() {
            Some(_) => produced::start(request, events),
            None => sink::sustain(request, events),
        }
    }

    fn unsubscribe(request: &Request, style: Style, id: Json<'_>) -> bool {
        let session = request.responder.session();
        session.act(|state| state.unsubscribe(style, id))
    }
}

/// A handler that returns a flow.
#[derive(Debug)]
pub enum Flowing {}

impl<T, const WAITS: bool> Answers<On<WAITS>, Flowing> for Flow<T>
where
    T: Serialize + Send + 'static,
{
    fn answer(self, request: &Request, text: &mut Text) -> Served<'static, On<WAITS>> {
        let opened = produced::open(request).and_then(|request| {
            let sink = FlowSink::from_call(&request, &())?;
            Ok((request, sink))
        });
        let started = opened.map_err(Failure::from).and_then(|(request, sink)| {
            <On<WAITS> as Streams>::write_id(&request, text);
            let items = async move {
                sink.send_all(self).await;
                Ok(Text::default())
            };
            produced::start(&request, Box::pin(items))
        });
        Served::Done(started)
    }
}

impl<T, E, const WAITS: bool> ReturnedAlone<On<WAITS>> for Result<Flow<T>, E> {}

impl<const WAITS: bool> TopicHub<On<WAITS>> for Hub {
    fn serve(
        &self,
        request: &Request,
        method: TopicMethod,
        text: &mut Text,
    ) -> Served<'static, On<WAITS>> {
        match self.begin(request, method) {
            Ok(TopicAnswer::Now(answer)) => {
                *text = Text::from(Vec::from(answer.as_str()));
                Served::Done(Ok(()))
            }
            Ok(TopicAnswer::Later(answer)) => Served::Later(answer),
            Err(error) => Served::Done(Err(error.into())),
        }
    }
}

impl<const WAITS: bool> TopicHub<On<WAITS>, DurableMethod> for Durable {
    fn serve(
        &self,
        request: &Request,
        method: DurableMethod,
        _: &mut Text,
    ) -> Served<'static, On<WAITS>> {
        match self.begin(request, method) {
            Ok(()) => Served::Deferred,
            Err(error) => Served::Done(Err(error.into())),
        }
    }
}
