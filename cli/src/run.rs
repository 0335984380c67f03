//! Runs cases against a server, and keeps what was found.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use antiphon::Framing;

use crate::answer::{Heard, read};
use crate::args::Preset;
use crate::cases::{self, Case, call};
use crate::catalogue::{self, Level};
use crate::judge::{After, Deviation, Rules, judge};
use crate::link::{Link, Next, Place, Step};

/// The id of the request behind each case, as a finding shows it. Those that are sent have a number at the end.
const SENTINEL_ID: &str = "\"antiphon-still-there\"";
/// How long a second answer is waited for.
pub(crate) const QUIET: Duration = Duration::from_millis(15);
/// The least time for a missing answer, once before a finding and once when it is confirmed.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);
pub(crate) const LONG_PATIENCE: Duration = Duration::from_secs(1);

/// A rule that a server breaks.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    pub(crate) what: String,
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Vec<u8>,
    pub(crate) cases: usize,
    pub(crate) command: String,
}

/// What a run has brought.
pub(crate) struct Outcome {
    pub(crate) findings: Vec<Finding>,
    pub(crate) ran: BTreeMap<&'static str, usize>,
    pub(crate) stopped: Option<String>,
}

/// A run over one server.
pub(crate) struct Run<'a> {
    pub(crate) place: &'a Place,
    /// How long an answer is waited for, from what the first one took.
    pub(crate) pace: Duration,
    pub(crate) rules: Rules,
    pub(crate) findings: Vec<Finding>,
    /// How many cases of each check ran.
    pub(crate) ran: BTreeMap<&'static str, usize>,
    /// Why the run ended early.
    pub(crate) stopped: Option<String>,
    /// A connection whose last case was answered rightly, and that case.
    idle: Option<(Link, Case)>,
    sent: usize,
}

/// What one case brought.
pub(crate) struct Played {
    pub(crate) after: After,
    pub(crate) received: Vec<u8>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(place: &'a Place, preset: Preset) -> Self {
        Self {
            place,
            pace: place.dialler.timeout,
            rules: Rules {
                unknown: Some(-32601),
                may_lack_id: preset == Preset::Mcp,
            },
            findings: Vec::new(),
            ran: BTreeMap::new(),
            stopped: None,
            idle: None,
            sent: 0,
        }
    }

    pub(crate) fn outcome(self) -> Outcome {
        Outcome {
            findings: self.findings,
            ran: self.ran,
            stopped: self.stopped,
        }
    }

    /// Runs a case; what is wrong must be wrong twice. Returns whether anything was.
    pub(crate) fn case(&mut self, case: &Case) -> bool {
        let Some((played, found)) = self.probe(case) else {
            return false;
        };
        for deviation in found {
            self.add_case(case, &played, deviation);
        }
        true
    }

    /// What is wrong with the answers to a case, if it is so twice.
    pub(crate) fn probe(&mut self, case: &Case) -> Option<(Played, Vec<Deviation>)> {
        if self.stopped.is_some() {
            return None;
        }
        *self.ran.entry(case.check).or_default() += 1;
        let before = self.idle.as_ref().map(|(_, case)| case.clone());
        let idle = self.idle.take().map(|(link, _)| link);
        let first = self.play(case, idle, self.pace, PATIENCE);
        if let Ok((played, link)) = first {
            let is_open = case.may_end && played.after.is_alive != Some(true);
            if !is_open && judge(case, &played.after, self.rules).is_empty() {
                if !played.after.is_ended && !self.place.is_http() {
                    self.idle = Some((link, case.clone()));
                }
                return None;
            }
        }
        // On a busy machine a new process is slow.
        let pace = (self.pace * 3).min(self.place.dialler.timeout.max(self.pace));
        let (played, _) = match self.play(case, None, pace, LONG_PATIENCE) {
            Ok(played) => played,
            Err(error) => {
                self.gone(case, &error);
                return None;
            }
        };
        if played.after.is_ended || case.may_end && played.after.is_alive != Some(true) {
            self.see_whether_it_lives(case);
        }
        let found = judge(case, &played.after, self.rules);
        if !found.is_empty() {
            return Some((played, found));
        }
        if let Some(before) = before {
            self.late_end(&before);
        }
        None
    }

