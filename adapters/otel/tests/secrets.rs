//! A secret is put into every part of a message, and must not appear in any span, metric or log.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_metrics::Metrics;
use antiphon_otel::{OtelMetrics, OtelTracer};
use antiphon_tokio::http::HttpConfig;
use antiphon_tokio::service::{BearerAuth, CallLog, LoggedCall, Logging, Tracing};
use antiphon_tokio::{
    ClientConfig, Config, ConnectionConfig, ErrorObject, Internal, Link, OwnedError, OwnedJson,
    Params, Peer, Request, Router, TcpServer, TracingSpans, attach, connect, trace_report,
};
use serde::Deserialize;
use serde_json::Value;
use support::{Collector, Program};
use tracing_subscriber::fmt::MakeWriter;

#[path = "../../metrics/tests/all/measured.rs"]
mod measured;
mod support;

const SECRET: &str = "tops3cret-7f3a";

/// All that is written: logs, events, debug output.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Output {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

impl Output {
    fn say(&self, line: fmt::Arguments<'_>) {
        let mut text = String::new();
        writeln!(text, "{line}").unwrap();
        self.0.lock().unwrap().extend_from_slice(text.as_bytes());
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// A log that leaves nothing out.
impl CallLog for Output {
    fn request(&self, call: &LoggedCall<'_>, params: Option<&str>) {
        self.say(format_args!("log > {call:?} {params:?}"));
    }

    fn response(&self, call: &LoggedCall<'_>, duration: Duration, result: Option<&str>) {
        self.say(format_args!("log < {call:?} {duration:?} {result:?}"));
    }

    fn error(
        &self,
        call: &LoggedCall<'_>,
        _: Duration,
        error: &ErrorObject<'_>,
        cause: Option<&dyn Error>,
    ) {
        self.say(format_args!("log ! {call:?} {error} {error:?} {cause:?}"));
    }
}

/// Hides passwords. Arrays, and objects with members of other names, are not shown at all.
fn redact(_: &str, payload: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(payload).ok()?;
    if let Some(password) = value.get_mut("password") {
        *password = "***".into();
    }
    let is_known = |name: &String| ["user", "password", "_meta"].contains(&name.as_str());
    let is_shown = match &value {
        Value::Array(_) => false,
        Value::Object(members) => members.keys().all(is_known),
        _ => true,
    };
    is_shown.then(|| value.to_string())
}

fn login(user: String, password: String) -> Result<String, OwnedError> {
    assert_eq!(password, SECRET, "it arrives");
    Ok(format!("welcome {user}"))
}

/// A type that expects a number where the secret is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    password: i32,
}

/// A type that quotes what it refuses.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Colour;

impl TryFrom<String> for Colour {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Err(format!("{name} is no colour"))
    }
}

/// The server's methods, with every interceptor and report that writes something.
fn router(program: &Program, metrics: &Metrics, output: &Output) -> Router {
    let (debug, reports) = (output.clone(), output.clone());
    Router::new()
        .method("login", ["user", "password"], login)
        .method("typed", ["password"], |n: u8| Ok::<_, OwnedError>(n))
        .method("whole", [], |Params(login): Params<Login>| {
            Ok::<_, OwnedError>(login.password)
        })
        .method("refused", ["password"], |_: Colour| Ok::<_, OwnedError>(()))
        .method("fails", ["password"], |_: String| {
            Err::<(), _>(OwnedError::new(1001, "no such user"))
        })
        .method("breaks", ["password"], |_: String| {
            Err::<(), _>(io::Error::other("the database is gone")).internal()
        })
        .raw("shows", move |request: &Request| {
            let (peer, context) = (request.peer(), request.peer().context().clone());
            debug.say(format_args!("{request:?} {peer:?} {context:?}"));
            if context.target.is_some() {
                assert_eq!(context.header("x-api-key"), Some(SECRET));
                assert_eq!(
                    context.header("authorization"),
                    Some(&*format!("Bearer {SECRET}"))
                );
            }
            Ok(true.into())
        })
        .intercept(Tracing::new(OtelTracer::new(&program.spans)))
        .intercept(Tracing::new(TracingSpans::new()))
        .intercept(Logging::new(output.clone()).with_payloads(redact))
        .intercept(metrics.clone())
        .intercept(OtelMetrics::new(&program.meters))
        .on_report(move |peer, report| {
            reports.say(format_args!("report {report} {report:?}"));
            trace_report(peer, report);
        })
}

