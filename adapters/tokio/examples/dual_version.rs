//! One HTTP endpoint for JSON-RPC 1.0 and 2.0, each answered in kind: `POST /jsonrpc` on
//! 127.0.0.1:8001.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http --example dual_version -- 8001
//! curl -H 'content-type: application/json' http://127.0.0.1:8001/jsonrpc \
//!     -d '{"method":"add","params":[5,3],"id":"one"}'
//! {"result":8,"error":null,"id":"one"}
//! ```
//!
//! With `ack-all-null` as a second argument a 1.0 notification is acknowledged with three nulls,
//! as some old clients expect, instead of with nothing.

use std::fmt;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use antiphon::http::HttpRules;
use antiphon::{Config, ErrorObject, Json, SendError, V1NullId};
use antiphon_tokio::http::HttpConfig;
use antiphon_tokio::{
    Answer, Notification, OwnedError, Peer, Request, Responder, Service, TcpServer,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

struct Endpoint;

impl Service for Endpoint {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        let (method, params) = (request.method(), request.raw_params());
        if let Err(error) = answer(method, params, reply) {
            log(format_args!(
                "dual_version: {method} was not answered: {error}"
            ));
        }
        Ok(Answer::deferred())
    }

    async fn notification(&self, _: &Peer, notification: Notification) {
        if notification.method() == "notify_log" {
            // Params of another type are in the report.
            let _ = notification.params().map(note);
        }
    }
}

// Each reads its params by position and by name.

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Echo {
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subtract {
    minuend: f64,
    subtrahend: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TriggerError {
    #[serde(default = "default_error")]
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotifyLog {
    message: String,
    #[serde(default = "default_source")]
    source: String,
}

fn default_error() -> String {
    "Default server error message from trigger_error method".into()
}

fn default_source() -> String {
    "unknown_client_source".into()
}

fn read<P: DeserializeOwned>(params: Option<Json<'_>>) -> Result<P, ErrorObject<'static>> {
    let params = match params {
        Some(params) => params,
        // Absent params are an empty list.
        None => Json::parse(b"[]").map_err(|_| ErrorObject::internal_error())?,
    };
    params.decode().map_err(|_| ErrorObject::invalid_params())
}

fn answer(method: &str, params: Option<Json<'_>>, reply: Responder) -> Result<(), SendError> {
    let outcome = match method {
        "echo" => match read(params) {
            Ok(Echo { message }) => return reply.ok(&message),
            Err(error) => Err(error),
        },
        "add" => read(params).map(|Add { a, b }| a + b),
        "subtract" => read(params).map(|it: Subtract| it.minuend - it.subtrahend),
        "get_server_time" => {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            return reply.ok(&format!(
                "{}.{:03} s of Unix time",
                now.as_secs(),
                now.subsec_millis()
            ));
        }
        "trigger_error" => Err(match read(params) {
            Ok(TriggerError { message }) => ErrorObject::new(-32000, message),
            Err(error) => error,
        }),
        "notify_log" => match read(params) {
            Ok(log) => {
                note(log);
                return reply.ok(());
            }
            Err(error) => Err(error),
        },
        _ => Err(ErrorObject::method_not_found()),
    };
    match outcome {
        // Whole numbers are written as such.
        Ok(number) if number.fract() == 0.0 && number.abs() < 1e15 => reply.ok(&(number as i64)),
        Ok(number) => reply.ok(&number),
        Err(error) => reply.err(&error),
    }
}

fn note(NotifyLog { message, source }: NotifyLog) {
    log(format_args!("dual_version: {source:?} says {message:?}"));
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mut config = Config::mixed();
    let port = match std::env::args().nth(1).map(|port| port.parse::<u16>()) {
        None => 8001,
        Some(Ok(port)) => port,
        Some(Err(_)) => return Err(io::Error::other("the port must be a number up to 65535")),
    };
    match std::env::args().nth(2).as_deref() {
        None => {}
        Some("ack-all-null") => config.dialect.v1_null_id = V1NullId::AckAllNull,
        Some(other) => return Err(io::Error::other(format!("what is {other}?"))),
    }
    let mut rules = HttpRules::new();
    rules.paths.push("/jsonrpc".into());
    let server = TcpServer::bind(("127.0.0.1", port)).await?;
    log(format_args!(
        "dual_version: listening on http://{}/jsonrpc",
        server.local_addr()
    ));
    let options = HttpConfig::from(config).with_rules(rules);
    server.start_http(options, Endpoint).wait().await;
    Ok(())
}

/// Writes a line to standard error. If that is closed, the line is lost and nothing else.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
