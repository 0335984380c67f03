//! A peer that breaks every rule of JSON-RPC and of framing: it floods, lies and stops in the middle
//! of messages. Some of its messages are right, so that the connection has calls to settle and
//! requests to answer.

use antiphon::{Config, Framing};

use crate::observer::{Frame, ItemKind};
use antiphon_test_support::random::Random;

/// The peer, and what it has seen of the connection's calls.
#[derive(Debug)]
pub struct Hostile {
    framing: Framing,
    /// Requests of the connection's: id and mark.
    asked: Vec<(String, Option<u64>)>,
    /// Ids of its own requests.
    own: Vec<String>,
    next: u64,
}

/// Something that it says.
#[derive(Debug)]
pub struct Saying {
    /// The bytes, or the one message.
    pub bytes: Vec<u8>,
    /// How many answers may leave that no event announces: 3, a generous number, for damaged input,
    /// which may turn out to be several messages.
    pub excused: u32,
    /// The name under which it is counted; empty if it is not.
    pub what: &'static str,
}

impl Hostile {
    /// A peer of a connection with this configuration.
    pub fn new(config: &Config, rng: &mut Random) -> Self {
        let framing = match config.framing {
            Framing::Detect => rng.pick(&[Framing::Newline, Framing::ContentLength]),
            framing => framing,
        };
        Self {
            framing,
            asked: Vec::new(),
            own: Vec::new(),
            next: 1,
        }
    }

    /// Reads what the connection has written.
    pub fn hears(&mut self, frame: &Frame) {
        for item in &frame.items {
            if item.kind == ItemKind::Request {
                let id = item.id.clone().unwrap_or_default();
                // Any number of calls may have had the null id.
                let mark = item.mark.filter(|_| id != "null");
                self.asked.push((id, mark));
            }
        }
        let len = self.asked.len();
        self.asked.drain(..len.saturating_sub(40));
    }

    /// Says something.
    pub fn says(&mut self, rng: &mut Random, config: &Config, mark: u64) -> Saying {
        match rng.below(24) {
            0 => return self.garbage(rng),
            1 => return self.broken_frame(rng, config),
            2 => return self.flood(rng, config, mark),
            3 => {
                let mut text = self.text(rng, config, mark).0.into_bytes();
                // A result is left alone: with another mark or id it could be the answer to another call.
                let is_answer = text.windows(8).any(|eight| eight == b"\"result\"");
                if !text.is_empty() && !is_answer {
                    let at = rng.below(text.len() as u64) as usize;
                    text[at] = rng.pick(b"\"\\{}[]:,x01.- \x00\x1f\x80\xff\xed\n\te");
                }
                let bytes = self.framed(&text);
                let what = "fault: damaged message";
                return Saying {
                    bytes,
                    excused: 3,
                    what,
                };
            }
            4 => {
                let mut bytes = self.framed(self.valid(rng, mark).as_bytes());
                let keep = rng.below(bytes.len() as u64) as usize;
                bytes.truncate(keep);
                let what = "fault: unfinished message";
                return Saying {
                    bytes,
                    excused: 3,
                    what,
                };
            }
            _ => {}
        }
        let (text, excused) = self.text(rng, config, mark);
        let bytes = self.framed(text.as_bytes());
        Saying {
            bytes,
            excused,
            what: "",
        }
    }

    /// A whole message, single or batch, and how many answers it may cause that no event announces.
    fn text(&mut self, rng: &mut Random, config: &Config, mark: u64) -> (String, u32) {
        if rng.chance(18) {
            let items = rng.size(0, config.limits.max_batch_items + 2);
            let mut excused = 0;
            let mut texts = Vec::new();
            for n in 0..items {
                let (text, more) = self.single(rng, config, mark * 100 + n as u64);
                // A cancel and its target in one batch may both be answered without an event.
                excused += more + 2 * u32::from(text.contains("ancel"));
                texts.push(text);
            }
            return (format!("[{}]", texts.join(",")), excused);
        }
        self.single(rng, config, mark)
    }

    fn single(&mut self, rng: &mut Random, config: &Config, mark: u64) -> (String, u32) {
        match rng.below(12) {
            0..=3 => (self.answer(rng), 0),
            4..=6 => (self.request(rng, mark), 0),
            7 => (self.valid(rng, mark), 0),
            8 => (self.cancel(rng, config), 1),
            9 => (self.broken_answer(rng), 0),
            _ => (self.broken_call(rng, config, mark), 1),
        }
    }

