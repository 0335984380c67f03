//! The layers of tower-http around methods: around the routes of an axum application, and around the service alone.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http,websocket --example http_layers -- 8080
//! ```

use antiphon_tokio::http::{Web, WebRules};
use antiphon_tokio::{Config, OwnedError, Router};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use std::io::{self, Write};
use std::time::Duration;
use tower::ServiceBuilder;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

const PAGE: HeaderValue = HeaderValue::from_static("https://app.example");
const TYPE: HeaderName = HeaderName::from_static("content-type");
const LATE: StatusCode = StatusCode::GATEWAY_TIMEOUT;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let cors = CorsLayer::new().allow_origin(PAGE).allow_headers([TYPE]);
    let layers = ServiceBuilder::new()
        .layer(TraceLayer::new_for_http())
        .layer(cors.allow_methods([Method::POST]))
        .layer(CompressionLayer::new())
        .layer(TimeoutLayer::with_status_code(LATE, Duration::from_secs(1)));
    let methods = Router::new()
        .method("zeros", ["n"], |n: u16| {
            Ok::<_, OwnedError>("0".repeat(n.into()))
        })
        .method("wait", [], async || {
            std::future::pending::<Result<(), OwnedError>>().await
        });
    // The endpoint's own rules hold behind every layer, so it has to know the page, too.
    let mut rules = WebRules::new();
    rules.origins.push("https://app.example".into());
    let web = Web::new(Config::new(), methods.into_make_service()).rules(rules);
    let rpc = web.into_service();
    let around_all = axum::Router::new()
        .nest_service("/rpc", rpc.clone())
        .layer(layers.clone());
    let routes = around_all.nest_service("/alone", layers.service(rpc));
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    writeln!(
        io::stderr(),
        "listening on http://{}/rpc and /alone",
        listener.local_addr()?
    )?;
    axum::serve(listener, routes).await
}
