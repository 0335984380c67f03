//! The core without a driver, with the same input in the same order.
//!
//! Rule: it uses no code of the adapters, so the two results that are compared are independent.

use std::collections::BTreeMap;

use antiphon::{
    CallId, Config, Connection, Event, Id, Input, Instant, OwnedOutcome, ReplyToken, UnmatchedKind,
};

use super::{Act, Told};

/// What the core said and wrote.
pub(crate) struct Alone {
    conn: Connection<usize>,
    inbox: Vec<u8>,
    tokens: BTreeMap<u64, (ReplyToken, String, String)>,
    calls: BTreeMap<usize, CallId>,
    pub(crate) told: Told,
    pub(crate) outcomes: BTreeMap<usize, OwnedOutcome>,
    pub(crate) output: Vec<u8>,
}

impl Alone {
    pub(crate) fn run(config: Config, acts: &[Act]) -> Self {
        let mut alone = Self {
            conn: Connection::new(config),
            inbox: Vec::new(),
            tokens: BTreeMap::new(),
            calls: BTreeMap::new(),
            told: Told::default(),
            outcomes: BTreeMap::new(),
            output: Vec::new(),
        };
        for act in acts {
            alone.act(act);
            while alone.conn.take_transmit(&mut alone.output) {}
        }
        alone.conn.handle_eof();
        alone.poll();
        while alone.conn.take_transmit(&mut alone.output) {}
        alone
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Call { tag, deadline } => {
                let deadline = deadline.map(Instant::from_millis);
                let call = self.conn.call("ask", &[tag], deadline, *tag);
                self.calls.insert(*tag, call.expect("it was taken before"));
            }
            Act::Notify(tag) => assert_eq!(self.conn.notify("tell", &[tag]), Ok(())),
            Act::Cancel(tag) => drop(self.conn.cancel(self.calls[tag])),
            Act::Read(bytes) => {
                self.inbox.extend(bytes);
                self.poll();
            }
            Act::Clock(now) => {
                self.conn.handle_timeout(Instant::from_millis(*now));
            }
            Act::Answer { serial, how } => self.answer(*serial, *how),
            // A driver tells the end at once if a call waits, else once all that came is served.
            Act::End if self.conn.calls_open() > 0 => self.conn.handle_eof(),
            Act::End => {}
            Act::Turn => self.poll(),
        }
    }

    fn answer(&mut self, serial: u64, how: u8) {
        let (token, method, params) = self.tokens.remove(&serial).expect("it was asked");
        let given = match how % 4 {
            0 => self.conn.respond_unknown_method(token, &method),
            1 => {
                self.conn.abandon(token.key());
                Ok(())
            }
            _ => {
                let params = antiphon::Json::parse_str(&params).expect("it came as JSON");
                self.conn.respond(token, params)
            }
        };
        // It is refused after the end.
        drop(given);
    }

    fn poll(&mut self) {
        let mut input = Input::stream(&self.inbox);
        while let Some(event) = self.conn.poll_event(&mut input) {
            match event {
                Event::Request(request) => {
                    let params = request.params.expect("it has params");
                    let (serial, _): (u64, u8) = params.decode().expect("two numbers");
                    let (method, params) = (request.method.to_string(), params.to_string());
                    self.told.requests.push(format!("{method} {params}"));
                    self.tokens.insert(serial, (request.token, method, params));
                }
                Event::Notification(told) => {
                    let params = told.params.map(|params| params.as_str().to_string());
                    let line = format!("{} {params:?}", told.method);
                    self.told.notifications.push(line);
                }
                Event::Response(response) => {
                    let outcome = response.outcome.into_owned();
                    self.outcomes.insert(response.tag, outcome);
                }
                Event::Malformed(bad) => {
                    self.told
                        .reports
                        .push(format!("{:?} {:?}", bad.cause, bad.text));
                }
                Event::Refused(refused) => {
                    let id = refused.id.map(Id::into_owned);
                    self.told
                        .reports
                        .push(format!("{:?} {id:?}", refused.cause));
                }
                // A session makes no report of the answer to a cancel that was sent.
                Event::UnmatchedResponse(unmatched)
                    if matches!(unmatched.kind, UnmatchedKind::Cancelled(_)) => {}
                Event::UnmatchedResponse(unmatched) => {
                    let kind = match unmatched.kind {
                        UnmatchedKind::Late(_) => "late",
                        UnmatchedKind::Unknown(_) => "unknown",
                        UnmatchedKind::NullId(_) => "null",
                        _ => "cancel",
                    };
                    let id = unmatched.id.map(Id::into_owned);
                    self.told.reports.push(format!("{kind} {id:?}"));
                }
                _ => {}
            }
        }
        let consumed = input.consumed();
        self.inbox.drain(..consumed);
    }
}