    /// A case was wrong only behind another one: did that end the connection a little later?
    fn late_end(&mut self, case: &Case) {
        let Ok((mut played, mut link)) = self.play(case, None, self.pace, LONG_PATIENCE) else {
            return;
        };
        played.after.is_ended = loop {
            match link.next(Instant::now() + LONG_PATIENCE) {
                Next::Message(_) => {}
                Next::Ended => break true,
                Next::Nothing => break false,
            }
        };
        if played.after.is_ended {
            played.after.is_alive = Some(false);
            for deviation in judge(case, &played.after, self.rules) {
                self.add_case(case, &played, deviation);
            }
        }
    }

    /// After a case that ended the connection, a new one must be possible; after one that may end it, a request over it too.
    fn see_whether_it_lives(&mut self, case: &Case) {
        let wait = self.place.dialler.timeout;
        let lives = self.place.open().and_then(|mut link| {
            if !case.may_end {
                return Ok(());
            }
            link.send(call(SENTINEL_ID).as_bytes())?;
            match link.next(Instant::now() + wait) {
                Next::Message(_) => Ok(()),
                _ => Err(io::Error::other(
                    "a request over a new connection is not answered",
                )),
            }
        });
        if let Err(error) = lives {
            self.gone(case, &error);
        }
    }

    fn gone(&mut self, case: &Case, error: &io::Error) {
        let what = format!("the server cannot be reached any more: {error}");
        let steps = [Step::Message(case.message.clone())];
        self.add(case.check, Level::Must, &what, &steps, &[]);
        self.stopped = Some(what);
    }

    pub(crate) fn add_case(&mut self, case: &Case, played: &Played, found: Deviation) {
        let mut steps = vec![Step::Message(case.message.clone())];
        // A silence shows only beside an answer.
        if found.is_missing && has_sentinel(self.place, case) {
            steps.push(Step::Message(call(SENTINEL_ID).into_bytes()));
        }
        self.add(
            found.check,
            found.level,
            &found.what,
            &steps,
            &played.received,
        );
    }

    /// Keeps a finding. One with the check, the level and the cause of another is counted with it.
    pub(crate) fn add(
        &mut self,
        check: &'static str,
        level: Level,
        what: &str,
        steps: &[Step],
        received: &[u8],
    ) {
        let known = self.findings.iter_mut().find(|known| {
            known.check == check && known.level == level && cause(&known.what) == cause(what)
        });
        if let Some(known) = known {
            known.cases += 1;
            return;
        }
        self.findings.push(Finding {
            check,
            level,
            what: what.to_owned(),
            sent: self.place.sent(steps),
            received: received.to_vec(),
            cases: 1,
            command: self.place.command(steps),
        });
    }

