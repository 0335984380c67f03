//! Invariant: a request is answered exactly once under its id as it was written, a notification never, and an event tells of every other answer, but for the two kinds that `account` names.

use antiphon::{
    CancelAnswer, CloseReason, Closed, Config, Connection, ErrorObject, ErrorProfile, Event,
    Framing, Input, Instant, Json, ReplyToken, RequestRef, codes,
};

use crate::bytes::Bytes;
use crate::config::config;
use crate::events::tell;
use crate::naive::{self, Kind, Node};

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut config = config(&mut bytes);
    config.framing = Framing::Messages;
    let ways = bytes.byte();
    let messages = bytes.rest();
    let mut server = Server::new(config, ways);
    for message in messages.split(|&byte| byte == 0) {
        server.receive(Input::message(message));
    }
    if ways & 1 == 1 {
        server.receive(Input::oversize(config.limits.max_message_bytes as u64 + 1));
    }
    if ways & 2 == 2 {
        server.conn.handle_timeout(Instant::from_millis(300));
        server.conn.drain();
    }
    server.answer_held();
    server.receive(Input::none());
    server.conn.handle_eof();
    server.receive(Input::none());
    server.account();
    server.conn.close(CloseReason::Done);
    server.receive(Input::none());
    alone(config, messages);
}

/// The function without a connection answers any bytes with a JSON reply that says something, or with
/// none.
fn alone(config: Config, message: &[u8]) {
    let reply = antiphon::answer(config, message, |call| match call.method.len() % 3 {
        0 => Err(ErrorObject::method_not_found()),
        _ => Ok(call.params.map(Json::to_owned_json)),
    });
    if let Some(reply) = reply {
        let node = naive::parse(&reply, 200).expect("a reply is JSON");
        assert!(!replies(&node).is_empty(), "a reply says something");
    }
}

struct Server {
    conn: Connection<u64>,
    ways: u8,
    held: Vec<(ReplyToken, String)>,
    /// The id of each answer given, and its code if it was an error.
    given: Vec<(String, Option<i64>)>,
    /// The codes of the answers that events told of.
    announced: Vec<i64>,
    failed: bool,
}

impl Server {
    fn new(config: Config, ways: u8) -> Self {
        Self {
            conn: Connection::new(config),
            ways,
            held: Vec::new(),
            given: Vec::new(),
            announced: Vec::new(),
            failed: false,
        }
    }

    fn receive(&mut self, mut input: Input<'_>) {
        while let Some(event) = self.conn.poll_event(&mut input) {
            tell(&event);
            // A driver may stop reading a message half way, and show the next.
            let is_left = self.ways & 8 == 8 && matches!(event, Event::Notification(_));
            match event {
                Event::Request(request) => self.request(request),
                Event::Malformed(malformed) => self.announced.extend(malformed.answered),
                Event::Refused(refused) => self.announced.extend(refused.answered),
                Event::Cancelled(cancelled) if !cancelled.answer_owed => {
                    self.held.retain(|(token, _)| token.key() != cancelled.key);
                }
                Event::Closed(why) => {
                    self.failed = !matches!(why, Closed::EndOfInput | Closed::Drained)
                }
                _ => {}
            }
            if is_left {
                return;
            }
        }
    }

    fn request(&mut self, request: RequestRef<'_>) {
        let id = request.id.text().to_string();
        match (request.method.len() + usize::from(self.ways >> 4)) % 4 {
            0 => {
                let owned = request.into_owned();
                assert_eq!(owned.id().text(), id);
                let (token, rest) = owned.split();
                assert!(rest.params().is_none_or(|params| params.len() > 1));
                self.held.push((token, id));
            }
            1 => self.respond(request.token, id, request.params),
            2 => {
                let given = self
                    .conn
                    .respond_unknown_method(request.token, &request.method);
                self.note(given.map_err(|refused| refused.value), id, Some(-32601));
            }
            _ => {
                let error = ErrorObject::new(request.method.len() as i64 - 32_000, "no\n");
                let error = match request.params {
                    Some(params) => error.with_data(params),
                    None => error,
                };
                let given = self.conn.respond_err(request.token, &error);
                self.note(
                    given.map_err(|refused| refused.value),
                    id,
                    Some(error.code()),
                );
            }
        }
    }

    fn respond(&mut self, token: ReplyToken, id: String, result: Option<Json<'_>>) {
        let given = self.conn.respond(token, result);
        self.note(given.map_err(|refused| refused.value), id, None);
    }

    /// An answer is refused for its size; then an error takes its place. Or the request is not open any more.
    fn note(&mut self, given: Result<(), ReplyToken>, id: String, code: Option<i64>) {
        match given {
            Ok(()) => self.given.push((id, code)),
            Err(token) => {
                let key = token.key();
                if self.conn.abandon(key) {
                    self.given.push((id, Some(-32603)));
                }
                assert!(!self.conn.abandon(key), "it is answered once");
            }
        }
    }

