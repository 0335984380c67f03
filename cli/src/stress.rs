//! Many connections with many requests at once, and every answer checked: `--stress`.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::Json;
use serde::Serialize;

use crate::answer::{Heard, read, same_id};
use crate::cases::NO_METHOD;
use crate::catalogue::Level::Must;
use crate::link::{Link, Next, Place, Step};
use crate::run::{QUIET, Run};

/// Connections; processes of a command; requests at once over a connection, and over HTTP, where each has its own.
const CONNECTIONS: usize = 16;
const PROCESSES: usize = 4;
const BURST: usize = 64;
const HTTP_BURST: usize = 4;

/// What was done.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Counts {
    connections: usize,
    requests: usize,
    answers: usize,
    /// Answers with another error than that for an unknown method.
    refused: usize,
    slowest_ms: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            connections,
            requests,
            answers,
            refused,
            slowest_ms,
        } = self;
        write!(
            f,
            "{requests} requests over {connections} connections, {answers} answers, {refused} refused, the slowest after {slowest_ms} ms"
        )
    }
}

/// What is wrong: the check, how, the requests that were sent at once, and all that was received for them.
type Wrong = (&'static str, String, Vec<Vec<u8>>, Vec<u8>);

/// Requests for so long. They ask for a method that does not exist, or for the first of these that gives back its params.
pub(crate) fn run(run: &mut Run<'_>, methods: &[String], time: Duration) -> Counts {
    let echo = methods.iter().find(|method| is_echo(run, method));
    let wanted = if run.place.is_command() {
        PROCESSES
    } else {
        CONNECTIONS
    };
    let worker = |number| Worker {
        place: run.place,
        number,
        method: echo.map_or(NO_METHOD, String::as_str),
        is_echo: echo.is_some(),
        unknown: run.rules.unknown,
        counts: Counts::default(),
        wrong: None,
    };
    let stop = AtomicBool::new(false);
    let end = Instant::now() + time;
    let done: Vec<Worker<'_>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..wanted)
            .map(|number| {
                let (mut worker, stop) = (worker(number), &stop);
                scope.spawn(move || {
                    worker.work(end, stop);
                    worker
                })
            })
            .collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    });
    let mut all = Counts::default();
    for worker in &done {
        let counts = &worker.counts;
        all.connections += counts.connections;
        all.requests += counts.requests;
        all.answers += counts.answers;
        all.refused += counts.refused;
        all.slowest_ms = all.slowest_ms.max(counts.slowest_ms);
    }
    for check in ["stress.answered", "stress.once", "stress.own-answer"] {
        run.ran.insert(check, 1);
    }
    if all.connections == 0 {
        run.stopped = Some("no connection for --stress could be made".to_owned());
    }
    for (check, what, burst, received) in done.into_iter().filter_map(|worker| worker.wrong) {
        let at_once = match run.place.is_http() {
            true => burst.iter().cloned().map(Step::Message).collect(),
            false => vec![Step::Bytes(run.place.on_wires(&burst))],
        };
        let steps: Vec<Step> = burst.into_iter().map(Step::Message).collect();
        run.add(check, Must, &what, &steps, &received);
        let finding = run.findings.last_mut();
        if let Some(finding) =
            finding.filter(|finding| finding.check == check && finding.cases == 1)
        {
            // It may show only beside others.
            let command = run.place.command(&at_once);
            finding.command = format!("for n in $(seq {wanted}); do ( {command} ) & done; wait");
        }
    }
    all
}

/// Whether a method gives back its params.
fn is_echo(run: &Run<'_>, method: &str) -> bool {
    let params = r#"["antiphon-stress",""]"#;
    let request = request(method, params, "1");
    let Ok(mut link) = run.place.open() else {
        return false;
    };
    let _ = link.send(request.as_bytes());
    let deadline = Instant::now() + run.pace;
    while let Next::Message(message) = link.next(deadline) {
        if is_result(&message.body, "antiphon-stress", "") {
            return true;
        }
    }
    false
}

fn request(method: &str, params: &str, id: &str) -> String {
    let method = serde_json::to_string(method).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params},"id":{id}}}"#)
}

/// Whether the result is an array of these two strings.
fn is_result(body: &[u8], first: &str, second: &str) -> bool {
    let json = Json::parse(body.trim_ascii()).ok();
    let result = json.and_then(|json| json.get("result"));
    let strings: Vec<_> = result
        .into_iter()
        .flat_map(Json::elements)
        .filter_map(Json::as_string)
        .collect();
    matches!(strings[..], [one, two] if one.eq_str(first) && two.eq_str(second))
}

