//! A client that keeps to its times, whatever the server does: a plain socket with a thread that sends and one that reads.
//!
//! Rule: a request is sent when it is due, not when an answer has come, and its time runs from when it was due.
//! So a server that stands still is charged with all that became due meanwhile.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::row::Outcome;

/// One of this many requests is for the slow handler, and one carries the large message.
const EVERY: u64 = 10_000;

/// The large message.
const LARGE_BYTES: usize = 1 << 20;

/// How many answers may be outstanding while the highest rate is measured.
const WINDOW: u64 = 256;

/// The most requests in one write.
const BURST: u64 = 1024;

/// After this long without a byte the run fails.
const SILENCE: Duration = Duration::from_secs(20);

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Small,
    Slow,
    Large,
}

pub(crate) fn kind(number: u64) -> Kind {
    match number % EVERY {
        2500 => Kind::Slow,
        7500 => Kind::Large,
        _ => Kind::Small,
    }
}

/// Appends the line of a request.
fn request(number: u64, large: &str, out: &mut Vec<u8>) -> std::io::Result<()> {
    let (method, text) = match kind(number) {
        Kind::Small => ("echo", "hello"),
        Kind::Slow => ("slow", "hello"),
        Kind::Large => ("echo", large),
    };
    let head = r#"{"jsonrpc":"2.0","method":""#;
    writeln!(
        out,
        r#"{head}{method}","params":[{number},"{text}"],"id":{number}}}"#
    )
}

/// An answer: the number of its request, when it had come, and at which byte of the stream it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) number: u64,
    pub(crate) came: Instant,
    pub(crate) end: u64,
}

/// When the next request is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// As soon as there is room.
    Most,
    /// This many in a second.
    Rate(f64),
}

/// A load and the answers to it.
pub(crate) struct Run {
    pub(crate) began: Instant,
    pub(crate) answers: Vec<Answer>,
}

impl Run {
    pub(crate) fn rate(&self) -> f64 {
        let last = self.answers.last().map_or(self.began, |answer| answer.came);
        self.answers.len() as f64 / (last - self.began).as_secs_f64()
    }
}

/// Asks for the length of `span`, from request `first` on, and waits for all answers.
pub(crate) fn run(
    socket: &TcpStream,
    pace: Pace,
    span: Duration,
    first: u64,
    from: u64,
) -> Outcome<Run> {
    let (sent, received) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let began = Instant::now();
    let answers = thread::scope(|scope| {
        let reading = scope.spawn(|| read(socket, from, &sent, &received));
        let total = send(socket, pace, span, first, began, &received);
        match total {
            Ok(total) => sent.store(total, Ordering::Release),
            Err(_) => drop(socket.shutdown(Shutdown::Both)),
        }
        let answers = reading.join().map_err(|_| "the reader ended")?;
        total.map_err(|error| error.to_string())?;
        answers
    })?;
    Ok(Run { began, answers })
}

fn send(
    mut socket: &TcpStream,
    pace: Pace,
    span: Duration,
    first: u64,
    began: Instant,
    received: &AtomicU64,
) -> std::io::Result<u64> {
    let large = "x".repeat(LARGE_BYTES);
    let mut sent = 0;
    let mut out = Vec::new();
    loop {
        let passed = began.elapsed();
        let due = match pace {
            _ if passed >= span && matches!(pace, Pace::Most) => sent,
            Pace::Most => received.load(Ordering::Acquire) + WINDOW,
            Pace::Rate(rate) => (passed.min(span).as_secs_f64() * rate) as u64,
        };
        if due > sent {
            out.clear();
            let last = due.min(sent + BURST);
            (sent..last).try_for_each(|number| request(first + number, &large, &mut out))?;
            socket.write_all(&out)?;
            sent = last;
        } else if passed >= span {
            return Ok(sent);
        } else {
            thread::yield_now();
        }
    }
}

/// Reads until as many answers have come as requests were sent.
fn read(
    mut socket: &TcpStream,
    from: u64,
    sent: &AtomicU64,
    received: &AtomicU64,
) -> Result<Vec<Answer>, String> {
    let mut answers = Vec::new();
    let mut end = from;
    let mut buf = vec![0; 256 << 10];
    let mut rest: Vec<u8> = Vec::new();
    let mut last = Instant::now();
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .map_err(|error| error.to_string())?;
    while (answers.len() as u64) < sent.load(Ordering::Acquire) {
        let n = match socket.read(&mut buf) {
            Ok(0) => return Err("the server ended".into()),
            Ok(n) => n,
            Err(_) if last.elapsed() < SILENCE => continue,
            Err(error) => return Err(format!("nothing came for {SILENCE:?}: {error}")),
        };
        last = Instant::now();
        rest.extend_from_slice(&buf[..n]);
        let mut at = 0;
        while let Some(len) = memchr::memchr(b'\n', &rest[at..]) {
            let line = &rest[at..at + len];
            at += len + 1;
            end += len as u64 + 1;
            let number = number(line).ok_or_else(|| {
                format!(
                    "not an answer: {}",
                    String::from_utf8_lossy(&line[..line.len().min(200)])
                )
            })?;
            answers.push(Answer {
                number,
                came: last,
                end,
            });
        }
        rest.drain(..at);
        received.store(answers.len() as u64, Ordering::Release);
    }
    Ok(answers)
}

/// The id at the end of an answer, if it is a result.
fn number(line: &[u8]) -> Option<u64> {
    let line = line
        .strip_prefix(br#"{"jsonrpc":"2.0","result":"#)?
        .strip_suffix(b"}")?;
    let digits = line
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    std::str::from_utf8(&line[line.len() - digits..])
        .ok()?
        .parse()
        .ok()
}