/// The calls that each client makes, 15 in all.
macro_rules! calls {
    ($caller:expr, $output:expr) => {
        let password = format!(r#"{{"user":"ann","password":"{SECRET}"}}"#);
        let whole = OwnedJson::parse(password).unwrap();
        let alone = OwnedJson::parse(format!(r#"{{"password":"{SECRET}"}}"#)).unwrap();
        let welcome: String = $caller.call("login", &whole).await.unwrap();
        assert_eq!(welcome, "welcome ann");
        let methods = ["typed", "fails", "breaks", "none", "whole", "refused"];
        for method in methods {
            let error = $caller.call::<OwnedJson>(method, &alone).await.unwrap_err();
            $output.say(format_args!("{error} {error:?}"));
        }
        // A secret as the name of a parameter, by position, and in a batch.
        let name = OwnedJson::parse(format!(r#"{{"{SECRET}":1}}"#)).unwrap();
        let position = OwnedJson::parse(format!(r#"["{SECRET}"]"#)).unwrap();
        for params in [&name, &position] {
            for method in ["typed", "whole"] {
                let error = $caller.call::<u8>(method, params).await.unwrap_err();
                $output.say(format_args!("{error} {error:?}"));
            }
        }
        let (handle, mut came) = $caller
            .batch(|batch| {
                batch.notify("typed", &alone)?;
                batch.notify("whole", &name)?;
                batch.call::<u8>("typed", &position)
            })
            .await
            .unwrap();
        $output.say(format_args!("{:?}", came.fetch(handle)));
        assert!($caller.call::<bool>("shows", ()).await.unwrap());
        $output.say(format_args!("{:?}", $caller));
    };
}

// SEC-15 OBS-09 OBS-01 OBS-05
#[tokio::test]
async fn a_secret_in_a_token_a_header_and_a_redacted_field_is_in_no_output() {
    let output = Output::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(output.clone())
        .with_ansi(false)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let (collector, address) = Collector::start();
    let (client, server) = (
        Program::new("client", address),
        Program::new("server", address),
    );
    let (metrics, shown) = measured::measured();
    let auth = BearerAuth::new(|| Ok(Some(SECRET.into())));

    // Over HTTP, with a token and a header.
    let served = router(&server, &metrics, &output);
    output.say(format_args!("{served:?} {metrics:?} {auth:?}"));
    let listener = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr());
    let options = HttpConfig::from(ConnectionConfig::from(Config::new()));
    output.say(format_args!("{options:?}"));
    let _running = listener.start_http(options, served.clone());
    let mut options = ClientConfig::from(Config::new())
        .intercept(Tracing::new(OtelTracer::new(&client.spans)))
        .intercept(Tracing::new(TracingSpans::new()))
        .intercept(Logging::new(output.clone()).with_payloads(redact))
        .intercept(metrics.clone())
        .intercept(OtelMetrics::new(&client.meters))
        .intercept(auth.clone());
    options.headers.push(("x-api-key".into(), SECRET.into()));
    output.say(format_args!("{options:?}"));
    let caller = connect(&url, options, ()).await.unwrap();
    calls!(caller, output);

    // Over a stream, with the trace in params.
    let (near, far) = Link::pair();
    let options = ConnectionConfig::from(Config::new())
        .intercept(Tracing::new(OtelTracer::new(&client.spans)).with_meta())
        .intercept(Tracing::new(TracingSpans::new()))
        .intercept(Logging::new(output.clone()).with_payloads(redact))
        .intercept(metrics.clone())
        .intercept(OtelMetrics::new(&client.meters));
    output.say(format_args!("{options:?}"));
    let _serving: Peer = attach(far, Config::new(), served);
    let peer = attach(near, options, ());
    calls!(peer, output);
    client.flush();
    server.flush();

    let said = [output.text(), shown.render(), collector.everything()];
    // Every output was used, by calls on both sides and by what went wrong.
    for (text, wanted) in [
        (&said[0], "log > LoggedCall { method: \"login\""),
        (&said[0], r#"\"password\":\"***\""#),
        (&said[0], "otel.name=\"login\""),
        (&said[0], "the database is gone"),
        (
            &said[0],
            "invalid params: `password`: invalid type: string, expected u8 at line 1",
        ),
        (&said[0], "a parameter of this name is not known"),
        (&said[0], "unknown field, expected `password`"),
        (&said[0], "typed (notification)"),
        (&said[0], "refused by its type"),
        (
            &said[1],
            "rpc_server_call_duration_seconds_count{rpc_system_name=\"jsonrpc\",rpc_method=\"login\"} 2\n",
        ),
        (
            &said[1],
            "rpc_client_call_duration_seconds_count{rpc_system_name=\"jsonrpc\",rpc_method=\"login\"} 2\n",
        ),
        (&said[2], "rpc.server.call.duration"),
        (&said[2], "rpc.method_original"),
    ] {
        assert!(text.contains(wanted), "no {wanted} in {text}");
    }
    // Two clients with 15 calls each, and a span on either side.
    assert_eq!(collector.spans().len(), 60);
    // Debug output of bytes shows their numbers.
    let as_numbers: Vec<_> = SECRET
        .bytes()
        .take(6)
        .map(|byte| byte.to_string())
        .collect();
    for text in said {
        for found in [SECRET, &SECRET[..9], &as_numbers.join(", ")] {
            assert!(!text.contains(found), "{found} in {text}");
        }
    }
}
