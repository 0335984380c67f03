//! A service over HTTP that measures its calls, and serves the metrics to Prometheus on another
//! port.
//!
//! ```sh
//! cargo run -p antiphon-tokio --features http --example metrics -- 8080 9090
//! curl http://127.0.0.1:9090/metrics
//! ```
//!
//! Without ports the system chooses free ones. `add` takes two numbers as `a` and `b`, and so does
//! `divide`.

use std::io::{self, Write};
use std::time::Duration;

use antiphon_metrics::{BUCKETS, Metrics};
use antiphon_tokio::http::Web;
use antiphon_tokio::{Config, OwnedError, Router, TcpServer};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

fn divide(a: f64, b: f64) -> Result<f64, OwnedError> {
    match b {
        0.0 => Err(OwnedError::new(1001, "Division by zero")),
        b => Ok(a / b),
    }
}

/// Keeps what is measured, in the buckets and by the names that dashboards expect.
fn exporter() -> Result<PrometheusHandle, BuildError> {
    let mut exporter = PrometheusBuilder::new().with_recommended_naming(true);
    for (name, bounds) in BUCKETS {
        exporter = exporter.set_buckets_for_metric(Matcher::Full(name.into()), bounds)?;
    }
    exporter.install_recorder()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mut ports = std::env::args().skip(1);
    let mut address = || format!("127.0.0.1:{}", ports.next().unwrap_or_else(|| "0".into()));

    let exporter = exporter().map_err(io::Error::other)?;
    let kept_up = exporter.clone();
    tokio::spawn(async move {
        // Without this, what nobody reads takes more and more memory.
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            kept_up.run_upkeep();
        }
    });
    let router = Router::new()
        .method("add", ["a", "b"], |a: f64, b: f64| {
            Ok::<_, OwnedError>(a + b)
        })
        .method("divide", ["a", "b"], divide)
        .intercept(Metrics::new());
    let server = TcpServer::bind(address()).await?;
    let rpc = server.local_addr();
    let _running = server.start_http(Config::new(), router);

    let pages = TcpServer::bind(address()).await?;
    let shown = pages.local_addr();
    let web = Web::new(Config::new(), |_| ()).metrics("/metrics", move || exporter.render());
    // If standard error is closed, only the line is lost.
    let _ = writeln!(
        io::stderr(),
        "metrics: listening on http://{rpc}/ and http://{shown}/metrics"
    );
    pages.start_web(web).wait().await;
    Ok(())
}
