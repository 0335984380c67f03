//! `antiphon conform --client`: plays the server to a client, and judges it by what it sends.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use antiphon::{Framing, Json};

use crate::answer::{Heard, read, same_id};
use crate::args::{Preset, There};
use crate::catalogue::Level::{self, Must, Should};
use crate::fault::{Fault, unreachable};
use crate::host::{Came, Host, Stage};
use crate::link::{Step, framed};
use crate::plays::{self, Act, EXACT, PLAYED_AT, PLAYS, Play, RIGHT, WRONG};
use crate::report::Where;
use crate::run::{Finding, Outcome, cause};
use crate::target::command;

/// So many further calls show that a client goes on.
const GO_ON: usize = 3;
/// The least time for the next call, once before a finding and once when it is confirmed.
const PATIENCE: Duration = Duration::from_secs(1);
const LONG_PATIENCE: Duration = Duration::from_secs(3);
/// How long another call is waited for, to see whether the client makes several at once.
const ANOTHER: Duration = Duration::from_millis(300);
/// The most that is kept of what a client says in one conversation.
const RECEIVED_MAX: usize = 256 * 1024;

/// A call of the client: where it came from, its id, and its params as they were written.
struct Call {
    link: usize,
    id: String,
    params: String,
}

/// What a client does in the right conversation.
struct Habits {
    /// It passes on in its params what it got.
    echoes: bool,
    is_concurrent: bool,
    keeps_connection: bool,
    pace: Duration,
    framing: Framing,
}

/// A conversation as it went.
#[derive(Default)]
struct Talk {
    /// All that the server said from the play on, and what the client said behind it.
    sent: Vec<u8>,
    received: Vec<u8>,
    /// The call of the play and those that were answered before it: their numbers and their params.
    played: Vec<(usize, String)>,
    /// The params of calls that were still held when the play was over.
    held: Vec<String>,
    /// The params of all calls behind it.
    later: Vec<String>,
    /// Messages of the client that are no calls, from the play on.
    said: Vec<Vec<u8>>,
    is_gone: bool,
    opened: usize,
}

/// Runs the checks against the client that the command starts.
pub(crate) fn test(
    listen: &str,
    there: &There,
    wants: &dyn Fn(&str) -> bool,
) -> Result<(Where, Outcome), Fault> {
    if there.command.is_empty() {
        return Err(Fault::Usage(
            "--client needs the command of the client behind --".to_owned(),
        ));
    }
    if there.preset != Preset::Strict {
        return Err(Fault::Usage("--client is for --preset strict".to_owned()));
    }
    let host = Host::new(listen, there)?;
    let name = command(&host.words);
    let habits = habits(&host, there.timeout).map_err(|error| unreachable(&name, &error))?;
    let mut outcome = Outcome {
        findings: Vec::new(),
        ran: BTreeMap::new(),
        stopped: None,
    };
    for play in PLAYS
        .iter()
        .filter(|play| wants(play.check) && fits(play, &host, &habits))
    {
        *outcome.ran.entry(play.check).or_default() += 1;
        let cannot = |error: io::Error| unreachable(&name, &error);
        let talk = converse(&host, play, &habits, PATIENCE).map_err(cannot)?;
        if judge(play, &talk, &habits).is_empty() {
            continue;
        }
        // What is wrong must be wrong twice.
        let talk = converse(&host, play, &habits, LONG_PATIENCE).map_err(cannot)?;
        for (level, what) in judge(play, &talk, &habits) {
            let known = outcome.findings.iter_mut().find(|known: &&mut Finding| {
                known.check == play.check
                    && known.level == level
                    && cause(&known.what) == cause(&what)
            });
            if let Some(known) = known {
                known.cases += 1;
                continue;
            }
            outcome.findings.push(Finding {
                check: play.check,
                level,
                what,
                sent: talk.sent.clone(),
                received: talk.received.clone(),
                cases: 1,
                command: plays::script(play.acts, host.target(), habits.framing, &host.words),
            });
        }
    }
    let there = Where {
        target: name,
        preset: "strict".to_owned(),
        framing: habits.framing,
    };
    Ok((there, outcome))
}

