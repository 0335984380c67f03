//! A calculator served over standard input and output, one message per line, or over TCP.
//!
//! ```sh
//! printf '{"jsonrpc":"2.0","method":"add","params":[10,5],"id":1}\n' | cargo run -q --example calculator
//! {"jsonrpc":"2.0","result":15.0,"id":1}
//! ```
//!
//! `add`, `subtract` and `divide` take two numbers by position or as `a` and `b`; results are
//! floating-point numbers, so fifteen is written `15.0`. The notification
//! `logCalculation(operation, result)` is written to standard error, because only messages may go
//! to standard output. With `--port N` it listens on that port of this machine instead.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use antiphon_blocking::{
    Closed, Config, NotificationOk, Report, Router, RpcError, TcpServer, serve_stdio, service,
};

/// Arithmetic.
#[service(rename_all = "camelCase")]
trait Calculator {
    /// Adds two numbers.
    fn add(&self, a: f64, b: f64) -> Result<f64, CalcError>;
    /// Subtracts the second number from the first.
    fn subtract(&self, a: f64, b: f64) -> Result<f64, CalcError>;
    /// Divides the first number by the second.
    fn divide(&self, a: f64, b: f64) -> Result<f64, CalcError>;
    /// Writes a line to standard error.
    fn log_calculation(&self, operation: String, result: f64) -> NotificationOk;
}

#[derive(Debug, RpcError)]
enum CalcError {
    #[rpc(code = -32602, message = "Division by zero")]
    DivisionByZero,
    #[rpc(code = -32602, message = "Result out of range")]
    OutOfRange,
}

struct Mine;

impl Calculator for Mine {
    fn add(&self, a: f64, b: f64) -> Result<f64, CalcError> {
        finite(a + b)
    }

    fn subtract(&self, a: f64, b: f64) -> Result<f64, CalcError> {
        finite(a - b)
    }

    fn divide(&self, a: f64, b: f64) -> Result<f64, CalcError> {
        match b {
            0.0 => Err(CalcError::DivisionByZero),
            b => finite(a / b),
        }
    }

    fn log_calculation(&self, operation: String, result: f64) -> NotificationOk {
        log(format_args!("calculator: {operation} = {result}"));
        NotificationOk
    }
}

/// JSON has no number for an infinite result.
fn finite(result: f64) -> Result<f64, CalcError> {
    match result.is_finite() {
        true => Ok(result),
        false => Err(CalcError::OutOfRange),
    }
}

fn router() -> Router {
    Router::new()
        .service(Mine.into_service())
        .describe("Calculator", "1.0.0")
        .on_report(|_, report| {
            // `main` prints an error of the transport.
            if !matches!(report, Report::Transport(_)) {
                log(format_args!("calculator: {report}"));
            }
        })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let served = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve_stdio(Config::new(), router()),
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
    let running = server.start(Config::new(), router().into_make_service())?;
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

/// Writes a line to standard error. If that is closed, only the line is lost.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
