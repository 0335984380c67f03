//! A calculator over HTTP: `POST /rpc` on a port of this machine.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http,openrpc --example calculator_server -- 8080
//! curl -H 'content-type: application/json' http://127.0.0.1:8080/rpc \
//!     -d '{"jsonrpc":"2.0","method":"add","params":[10,5],"id":1}'
//! {"jsonrpc":"2.0","result":15.0,"id":1}
//! ```
//!
//! The default port is 8080; with port 0 the system chooses a free one. `add`, `subtract` and
//! `divide` take two numbers by position or as `a` and `b`; the notification
//! `logCalculation(operation, result)` is written to standard error, and so is a line for each call. At
//! most 100 requests run at once, a batch has at most 50 items, and a body at most 1 048 576 bytes.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use antiphon_tokio::http::{HttpConfig, WebRules};
use antiphon_tokio::service::{CallLog, LoggedCall, Logging};
use antiphon_tokio::{
    Config, ConnectionConfig, Dispatcher, ErrorObject, NotificationOk, Router, RpcError, TcpServer,
    service,
};

/// Arithmetic.
#[service(rename_all = "camelCase")]
trait Calculator {
    /// Adds two numbers.
    async fn add(&self, a: f64, b: f64) -> Result<f64, CalcError>;
    /// Subtracts the second number from the first.
    async fn subtract(&self, a: f64, b: f64) -> Result<f64, CalcError>;
    /// Divides the first number by the second.
    async fn divide(&self, a: f64, b: f64) -> Result<f64, CalcError>;
    /// Writes a line to the server's log.
    async fn log_calculation(&self, operation: String, result: f64) -> NotificationOk;
}

#[derive(Debug, RpcError)]
enum CalcError {
    #[rpc(code = -32602, message = "Division by zero")]
    DivisionByZero,
}

struct Mine;

impl Calculator for Mine {
    async fn add(&self, a: f64, b: f64) -> Result<f64, CalcError> {
        Ok(a + b)
    }

    async fn subtract(&self, a: f64, b: f64) -> Result<f64, CalcError> {
        Ok(a - b)
    }

    async fn divide(&self, a: f64, b: f64) -> Result<f64, CalcError> {
        match b {
            0.0 => Err(CalcError::DivisionByZero),
            b => Ok(a / b),
        }
    }

    async fn log_calculation(&self, operation: String, result: f64) -> NotificationOk {
        log(format_args!("calculator: {operation} = {result}"));
        NotificationOk
    }
}

/// Writes a line for each call.
struct Log;

impl CallLog for Log {
    fn response(&self, call: &LoggedCall<'_>, duration: Duration, _: Option<&str>) {
        log(format_args!(
            "calculator: {} took {duration:?}",
            call.method
        ));
    }

    fn error(
        &self,
        call: &LoggedCall<'_>,
        _: Duration,
        error: &ErrorObject<'_>,
        _: Option<&dyn Error>,
    ) {
        log(format_args!("calculator: {} failed: {error}", call.method));
    }
}

pub(crate) fn options() -> HttpConfig {
    let mut config = Config::new();
    config.limits.max_batch_items = 50;
    config.limits.max_message_bytes = 1_048_576;
    let mut options = ConnectionConfig::from(config);
    // 100 requests run at once, and 1024 wait.
    options.dispatcher = Dispatcher::new(100, 1024);
    let mut rules = WebRules::new();
    rules.paths.push("/rpc".into());
    HttpConfig::from(options).with_rules(rules)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let port = match std::env::args().nth(1).map(|port| port.parse::<u16>()) {
        None => 8080,
        Some(Ok(port)) => port,
        Some(Err(_)) => {
            log(format_args!(
                "calculator: the port must be a number up to 65535"
            ));
            return ExitCode::from(2);
        }
    };
    let server = match TcpServer::bind(("127.0.0.1", port)).await {
        Ok(server) => server,
        Err(error) => {
            log(format_args!(
                "calculator: cannot listen on port {port}: {error}; name another port"
            ));
            return ExitCode::from(2);
        }
    };
    log(format_args!(
        "calculator: listening on http://{}/rpc",
        server.local_addr()
    ));
    let router = Router::new()
        .service(Mine.into_service())
        .describe("Calculator", "1.0.0")
        .intercept(Logging::new(Log))
        .on_report(|_, report| log(format_args!("calculator: {report}")));
    server.start_http(options(), router).wait().await;
    ExitCode::SUCCESS
}

/// Writes a line to standard error. If that is closed, only the line is lost.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