fn fits(play: &Play, host: &Host, habits: &Habits) -> bool {
    let is_http = matches!(host.target(), Some(crate::target::Target::Http(_)));
    match play.over {
        plays::Where::All => true,
        plays::Where::NotHttp => !is_http,
        plays::Where::Separated => habits.framing != Framing::Concatenated,
        plays::Where::Concurrent => habits.is_concurrent && !is_http,
    }
}

/// Answers every call rightly.
///
/// # Errors
/// The client cannot be started, or makes too few calls.
fn habits(host: &Host, wait: Duration) -> io::Result<Habits> {
    let mut stage = host.start()?;
    let (mut params, mut pace) = (Vec::new(), Duration::ZERO);
    let (mut held, mut is_concurrent) = (VecDeque::new(), true);
    let mut talk = Talk::default();
    while params.len() < PLAYED_AT + GO_ON {
        let begin = Instant::now();
        let call = match held.pop_front() {
            Some(call) => call,
            None => match next_call(&mut stage, &mut talk, begin + wait) {
                Ok(call) => call,
                Err(is_gone) => return Err(too_few(&stage, params.len(), is_gone, wait)),
            },
        };
        // The program needs time to start.
        if !params.is_empty() {
            pace = pace.max(begin.elapsed());
        }
        params.push(call.params.clone());
        // Seen twice, because a client that waits no longer for its answer calls again too.
        if params.len() > 1 && params.len() <= PLAYED_AT && held.is_empty() {
            let another = next_call(&mut stage, &mut talk, Instant::now() + ANOTHER);
            is_concurrent &= another.is_ok();
            held.extend(another);
        }
        say(&mut stage, &mut talk, RIGHT, &call, params.len(), false);
    }
    Ok(Habits {
        echoes: params.iter().any(|params| params.contains("antiphon-2")),
        is_concurrent,
        keeps_connection: stage.opened == 1,
        pace,
        framing: if stage.is_web() {
            Framing::Messages
        } else {
            stage.framing
        },
    })
}

fn too_few(stage: &Stage<'_>, calls: usize, is_gone: bool, wait: Duration) -> io::Error {
    let (kind, end) = match is_gone {
        true => (io::ErrorKind::ConnectionAborted, "it ended".to_owned()),
        false => (
            io::ErrorKind::TimedOut,
            format!("there was none for {} s", wait.as_secs_f64()),
        ),
    };
    let said = stage.stderr();
    let said = match String::from_utf8_lossy(said.trim_ascii()) {
        said if said.is_empty() => String::new(),
        said => format!("; it says: {said}"),
    };
    let wanted = PLAYED_AT + GO_ON;
    io::Error::new(
        kind,
        format!(
            "a client has to make calls, one after another; after {calls} of {wanted} {end}{said}"
        ),
    )
}