    /// Sends a case and a request behind it, and listens.
    fn play(
        &mut self,
        case: &Case,
        idle: Option<Link>,
        pace: Duration,
        patience: Duration,
    ) -> io::Result<(Played, Link)> {
        let mut link = match idle {
            Some(link) => link,
            None => self.place.open()?,
        };
        self.sent += 1;
        let sentinel = format!("{}-{}\"", SENTINEL_ID.trim_end_matches('"'), self.sent);
        // A server that closes early may still have answered.
        let _ = link.send(&case.message);
        let mut after = After::default();
        let mut received = Vec::new();
        if self.place.is_http() {
            self.one_reply(&mut link, &mut after, &mut received, pace.max(patience));
            let mut next = self.place.open()?;
            next.send(call(SENTINEL_ID).as_bytes())?;
            let reply = next.next(Instant::now() + pace.max(patience));
            after.is_alive = Some(matches!(reply, Next::Message(_)));
            return Ok((Played { after, received }, link));
        }
        let has_sentinel = has_sentinel(self.place, case);
        if has_sentinel {
            let _ = link.send(call(&sentinel).as_bytes());
            after.is_alive = Some(false);
        }
        let begin = Instant::now();
        let mut deadline = begin
            + if has_sentinel {
                pace
            } else {
                pace.min(patience)
            };
        // A server that never stops to talk is not listened to for ever.
        let end = begin + pace + patience * 2;
        loop {
            match link.next(deadline.min(end)) {
                Next::Message(message) => {
                    match read(&message.body) {
                        Heard::Call => continue,
                        Heard::One(answer) if answer.id.as_deref() == Some(&sentinel) => {
                            after.is_alive = Some(true)
                        }
                        // A second answer of an earlier case.
                        Heard::One(answer) if is_sentinel(answer.id.as_deref()) => continue,
                        _ => {
                            received.extend_from_slice(&message.body);
                            received.push(b'\n');
                            after.messages.push(message);
                        }
                    }
                    if after.is_alive != Some(false) {
                        // Only what is missing can still come.
                        let is_missing = judge(case, &after, self.rules)
                            .iter()
                            .any(|found| found.is_missing);
                        let wait = if is_missing { patience } else { QUIET };
                        deadline = Instant::now() + wait;
                    }
                }
                Next::Ended => {
                    after.is_ended = true;
                    break;
                }
                Next::Nothing => break,
            }
        }
        Ok((Played { after, received }, link))
    }

    fn one_reply(
        &self,
        link: &mut Link,
        after: &mut After,
        received: &mut Vec<u8>,
        wait: Duration,
    ) {
        match link.next(Instant::now() + wait) {
            Next::Message(message) => {
                received.extend_from_slice(&message.body);
                after.messages.push(message);
            }
            Next::Ended => after.is_ended = true,
            Next::Nothing => {}
        }
    }

    /// Asks for a method that does not exist. Its answer says how long answers take, and what this server says then.
    ///
    /// # Errors
    /// The server cannot be reached, ends, or answers nothing at all.
    pub(crate) fn first(&mut self) -> io::Result<()> {
        let case = cases::first();
        let wait = self.place.dialler.timeout;
        let begin = Instant::now();
        let mut link = self.place.open()?;
        link.send(&case.message)?;
        let (mut heard, mut is_ended) = (None, false);
        while heard.is_none() {
            match link.next(begin + wait) {
                Next::Message(message) => match read(&message.body) {
                    Heard::One(answer) => heard = Some(answer),
                    _ if self.place.is_http() => break,
                    _ => {}
                },
                Next::Ended => {
                    is_ended = true;
                    break;
                }
                Next::Nothing => break,
            }
        }
        self.pace = (begin.elapsed() * 3)
            .max(LONG_PATIENCE)
            .min(wait.max(PATIENCE));
        let Some(answer) = heard else {
            // Is it there at all? What is no request is answered by most.
            let other = self.place.open().and_then(|mut link| {
                link.send(b"{}")?;
                Ok(link.next(Instant::now() + wait))
            });
            let is_there = matches!(other, Ok(Next::Message(message)) if !message.body.is_empty());
            if !is_there {
                return Err(silence(&link, is_ended, wait));
            }
            self.case(&case);
            self.stopped = Some(
                "a request for an unknown method is not answered, so other cases show nothing"
                    .to_owned(),
            );
            return Ok(());
        };
        if !self.place.is_http() {
            self.idle = Some((link, case.clone()));
        }
        self.case(&case);
        if !answer
            .id
            .as_deref()
            .is_some_and(|id| crate::answer::same_id(id, "1"))
        {
            self.stopped = Some(
                "answers do not have the id of their request, so other cases show nothing"
                    .to_owned(),
            );
        }
        // An error of the wrong code, or a result, is reported once, and then expected.
        self.rules.unknown = if answer.is_error { answer.code } else { None };
        Ok(())
    }

