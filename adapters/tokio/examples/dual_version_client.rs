//! Sends every kind of message to the endpoint of `dual_version`, valid and invalid, in both versions,
//! and checks each reply. It writes the requests itself, because no client sends invalid ones.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http --example dual_version_client -- http://127.0.0.1:8001/jsonrpc
//! ```
//!
//! With `ack-all-null` as a second argument it expects a server that was started with this argument.
//! It prints a line for each row; its exit code is 1 if a reply is not as expected.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use antiphon_tokio::Json;

/// What a reply must have.
enum Expected {
    /// The status 204 and no body.
    NoContent,
    /// Exactly this body.
    Body(&'static str),
    /// This version, and a text that is not empty as the result of this id.
    SomeText(&'static str),
    /// An error with this code, and this id. It has no member besides code and message.
    Error(&'static str, &'static str),
    /// As `Error`, in version 1.0: `result` is null, and there is no `jsonrpc`.
    Error1(&'static str, &'static str),
}

use Expected::{Body, Error, Error1, NoContent, SomeText};

const ROWS: [(&str, &str, Expected); 18] = [
    (
        "echo by position",
        r#"{"jsonrpc":"2.0","method":"echo","params":["Hello"],"id":"e1"}"#,
        Body(r#"{"jsonrpc":"2.0","result":"Hello","id":"e1"}"#),
    ),
    (
        "add 10, 5",
        r#"{"jsonrpc":"2.0","method":"add","params":[10,5],"id":2}"#,
        Body(r#"{"jsonrpc":"2.0","result":15,"id":2}"#),
    ),
    (
        "subtract by name 100, 25",
        r#"{"jsonrpc":"2.0","method":"subtract","params":{"subtrahend":25,"minuend":100},"id":3}"#,
        Body(r#"{"jsonrpc":"2.0","result":75,"id":3}"#),
    ),
    (
        "get_server_time",
        r#"{"jsonrpc":"2.0","method":"get_server_time","id":4}"#,
        SomeText("4"),
    ),
    (
        "trigger_error with a text",
        r#"{"jsonrpc":"2.0","method":"trigger_error","params":["a text"],"id":5}"#,
        Body(r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"a text"},"id":5}"#),
    ),
    (
        "trigger_error without a text",
        r#"{"jsonrpc":"2.0","method":"trigger_error","id":6}"#,
        Body(
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Default server error message from trigger_error method"},"id":6}"#,
        ),
    ),
    (
        "non_existent_method",
        r#"{"jsonrpc":"2.0","method":"non_existent_method","id":7}"#,
        Error("-32601", "7"),
    ),
    (
        "notification notify_log",
        r#"{"jsonrpc":"2.0","method":"notify_log","params":{"message":"hello"}}"#,
        NoContent,
    ),
    (
        "notify_log with an id",
        r#"{"jsonrpc":"2.0","method":"notify_log","params":["hello","me"],"id":8}"#,
        Body(r#"{"jsonrpc":"2.0","result":null,"id":8}"#),
    ),
    (
        "batch of five",
        concat!(
            r#"[{"jsonrpc":"2.0","method":"echo","params":["text"],"id":"b1"},"#,
            r#"{"jsonrpc":"2.0","method":"notify_log","params":["hello"]},"#,
            r#"{"jsonrpc":"2.0","method":"add","params":[99,1],"id":"b2"},"#,
            r#"{"jsonrpc":"2.0","method":"unknown","id":"b3"},"#,
            r#"{"jsonrpc":"2.0","method":"unknown"}]"#
        ),
        Body(concat!(
            r#"[{"jsonrpc":"2.0","result":"text","id":"b1"},"#,
            r#"{"jsonrpc":"2.0","result":100,"id":"b2"},"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":"b3"}]"#
        )),
    ),
    (
        "text that is not JSON",
        "this is not JSON",
        Error("-32700", "null"),
    ),
    (
        "jsonrpc 2.1 with an id",
        r#"{"jsonrpc":"2.1","method":"echo","params":["x"],"id":9}"#,
        Error("-32600", "9"),
    ),
    (
        "no version, no id",
        r#"{"method":"echo","params":["x"]}"#,
        Error("-32600", "null"),
    ),
    ("[]", "[]", Error("-32600", "null")),
    (
        "1.0 add 5, 3 with a string id",
        r#"{"method":"add","params":[5,3],"id":"one"}"#,
        Body(r#"{"result":8,"error":null,"id":"one"}"#),
    ),
    (
        "1.0 unknown method",
        r#"{"method":"unknown","params":[],"id":"two"}"#,
        Error1("-32601", "\"two\""),
    ),
    (
        "1.0 with a null id",
        r#"{"method":"notify_log","params":["hello"],"id":null}"#,
        NoContent,
    ),
    (
        "1.0 with a null id, acknowledged",
        r#"{"method":"notify_log","params":["hello"],"id":null}"#,
        Body(r#"{"result":null,"error":null,"id":null}"#),
    ),
];

impl Expected {
    fn fits(&self, status: &str, body: &str) -> bool {
        let json = Json::parse_str(body).ok();
        let member = |name: &str| json.and_then(|json| json.get(name));
        let text = |name: &str| member(name).map(Json::as_str);
        let is_error = |code: &str, id: &str| {
            let error = member("error");
            let names = error.map(|error| error.members().map(|(name, _)| name.to_cow_lossy()));
            let names = names.is_some_and(|names| names.eq(["code", "message"]));
            let found = error.and_then(|error| error.get("code"));
            status == "200"
                && names
                && found.map(Json::as_str) == Some(code)
                && text("id") == Some(id)
        };
        let is_v2 = text("jsonrpc") == Some("\"2.0\"");
        match self {
            NoContent => status == "204" && body.is_empty(),
            Body(expected) => status == "200" && body == *expected,
            SomeText(id) => {
                let result = text("result")
                    .is_some_and(|result| result.starts_with('"') && result.len() > 2);
                status == "200" && is_v2 && result && text("id") == Some(id)
            }
            Error(code, id) => is_error(code, id) && is_v2 && member("result").is_none(),
            Error1(code, id) => {
                let has_version = member("jsonrpc").is_some();
                is_error(code, id) && !has_version && text("result") == Some("null")
            }
        }
    }
}

/// Posts a body. Returns the status and the body of the reply.
fn post(url: &str, body: &str) -> io::Result<(String, String)> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    Ok((status.into(), body.into()))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let url = arguments
        .next()
        .unwrap_or("http://127.0.0.1:8001/jsonrpc".into());
    let acknowledges = arguments.next().as_deref() == Some("ack-all-null");
    let mut failed = 0;
    for (name, request, expected) in &ROWS {
        if name.starts_with("1.0 with a null id") && name.contains("acknowledged") != acknowledges {
            continue;
        }
        let said = match post(&url, request) {
            Ok((status, body)) if expected.fits(&status, &body) => "as expected".to_string(),
            Ok((status, body)) => format!("NOT as expected: {status} {body}"),
            Err(error) => format!("NOT as expected: {error}"),
        };
        failed += u8::from(said.starts_with("NOT"));
        // If standard output is closed, only the line is lost.
        let _ = writeln!(io::stdout(), "{name}: {said}");
    }
    ExitCode::from(failed.min(1))
}
