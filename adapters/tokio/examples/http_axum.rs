//! A service as a route of axum. axum listens, reads the requests and writes the answers.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http --example http_axum -- 8080
//! ```

use antiphon::Config;
use antiphon_tokio::http::{Endpoint, Web};
use antiphon_tokio::{Answer, Context, OwnedError, Peer, Request, Service, current};
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{self, request::Parts};
use axum::response::Response;
use axum::routing::any;
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;

#[derive(Clone)]
struct Ping;

impl Service for Ping {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        let answered = match request.method() {
            "ping" => reply.ok("pong"),
            "whoami" => reply.ok(&request
                .peer()
                .context()
                .peer_addr
                .map(|address| address.ip())),
            other => reply.unknown_method(other),
        };
        if let Err(error) = answered {
            log(format_args!(
                "{} was not answered: {error}",
                request.method()
            ));
        }
        Ok(Answer::deferred())
    }
}

/// The handler of the route: a request goes in, an answer comes out. The route is for every HTTP
/// method, and all headers are passed on, because the endpoint's rules check them: which origins
/// are allowed, and what a browser may send.
async fn rpc(State(rpc): State<Endpoint<Ping>>, parts: Parts, body: Bytes) -> Response {
    let answer = rpc
        .answer_whole(http::Request::from_parts(parts, body))
        .await;
    answer.map(Body::from)
}

/// What handlers and logs know of the client: axum tells its address.
fn context(parts: &Parts, context: &mut Context) {
    let client = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    context.peer_addr = client.map(|ConnectInfo(address)| *address);
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    log(format_args!(
        "http_axum: listening on http://{}/rpc",
        listener.local_addr()?
    ));
    let web = Web::new(Config::new(), |_| Ping).context_from(context);
    let routes = axum::Router::new()
        .route("/rpc", any(rpc))
        .with_state(Endpoint::of(web, current()));
    let routes = routes.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, routes).await
}

/// Writes a line to standard error. If that is closed, only the line is lost.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