    fn answer_held(&mut self) {
        while let Some((token, id)) = self.held.pop() {
            let number = u32::from(self.ways);
            let given = match self.ways & 4 {
                0 => self.conn.respond(token, &number),
                _ => self.conn.respond_cancelled(token),
            };
            let code = (self.ways & 4 != 0).then(|| cancel_code(self.conn.config()));
            self.note(given.map_err(|refused| refused.value), id, code);
        }
    }

    /// Compares what was written with what was answered and announced. The planted fault loses one
    /// of two answers to a batch.
    fn account(&mut self) {
        let mut written = Vec::new();
        let mut frame = Vec::new();
        while self.conn.take_transmit(&mut frame) {
            let node = naive::parse(&frame, 200).expect("what is written is JSON");
            let mut said = replies(&node);
            assert!(!said.is_empty(), "an answer says something");
            if crate::PLANTED && said.len() == 2 {
                said.pop();
            }
            written.extend(said.into_iter().map(|reply| Said::of(reply, &frame)));
            frame.clear();
        }
        // The null that answers a cancel may have the id of a request, too. Other results come first, so
        // that it does not take the place of that request's.
        written.sort_by_key(|said| said.is_null);
        let mut automatic = Vec::new();
        for said in written {
            automatic.extend(self.match_up(said));
        }
        if self.failed {
            return;
        }
        assert!(self.given.is_empty(), "never sent: {:?}", self.given);
        for code in &self.announced {
            let place = automatic.iter().position(|other| other == code);
            automatic.swap_remove(place.expect("what is announced is sent"));
        }
        // Two kinds are answered without an event: a request that its own batch cancels, and in a
        // message that was left half way the requests that were opened and what is over a limit.
        let cancelled = cancel_code(self.conn.config());
        let is_quiet = |code: &i64| *code == cancelled || self.ways & 8 == 8;
        assert!(
            automatic.iter().all(is_quiet),
            "{automatic:?} came unannounced"
        );
    }

    /// Takes an answer off those given. If it is none of them, the connection made it itself: then this
    /// gives its code, or `None` for a null.
    fn match_up(&mut self, said: Said) -> Option<i64> {
        let Said { id, code, is_null } = said;
        // A peer that counts braces gets those of an id escaped, too.
        let plain = |id: &str| match self.conn.config().dialect.escape_braces {
            true => id.replace("\\u007b", "{").replace("\\u007d", "}"),
            false => id.into(),
        };
        let is_it =
            |given: &(String, Option<i64>)| plain(&given.0) == plain(&id) && given.1 == code;
        if let Some(place) = self.given.iter().position(is_it) {
            self.given.swap_remove(place);
            return None;
        }
        // A null of the connection's own answers a cancel that has an id, or is an acknowledgement of 1.0.
        assert!(code.is_some() || is_null, "nobody gave the answer to {id}");
        code
    }
}

/// An answer that was written.
struct Said {
    id: String,
    /// None for a result.
    code: Option<i64>,
    /// Whether the result is null.
    is_null: bool,
}

impl Said {
    fn of(reply: &Node, frame: &[u8]) -> Self {
        let error = reply
            .member("error")
            .filter(|error| !matches!(error.kind, Kind::Null));
        let code = error.map(|error| {
            let code = error.member("code").expect("an error has a code");
            text(code, frame).parse().expect("a code is a number")
        });
        let result = reply.member("result").map(|result| text(result, frame));
        assert!(
            code.is_some() || result.is_some(),
            "it is a result or an error"
        );
        Self {
            id: reply.member("id").map_or("", |id| text(id, frame)).into(),
            code,
            is_null: result == Some("null"),
        }
    }
}

fn cancel_code(config: &Config) -> i64 {
    match config.dialect.cancel_answer {
        CancelAnswer::Lsp => codes::LSP_REQUEST_CANCELLED,
        CancelAnswer::RequestCancelled => codes::REQUEST_CANCELLED,
        // Silence answers only a cancel by the peer. Here the handler cancels, which is always answered.
        CancelAnswer::Silent => match config.dialect.error_profile {
            ErrorProfile::Lsp => codes::LSP_REQUEST_CANCELLED,
            ErrorProfile::Mcp => codes::INTERNAL_ERROR,
            _ => codes::REQUEST_CANCELLED,
        },
        other => unreachable!("no answer is known for {other:?}"),
    }
}

fn replies(node: &Node) -> Vec<&Node> {
    match &node.kind {
        Kind::Array(elements) => elements.iter().collect(),
        Kind::Object(_) => vec![node],
        _ => Vec::new(),
    }
}

fn text<'t>(node: &Node, of: &'t [u8]) -> &'t str {
    std::str::from_utf8(node.bytes(of)).expect("the whole is UTF-8")
}
