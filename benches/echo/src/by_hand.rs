//! The echo service written by hand: serde_json, a struct for each message, a loop over a socket.
//!
//! Rule: it does what the service needs to be right here and nothing else. There are no limits, deadlines,
//! errors, cancels or notifications, ids are numbers, an answer is found by its place in a list, and a line is shorter than
//! the buffer. So it says what serde_json alone costs above a bare transport, without anything else that a peer needs. It is
//! no bound for other parsers.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::floors::{BUFFER_BYTES, blocking};
use crate::row::{self, BATCH, Lane, Mode, Outcome, Row, WORD, check};
use crate::side::{Far, Ours};

pub(crate) fn add(rows: &mut Vec<Row>, wanted: &[String]) -> Outcome<()> {
    for (side, ours) in [
        ("", Ours::Both),
        (", server", Ours::Server),
        (", client", Ours::Client),
    ] {
        let name = format!("serde_json by hand TCP{side}");
        row::add(rows, wanted, &name, "bare blocking TCP", || lane(ours))?;
    }
    Ok(())
}

fn lane(ours: Ours) -> Outcome<Box<dyn Lane>> {
    let address: SocketAddr = if ours.is_client() {
        blocking::listen(|far| blocking::far(far, Far::Answers))?
    } else {
        blocking::listen(serve)?
    };
    let near = blocking::connect(address)?;
    Ok(match ours {
        Ours::Server => blocking::near(near, Far::Answers),
        _ => Box::new(Client(near)),
    })
}

#[derive(Deserialize, Serialize)]
struct Request<'a> {
    jsonrpc: &'a str,
    method: &'a str,
    params: (&'a str,),
    id: usize,
}

#[derive(Deserialize, Serialize)]
struct Response<'a> {
    jsonrpc: &'a str,
    result: &'a str,
    id: usize,
}

fn reply(request: Request<'_>) -> Outcome<Response<'_>> {
    let Request {
        jsonrpc,
        method,
        params: (result,),
        id,
    } = request;
    if (jsonrpc, method) != ("2.0", "echo") {
        return Err(format!("asked for {method:?} of {jsonrpc:?}").into());
    }
    Ok(Response {
        jsonrpc,
        result,
        id,
    })
}

/// Answers a line, which is a request or a batch of them.
fn answer(line: &[u8], out: &mut Vec<u8>) -> Outcome<()> {
    if line.first() == Some(&b'[') {
        let requests: Vec<Request<'_>> = serde_json::from_slice(line)?;
        let replies = requests.into_iter().map(reply);
        serde_json::to_writer(&mut *out, &replies.collect::<Outcome<Vec<_>>>()?)?;
    } else {
        serde_json::to_writer(&mut *out, &reply(serde_json::from_slice(line)?)?)?;
    }
    out.push(b'\n');
    Ok(())
}

/// What was read of a stream of lines.
struct Received {
    buf: Vec<u8>,
    end: usize,
    /// How much of it has been given out.
    given: usize,
}

impl Received {
    fn new() -> Self {
        Self {
            buf: vec![0; BUFFER_BYTES],
            end: 0,
            given: 0,
        }
    }

    /// Waits for more, and gives `take` each line that is complete then. False at the end of the stream.
    fn lines(
        &mut self,
        stream: &mut TcpStream,
        mut take: impl FnMut(&[u8]) -> Outcome<()>,
    ) -> Outcome<bool> {
        self.buf.copy_within(self.given..self.end, 0);
        self.end -= std::mem::take(&mut self.given);
        let n = stream.read(&mut self.buf[self.end..])?;
        self.end += n;
        for at in memchr::memchr_iter(b'\n', &self.buf[..self.end]) {
            take(&self.buf[self.given..at])?;
            self.given = at + 1;
        }
        Ok(n > 0)
    }
}

fn serve(mut stream: TcpStream) {
    let (mut received, mut out) = (Received::new(), Vec::new());
    let mut turn = || {
        out.clear();
        let goes_on = received.lines(&mut stream, |line| answer(line, &mut out))?;
        stream.write_all(&out)?;
        Outcome::Ok(goes_on)
    };
    loop {
        match turn() {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return eprintln!("serde_json by hand: {error}"),
        }
    }
}

struct Client(TcpStream);

impl Client {
    fn round(&mut self, mode: Mode, out: &mut Vec<u8>, received: &mut Received) -> Outcome<()> {
        let request = |id| Request {
            jsonrpc: "2.0",
            method: "echo",
            params: (WORD,),
            id,
        };
        out.clear();
        if mode == Mode::Batch {
            let requests: Vec<_> = (0..mode.requests()).map(request).collect();
            serde_json::to_writer(&mut *out, &requests)?;
            out.push(b'\n');
        } else {
            for id in 0..mode.requests() {
                serde_json::to_writer(&mut *out, &request(id))?;
                out.push(b'\n');
            }
        }
        self.0.write_all(out)?;
        let (mut open, left) = ([true; BATCH], Cell::new(mode.requests()));
        let mut settle = |response: Response<'_>| {
            let is_open = open.get_mut(response.id).map(std::mem::take);
            if response.jsonrpc != "2.0" || is_open != Some(true) {
                return Err("an answer to nothing".into());
            }
            left.set(left.get() - 1);
            check(response.result)
        };
        while left.get() > 0 {
            let goes_on = received.lines(&mut self.0, |line| {
                if mode == Mode::Batch {
                    let responses: Vec<Response<'_>> = serde_json::from_slice(line)?;
                    return responses.into_iter().try_for_each(&mut settle);
                }
                settle(serde_json::from_slice(line)?)
            })?;
            if !goes_on {
                return Err("the stream ended".into());
            }
        }
        Ok(())
    }
}

impl Lane for Client {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        let (mut out, mut received) = (Vec::new(), Received::new());
        for _ in 0..rounds {
            let began = Instant::now();
            self.round(mode, &mut out, &mut received)?;
            times.push(began.elapsed());
        }
        Ok(())
    }
}
