//! Methods beside the routes of an axum application: by POST and WebSocket under `/rpc`. Ctrl-C ends both in order.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http,websocket --example http_axum -- 8080
//! curl -d '{"jsonrpc":"2.0","method":"whoami","id":1}' -H 'content-type: application/json' localhost:8080/rpc
//! ```

use antiphon_tokio::http::Web;
use antiphon_tokio::{Config, Context, OwnedError, Peer, Router};
use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::routing::get;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// What handlers and checks know of the client: axum tells its address.
fn context(parts: &Parts, context: &mut Context) {
    let client = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    context.peer_addr = client.map(|ConnectInfo(address)| *address);
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let methods = Router::new()
        .method("ping", [], || Ok::<_, OwnedError>("pong"))
        .method("whoami", [], |peer: Peer| {
            Ok::<_, OwnedError>(peer.context().peer_addr.map(|address| address.ip()))
        });
    let rpc = Web::new(Config::new(), methods.into_make_service())
        .context_from(context)
        .into_service();
    let routes = axum::Router::new()
        .route("/orders", get(|| async { "[]" }))
        .nest_service("/rpc", rpc.clone())
        .into_make_service_with_connect_info::<SocketAddr>();
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let address = listener.local_addr()?;
    writeln!(io::stderr(), "listening on http://{address}/rpc")?;
    let stop = async move {
        let _ = tokio::signal::ctrl_c().await;
        rpc.shutdown(Duration::from_secs(10)).await;
    };
    axum::serve(listener, routes)
        .with_graceful_shutdown(stop)
        .await
}