    /// Runs the cases that one message makes.
    pub(crate) fn cases(&mut self, cases: &[Case], wants: impl Fn(&str) -> bool) {
        let mut has_batches = None;
        // Where values stand back to back, only an object or an array has an end. And a WebSocket has rules of its own
        // for what is no UTF-8. That a length counts bytes is seen by a check of its own.
        let has_end = |case: &&Case| match self.place.framing {
            Framing::Concatenated => antiphon::Json::parse(&case.message).is_ok_and(|json| {
                matches!(
                    json.kind(),
                    antiphon::JsonKind::Object | antiphon::JsonKind::Array
                )
            }),
            Framing::Messages => self.place.is_http() || case.check != "parse.utf8",
            Framing::ContentLength => case.message.is_ascii() || case.check == "parse.utf8",
            _ => true,
        };
        let chosen: Vec<&Case> = cases
            .iter()
            .filter(|case| wants(case.check))
            .filter(has_end)
            .collect();
        for case in chosen {
            if case.check.starts_with("batch.") && case.check != "batch.empty" {
                let first = cases::first_batch();
                let has =
                    *has_batches.get_or_insert_with(|| wants(first.check) && !self.case(&first));
                if !has && wants(first.check) {
                    continue;
                }
            }
            self.case(case);
        }
    }
}

/// The error for a server that answers nothing.
fn silence(link: &Link, is_ended: bool, wait: Duration) -> io::Error {
    let (kind, what) = match is_ended {
        true => (
            io::ErrorKind::ConnectionAborted,
            "it ended without an answer".to_owned(),
        ),
        false => (
            io::ErrorKind::TimedOut,
            format!(
                "the first request was not answered within {} s",
                wait.as_secs_f64()
            ),
        ),
    };
    let said = link.stderr();
    let said = String::from_utf8_lossy(said.trim_ascii());
    let said = if said.is_empty() {
        String::new()
    } else {
        format!("; it says: {said}")
    };
    io::Error::new(kind, what + &said)
}

/// What is left of a text without what differs from case to case: findings with equal rests share a cause.
pub(crate) fn cause(what: &str) -> String {
    let unquoted: String = what.split('"').step_by(2).collect();
    // A code tells causes apart, an id does not.
    let words = unquoted.split(' ').filter(|word| {
        word.starts_with("-32")
            || word.chars().any(char::is_alphabetic)
                && !word.starts_with(|c: char| c.is_ascii_digit() || c == '-')
    });
    words.collect::<Vec<_>>().join(" ")
}

fn is_sentinel(id: Option<&str>) -> bool {
    id.is_some_and(|id| id.starts_with(SENTINEL_ID.trim_end_matches('"')))
}

/// Whether a request can stand behind the case. Where values stand back to back, a scalar has no end.
fn has_sentinel(place: &Place, case: &Case) -> bool {
    let is_open_ended = place.framing == Framing::Concatenated && !case.is_valid;
    !place.is_http() && !is_open_ended
}

/// Whether the end of text that is no JSON cannot be told.
fn is_open_ended(place: &Place) -> bool {
    place.framing == Framing::Concatenated
}

/// Whether a check applies to a place under a preset.
pub(crate) fn applies(check: &catalogue::Check, place: &Place, preset: Preset) -> bool {
    use catalogue::On;
    let here = match check.on {
        On::All | On::Stress => true,
        On::Stream => place.is_stream(),
        On::Http => place.is_http(),
        On::WebSocket => !place.is_stream() && !place.is_http(),
        On::Lsp => preset == Preset::Lsp,
        On::Mcp => preset == Preset::Mcp,
        On::Client => false,
        On::Fuzz => !is_open_ended(place),
        On::Talk => !is_open_ended(place) && !place.is_http(),
    };
    let framing = match check.id {
        "frame.case" | "frame.no-blank" | "frame.bytes" => place.framing == Framing::ContentLength,
        "frame.crlf" => place.framing == Framing::Newline,
        "limit.slow" => !place.is_command(),
        _ => true,
    };
    here && framing && catalogue::is_of(check.id, preset)
}
