//! Methods by POST and WebSocket over plain hyper, which reads the requests and hands the WebSockets over.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http,websocket --example http_hyper -- 8080
//! ```

use antiphon_tokio::http::Web;
use antiphon_tokio::{Config, OwnedError, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io::{self, Write};

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let methods = Router::new().method("ping", [], || Ok::<_, OwnedError>("pong"));
    let rpc = Web::new(Config::new(), methods.into_make_service()).into_service();
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let address = listener.local_addr()?;
    writeln!(io::stderr(), "listening on http://{address}/")?;
    loop {
        let (stream, _) = listener.accept().await?;
        let mut http = http1::Builder::new();
        // Without a timer hyper would wait for the head of a request for ever.
        http.timer(TokioTimer::new());
        let service = TowerToHyperService::new(rpc.clone());
        // Without upgrades there would be no WebSockets.
        let serving = http
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                let _ = writeln!(io::stderr(), "{error}");
            }
        });
    }
}