struct Worker<'a> {
    place: &'a Place,
    number: usize,
    method: &'a str,
    is_echo: bool,
    unknown: Option<i64>,
    counts: Counts,
    wrong: Option<Wrong>,
}

/// A request that is not answered yet: its id and its params.
struct Open {
    id: String,
    token: String,
    filler: String,
}

impl Worker<'_> {
    fn work(&mut self, end: Instant, stop: &AtomicBool) {
        let Ok(mut link) = self.place.open() else {
            return;
        };
        self.counts.connections = 1;
        let mut before = Vec::new();
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            before = self.burst(&mut link, &before);
            if self.wrong.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Sends requests at once, and waits for all answers. Returns their ids.
    fn burst(&mut self, link: &mut Link, before: &[String]) -> Vec<String> {
        let count = if self.place.is_http() {
            HTTP_BURST
        } else {
            BURST
        };
        let mut open: Vec<Open> = (0..count).map(|_| self.next()).collect();
        let ids: Vec<String> = open.iter().map(|one| one.id.clone()).collect();
        let messages: Vec<Vec<u8>> = open
            .iter()
            .map(|one| {
                let params = format!(r#"["{}","{}"]"#, one.token, one.filler);
                request(self.method, &params, &one.id).into_bytes()
            })
            .collect();
        let sent = if self.place.is_http() {
            messages.iter().try_for_each(|message| link.send(message))
        } else {
            link.step(&Step::Bytes(self.place.on_wires(&messages)))
        };
        let begin = Instant::now();
        let mut received = Vec::new();
        let mut found = sent.err().map(|error| {
            (
                "stress.answered",
                format!("requests cannot be sent any more: {error}"),
            )
        });
        while found.is_none() {
            // A slow answer is no lost one: each has the whole time.
            let wait = if open.is_empty() {
                QUIET
            } else {
                self.place.dialler.timeout
            };
            let message = match link.next(Instant::now() + wait) {
                Next::Message(message) => message,
                _ if open.is_empty() => break,
                Next::Ended => {
                    found = Some((
                        "stress.answered",
                        format!(
                            "the server ends, and {} of {count} requests are not answered",
                            open.len()
                        ),
                    ));
                    break;
                }
                Next::Nothing => {
                    found = Some((
                        "stress.answered",
                        format!("{} of {count} requests are not answered", open.len()),
                    ));
                    break;
                }
            };
            received.extend_from_slice(&message.body);
            received.push(b'\n');
            found = self.answer(&message.body, &mut open, &ids, before);
            if open.is_empty() {
                let took = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
                self.counts.slowest_ms = self.counts.slowest_ms.max(took);
            }
            if open.is_empty() && self.place.is_http() {
                break;
            }
        }
        self.wrong = found.map(|(check, what)| (check, what, messages, received));
        ids
    }

    /// The next request; its id is a number or a string.
    fn next(&mut self) -> Open {
        let n = self.counts.requests;
        self.counts.requests += 1;
        let token = format!("antiphon-{}-{n}", self.number);
        Open {
            id: match n % 2 {
                0 => n.to_string(),
                _ => format!("\"{token}\""),
            },
            filler: "x".repeat(n % 50),
            token,
        }
    }

    /// Takes an answer, and says what is wrong with it.
    fn answer(
        &mut self,
        body: &[u8],
        open: &mut Vec<Open>,
        ids: &[String],
        before: &[String],
    ) -> Option<(&'static str, String)> {
        let wrong = |what: String| Some(("stress.own-answer", what));
        let answer = match read(body) {
            Heard::Call => return None,
            Heard::One(answer) => answer,
            Heard::Many(_) => return wrong("a request is answered with an array".to_owned()),
            Heard::Scalar(_) | Heard::NotJson => {
                return wrong("what the server writes is no message".to_owned());
            }
        };
        let id = answer.id.unwrap_or_default();
        let Some(at) = open.iter().position(|one| same_id(&one.id, &id)) else {
            let is_done = ids.iter().chain(before).any(|known| same_id(known, &id));
            return match is_done {
                true => Some((
                    "stress.once",
                    format!("the request with the id {id} is answered twice"),
                )),
                false => wrong(format!(
                    "there is an answer with the id {id}, which no request has"
                )),
            };
        };
        let one = open.swap_remove(at);
        self.counts.answers += 1;
        if answer.is_error && (self.is_echo || answer.code != self.unknown) {
            self.counts.refused += 1;
        } else if self.is_echo && !is_result(body, &one.token, &one.filler) {
            return wrong(format!(
                "the request with the id {id} is answered with what another one has sent"
            ));
        }
        None
    }
}
