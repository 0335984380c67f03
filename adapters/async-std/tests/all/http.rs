//! HTTP over the real sockets of async-io, on async-std's executor. How clients and servers handle
//! each other's faults is tested on tokio, in virtual time: the code is the same.
#![cfg(feature = "http")]

use std::sync::Arc;
use std::time::Duration;

use antiphon::Config;
use antiphon_async_std::CallError;
use antiphon_async_std::{
    Answer, Client, ClientConfig, OwnedError, Peer, Request, Running, Service, TcpServer, connect,
};

/// Answers `echo` with its params. `wait` waits until it is cancelled.
struct Echo;

impl Service for Echo {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        crate::executor::assert_here();
        let reply = request.defer();
        let answered = match (request.method(), request.raw_params()) {
            ("echo", Some(params)) => reply.ok(params),
            ("wait", _) => {
                reply.cancellation().await;
                reply.cancelled()
            }
            (other, _) => reply.unknown_method(other),
        };
        // If the client has gone, the answer cannot be sent.
        drop(answered);
        Ok(Answer::deferred())
    }
}

/// A server of [`Echo`] over HTTP, and a client of it.
async fn served() -> (Running, Client) {
    let server = TcpServer::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", server.local_addr());
    // A client that has ended its stream may still read, so the server goes on with its request for
    // this long.
    let mut config = Config::new();
    config.timeouts.drain_timeout = Some(Duration::from_millis(50));
    let running = server.start_http(config, Arc::new(Echo));
    let mut options = ClientConfig::new(Config::new());
    options.max_http_connections = 2;
    let client = connect(url, options, ()).await;
    (running, client.expect("a client"))
}

// HTP-01 HTP-05 CON-08
#[test]
fn calls_go_over_two_connections_at_most() {
    crate::executor::block_on(async {
        let (running, client) = served().await;
        let calls: Vec<_> = (0..500_u32)
            .map(|n| {
                let client = client.clone();
                async_std::task::spawn(async move { client.call::<(u32,)>("echo", &(n,)).await })
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.expect("an answer").0 as usize, n);
        }
        assert!(running.connections() <= 2);
        let unknown = client
            .call::<()>("nobody", ())
            .await
            .expect_err("no such method");
        assert_eq!(unknown.remote().map(|error| error.code()), Some(-32601));
        let short = Some(Duration::from_millis(50));
        let late = client.call::<()>("wait", ()).timeout(short).await;
        assert!(matches!(late, Err(CallError::TimedOut)), "{late:?}");
        client
            .notify("told", ())
            .await
            .expect("the server accepts it");
        assert!(running.shutdown(Duration::from_secs(10)).await);
        assert!(client.call::<()>("echo", ()).await.is_err());
    });
}
