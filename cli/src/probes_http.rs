//! Checks of HTTP itself.

use std::time::{Duration, Instant};

use crate::bytes::{printing, quoted};
use crate::cases::{NO_METHOD, call};
use crate::catalogue::Level::{self, Must, Should};
use crate::http::{self, Reply};
use crate::link::Step;
use crate::run::Run;
use crate::target::Web;

/// What a probe has seen.
struct Seen {
    level: Level,
    what: String,
    sent: Vec<u8>,
    received: Vec<u8>,
}

struct Probe<'r, 'a> {
    run: &'r Run<'a>,
    web: &'a Web,
}

type Check = fn(&Probe<'_, '_>) -> Option<Seen>;

const CHECKS: &[(&str, Check)] = &[
    ("http.get", get),
    ("http.type", media_type),
    ("http.no-reply", no_reply),
    ("http.simple-post", simple_post),
    ("http.rebinding", rebinding),
    ("http.two-lengths", two_lengths),
    ("http.length-and-chunked", length_and_chunked),
    ("http.keep-alive", keep_alive),
    ("http.closed-cancels", closed_cancels),
];

pub(crate) fn run(run: &mut Run<'_>, wants: &dyn Fn(&str) -> bool) {
    let (Some(web), true) = (run.place.web(), run.place.is_http()) else {
        return;
    };
    for (check, probe) in CHECKS.iter().filter(|(check, _)| wants(check)) {
        *run.ran.entry(check).or_default() += 1;
        let context = Probe { run, web };
        // What is wrong must be wrong twice.
        let seen = probe(&context).and_then(|_| probe(&context));
        if let Some(seen) = seen {
            run.add(
                check,
                seen.level,
                &seen.what,
                &[Step::Bytes(seen.sent)],
                &seen.received,
            );
            if *check == "http.closed-cancels" {
                show_gone_client(run, web);
            }
        }
    }
}

/// What shows a client that goes away: a program that does, and one that asks after it.
fn show_gone_client(run: &mut Run<'_>, web: &Web) {
    let next = Step::Message(call("1").into_bytes());
    let headers = run.place.shown_headers();
    let sent = http::post(web, &headers, call("1").as_bytes(), true);
    let gone = format!(
        "import socket, sys; s = socket.create_connection((\"{}\", {})); s.sendall(sys.stdin.buffer.read()); s.close()",
        web.host, web.port
    );
    if let Some(finding) = run.findings.last_mut().filter(|_| !web.is_tls) {
        let (sent, gone) = (printing(&sent), quoted(&gone));
        let next = run.place.command(&[next]);
        finding.command = format!("{sent} | python3 -c {gone}; sleep 1; {next}");
    }
}

impl Probe<'_, '_> {
    fn wait(&self) -> Instant {
        Instant::now() + self.run.pace.max(Duration::from_secs(2))
    }

    /// Sends bytes over a new connection, and reads one reply, with all bytes of it.
    fn send(&self, bytes: &[u8]) -> (Option<Reply>, Vec<u8>) {
        let Ok(mut wire) = self.run.place.dialler.dial() else {
            return (None, Vec::new());
        };
        let _ = wire.write(bytes);
        let reply = http::read_reply(&mut wire, self.wait());
        (reply, wire.received)
    }

    /// Sends bytes as [`send`](Self::send) does. `judge` says what is wrong with the reply, if anything is.
    fn judged(
        &self,
        sent: Vec<u8>,
        judge: impl FnOnce(Option<&Reply>) -> Option<(Level, String)>,
    ) -> Option<Seen> {
        let (reply, received) = self.send(&sent);
        let (level, what) = judge(reply.as_ref())?;
        seen(level, what, sent, received)
    }

    /// The head of a POST with these fields beside the usual ones, which they replace.
    fn post(&self, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut all: Vec<(String, String)> = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let has = |name: &str| {
            fields
                .iter()
                .any(|(given, _)| given.eq_ignore_ascii_case(name))
        };
        let given = self.run.place.headers.iter().filter(|(name, _)| !has(name));
        all.extend(given.cloned());
        http::post(self.web, &all, body, true)
    }
}

fn seen(level: Level, what: impl Into<String>, sent: Vec<u8>, received: Vec<u8>) -> Option<Seen> {
    Some(Seen {
        level,
        what: what.into(),
        sent,
        received,
    })
}

fn is_success(reply: &Reply) -> bool {
    (200..300).contains(&reply.status)
}

/// Whether a reply is an answer to the call with the id 1.
fn is_answer(reply: &Reply) -> bool {
    matches!(crate::answer::read(&reply.body), crate::answer::Heard::One(answer) if answer.id.as_deref() == Some("1"))
}

fn is_taken(reply: &&Reply) -> bool {
    is_answer(reply) && is_success(reply)
}

fn with_status(reply: &Reply) -> Option<(Level, String)> {
    let what = format!("it is answered with status {}", reply.status);
    Some((Should, what))
}

