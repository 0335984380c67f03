//! The options of a client and a server, and their effect on messages.

use std::time::Duration;

use antiphon_net::duplex;
use antiphon_tokio::service::{AnyRequest, Cx, Decision, Interceptor};
use antiphon_tokio::{
    CallError, CancelStyle, Config, ConnectionConfig, IdScheme, Link, OwnedError, Peer, Router,
    SendError, VersionPolicy, attach, service,
};
use tokio::time::Instant;

use crate::support::Raw;

/// Arithmetic.
#[service]
trait Arithmetic {
    /// Adds.
    async fn add(&self, a: u32, b: u32) -> Result<u32, OwnedError>;
}

struct Adder;

impl Arithmetic for Adder {
    async fn add(&self, a: u32, b: u32) -> Result<u32, OwnedError> {
        Ok(a + b)
    }
}

/// Changes the method of each call to capitals, except `add`.
struct Loud;

impl<R: AnyRequest + ?Sized> Interceptor<R> for Loud {
    fn request(&self, cx: &mut Cx, call: &R) -> Decision {
        if call.method() != "add" {
            cx.set_method(call.method().to_uppercase());
        }
        Decision::Continue
    }
}

/// A connection with these options, and its other end.
fn both(options: impl Into<ConnectionConfig>, router: Router) -> (Peer, Raw) {
    let (near, far) = duplex(1 << 16);
    let peer = attach(Link::new(near), options, router);
    (peer, Raw::new(far))
}

// CLI-27 CLI-26
#[tokio::test(start_paused = true)]
async fn a_client_is_told_everything_beforehand() {
    let config = Config::new()
        .id_scheme(IdScheme::Prefixed("c-"))
        .cancel_send(CancelStyle::Lsp)
        .max_open_calls(2);
    let mut options = ConnectionConfig::new(config).intercept(Loud);
    options.call_timeout = Some(Duration::from_secs(5));
    let answers = Router::new().method("ask", [], || Ok::<_, OwnedError>("told"));
    let (peer, mut server) = both(options, answers);

    // Ids, encoding, interceptors.
    let began = Instant::now();
    let typed = ArithmeticClient::new(peer.clone()).by_position();
    let calling = tokio::spawn(async move { typed.add(1, 2).await });
    let request = r#"{"jsonrpc":"2.0","method":"add","params":[1,2],"id":"c-1"}"#;
    assert_eq!(server.line().await, request);
    let late = peer.call("late", ()).start().await.unwrap();
    let request = r#"{"jsonrpc":"2.0","method":"LATE","id":"c-2"}"#;
    assert_eq!(server.line().await, request);
    // Limits.
    let refused = peer.call::<u32>("more", ()).await;
    assert!(matches!(
        refused,
        Err(CallError::Rejected(SendError::TooManyCalls))
    ));
    // Cancel style.
    drop(late);
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"c-2"}}"#;
    assert_eq!(server.line().await, cancel);
    // The router, which answers requests of the server.
    let ask = "{\"jsonrpc\":\"2.0\",\"method\":\"ask\",\"id\":7}\n";
    server.send(ask).await.unwrap();
    let told = r#"{"jsonrpc":"2.0","result":"told","id":7}"#;
    assert_eq!(server.line().await, told);
    // Timeout: the configuration's, unless the call says otherwise.
    let timed_out = calling.await.unwrap().unwrap_err();
    assert!(matches!(timed_out, CallError::TimedOut));
    assert_eq!(began.elapsed().as_secs(), 5);
    let brief = peer.call::<u32>("m", ()).timeout(Duration::from_secs(1));
    assert!(matches!(brief.await, Err(CallError::TimedOut)));
    let batch = peer.batch(|batch| batch.call::<u32>("m", ())).await;
    let (call, mut outcomes) = batch.unwrap();
    assert!(outcomes.fetch(call).is_err());
    // 5 s for `add`, 1 s for `m`, and the configuration's 5 s for the batch.
    assert_eq!(began.elapsed().as_secs(), 11);
}

// CLI-27 CLI-26
#[tokio::test(start_paused = true)]
async fn the_version_policy_says_what_a_client_speaks() {
    let config = Config::new().version(VersionPolicy::V1Only);
    let (peer, mut server) = both(config, Router::new());
    let typed = ArithmeticClient::new(peer);
    let calling = tokio::spawn(async move { typed.add(1, 2).await });
    assert_eq!(
        server.line().await,
        r#"{"method":"add","params":[1,2],"id":1}"#
    );
    server
        .send("{\"result\":3,\"error\":null,\"id\":1}\n")
        .await
        .unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), 3);
}

// CLI-27
#[tokio::test(start_paused = true)]
async fn a_server_is_told_in_the_same_way() {
    let config = Config::new()
        .version(VersionPolicy::V1AndV2)
        .id_scheme(IdScheme::Prefixed("s-"))
        .cancel_receive(CancelStyle::Mcp)
        .max_batch_items(1);
    let mut options = ConnectionConfig::new(config).intercept(Loud);
    options.call_timeout = Some(Duration::from_secs(5));
    let router = Router::new()
        .method("ASK", [], async |peer: Peer| {
            let answer = peer.call::<u32>("back", ()).await;
            let answer = answer.map_or_else(|error| error.to_string(), |n| n.to_string());
            Ok::<_, OwnedError>(answer)
        })
        .service(Adder.into_service())
        .method("SLOW", [], async || {
            std::future::pending::<()>().await;
            Ok::<_, OwnedError>(())
        })
        .intercept(Loud);
    let (_peer, mut client) = both(options, router);
    for (request, answer) in [
        // Interceptors and versions.
        (
            r#"{"jsonrpc":"2.0","method":"add","params":[1,2],"id":1}"#,
            r#"{"jsonrpc":"2.0","result":3,"id":1}"#,
        ),
        (
            r#"{"method":"add","params":[1,2],"id":2}"#,
            r#"{"result":3,"error":null,"id":2}"#,
        ),
        // Limits.
        (
            r#"[{"jsonrpc":"2.0","method":"a","id":3},{"jsonrpc":"2.0","method":"a","id":4}]"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32003,"message":"Batch too large, limit: 1"},"id":null}"#,
        ),
    ] {
        client.send(format!("{request}\n")).await.unwrap();
        assert_eq!(client.line().await, answer);
    }
    // Cancel style.
    for line in [
        r#"{"jsonrpc":"2.0","method":"slow","id":5}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#,
    ] {
        client.send(format!("{line}\n")).await.unwrap();
    }
    assert_eq!(
        client.line().await,
        r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Request cancelled"},"id":5}"#
    );
    // Ids, interceptors and the timeout of its own calls.
    let began = Instant::now();
    let ask = "{\"jsonrpc\":\"2.0\",\"method\":\"ask\",\"id\":6}\n";
    client.send(ask).await.unwrap();
    assert_eq!(
        client.line().await,
        r#"{"jsonrpc":"2.0","method":"BACK","id":"s-1"}"#
    );
    assert_eq!(
        client.line().await,
        r#"{"jsonrpc":"2.0","result":"there was no answer in time","id":6}"#
    );
    assert_eq!(began.elapsed().as_secs(), 5);
}
