//! One end of a connection with flows both ways, driven by hand: what a shell does, in one page.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem;
use core::task::Poll;

use crate::flow::{
    ConsumerId, Consumers, FlowConfig, FlowId, Handled, Producers, Pull, PullOptions,
};
use crate::{
    Config, Connection, ErrorObject, Event, Input, Instant, OwnedJson, ReplyToken, RequestRef,
};

/// What a call of this end was made for.
pub(super) enum Call {
    Pull(Pull),
    CancelFlow,
    /// A call whose result is a flow.
    Flow(PullOptions),
    /// Any other call.
    Plain,
}

/// What a producer does next.
#[derive(Clone)]
pub(super) enum Step {
    Item(String),
    /// It fails with this code.
    Fail(i64),
    /// It has nothing now.
    Wait,
}

/// What a reader has read.
pub(super) struct Reader {
    pub(super) consumer: ConsumerId,
    /// How many items it wants before it stops.
    pub(super) wants: usize,
    pub(super) items: Vec<String>,
    /// How the flow has ended: `end`, `stopped`, or why it failed.
    pub(super) ended: Option<String>,
    /// The request that is answered with the sum of the items.
    answers: Option<ReplyToken>,
}

pub(super) struct End {
    pub(super) conn: Connection<Call>,
    pub(super) producers: Producers<ReplyToken>,
    pub(super) consumers: Consumers,
    pub(super) sources: BTreeMap<FlowId, VecDeque<Step>>,
    pub(super) readers: Vec<Reader>,
    /// The outcomes of plain calls.
    pub(super) outcomes: Vec<String>,
    /// How many items of a flow its readers want.
    pub(super) wants: usize,
    input: Vec<u8>,
}

impl End {
    pub(super) fn new() -> Self {
        let config = FlowConfig::new();
        Self {
            conn: Connection::new(Config::new()),
            producers: Producers::new(config),
            consumers: Consumers::new(config),
            sources: BTreeMap::new(),
            readers: Vec::new(),
            outcomes: Vec::new(),
            wants: usize::MAX,
            input: Vec::new(),
        }
    }

    pub(super) fn set_time(&mut self, now: Instant) {
        self.conn.handle_timeout(now);
        self.producers.handle_timeout(now);
        self.consumers.handle_timeout(now);
    }

    /// Opens a flow of these steps, and after them its end.
    pub(super) fn produce(&mut self, steps: impl IntoIterator<Item = Step>) -> Option<FlowId> {
        let flow = self.producers.open().ok()?;
        self.sources.insert(flow, steps.into_iter().collect());
        Some(flow)
    }

    /// Calls a method whose result is a flow, and reads it.
    pub(super) fn call_flow(&mut self, method: &str, number: usize, window: usize) {
        let options = PullOptions {
            window,
            ..PullOptions::default()
        };
        let call = Call::Flow(options);
        self.conn.call(method, &[number], None, call).unwrap();
    }

    pub(super) fn call(&mut self, method: &str) {
        self.conn.call(method, (), None, Call::Plain).unwrap();
    }

    /// Calls a method with a flow of these steps as its argument.
    pub(super) fn call_with_flow(&mut self, method: &str, steps: impl IntoIterator<Item = Step>) {
        let flow = self.produce(steps).unwrap();
        let call = self.conn.call(method, &[flow], None, Call::Plain).unwrap();
        self.producers.attach(flow, call);
    }

