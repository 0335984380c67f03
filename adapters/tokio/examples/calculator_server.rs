//! A calculator behind HTTP: `POST /rpc` on a port of this machine.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http --example calculator_server -- 8080
//! curl -H 'content-type: application/json' http://127.0.0.1:8080/rpc \
//!     -d '{"jsonrpc":"2.0","method":"add","params":[10,5],"id":1}'
//! {"jsonrpc":"2.0","result":15.0,"id":1}
//! ```
//!
//! Without a port it takes 8080, with 0 any that is free. `add`, `subtract` and `divide` take two
//! numbers by position or as `a` and `b`; the notification `logCalculation(operation, result)` is
//! written to standard error. At most 100 handlers of a request run at once, a batch has at most 50
//! items, and a body 1 048 576 bytes.

use std::fmt;
use std::io::{self, Write};

use antiphon::http::HttpRules;
use antiphon::{Config, ErrorObject, Json, codes};
use antiphon_tokio::http::HttpConfig;
use antiphon_tokio::{
    Answer, ConnectionConfig, Notification, OwnedError, Peer, Report, Request, Service, TcpServer,
};
use serde::Deserialize;

struct Calculator;

impl Service for Calculator {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        Ok(calculate(request.method(), request.raw_params())?.into())
    }

    async fn notification(&self, _: &Peer, notification: Notification) {
        match notification.method() {
            "logCalculation" => {
                // Params of another type are in the report.
                if let Ok(Logged { operation, result }) = notification.params() {
                    log(format_args!("calculator: {operation} = {result}"));
                }
            }
            method => log(format_args!("calculator: nobody understands this {method}")),
        }
    }

    fn report(&self, _: &Peer, report: Report) {
        log(format_args!("calculator: {report}"));
    }
}

/// Two numbers, by position or by name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Two {
    a: f64,
    b: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Logged {
    operation: String,
    result: f64,
}

fn calculate(method: &str, params: Option<Json<'_>>) -> Result<f64, ErrorObject<'static>> {
    let operation = match method {
        "add" => |a, b| Ok(a + b),
        "subtract" => |a, b| Ok(a - b),
        "divide" => |a, b| match b {
            0.0 => Err(ErrorObject::new(codes::INVALID_PARAMS, "Division by zero")),
            b => Ok(a / b),
        },
        _ => return Err(ErrorObject::method_not_found()),
    };
    match params.map(|params| params.decode()) {
        Some(Ok(Two { a, b })) => operation(a, b),
        _ => Err(ErrorObject::invalid_params()),
    }
}

fn options() -> HttpConfig {
    let mut config = Config::new();
    config.limits.max_batch_items = 50;
    config.limits.max_message_bytes = 1_048_576;
    let mut options = ConnectionConfig::from(config);
    options.max_running_requests = 100;
    let mut rules = HttpRules::new();
    rules.paths.push("/rpc".into());
    HttpConfig::from(options).with_rules(rules)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let port = match std::env::args().nth(1).map(|port| port.parse::<u16>()) {
        None => 8080,
        Some(Ok(port)) => port,
        Some(Err(_)) => return Err(io::Error::other("the port must be a number up to 65535")),
    };
    let server = TcpServer::bind(("127.0.0.1", port)).await?;
    log(format_args!(
        "calculator: listening on http://{}/rpc",
        server.local_addr()
    ));
    server.start_http(options(), Calculator).wait().await;
    Ok(())
}

/// Writes a line to standard error. If that is closed, the line is lost and nothing else.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