/// Plays one conversation.
fn converse(host: &Host, play: &Play, habits: &Habits, patience: Duration) -> io::Result<Talk> {
    let wait = patience.max(habits.pace * 3);
    let mut stage = host.start()?;
    let mut talk = Talk::default();
    let mut held: VecDeque<Call> = VecDeque::new();
    // The first calls are those of a right conversation; a program may take long to start.
    let mut number = 0;
    let mut first_wait = host.timeout;
    let mut wanted = GO_ON;
    while number < PLAYED_AT || talk.later.len() < wanted {
        let is_held = !held.is_empty();
        let call = match held.pop_front() {
            Some(call) => call,
            None => match next_call(&mut stage, &mut talk, Instant::now() + first_wait) {
                Ok(call) => call,
                Err(is_gone) if number >= PLAYED_AT => {
                    talk.is_gone = is_gone;
                    break;
                }
                Err(is_gone) => return Err(too_few(&stage, number, is_gone, first_wait)),
            },
        };
        number += 1;
        if number > PLAYED_AT && !is_held {
            talk.later.push(call.params.clone());
        }
        if number != PLAYED_AT {
            say(&mut stage, &mut talk, RIGHT, &call, number, false);
            continue;
        }
        talk = Talk {
            played: vec![(number, call.params.clone())],
            ..Talk::default()
        };
        for act in play.acts {
            match act {
                Act::Send(text) => say(&mut stage, &mut talk, text, &call, PLAYED_AT, false),
                Act::Pieces(text) => say(&mut stage, &mut talk, text, &call, PLAYED_AT, true),
                Act::Wait(millis) => {
                    let deadline = Instant::now() + Duration::from_millis(*millis);
                    held.extend(next_call(&mut stage, &mut talk, deadline));
                }
                Act::Held => {
                    while let Some(newer) = held.pop_back() {
                        number += 1;
                        talk.played.push((number, newer.params.clone()));
                        say(&mut stage, &mut talk, RIGHT, &newer, number, false);
                    }
                }
                Act::IfQuiet if held.is_empty() => {}
                Act::IfQuiet => break,
            }
        }
        // Calls that are on their way show nothing.
        wanted += talk.played.len() + held.len() - 1;
        talk.held = held.iter().map(|call| call.params.clone()).collect();
        first_wait = wait;
    }
    talk.opened = stage.opened;
    Ok(talk)
}

/// The next call. Other messages are noted, but batches of calls are passed over. `Err` says whether the client has ended.
fn next_call(stage: &mut Stage<'_>, talk: &mut Talk, deadline: Instant) -> Result<Call, bool> {
    loop {
        // Messages that are no calls do not go on without end.
        if Instant::now() > deadline + PATIENCE {
            return Err(false);
        }
        let (link, body) = match stage.next(deadline) {
            Came::Message(link, body) => (link, body),
            Came::Gone => return Err(true),
            Came::Nothing => return Err(false),
        };
        if talk.received.len() < RECEIVED_MAX {
            talk.received.extend_from_slice(&body);
            talk.received.push(b'\n');
        }
        let json = Json::parse(&body).ok();
        let has_method = json.is_some_and(|json| json.get("method").is_some());
        if let (Some(json), true) = (json, has_method) {
            if let Some(id) = json.get("id") {
                return Ok(Call {
                    link,
                    id: id.as_str().to_owned(),
                    params: json
                        .get("params")
                        .map_or(String::new(), |params| params.as_str().to_owned()),
                });
            }
        } else if !matches!(read(&body), Heard::Call)
            && talk.said.iter().map(Vec::len).sum::<usize>() < RECEIVED_MAX
        {
            talk.said.push(body);
        }
        if stage.is_http() {
            let reply =
                Step::Bytes(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_vec());
            let _ = stage.link(link).map(|link| link.step(&reply));
            stage.close(link);
        }
    }
}

/// Says something over the connection of a call. Over HTTP a call has one reply, and what comes behind it is not said.
fn say(
    stage: &mut Stage<'_>,
    talk: &mut Talk,
    text: &str,
    call: &Call,
    number: usize,
    in_pieces: bool,
) {
    let text = text
        .replace("#N", &number.to_string())
        .replace("#ID", &call.id);
    let framing = stage.framing;
    let is_web = stage.is_web();
    let is_http = stage.is_http();
    let Some(link) = stage.link(call.link) else {
        return;
    };
    let shown = if is_web { Framing::Newline } else { framing };
    talk.sent.extend(framed(shown, text.as_bytes()));
    // That the client has gone shows in what it sends next.
    if in_pieces {
        for piece in link.pieces(text.as_bytes()) {
            let _ = link.step(&Step::Bytes(piece));
            std::thread::sleep(Duration::from_millis(50));
        }
    } else {
        let _ = link.send(text.as_bytes());
    }
    if is_http {
        stage.close(call.link);
    }
}