    /// Takes received bytes, and does all that follows from them.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let received = mem::take(&mut self.input);
        let mut input = Input::stream(&received);
        while let Some(event) = self.conn.poll_event(&mut input) {
            self.handle(event);
        }
        self.input = received[input.consumed()..].to_vec();
        self.turn();
    }

    fn handle(&mut self, event: Event<'_, Call>) {
        match event {
            Event::Request(request) => self.request(request),
            Event::Response(response) => match response.tag {
                Call::Pull(pull) => self
                    .consumers
                    .handle_answer(pull, response.outcome.into_owned()),
                Call::CancelFlow => {}
                Call::Flow(options) => match response.outcome {
                    crate::Outcome::Ok(id) => self.read(id.as_str(), options, None),
                    other => self.outcomes.push(other.into_owned().to_string()),
                },
                Call::Plain => {
                    for flow in self.producers.handle_call_end(response.call) {
                        self.sources.remove(&flow);
                    }
                    self.outcomes.push(match response.outcome {
                        crate::Outcome::Ok(result) => result.to_string(),
                        other => other.into_owned().to_string(),
                    });
                }
            },
            Event::Cancelled(cancelled) => {
                let is_cancelled = |token: &ReplyToken| token.key() == cancelled.key;
                self.producers.cancel_pull(is_cancelled);
            }
            Event::Closed(_) => {
                self.consumers.handle_closed();
                self.producers.close_all();
                self.sources.clear();
            }
            _ => {}
        }
        self.answer();
    }

    fn request(&mut self, request: RequestRef<'_>) {
        let params = request.params;
        let handled = self
            .producers
            .handle_request(&request.method, params, request.token);
        let token = match handled {
            Ok(Handled::Pulled(flow)) => return self.advance(flow),
            Ok(Handled::Cancelled(flow)) => {
                self.sources.remove(&flow);
                return;
            }
            Ok(Handled::Answered) => return,
            Err(token) => token,
        };
        let first = params.and_then(|params| params.elements().next());
        let number = first.and_then(|first| first.decode::<usize>().ok());
        let count = 0..number.unwrap_or_default();
        let items = count.map(|number| Step::Item(number.to_string()));
        let steps: Vec<Step> = match &*request.method {
            "count" => items.collect(),
            "nulls" => items.map(|_| Step::Item("null".into())).collect(),
            "broken" => items.chain([Step::Fail(-32010)]).collect(),
            "silent" => items.chain([Step::Wait]).collect(),
            "ping" => return self.conn.respond(token, "pong").unwrap(),
            "sum" => {
                let id = first.map(|first| first.to_string()).unwrap_or_default();
                return self.read(&id, PullOptions::default(), Some(token));
            }
            name => return self.conn.respond_unknown_method(token, name).unwrap(),
        };
        match self.produce(steps) {
            Some(flow) => self.conn.respond(token, &flow).unwrap(),
            None => {
                let busy = ErrorObject::server_busy();
                self.conn.respond_err(token, &busy).unwrap();
            }
        }
    }

    fn read(&mut self, id: &str, options: PullOptions, answers: Option<ReplyToken>) {
        match self.consumers.open(super::json(id)) {
            Ok(consumer) => {
                self.consumers.set_options(consumer, options);
                self.readers.push(Reader {
                    consumer,
                    wants: self.wants,
                    items: Vec::new(),
                    ended: None,
                    answers,
                });
            }
            Err(error) => self.outcomes.push(error.to_string()),
        }
    }

    /// Answers the pulls of a flow as far as its items go.
    pub(super) fn advance(&mut self, flow: FlowId) {
        while self.producers.pulls_waiting(flow) > 0 {
            let steps = self.sources.get_mut(&flow).unwrap();
            match steps.front() {
                Some(Step::Item(item)) => {
                    let item = OwnedJson::parse(item.clone()).unwrap();
                    let pull = self.producers.next_pull(flow).unwrap();
                    self.conn.respond(pull, item.as_json()).unwrap();
                    steps.pop_front();
                }
                Some(Step::Wait) => return,
                Some(Step::Fail(code)) => {
                    let error = ErrorObject::new(*code, "broken").into_owned();
                    self.producers.fail(flow, error);
                    self.sources.remove(&flow);
                }
                None => {
                    self.producers.end(flow);
                    self.sources.remove(&flow);
                }
            }
        }
    }

    fn answer(&mut self) {
        while let Some(answer) = self.producers.poll_answer() {
            // A request may be over already, with its connection or because it was cancelled.
            let _ = match answer.reply {
                Ok(()) => self.conn.respond(answer.to, ()),
                Err(error) => self.conn.respond_err(answer.to, &error.as_error()),
            };
        }
    }

    /// Lets all readers read, and makes the calls that they need.
    pub(super) fn turn(&mut self) {
        self.answer();
        for number in 0..self.readers.len() {
            self.run_reader(number);
        }
        while let Some(request) = self.consumers.poll_request() {
            let name = self.consumers.name(request.method);
            let tag = request.pull.map_or(Call::CancelFlow, Call::Pull);
            let made = self
                .conn
                .call(name, request.params.as_json(), None, tag)
                .is_ok();
            assert!(made, "there is room for the call");
        }
        while let Some(consumer) = self.consumers.poll_ready() {
            let reads = |reader: &Reader| reader.consumer == consumer;
            if let Some(number) = self.readers.iter().position(reads) {
                self.run_reader(number);
            }
        }
    }

    fn run_reader(&mut self, number: usize) {
        let reader = &mut self.readers[number];
        while reader.ended.is_none() {
            if reader.items.len() == reader.wants {
                self.consumers.cancel(reader.consumer);
                reader.ended = Some("stopped".into());
                break;
            }
            match self.consumers.poll_item(reader.consumer) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(item))) => reader.items.push(item.into_string()),
                Poll::Ready(Some(Err(error))) => reader.ended = Some(error.to_string()),
                Poll::Ready(None) => reader.ended = Some("end".into()),
            }
        }
        if let Some(token) = reader.answers.take() {
            let numbers = reader.items.iter().map(|item| item.parse::<u64>().unwrap());
            let sum = format!(
                "{} {}",
                numbers.sum::<u64>(),
                reader.ended.as_ref().unwrap()
            );
            let _ = self.conn.respond(token, &*sum);
        }
    }

    /// Takes the output.
    pub(super) fn sent(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.conn.take_transmit(&mut bytes) {}
        bytes
    }
}
