//! Checks that need more than one message, or bytes that are none: framing, limits, dialects.

use std::time::{Duration, Instant};

use crate::answer::{Heard, read, same_id};
use crate::cases::{Case, Code, Want, Wanted, call};
use crate::catalogue::Level::{self, Must, Should};
use crate::link::{Next, Place, Step};
use crate::run::Run;
use crate::{probes_http, probes_websocket};

/// Runs all that are wanted.
pub(crate) fn run(run: &mut Run<'_>, wants: &dyn Fn(&str) -> bool) {
    if run.stopped.is_some() {
        return;
    }
    framing(run, wants);
    probes_http::run(run, wants);
    probes_websocket::run(run, wants);
    if wants("limit.slow") {
        slow(run);
    }
    dialects(run, wants);
}

/// What came after some steps.
struct Answers {
    /// The id and the code of each answer.
    found: Vec<(String, Option<i64>)>,
    received: Vec<u8>,
}

/// Does the steps over a new connection, and waits for answers with these ids.
fn answers(
    place: &Place,
    steps: &[Step],
    ids: &[&str],
    wait: Duration,
) -> std::io::Result<Answers> {
    let mut link = place.open()?;
    let mut answers = Answers {
        found: Vec::new(),
        received: Vec::new(),
    };
    for step in steps {
        // What is answered early shows below.
        let _ = link.step(step);
    }
    let deadline = Instant::now() + wait;
    let is_there =
        |found: &[(String, Option<i64>)], id: &str| found.iter().any(|(one, _)| same_id(one, id));
    while !ids.iter().all(|id| is_there(&answers.found, id)) {
        let Next::Message(message) = link.next(deadline) else {
            break;
        };
        answers.received.extend_from_slice(&message.body);
        answers.received.push(b'\n');
        match read(&message.body) {
            Heard::One(answer) => answers.found.extend(answer.id.map(|id| (id, answer.code))),
            Heard::Many(many) => answers
                .found
                .extend(many.into_iter().filter_map(|one| Some((one.id?, one.code)))),
            _ => {}
        }
    }
    Ok(answers)
}

/// Steps that are to be answered with these ids, however the messages arrive.
fn wants_answers(
    run: &mut Run<'_>,
    check: &'static str,
    level: Level,
    steps: &[Step],
    ids: &[&str],
) {
    *run.ran.entry(check).or_default() += 1;
    let mut last = None;
    for wait in [run.pace, run.pace.max(Duration::from_secs(2))] {
        match answers(run.place, steps, ids, wait) {
            Ok(answers) => {
                let missing = |id: &&&str| !answers.found.iter().any(|(one, _)| same_id(one, id));
                let missing: Vec<&str> = ids.iter().filter(missing).copied().collect();
                if missing.is_empty() {
                    return;
                }
                last = Some((
                    format!("there is no answer with the id {}", missing.join(" and ")),
                    answers.received,
                ));
            }
            Err(error) => {
                last = Some((
                    format!("the server cannot be reached any more: {error}"),
                    Vec::new(),
                ))
            }
        }
    }
    if let Some((what, received)) = last {
        run.add(check, level, &what, steps, &received);
    }
}

