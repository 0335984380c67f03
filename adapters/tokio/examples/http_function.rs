//! A serverless function: its host has read a whole request, and sends the whole answer. Here the command line is the
//! host; with the crate `lambda_http` the function would be its handler.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http --example http_function -- '{"jsonrpc":"2.0","method":"ping","id":1}'
//! ```

use antiphon_tokio::http::{Endpoint, Web};
use antiphon_tokio::{Config, OwnedError, Router, current};
use axum::body::Bytes;
use axum::http::{Request, Response};
use std::io::{self, Write};

type Methods = Endpoint<Router>;

/// Once for the process, which answers many requests.
fn start() -> Methods {
    let methods = Router::new().method("ping", [], || Ok::<_, OwnedError>("pong"));
    let web = Web::new(Config::new(), methods.into_make_service());
    Endpoint::of(web, current())
}

/// For each request. Every method and every header is passed on, because the rules check them.
async fn function(methods: &Methods, request: Request<Bytes>) -> Response<Bytes> {
    methods.answer_whole(request).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let body = std::env::args().nth(1).unwrap_or_default();
    let request = Request::post("/")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(body.into())?;
    let answer = function(&start(), request).await;
    writeln!(io::stdout(), "{}", answer.status())?;
    io::stdout().write_all(answer.body())?;
    Ok(())
}
