//! A calculator served over standard input and output, one message a line, or over TCP.
//!
//! ```sh
//! printf '{"jsonrpc":"2.0","method":"add","params":[10,5],"id":1}\n' | cargo run -q --example calculator
//! {"jsonrpc":"2.0","result":15.0,"id":1}
//! ```
//!
//! `add`, `subtract` and `divide` take two numbers by position or as `a` and `b`; results are
//! floating-point numbers, so fifteen is written `15.0`. The notification
//! `logCalculation(operation, result)` goes to standard error: standard output is for messages
//! alone. With `--port N` it listens on that port of this machine instead.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use antiphon::{Closed, Config, ErrorObject, Json, codes};
use antiphon_blocking::{
    Answer, Notification, OwnedError, Peer, Report, Request, Service, TcpServer, serve_stdio,
};
use serde::Deserialize;

struct Calculator;

impl Service for Calculator {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        Ok(calculate(request.method(), request.raw_params())?.into())
    }

    fn notification(&mut self, _: &Peer, notification: Notification) {
        if notification.method() != "logCalculation" {
            log(format_args!(
                "calculator: nobody listens to {}",
                notification.method()
            ));
            return;
        }
        // Params of another type are in the report.
        if let Ok(Logged { operation, result }) = notification.params() {
            log(format_args!("calculator: {operation} = {result}"));
        }
    }

    fn report(&mut self, _: &Peer, report: Report) {
        // A transport that fails is told by `main`.
        if !matches!(report, Report::Transport(_)) {
            log(format_args!("calculator: {report}"));
        }
    }
}

fn calculate(method: &str, params: Option<Json<'_>>) -> Result<f64, ErrorObject<'static>> {
    let operation: fn(f64, f64) -> Option<f64> = match method {
        "add" => |a, b| Some(a + b),
        "subtract" => |a, b| Some(a - b),
        "divide" => |a, b| (b != 0.0).then(|| a / b),
        _ => return Err(ErrorObject::method_not_found()),
    };
    let Pair { a, b } = params
        .and_then(Pair::read)
        .ok_or_else(ErrorObject::invalid_params)?;
    let refused = |why| ErrorObject::new(codes::INVALID_PARAMS, why);
    let result = operation(a, b).ok_or_else(|| refused("Division by zero"))?;
    // JSON has no number for an infinite result.
    result
        .is_finite()
        .then_some(result)
        .ok_or_else(|| refused("Result out of range"))
}

/// Two numbers, by name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    a: f64,
    b: f64,
}

impl Pair {
    fn read(params: Json<'_>) -> Option<Self> {
        let by_position = params.decode().map(|(a, b)| Self { a, b });
        by_position.or_else(|_| params.decode()).ok()
    }
}

/// The params of `logCalculation`, by name or by position.
#[derive(Deserialize)]
struct Logged {
    operation: String,
    result: f64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let served = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve_stdio(Config::new(), Calculator),
        ["--port", port] => match port.parse() {
            Ok(port) => listen(port),
            Err(_) => return wrong_usage(&format!("`{port}` is no port")),
        },
        _ => return wrong_usage("unknown arguments"),
    };
    match served {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            log(format_args!("calculator: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Serves every connection to `port` until the process is ended.
fn listen(port: u16) -> std::io::Result<Closed> {
    let server = TcpServer::bind(("127.0.0.1", port))?;
    let address = server.local_addr()?;
    let running = server.start(Config::new(), |_| Calculator)?;
    log(format_args!("listening {address}"));
    running.wait();
    Ok(Closed::EndOfInput)
}

fn wrong_usage(what: &str) -> ExitCode {
    log(format_args!(
        "calculator: {what}; usage: calculator [--port N]"
    ));
    ExitCode::from(2)
}

/// Writes a line to standard error. If that is closed, the line is lost and nothing else.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