fn framing(run: &mut Run<'_>, wants: &dyn Fn(&str) -> bool) {
    let place = run.place;
    let (one, two) = (call("1"), call("2"));
    let (first, second) = (place.framed(one.as_bytes()), place.framed(two.as_bytes()));
    let bytes = |bytes: &[u8]| Step::Bytes(bytes.to_vec());
    if wants("frame.split") {
        let pause = Step::Pause(Duration::from_millis(50));
        for at in [first.len() / 2, 5, first.len() - 2] {
            // A command must have begun to read.
            let steps = [
                bytes(&second),
                Step::Hear(run.pace),
                bytes(&first[..at]),
                pause.clone(),
                bytes(&first[at..]),
            ];
            wants_answers(run, "frame.split", Must, &steps, &["1"]);
        }
    }
    let header =
        |name: &str, body: &str| format!("{name}{}\r\n\r\n{body}", body.len()).into_bytes();
    if wants("frame.case") {
        for name in ["content-length: ", "CONTENT-LENGTH: "] {
            wants_answers(
                run,
                "frame.case",
                Should,
                &[bytes(&header(name, &one))],
                &["1"],
            );
        }
    }
    if wants("frame.no-blank") {
        wants_answers(
            run,
            "frame.no-blank",
            Should,
            &[bytes(&header("Content-Length:", &one))],
            &["1"],
        );
    }
    if wants("frame.bytes") {
        let wide = one.replace(r#""id""#, "\"params\":[\"\u{e9}\u{20ac}\u{1F600}\"],\"id\"");
        let steps = [bytes(&place.framed(wide.as_bytes())), bytes(&second)];
        wants_answers(run, "frame.bytes", Must, &steps, &["1", "2"]);
    }
    if wants("frame.twice") {
        wants_answers(
            run,
            "frame.twice",
            Must,
            &[bytes(&[first.clone(), second].concat())],
            &["1", "2"],
        );
    }
    if wants("frame.crlf") {
        let steps = [bytes(format!("{one}\r\n").as_bytes())];
        wants_answers(run, "frame.crlf", Should, &steps, &["1"]);
    }
    if wants("frame.eof-owed") {
        wants_answers(
            run,
            "frame.eof-owed",
            Should,
            &[bytes(&first), Step::End],
            &["1"],
        );
    }
}

/// One connection sends half a message, and another one calls.
fn slow(run: &mut Run<'_>) {
    const CHECK: &str = "limit.slow";
    *run.ran.entry(CHECK).or_default() += 1;
    let message = call("1");
    let half = Step::Bytes(match run.place.web() {
        Some(web) if run.place.is_http() => {
            let post = crate::http::post(web, &run.place.headers, message.as_bytes(), true);
            post[..post.len() - 20].to_vec()
        }
        Some(_) => {
            crate::websocket::frame(true, crate::websocket::TEXT, message.as_bytes())[..20].to_vec()
        }
        None => run.place.framed(message.as_bytes())[..30].to_vec(),
    });
    let Ok(mut held) = run.place.dialler.dial() else {
        return;
    };
    if let (Some(web), false) = (run.place.web(), run.place.is_http()) {
        let _ = crate::websocket::open(
            &mut held,
            web,
            &run.place.headers,
            Instant::now() + run.pace,
        );
    }
    if let Step::Bytes(bytes) = &half {
        let _ = held.write(bytes);
    }
    std::thread::sleep(Duration::from_millis(50));
    let wait = run.pace.max(Duration::from_secs(2));
    let other = answers(
        run.place,
        &[Step::Message(message.into_bytes())],
        &["1"],
        wait,
    );
    if other.is_ok_and(|other| !other.found.is_empty()) {
        return;
    }
    let what = "while one connection has sent half a message, another one is not answered";
    run.add(
        CHECK,
        Should,
        what,
        &[half, Step::Pause(Duration::from_secs(5))],
        &[],
    );
}

fn dialects(run: &mut Run<'_>, wants: &dyn Fn(&str) -> bool) {
    let request = |members: &str| format!(r#"{{"jsonrpc":"2.0",{members}}}"#).into_bytes();
    let case = |check, level, message, want| Case {
        check,
        message,
        want,
        level,
        may_end: false,
        is_valid: true,
    };
    let one = |code| {
        Want::One(Wanted {
            ids: vec!["1".to_owned()],
            code,
        })
    };
    if wants("lsp.dollar") {
        run.case(&case(
            "lsp.dollar",
            Must,
            request(r#""method":"$/antiphon","id":1"#),
            one(Code::One(-32601)),
        ));
        run.case(&case(
            "lsp.dollar",
            Must,
            request(r#""method":"$/antiphon","params":{}"#),
            Want::Nothing,
        ));
    }
    if wants("lsp.cancelled") {
        let cancel = request(r#""method":"$/cancelRequest","params":{"id":1}"#);
        let steps = [Step::Message(call("1").into_bytes()), Step::Message(cancel)];
        wants_answers(run, "lsp.cancelled", Must, &steps, &["1"]);
        let cancel = request(r#""method":"$/cancelRequest","params":{"id":99}"#);
        run.case(&case("lsp.cancelled", Must, cancel, Want::Nothing));
    }
    if wants("lsp.early") {
        early(run);
    }
    if wants("mcp.cancelled") {
        let cancel =
            request(r#""method":"notifications/cancelled","params":{"requestId":99,"reason":"r"}"#);
        run.case(&case("mcp.cancelled", Must, cancel, Want::Nothing));
    }
    if wants("mcp.batch-refused") {
        let steps = [Step::Message(format!("[{}]", call("1")).into_bytes())];
        *run.ran.entry("mcp.batch-refused").or_default() += 1;
        let found = answers(run.place, &steps, &["1"], Duration::from_secs(1));
        if let Ok(found) = found {
            if found.received.trim_ascii_start().starts_with(b"[") {
                run.add(
                    "mcp.batch-refused",
                    Should,
                    "it is answered as a batch",
                    &steps,
                    &found.received,
                );
            }
        }
    }
}

/// A request before `initialize`.
fn early(run: &mut Run<'_>) {
    const CHECK: &str = "lsp.early";
    *run.ran.entry(CHECK).or_default() += 1;
    let silent = Place {
        hello: None,
        ..run.place.clone()
    };
    let steps = [Step::Message(
        br#"{"jsonrpc":"2.0","method":"textDocument/hover","params":{},"id":1}"#.to_vec(),
    )];
    let Ok(found) = answers(
        &silent,
        &steps,
        &["1"],
        run.pace.max(Duration::from_secs(2)),
    ) else {
        return;
    };
    let what = match found.found.first() {
        Some((_, Some(-32002))) => return,
        Some((_, Some(code))) => format!("it is answered with {code}, not -32002"),
        Some((_, None)) => "it is answered with a result".to_owned(),
        None => "it is not answered".to_owned(),
    };
    run.add(CHECK, Should, &what, &steps, &found.received);
    if let Some(finding) = run
        .findings
        .last_mut()
        .filter(|finding| finding.check == CHECK)
    {
        finding.command = silent.command(&steps);
    }
}
