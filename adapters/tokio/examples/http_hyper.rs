//! A plain function as a hyper service, with antiphon's core and none of its adapters.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http --example http_hyper -- 8080
//! ```

use antiphon::http::{Fields, WebRules, handle};
use antiphon::{Config, ErrorObject, Incoming};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::fmt;
use std::io::{self, Write};

fn answer(call: Incoming<'_>) -> Result<&'static str, ErrorObject<'static>> {
    match call.method {
        "ping" => Ok("pong"),
        _ => Err(ErrorObject::method_not_found()),
    }
}

async fn rpc(
    request: Request<hyper::body::Incoming>,
) -> hyper::http::Result<Response<Full<Bytes>>> {
    let config = Config::new();
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, config.limits.max_message_bytes)
        .collect()
        .await;
    let Ok(body) = body.map(|body| body.to_bytes()) else {
        return Response::builder().status(413).body(Full::default());
    };
    // Every header is passed on, because the rules check them: which origins are allowed, and what
    // a browser may send.
    let mut fields = Fields::new();
    for (name, value) in &parts.headers {
        fields.line(name.as_str(), value.as_bytes());
    }
    let head = fields.head(parts.method.as_str(), parts.uri.path());
    let answer = handle(config, &WebRules::new(), &head, Some(&body), answer);
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, &*value);
    }
    response.body(answer.body.into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    log(format_args!(
        "http_hyper: listening on http://{}/",
        listener.local_addr()?
    ));
    loop {
        let (stream, _) = listener.accept().await?;
        let mut http = http1::Builder::new();
        // Without a timer hyper would wait for the head of a request for ever.
        http.timer(TokioTimer::new());
        let serving = http.serve_connection(TokioIo::new(stream), service_fn(rpc));
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                log(format_args!("http_hyper: {error}"));
            }
        });
    }
}

/// Writes a line to standard error. If that is closed, only the line is lost.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
