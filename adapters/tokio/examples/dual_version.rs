//! One HTTP endpoint for JSON-RPC 1.0 and 2.0, each request answered in its own version: `POST
//! /jsonrpc` on 127.0.0.1:8001.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http --example dual_version -- 8001
//! curl -H 'content-type: application/json' http://127.0.0.1:8001/jsonrpc \
//!     -d '{"method":"add","params":[5,3],"id":"one"}'
//! {"result":8,"error":null,"id":"one"}
//! ```
//!
//! With `ack-all-null` as a second argument a 1.0 notification is acknowledged with three nulls, as
//! some old clients expect; otherwise it is not answered.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use antiphon_tokio::http::{HttpConfig, WebRules};
use antiphon_tokio::{Config, OwnedError, Router, TcpServer, V1NullId};
use serde::Serialize;

/// A number; whole numbers below 1e15 are written without a fraction.
#[derive(Serialize)]
#[serde(untagged)]
enum Number {
    Whole(i64),
    Float(f64),
}

fn number(number: f64) -> Result<Number, OwnedError> {
    Ok(match number.fract() == 0.0 && number.abs() < 1e15 {
        true => Number::Whole(number as i64),
        false => Number::Float(number),
    })
}

fn server_time() -> Result<String, OwnedError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let (seconds, millis) = (now.as_secs(), now.subsec_millis());
    Ok(format!("{seconds}.{millis:03} s of Unix time"))
}

fn trigger_error(message: Option<String>) -> Result<(), OwnedError> {
    let unless_given = "Default server error message from trigger_error method";
    Err(OwnedError::new(
        -32000,
        message.as_deref().unwrap_or(unless_given),
    ))
}

fn note(message: String, source: Option<String>) {
    let source = source.as_deref().unwrap_or("unknown_client_source");
    log(format_args!("dual_version: {source:?} says {message:?}"));
}

fn router() -> Router {
    Router::new()
        .method("echo", ["message"], |message: String| {
            Ok::<_, OwnedError>(message)
        })
        .method("add", ["a", "b"], |a: f64, b: f64| number(a + b))
        .method("subtract", ["minuend", "subtrahend"], |a: f64, b: f64| {
            number(a - b)
        })
        .method("get_server_time", [], server_time)
        .method("trigger_error", ["message"], trigger_error)
        .notification("notify_log", ["message", "source"], note)
        .describe("Both versions", "1.0.0")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut config = Config::mixed();
    let port = match std::env::args().nth(1).map(|port| port.parse::<u16>()) {
        None => 8001,
        Some(Ok(port)) => port,
        Some(Err(_)) => return refused(format_args!("the port must be a number up to 65535")),
    };
    match std::env::args().nth(2).as_deref() {
        None => {}
        Some("ack-all-null") => config.dialect.v1_null_id = V1NullId::AckAllNull,
        Some(other) => {
            return refused(format_args!(
                "what is {other}? write ack-all-null or nothing"
            ));
        }
    }
    let mut rules = WebRules::new();
    rules.paths.push("/jsonrpc".into());
    let server = match TcpServer::bind(("127.0.0.1", port)).await {
        Ok(server) => server,
        Err(error) => {
            return refused(format_args!(
                "cannot listen on port {port}: {error}; name another port"
            ));
        }
    };
    log(format_args!(
        "dual_version: listening on http://{}/jsonrpc",
        server.local_addr()
    ));
    let options = HttpConfig::from(config).with_rules(rules);
    server.start_http(options, router()).wait().await;
    ExitCode::SUCCESS
}

/// Prints why the server does not start.
fn refused(why: fmt::Arguments<'_>) -> ExitCode {
    log(format_args!("dual_version: {why}"));
    ExitCode::from(2)
}

/// Writes a line to standard error. If that is closed, only the line is lost.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