    /// A request or notification that is fine in 2.0.
    fn valid(&self, rng: &mut Random, mark: u64) -> String {
        match rng.chance(60) {
            true => format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"ask\",\"params\":[{mark}],\"id\":{mark}}}"
            ),
            false => format!("{{\"jsonrpc\":\"2.0\",\"method\":\"tell\",\"params\":[{mark}]}}"),
        }
    }

    fn id(&mut self, rng: &mut Random) -> String {
        if let Some(again) = self.own.last().filter(|_| rng.chance(8)) {
            // One that may still be open.
            return again.clone();
        }
        self.next += 1;
        let n = self.next;
        let id = match rng.below(10) {
            0 => "null".to_string(),
            1 => format!("{n}.50"),
            2 => format!("{n}e2"),
            3 => format!("\"\\u0061{n}\""),
            4 => format!("\"{n}\""),
            5 => format!("-{n}"),
            6 => rng
                .pick(&["true", "1", "\"\"", "18446744073709551616"])
                .to_string(),
            7 => format!("\"{}\"", "i".repeat(rng.size(1, 80))),
            _ => n.to_string(),
        };
        self.own.push(id.clone());
        if self.own.len() > 20 {
            self.own.remove(0);
        }
        id
    }

    fn request(&mut self, rng: &mut Random, mark: u64) -> String {
        let id = self.id(rng);
        let v2 = match rng.chance(80) {
            true => "\"jsonrpc\":\"2.0\",",
            false => "",
        };
        let method = rng.pick(&[
            "ask",
            "\\u0061sk",
            "",
            "a very long name of a method that goes on and on",
        ]);
        let params = match rng.below(5) {
            0 => format!("{{\"n\":{mark}}}"),
            1 => format!("[{mark},\"{}\"]", "x".repeat(rng.size(0, 300))),
            2 => "null".into(),
            _ => format!("[{mark}]"),
        };
        format!("{{{v2}\"method\":\"{method}\",\"params\":{params},\"id\":{id}}}")
    }

    /// An answer to a request of the connection; less often one to nothing.
    fn answer(&mut self, rng: &mut Random) -> String {
        let v2 = rng.chance(75);
        let chosen = rng.below(self.asked.len() as u64) as usize;
        let known = match rng.chance(70) {
            // It forgets most requests that it has answered, and may answer the others again.
            true if chosen < self.asked.len() => Some(self.asked.swap_remove(chosen)),
            _ => self.asked.get(chosen).filter(|_| rng.chance(60)).cloned(),
        };
        let (id, mark) = known.unwrap_or_else(|| {
            let id = rng.pick(&[
                "null",
                "999999",
                "\"srv-5\"",
                "3",
                "\"x\"",
                "-1",
                "1.5",
                "7",
            ]);
            (id.to_string(), None)
        });
        let result = match mark {
            Some(mark) if rng.chance(80) => format!("[{mark},\"ok\"]"),
            _ => rng.pick(&["true", "null", "{}", "\"\""]).to_string(),
        };
        let code = rng.pick(&[-32601, -32602, -32603, -32000, -32001, 7, -32005, -32700]);
        match (v2, rng.chance(70)) {
            (true, true) => format!("{{\"jsonrpc\":\"2.0\",\"result\":{result},\"id\":{id}}}"),
            (true, false) => format!(
                "{{\"jsonrpc\":\"2.0\",\"error\":{{\"code\":{code},\"message\":\"no\"}},\"id\":{id}}}"
            ),
            (false, true) => format!("{{\"result\":{result},\"error\":null,\"id\":{id}}}"),
            (false, false) => format!("{{\"result\":null,\"error\":\"no\",\"id\":{id}}}"),
        }
    }

    fn broken_answer(&mut self, rng: &mut Random) -> String {
        let chosen = rng.below(self.asked.len() as u64) as usize;
        let id = match self.asked.get(chosen) {
            Some((id, _)) if rng.chance(60) => id.clone(),
            _ => "5".into(),
        };
        match rng.below(8) {
            0 => format!(
                "{{\"jsonrpc\":\"2.0\",\"result\":1,\"error\":{{\"code\":1,\"message\":\"\"}},\"id\":{id}}}"
            ),
            1 => format!("{{\"jsonrpc\":\"2.0\",\"error\":{{\"code\":\"x\"}},\"id\":{id}}}"),
            2 => format!("{{\"jsonrpc\":\"2.0\",\"result\":1,\"result\":2,\"id\":{id}}}"),
            3 => format!("{{\"jsonrpc\":\"3.0\",\"result\":1,\"id\":{id}}}"),
            4 => "{\"jsonrpc\":\"2.0\",\"result\":1}".into(),
            5 => "{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":[]}".into(),
            6 => format!("{{\"result\":null,\"id\":{id}}}"),
            _ => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"other\":1}}"),
        }
    }

    fn broken_call(&mut self, rng: &mut Random, config: &Config, mark: u64) -> String {
        let id = self.id(rng);
        let deep = usize::from(config.limits.max_depth) + 1;
        match rng.below(14) {
            0 => "7".into(),
            1 => "[]".into(),
            2 => format!("{{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"method\":\"b\",\"id\":{id}}}"),
            3 => format!("{{\"jsonrpc\":\"1.5\",\"method\":\"a\",\"id\":{id}}}"),
            4 => "{}".into(),
            5 => format!("{{\"jsonrpc\":\"2.0\",\"method\":7,\"id\":{id}}}"),
            6 => format!("{{\"jsonrpc\":\"2.0\",\"method\":\"\\ud800\",\"id\":{id}}}"),
            7 => format!("{{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":7,\"id\":{id}}}"),
            8 => format!("{{\"method\":\"a\",\"params\":{{\"n\":{mark}}},\"id\":{id}}}"),
            9 => "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":{}}".into(),
            10 => "{\"method\":\"a\",\"params\":[]}".into(),
            11 => format!("{{\"method\":\"a\",\"params\":[{mark}],\"id\":null}}"),
            12 => format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{}{},\"id\":{id}}}",
                "[".repeat(deep),
                "]".repeat(deep)
            ),
            // A method longer than allowed.
            _ => format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"{}\"}}",
                "m".repeat(config.limits.max_method_bytes + 1)
            ),
        }
    }

    fn cancel(&mut self, rng: &mut Random, config: &Config) -> String {
        let (method, member) = match config.dialect.cancel_receive {
            antiphon::CancelStyle::Mcp => ("notifications/cancelled", "requestId"),
            antiphon::CancelStyle::Acp => ("$/cancel_request", "requestId"),
            _ => ("$/cancelRequest", "id"),
        };
        let chosen = rng.below(self.own.len() as u64) as usize;
        let target = self
            .own
            .get(chosen)
            .cloned()
            .unwrap_or_else(|| "404".into());
        let id = match rng.chance(15) {
            true => ",\"id\":31",
            false => "",
        };
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{\"{member}\":{target}}}{id}}}"
        )
    }

    fn garbage(&mut self, rng: &mut Random) -> Saying {
        let bytes = match rng.below(4) {
            0 => (0..rng.size(1, 40)).map(|_| rng.next() as u8).collect(),
            1 => {
                let text = rng.pick(&[
                    &b"{nope}"[..],
                    b"{\"a\":01}",
                    b"{\"a\":\"\\x\"}",
                    b"{\"a\":\"\x01\"}",
                    b"{\"a\":\"\xff\"}",
                    b"{\"a\":1} 2",
                    b"{\"a\":",
                    b"",
                    b" ",
                    b"tru",
                    b"{\"a\":1,}",
                    b"-",
                    b"{\"a\":\"\\ud8",
                ]);
                self.framed(text)
            }
            2 => vec![rng.pick(b" \n\r\t{[\"x"); rng.size(1, 200)],
            _ => b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        };
        Saying {
            bytes,
            excused: 3,
            what: "fault: garbage",
        }
    }

    /// A frame with a broken header, or with a message larger than allowed.
    fn broken_frame(&mut self, rng: &mut Random, config: &Config) -> Saying {
        let too_large = "x".repeat(config.limits.max_message_bytes + rng.size(1, 300));
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[\"{too_large}\"],\"id\":1}}"
        );
        let bytes = match (self.framing, rng.below(8)) {
            (Framing::ContentLength, 0) => b"Content-Length: 5x\r\n\r\nhello".to_vec(),
            (Framing::ContentLength, 1) => {
                b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}".to_vec()
            }
            (Framing::ContentLength, 2) => b"Content-Type: a/b\r\n\r\n{}".to_vec(),
            (Framing::ContentLength, 3) => {
                b"Content-Length: 2\r\nContent-Type: a/b; charset=utf-16\r\n\r\n{}".to_vec()
            }
            (Framing::ContentLength, 4) => [&b"X-Long: "[..], &[b'a'; 300]].concat(),
            (Framing::ContentLength, 5) => b"no header at all\r\n\r\n".to_vec(),
            _ => self.framed(text.as_bytes()),
        };
        Saying {
            bytes,
            excused: 3,
            what: "",
        }
    }

    fn flood(&mut self, rng: &mut Random, config: &Config, mark: u64) -> Saying {
        let mut bytes = Vec::new();
        if self.framing == Framing::Messages {
            let many = vec!["1"; config.limits.max_batch_items];
            bytes = format!("[{}]", many.join(",")).into_bytes();
        } else {
            let kind = rng.below(3);
            for n in 0..rng.within(5, 40) {
                let text = match kind {
                    0 => "[]".to_string(),
                    1 => self.answer(rng),
                    _ => self.request(rng, mark * 100 + n),
                };
                bytes.extend(self.framed(text.as_bytes()));
            }
        }
        Saying {
            bytes,
            excused: 0,
            what: "fault: flood",
        }
    }

    fn framed(&self, text: &[u8]) -> Vec<u8> {
        match self.framing {
            Framing::Newline => [text, b"\n"].concat(),
            Framing::ContentLength => {
                let header = format!("Content-Length: {}\r\n\r\n", text.len());
                [header.as_bytes(), text].concat()
            }
            _ => text.to_vec(),
        }
    }
}
