//! The core alone in a plain loop: no runtime, no threads, no clock, a fixed buffer.
//!
//! A device on a serial line answers its host, and calls the host. The line carries a few bytes at
//! a time; each turn of the loop counts as a millisecond. On a microcontroller the same loop runs between two
//! interrupts.
//!
//! It prints what happens, and exits with 1 if that is not what should have happened.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use antiphon::{Config, Connection, ErrorObject, Event, Input, Instant, Outcome, RefusedCause};

/// The size of the input buffer.
const INPUT_BYTES: usize = 160;
/// How many bytes the line carries in one turn.
const LINE_BYTES: usize = 5;
/// A turn of the loop is a millisecond.
const TURN: Duration = Duration::from_millis(1);

/// The limits are so small that every message within them fits into the buffer.
const CONFIG: Config = {
    let mut config = Config::new();
    config.limits.max_message_bytes = 150;
    config.limits.soft_max_outbox_bytes = 512;
    config.limits.max_outbox_bytes = 2048;
    config.limits.max_open_requests = 4;
    config.limits.max_open_calls = 4;
    config
};
const _: () = assert!(CONFIG.max_input_bytes() <= INPUT_BYTES);

/// The host, as seen through the serial line: the bytes that it sends, how many of them have arrived
/// (`said`), and the bytes that it has received.
struct SerialLine {
    says: Vec<u8>,
    said: usize,
    heard: Vec<u8>,
}

impl SerialLine {
    /// Reads what has arrived, at most a few bytes.
    fn read(&mut self, into: &mut [u8]) -> usize {
        let waiting = &self.says[self.said..];
        let n = waiting.len().min(into.len()).min(LINE_BYTES);
        into[..n].copy_from_slice(&waiting[..n]);
        self.said += n;
        n
    }

    /// Writes what fits, at most a few bytes.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(LINE_BYTES);
        self.heard.extend_from_slice(&bytes[..n]);
        n
    }
}

/// The state of the device.
#[derive(Default)]
struct Device {
    led: bool,
    log: Vec<String>,
}

impl Device {
    fn handle(&mut self, conn: &mut Connection<&'static str>, event: Event<'_, &'static str>) {
        let line = match event {
            Event::Request(request) => {
                let sensor = request.params.map(|params| params.decode::<[&str; 1]>());
                let answered = match (&*request.method, sensor) {
                    ("read", Some(Ok(["temperature"]))) => conn.respond(request.token, &21.5),
                    ("read", _) => conn.respond_err(request.token, &ErrorObject::invalid_params()),
                    (other, _) => conn.respond_unknown_method(request.token, other),
                };
                let how = if answered.is_ok() { "answered" } else { "lost" };
                format!("request {} {how}", request.method)
            }
            Event::Notification(notification) if notification.method == "led" => {
                let wanted = notification
                    .params
                    .map(|params| params.decode::<[bool; 1]>());
                if let Some(Ok([led])) = wanted {
                    self.led = led;
                }
                format!("notification: led is now {}", self.led)
            }
            Event::Response(response) => match response.outcome {
                Outcome::Ok(result) => format!("call {} gave {result}", response.tag),
                Outcome::TimedOut => format!("call {} timed out", response.tag),
                other => format!("call {} ended: {other:?}", response.tag),
            },
            Event::Refused(refused) => match refused.cause {
                RefusedCause::TooLarge { .. } => "a message was too large".to_owned(),
                other => format!("refused: {other:?}"),
            },
            other => format!("{other:?}"),
        };
        self.log.push(line);
    }
}

fn main() -> ExitCode {
    let mut line = SerialLine {
        says: host_script(),
        said: 0,
        heard: Vec::new(),
    };
    let mut device = Device::default();
    let mut conn = Connection::new(CONFIG);
    let (mut buf, mut filled) = ([0; INPUT_BYTES], 0);
    let mut now = Instant::ZERO;

    // One call that the host answers, and one that it does not.
    for method in ["time", "weather"] {
        let deadline = now + Duration::from_millis(400);
        if let Err(refused) = conn.call(method, (), Some(deadline), method) {
            print(format_args!("embedding: {method} was refused: {refused}"));
            return ExitCode::FAILURE;
        }
    }

    // Enough turns for all that the host sends, and for the deadline of the second call.
    for turn in 1..=500 {
        now += TURN;
        conn.handle_timeout(now);
        filled += line.read(&mut buf[filled..]);
        let mut input = Input::stream(&buf[..filled]);
        while let Some(event) = conn.poll_event(&mut input) {
            device.handle(&mut conn, event);
            if let Some(last) = device.log.last() {
                print(format_args!("{turn:>4} ms  {last}"));
            }
        }
        let consumed = input.consumed();
        buf.copy_within(consumed..filled, 0);
        filled -= consumed;
        if let Some(bytes) = conn.poll_transmit() {
            let written = line.write(bytes);
            conn.consume_transmit(written);
        }
    }

    print(format_args!("the host heard:"));
    let heard = String::from_utf8_lossy(&line.heard);
    heard
        .lines()
        .for_each(|line| print(format_args!("         {line}")));
    let is_right = device.led && device.log == LOG && heard.lines().eq(HEARD);
    if !is_right {
        print(format_args!(
            "embedding: this is not what should have happened"
        ));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Returns everything that the host sends: a request, a notification, a message larger than the
/// device's input buffer, an answer, and another request.
fn host_script() -> Vec<u8> {
    let large = "x".repeat(1000);
    [
        r#"{"jsonrpc":"2.0","method":"read","params":["temperature"],"id":"h1"}"#,
        r#"{"jsonrpc":"2.0","method":"led","params":[true]}"#,
        &format!(r#"{{"jsonrpc":"2.0","method":"print","params":["{large}"],"id":"h2"}}"#),
        r#"{"jsonrpc":"2.0","result":"12:00","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"read","params":["pressure"],"id":"h3"}"#,
    ]
    .join("\n")
    .into_bytes()
    .into_iter()
    .chain(*b"\n")
    .collect()
}

/// What the device should log.
const LOG: [&str; 6] = [
    "request read answered",
    "notification: led is now true",
    "a message was too large",
    "call time gave \"12:00\"",
    "request read answered",
    "call weather timed out",
];

/// What the host should hear.
const HEARD: [&str; 5] = [
    r#"{"jsonrpc":"2.0","method":"time","id":1}"#,
    r#"{"jsonrpc":"2.0","method":"weather","id":2}"#,
    r#"{"jsonrpc":"2.0","result":21.5,"id":"h1"}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-32004,"message":"Request too large, limit: 150"},"id":null}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params"},"id":"h3"}"#,
];

/// Writes a line to standard output. If that is closed, only the line is lost.
fn print(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}