/// All that is wrong with what the client did.
fn judge(play: &Play, talk: &Talk, habits: &Habits) -> Vec<(Level, String)> {
    let mut found = Vec::new();
    let mut add = |level, what: &str| found.push((level, what.to_owned()));
    let mut after = talk.held.iter().chain(&talk.later);
    if after.any(|params| params.contains(WRONG)) {
        add(Should, "it is taken for a result");
    }
    let is_said_elsewhere = play.check == "client.precision" && play.callback.is_some();
    if talk.later.len() < GO_ON && !is_said_elsewhere {
        add(
            play.level,
            match talk.is_gone {
                true => "the client ends",
                false => "the client makes no further call",
            },
        );
    } else if habits.keeps_connection && talk.opened > 1 && play.check != "client.garbage" {
        add(
            Should,
            "the client ends the connection, and goes on over a new one",
        );
    }
    let got = |number: usize| {
        let token = format!("\"antiphon-{number}\"");
        talk.later
            .iter()
            .find(move |params| params.contains(&token))
    };
    match play.check {
        "client.late"
            if !talk.held.is_empty() && !habits.is_concurrent && got(PLAYED_AT).is_some() =>
        {
            add(Should, "it is taken for the answer to the next call");
        }
        // The right answer comes too.
        "client.split" | "client.twice" | "client.called-back"
            if habits.echoes && talk.later.len() >= GO_ON && got(PLAYED_AT).is_none() =>
        {
            add(play.level, "the answer is lost");
        }
        "client.out-of-order" if habits.echoes && talk.later.len() >= GO_ON => {
            for (number, params) in &talk.played {
                let Some(later) = got(*number) else {
                    add(play.level, "an answer is lost");
                    continue;
                };
                if !is_of_loop(params, later) {
                    add(play.level, "the answers are mixed up");
                }
            }
        }
        "client.precision" => {
            if let Some(params) = got(PLAYED_AT) {
                if play.callback.is_none() && !EXACT.iter().all(|number| params.contains(number)) {
                    add(
                        Should,
                        "an integer in a result has another value afterwards",
                    );
                }
            }
        }
        _ => {}
    }
    found.extend(said(play, &talk.said));
    found.dedup();
    found
}

/// Whether two calls come from one loop of the client: but for what they pass on, their params are equal.
fn is_of_loop(one: &str, other: &str) -> bool {
    let rest = |params: &str| -> Vec<String> {
        let strings = params
            .split('"')
            .filter(|text| !text.starts_with("antiphon-"));
        strings.map(str::to_owned).collect()
    };
    rest(one) == rest(other)
}

/// What is wrong with the answers of the client.
fn said(play: &Play, said: &[Vec<u8>]) -> Vec<(Level, String)> {
    let mut found = Vec::new();
    let mut own = 0;
    for message in said {
        let answer = match read(message) {
            // Who serves too may say that it has understood nothing.
            _ if play.check == "client.garbage" => continue,
            Heard::One(answer) => answer,
            _ => {
                found.push((Must, "what the client writes is no message".to_owned()));
                continue;
            }
        };
        let id = answer.id.as_deref().unwrap_or("missing");
        match play.callback {
            None => found.push((Should, "the client answers an answer".to_owned())),
            Some(wanted) if same_id(wanted, id) => own += 1,
            Some(wanted) => found.push((
                Must,
                format!("the id of the client's answer is {id}, not {wanted}"),
            )),
        }
        if play.callback.is_some() {
            found.extend(answer.faults.into_iter().map(|(_, what)| (Must, what)));
        }
    }
    if own > 1 {
        found.push((
            Must,
            format!("the server's request is answered {own} times"),
        ));
    }
    found
}