fn get(probe: &Probe<'_, '_>) -> Option<Seen> {
    let fields = [
        ("Host", probe.web.authority()),
        ("Connection", "close".to_owned()),
    ];
    let fields = fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    let sent = http::request(
        "GET",
        probe.web,
        fields.chain(probe.run.place.headers.iter().cloned()),
    );
    probe.judged(sent, |reply| match reply {
        None => Some((Should, "it is not answered".to_owned())),
        Some(reply) if reply.status >= 500 && reply.status != 501 => with_status(reply),
        Some(_) => None,
    })
}

fn media_type(probe: &Probe<'_, '_>) -> Option<Seen> {
    let sent = probe.post(
        &[("Content-Type", "Application/JSON; charset=utf-8")],
        call("1").as_bytes(),
    );
    probe.judged(sent, |reply| match reply {
        Some(reply) if is_answer(reply) => None,
        Some(reply) => {
            let what = format!("the request is not answered: status {}", reply.status);
            Some((Should, what))
        }
        None => Some((Should, "it is not answered".to_owned())),
    })
}

fn no_reply(probe: &Probe<'_, '_>) -> Option<Seen> {
    let message = format!(r#"{{"jsonrpc":"2.0","method":"{NO_METHOD}"}}"#);
    let sent = probe.post(&[], message.as_bytes());
    probe.judged(sent, |reply| match reply {
        // A body is reported as an answer to a notification.
        Some(reply) if is_success(reply) => None,
        Some(reply) => with_status(reply),
        None => Some((Should, "there is no reply of HTTP".to_owned())),
    })
}

fn simple_post(probe: &Probe<'_, '_>) -> Option<Seen> {
    let fields = [
        ("Content-Type", "text/plain"),
        ("Origin", "http://antiphon.invalid"),
    ];
    let sent = probe.post(&fields, call("1").as_bytes());
    probe.judged(sent, |reply| {
        let what = "a request that any web page can send is taken";
        reply.filter(is_taken).map(|_| (Should, what.to_owned()))
    })
}

fn rebinding(probe: &Probe<'_, '_>) -> Option<Seen> {
    let host = &*probe.web.host;
    if !(host == "localhost" || host == "::1" || host.starts_with("127.")) {
        return None;
    }
    let fields = [
        ("Host", "antiphon.invalid"),
        ("Origin", "http://antiphon.invalid"),
    ];
    let sent = probe.post(&fields, call("1").as_bytes());
    probe.judged(sent, |reply| {
        let what = "a request for another host, from its page, is taken";
        reply.filter(is_taken).map(|_| (Should, what.to_owned()))
    })
}

fn two_lengths(probe: &Probe<'_, '_>) -> Option<Seen> {
    let body = call("1");
    let more = (body.len() + 1).to_string();
    let sent = probe.post(
        &[
            ("Content-Length", &body.len().to_string()),
            ("content-length", &more),
        ],
        body.as_bytes(),
    );
    probe.judged(sent, |reply| match reply {
        Some(reply) if is_taken(&reply) => {
            Some((Must, "it is answered as if there were one".to_owned()))
        }
        Some(reply) if reply.status >= 500 => with_status(reply),
        _ => None,
    })
}

fn length_and_chunked(probe: &Probe<'_, '_>) -> Option<Seen> {
    let body = call("1");
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let fields = [
        ("Content-Length", "3"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "keep-alive"),
    ];
    let sent = probe.post(&fields, chunks.as_bytes());
    let mut wire = probe.run.place.dialler.dial().ok()?;
    let _ = wire.write(&sent);
    let reply = http::read_reply(&mut wire, probe.wait())?;
    if !is_success(&reply) {
        return None;
    }
    let _ = wire.write(&probe.post(&[], body.as_bytes()));
    match http::read_reply(&mut wire, probe.wait()) {
        None => None,
        Some(_) => seen(
            Must,
            "it is answered, and the connection stays open",
            sent,
            wire.received,
        ),
    }
}

fn keep_alive(probe: &Probe<'_, '_>) -> Option<Seen> {
    let message = call("1");
    let sent = http::post(
        probe.web,
        &probe.run.place.headers,
        message.as_bytes(),
        false,
    );
    let mut wire = probe.run.place.dialler.dial().ok()?;
    let _ = wire.write(&sent);
    let reply = http::read_reply(&mut wire, probe.wait())?;
    if reply
        .field("connection")
        .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    {
        return None;
    }
    let _ = wire.write(&sent);
    match http::read_reply(&mut wire, probe.wait()) {
        Some(_) => None,
        None => {
            let what = "the second request over a connection that stays open is not answered";
            seen(Should, what, [sent.clone(), sent].concat(), wire.received)
        }
    }
}

fn closed_cancels(probe: &Probe<'_, '_>) -> Option<Seen> {
    let sent = probe.post(&[], call("1").as_bytes());
    // A server that is gone at once does not answer below.
    if let Ok(mut wire) = probe.run.place.dialler.dial() {
        let _ = wire.write(&sent);
    }
    // It may notice a little later that the client has gone.
    std::thread::sleep(Duration::from_millis(100));
    probe.judged(sent, |reply| match reply {
        Some(_) => None,
        None => {
            let what = "after a client that has gone, the next is not answered";
            Some((Should, what.to_owned()))
        }
    })
}
