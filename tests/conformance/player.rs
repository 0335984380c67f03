//! Runs one case in one mode and records all output and events, step by step.
//!
//! After every step all events are polled, the output is taken (unless the case holds it back), and
//! the general invariants are checked: counters, wake-ups, limits on stored input.

use std::collections::BTreeMap;

use antiphon::{
    CallId, Config, Connection, Event, Framing, Input, Instant, OwnedJson, ReplyToken, RequestKey,
    ResponseRef, UnmatchedKind,
};

use super::case::{Action, Case, Piece, Step};
use antiphon_test_support::random::Random;

use super::render::{self, Shown};

/// How the input of a case arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feed {
    /// Each step in one read.
    Whole,
    /// One byte a read.
    Bytes,
    /// One step in two reads, cut at `at`; the others whole.
    SplitAt { step: usize, at: usize },
    /// Cut anywhere, by this seed.
    Random(u64),
    /// As messages that the transport keeps apart.
    Messages,
}

/// What one step led to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) events: Vec<Shown>,
    pub(crate) frames: Vec<String>,
    pub(crate) raw: Vec<u8>,
    pub(crate) states: Vec<String>,
}

/// A request that was delivered, and its token while it can be answered.
pub(crate) struct Open {
    pub(crate) id: String,
    pub(crate) key: RequestKey,
    pub(crate) token: Option<ReplyToken>,
    pub(crate) params: Option<OwnedJson>,
}

pub(crate) struct Player {
    pub(crate) conn: Connection<u64>,
    pub(crate) framing: Framing,
    pub(crate) requests: Vec<Open>,
    /// Every call ever made, by number.
    pub(crate) calls: BTreeMap<u64, CallId>,
    /// The tags of the calls that are open.
    pub(crate) tags: BTreeMap<u64, u64>,
    pub(crate) next_tag: u64,
    pub(crate) is_held: bool,
    pub(crate) now: u64,
    /// Received, and not yet consumed by the connection.
    pending: Vec<u8>,
    /// Written, and not yet a whole frame.
    written: Vec<u8>,
    pub(crate) observed: Observed,
    random: Random,
}

/// Plays `case` under `config`. An error is a broken invariant, not a missed expectation.
pub(crate) fn play(case: &Case, config: Config, feed: Feed) -> Result<Vec<Observed>, String> {
    let mut player = Player {
        conn: Connection::new(config),
        framing: config.framing,
        requests: Vec::new(),
        calls: BTreeMap::new(),
        tags: BTreeMap::new(),
        // A call's tag is never its own number, which counts from 1.
        next_tag: 1000,
        is_held: false,
        now: 0,
        pending: Vec::new(),
        written: Vec::new(),
        observed: Observed::default(),
        random: Random::new(match feed {
            Feed::Random(seed) => seed,
            _ => 0,
        }),
    };
    let mut all = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        player
            .step(index, step, feed)
            .map_err(|error| format!("line {}: {error}", step.line))?;
        all.push(std::mem::take(&mut player.observed));
    }
    Ok(all)
}

/// A message as it stands in a stream.
pub(crate) fn framed(body: &[u8], framing: Framing) -> Vec<u8> {
    let mut out = Vec::new();
    if framing == Framing::ContentLength {
        out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    }
    out.extend_from_slice(body);
    let ends_itself = matches!(body.last(), Some(b'}' | b']' | b'"'));
    match framing {
        Framing::Newline | Framing::Detect => out.push(b'\n'),
        Framing::Concatenated if !ends_itself => out.push(b'\n'),
        _ => {}
    }
    out
}

impl Player {
    fn step(&mut self, index: usize, step: &Step, feed: Feed) -> Result<(), String> {
        match &step.action {
            Action::Command(words) => self.command(words)?,
            Action::Input(pieces) => self.input(index, pieces, feed)?,
        }
        if !self.is_held {
            self.write(usize::MAX);
        }
        self.deframe()?;
        self.check()?;
        for (name, _) in &step.expected.states {
            let state = self.state(name)?;
            self.observed.states.push(state);
        }
        Ok(())
    }

