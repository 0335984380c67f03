//! The `=` lines: the commands of the caller.
//!
//! A command that is refused appears as an event line `error …`, and must change nothing: the same
//! bytes are queued, the same calls and requests are open.

use antiphon::{CloseReason, ErrorObject, Id, Input, Instant, Json, ReplyToken, SendError};

use super::player::Player;

/// Reads the words of one command from left to right.
struct Words<'w> {
    words: std::slice::Iter<'w, String>,
}

impl<'w> Words<'w> {
    fn next(&mut self) -> Option<&'w str> {
        self.words.next().map(String::as_str)
    }

    fn want(&mut self, what: &str) -> Result<&'w str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    fn number(&mut self) -> Result<u64, String> {
        let word = self.want("a number")?;
        word.parse().map_err(|_| format!("no number: {word}"))
    }

    fn json(&mut self) -> Result<Option<Json<'w>>, String> {
        self.next().map(json).transpose()
    }

    /// Takes the next word if it is this one.
    fn takes(&mut self, word: &str) -> bool {
        let is_next = self
            .words
            .as_slice()
            .first()
            .is_some_and(|next| next == word);
        if is_next {
            self.words.next();
        }
        is_next
    }

    /// Takes the next word as JSON; `None` if there is none, or if it is a keyword of the commands.
    fn params(&mut self) -> Result<Option<Json<'w>>, String> {
        let next = self.words.as_slice().first().map(String::as_str);
        match next {
            None | Some("call" | "notify" | "deadline" | "id") => Ok(None),
            Some(_) => self.json(),
        }
    }
}

fn json(word: &str) -> Result<Json<'_>, String> {
    Json::parse_str(word).map_err(|_| format!("no JSON: {word}"))
}

/// The text that a word stands for: itself, or what it says as a JSON string.
fn text(word: &str) -> Result<String, String> {
    if word.starts_with('"') {
        serde_json::from_str(word).map_err(|_| format!("no string: {word}"))
    } else {
        Ok(word.to_owned())
    }
}

fn words(error: &SendError) -> String {
    match error {
        SendError::Encode(_) => String::from("Encode"),
        other => format!("{other:?}"),
    }
}

impl Player {
    pub(crate) fn command(&mut self, line: &[String]) -> Result<(), String> {
        let mut words = Words { words: line.iter() };
        match words.want("a command")? {
            "call" => self.call(&mut words)?,
            "calls" => {
                for _ in 0..words.number()? {
                    self.next_tag += 1;
                    let made = self.conn.call("m", (), None, self.next_tag);
                    let call = made.map_err(|rejected| rejected.to_string())?;
                    self.calls.insert(call.number(), call);
                    self.tags.insert(call.number(), self.next_tag);
                }
            }
            "notify" => {
                let method = text(words.want("a method")?)?;
                let params = words.params()?;
                self.guard(|player| player.conn.notify(&method, params))?;
            }
            "batch" => self.batch(&mut words)?,
            "cancel" => {
                let number = words.number()?;
                let call = *self.calls.get(&number).ok_or("no such call")?;
                match self.conn.cancel(call) {
                    Some(tag) if self.tags.remove(&number) == Some(tag) => {}
                    Some(_) => return Err(String::from("another call's tag came back")),
                    None => self.refuse(&SendError::NotOpen),
                }
            }
            "ask_cancel" => {
                let number = words.number()?;
                let call = *self.calls.get(&number).ok_or("no such call")?;
                let reason = words.next().map(text).transpose()?;
                self.guard(|player| player.conn.ask_cancel_because(call, reason.as_deref()))?;
            }
            "deadline" => {
                let number = words.number()?;
                let call = *self.calls.get(&number).ok_or("no such call")?;
                let at = match words.takes("never") {
                    true => None,
                    false => Some(Instant::from_millis(words.number()?)),
                };
                self.guard(|player| player.conn.set_deadline(call, at))?;
            }
            "respond" => {
                let (index, token) = self.take_token(&mut words)?;
                let result = words.json()?;
                self.answer(index, token, |conn, token| conn.respond(token, result))?;
            }
            "respond_params" => {
                let (index, token) = self.take_token(&mut words)?;
                let params = self.requests.get(index).and_then(|r| r.params.clone());
                let params = params.as_ref().map(|params| params.as_json());
                self.answer(index, token, |conn, token| conn.respond(token, params))?;
            }
            "respond_err" => {
                let (index, token) = self.take_token(&mut words)?;
                let code = words.want("a code")?.parse().map_err(|_| "no code")?;
                let message = text(words.want("a message")?)?;
                let mut error = ErrorObject::new(code, message);
                if let Some(data) = words.json()? {
                    error = error.with_data(data);
                }
                self.answer(index, token, |conn, token| conn.respond_err(token, &error))?;
            }
            "respond_code" => {
                let (index, token) = self.take_token(&mut words)?;
                let code = words.want("a code")?.parse().map_err(|_| "no code")?;
                let error = ErrorObject::of(code);
                self.answer(index, token, |conn, token| conn.respond_err(token, &error))?;
            }
            "respond_unknown" => {
                let (index, token) = self.take_token(&mut words)?;
                let method = text(words.want("a method")?)?;
                self.answer(index, token, |conn, token| {
                    conn.respond_unknown_method(token, &method)
                })?;
            }
            "respond_cancelled" => {
                let (index, token) = self.take_token(&mut words)?;
                self.answer(index, token, |conn, token| conn.respond_cancelled(token))?;
            }
            "close" => {
                let reason = match words.next() {
                    None | Some("Done") => CloseReason::Done,
                    Some("GoingAway") => CloseReason::GoingAway,
                    Some("PeerMisbehaved") => CloseReason::PeerMisbehaved,
                    Some("TransportFailed") => CloseReason::TransportFailed,
                    Some(_) => CloseReason::Other("as asked"),
                };
                self.conn.close(reason);
            }
            "drain" => self.conn.drain(),
            "eof" => self.conn.handle_eof(),
            "time" => {
                self.now = self.now.max(words.number()?);
                self.conn.handle_timeout(Instant::from_millis(self.now));
            }
            "time_back" => {
                // The connection is told an earlier time; the latest one holds.
                let earlier = words.number()?;
                self.conn.handle_timeout(Instant::from_millis(earlier));
            }
            "time_unpolled" => {
                // The next step's input is polled under the new time, and nothing before it.
                let now = words.number()?;
                self.conn.handle_timeout(Instant::from_millis(now));
                return Ok(());
            }
            "oversize" => {
                let mut input = Input::oversize(words.number()?);
                return self.poll(&mut input);
            }
            "fail" => self.conn.fail_transmit(),
            "hold" => self.is_held = true,
            "release" => self.is_held = false,
            "write" => {
                let most = words.number()? as usize;
                self.write(most);
            }
            other => return Err(format!("no such command: {other}")),
        }
        match words.next() {
            Some(word) => Err(format!("one word too many: {word}")),
            None => self.drain_input(),
        }
    }