    fn input(&mut self, index: usize, pieces: &[Piece], feed: Feed) -> Result<(), String> {
        if feed == Feed::Messages || self.framing == Framing::Messages {
            for piece in pieces {
                let (Piece::Body(message) | Piece::Raw(message)) = piece;
                self.poll(&mut Input::message(message))?;
            }
            return Ok(());
        }
        let mut bytes = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Body(body) => bytes.extend_from_slice(&framed(body, self.framing)),
                Piece::Raw(raw) => bytes.extend_from_slice(raw),
            }
        }
        let mut from = 0;
        while from < bytes.len() {
            let left = bytes.len() - from;
            let size = match feed {
                Feed::Bytes => 1,
                Feed::SplitAt { step, at } if step == index && from == 0 => at.clamp(1, left),
                Feed::Random(_) => self.random_size(left),
                _ => left,
            };
            self.receive(&bytes[from..from + size])?;
            from += size;
        }
        Ok(())
    }

    /// A size from 1 to a limit. The limit is drawn for each read, a power of two from 1 to 2,048, but at
    /// least a fortieth of what is left. So both short and long reads are common.
    fn random_size(&mut self, left: usize) -> usize {
        let most = (1 << self.random.below(12)).max(left / 40).min(left);
        self.random.size(1, most)
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.pending.extend_from_slice(bytes);
        self.drain_input()?;
        let most = self.conn.config().max_input_bytes();
        if self.pending.len() > most {
            return Err(format!(
                "{} bytes were left unconsumed, over {most}",
                self.pending.len()
            ));
        }
        Ok(())
    }

    /// Polls until there is nothing more to say.
    pub(crate) fn drain_input(&mut self) -> Result<(), String> {
        let pending = std::mem::take(&mut self.pending);
        let mut input = Input::stream(&pending);
        self.poll(&mut input)?;
        let consumed = input.consumed();
        self.pending = pending;
        self.pending.drain(..consumed);
        Ok(())
    }

    pub(crate) fn poll(&mut self, input: &mut Input<'_>) -> Result<(), String> {
        for _ in 0..200_000 {
            let Some(event) = self.conn.poll_event(input) else {
                return Ok(());
            };
            let mut shown = self.note(event)?;
            shown.keep_to_one_line();
            self.observed.events.push(shown);
        }
        Err(String::from("poll_event never comes to an end"))
    }

    /// Keeps what an event hands over, and returns the line that shows it.
    fn note(&mut self, event: Event<'_, u64>) -> Result<Shown, String> {
        Ok(match event {
            Event::Request(request) => {
                let line = format!(
                    "request {}{} id {}{}",
                    render::method(&request.method),
                    render::params(request.params),
                    request.id,
                    render::place(request.origin)
                );
                self.requests.push(Open {
                    id: request.id.to_string(),
                    key: request.token.key(),
                    token: Some(request.token),
                    params: request.params.map(|params| params.to_owned_json()),
                });
                line.into()
            }
            Event::Notification(notification) => format!(
                "notification {}{}{}",
                render::method(&notification.method),
                render::params(notification.params),
                render::place(notification.origin)
            )
            .into(),
            Event::Response(response) => {
                self.settle(&response)?;
                let place = response.origin.map_or(String::new(), render::place);
                let outcome = render::outcome(&response.outcome);
                format!("response {} {outcome}{place}", response.call.number()).into()
            }
            Event::Cancelled(cancelled) => {
                let open = self.requests.iter_mut().find(|r| r.key == cancelled.key);
                let id = open.as_ref().map_or("?", |open| open.id.as_str());
                let owed = if cancelled.answer_owed {
                    "owed"
                } else {
                    "dead"
                };
                let reason = cancelled.reason.map_or(String::new(), |reason| {
                    format!(" reason {}", reason.as_str())
                });
                let line = format!("cancelled {id} {owed}{reason}");
                if let Some(open) = open.filter(|_| !cancelled.answer_owed) {
                    open.token = None;
                }
                line.into()
            }
            Event::Malformed(malformed) => {
                let cause = render::malformed(malformed.cause);
                let id = malformed.id.map_or(String::new(), |id| format!(" id {id}"));
                let answered = render::answered(malformed.answered);
                let place = render::place(malformed.origin);
                Shown {
                    line: format!("malformed {cause}{id}{answered}{place}"),
                    with_offset: Some(format!(
                        "malformed {cause} at {}{id}{answered}{place}",
                        malformed.offset
                    )),
                }
            }
            Event::Refused(refused) => {
                let method = refused.method.map_or(String::new(), |method| {
                    format!(" {}", render::method(&method))
                });
                let id = refused.id.map_or(String::new(), |id| format!(" id {id}"));
                let answered = render::answered(refused.answered);
                let place = render::place(refused.origin);
                let tail = format!("{method}{id}{answered}{place}");
                let (cause, size) = render::refused(refused.cause);
                Shown {
                    line: format!("refused {cause}{tail}"),
                    with_offset: size.map(|size| format!("refused {cause} {size}{tail}")),
                }
            }
            Event::UnmatchedResponse(unmatched) => {
                let (kind, outcome) = match &unmatched.kind {
                    UnmatchedKind::Late(outcome) => ("late", Some(outcome)),
                    UnmatchedKind::Cancelled(outcome) => ("cancelled", Some(outcome)),
                    UnmatchedKind::Unknown(outcome) => ("unknown", Some(outcome)),
                    UnmatchedKind::NullId(outcome) => ("null-id", Some(outcome)),
                    UnmatchedKind::Cancel => ("cancel", None),
                    _ => return Err(String::from("an unmatched response of no known kind")),
                };
                let id = unmatched.id.map_or(String::new(), |id| format!(" id {id}"));
                let outcome = outcome.map_or(String::new(), |o| format!(" {}", render::outcome(o)));
                format!(
                    "unmatched {kind}{id}{outcome}{}",
                    render::place(unmatched.origin)
                )
                .into()
            }
            Event::Closed(closed) => render::closed(closed),
            _ => return Err(String::from("an event of no known kind")),
        })
    }

    /// Every call settles once, with the tag it was made with.
    fn settle(&mut self, response: &ResponseRef<'_, u64>) -> Result<(), String> {
        let number = response.call.number();
        match self.tags.remove(&number) {
            Some(tag) if tag == response.tag => Ok(()),
            Some(_) => Err(format!("call {number} settled with another's tag")),
            None => Err(format!("call {number} settled and was not open")),
        }
    }

    /// Takes up to `most` bytes of output.
    pub(crate) fn write(&mut self, mut most: usize) {
        while most > 0 {
            let Some(shown) = self.conn.poll_transmit() else {
                return;
            };
            let taken = shown.len().min(most);
            self.observed.raw.extend_from_slice(&shown[..taken]);
            if self.framing == Framing::Messages {
                // One message is shown at a time; it is taken whole.
                let text = String::from_utf8_lossy(shown).into_owned();
                self.observed.frames.push(text);
                let all = shown.len();
                self.conn.consume_transmit(all);
            } else {
                self.written.extend_from_slice(&shown[..taken]);
                self.conn.consume_transmit(taken);
            }
            most -= taken;
        }
    }

    /// Cuts what was written into frames, and holds it to its framing byte by byte.
    fn deframe(&mut self) -> Result<(), String> {
        loop {
            let is_headed = match self.framing {
                // Written as what was detected.
                Framing::Detect => self.written.starts_with(b"Content-Length"),
                framing => framing == Framing::ContentLength,
            };
            let (body, end) = match is_headed {
                true => {
                    let Some(blank) = self.written.windows(4).position(|w| w == b"\r\n\r\n") else {
                        return Ok(());
                    };
                    let head = String::from_utf8_lossy(&self.written[..blank]).into_owned();
                    let length: usize = head
                        .strip_prefix("Content-Length: ")
                        .and_then(|length| length.parse().ok())
                        .filter(|length: &usize| head.ends_with(&format!(" {length}")))
                        .ok_or_else(|| format!("a header of another form was written: {head}"))?;
                    let start = blank + 4;
                    if self.written.len() < start + length {
                        return Ok(());
                    }
                    (start..start + length, start + length)
                }
                false => match self.written.iter().position(|&byte| byte == b'\n') {
                    Some(at) => (0..at, at + 1),
                    None => return Ok(()),
                },
            };
            let text = String::from_utf8(self.written[body].to_vec())
                .map_err(|_| String::from("what was written is not UTF-8"))?;
            if text.contains('\n') || text.contains('\r') {
                return Err(format!(
                    "a message with a raw line break was written: {text}"
                ));
            }
            self.observed.frames.push(text);
            self.written.drain(..end);
        }
    }

    /// What holds after every step, whatever the script says.
    fn check(&self) -> Result<(), String> {
        let conn = &self.conn;
        if conn.calls_open() != self.tags.len() {
            let (says, knows) = (conn.calls_open(), self.tags.len());
            return Err(format!("calls_open is {says} and {knows} are open"));
        }
        let open = self.requests.iter().filter(|r| r.token.is_some()).count();
        if conn.requests_open() != open {
            let says = conn.requests_open();
            return Err(format!("requests_open is {says} and {open} are open"));
        }
        if conn.transmit_done() > conn.transmit_queued() {
            return Err(String::from("more was taken than queued"));
        }
        match conn.poll_timeout() {
            Some(at) if at <= Instant::from_millis(self.now) => Err(format!(
                "the next wake-up, {} ns, is not in the future",
                at.as_nanos()
            )),
            _ => Ok(()),
        }
    }

    fn state(&self, name: &str) -> Result<String, String> {
        let conn = &self.conn;
        let yes = |is| String::from(if is { "yes" } else { "no" });
        Ok(match name {
            "calls_open" => conn.calls_open().to_string(),
            "requests_open" => conn.requests_open().to_string(),
            "is_closed" => yes(conn.is_closed()),
            "wants_input" => yes(conn.wants_input()),
            "unmatched" => conn.unmatched_responses().to_string(),
            "malformed" => conn.malformed().to_string(),
            "waiting" => (conn.transmit_queued() - conn.transmit_done()).to_string(),
            "unread" => self.pending.len().to_string(),
            "timeout" => match conn.poll_timeout() {
                Some(at) if at.as_nanos() % 1_000_000 == 0 => {
                    (at.as_nanos() / 1_000_000).to_string()
                }
                Some(at) => format!("{}ns", at.as_nanos()),
                None => String::from("never"),
            },
            _ => return Err(format!("no such getter: {name}")),
        })
    }
}