    fn call(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let method = text(words.want("a method")?)?;
        let params = words.params()?;
        let deadline = match words.takes("deadline") {
            true => Some(Instant::from_millis(words.number()?)),
            false => None,
        };
        let id = match words.takes("id") {
            true => Some(Id::new(json(words.want("an id")?)?).ok_or("that is no id")?),
            false => None,
        };
        self.next_tag += 1;
        let tag = self.next_tag;
        let mut made = None;
        self.guard(|player| {
            let sent = match id {
                Some(id) => player.conn.call_with_id(id, &method, params, deadline, tag),
                None => player.conn.call(&method, params, deadline, tag),
            };
            match sent {
                Ok(call) => {
                    made = Some(call);
                    Ok(())
                }
                Err(rejected) if rejected.value == tag => Err(rejected.error),
                Err(_) => panic!("another tag came back"),
            }
        })?;
        if let Some(call) = made {
            self.calls.insert(call.number(), call);
            self.tags.insert(call.number(), tag);
        }
        Ok(())
    }

    /// `batch [deadline MS] (call METHOD [PARAMS] | notify METHOD [PARAMS])…`. The first entry
    /// that is refused ends the command, and nothing is sent.
    fn batch(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let deadline = match words.takes("deadline") {
            true => Some(Instant::from_millis(words.number()?)),
            false => None,
        };
        let mut entries = Vec::new();
        while let Some(kind) = words.next() {
            let method = text(words.want("a method")?)?;
            let params = words.params()?;
            entries.push((kind, method, params));
        }
        let mut made = Vec::new();
        let mut tag = self.next_tag;
        self.guard(|player| {
            let mut batch = player.conn.batch(deadline);
            for (kind, method, params) in &entries {
                if *kind == "notify" {
                    batch.notify(method, *params)?;
                } else {
                    tag += 1;
                    let handle = batch.call::<()>(method, *params, tag)?;
                    made.push((handle.call(), tag));
                }
            }
            batch.send().inspect_err(|_| made.clear())
        })?;
        self.next_tag = tag;
        for (call, tag) in made {
            if self.conn.calls_open() > 0 && !self.was_refused() {
                self.calls.insert(call.number(), call);
                self.tags.insert(call.number(), tag);
            }
        }
        Ok(())
    }

    fn was_refused(&self) -> bool {
        let last = self.observed.events.last();
        last.is_some_and(|shown| shown.line.starts_with("error "))
    }

    /// The oldest request with this id that can still be answered: its index and its token.
    /// There is no token if there is no such request.
    fn take_token(&mut self, words: &mut Words<'_>) -> Result<(usize, Option<ReplyToken>), String> {
        let id = words.want("an id")?;
        let index = self
            .requests
            .iter()
            .position(|open| open.id == id && open.token.is_some());
        Ok(match index {
            Some(index) => (index, self.requests[index].token.take()),
            None => (usize::MAX, None),
        })
    }

    fn answer(
        &mut self,
        index: usize,
        token: Option<ReplyToken>,
        send: impl FnOnce(
            &mut antiphon::Connection<u64>,
            ReplyToken,
        ) -> Result<(), antiphon::Rejected<ReplyToken>>,
    ) -> Result<(), String> {
        let Some(token) = token else {
            // The token was used up by the first answer, so the types allow no second one.
            self.observed
                .events
                .push(String::from("error no-token").into());
            return Ok(());
        };
        let mut back = None;
        self.guard(|player| {
            send(&mut player.conn, token).map_err(|rejected| {
                back = Some(rejected.value);
                rejected.error
            })
        })?;
        self.requests[index].token = back;
        Ok(())
    }

    /// Carries a command out; if it is refused, checks that nothing has changed.
    fn guard(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<(), SendError>,
    ) -> Result<(), String> {
        let before = self.traces();
        if let Err(error) = run(self) {
            if self.traces() != before {
                return Err(format!("a refused command left a trace: {error:?}"));
            }
            self.refuse(&error);
        }
        Ok(())
    }

    fn traces(&self) -> (u64, u64, usize, usize, Vec<u8>) {
        let conn = &self.conn;
        (
            conn.transmit_queued(),
            conn.transmit_done(),
            conn.calls_open(),
            conn.requests_open(),
            conn.poll_transmit().unwrap_or_default().to_vec(),
        )
    }

    fn refuse(&mut self, error: &SendError) {
        let line = format!("error {}", words(error));
        self.observed.events.push(line.into());
    }
}
