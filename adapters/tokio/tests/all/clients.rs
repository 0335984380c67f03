//! What a client makes of its options and its target, and what is left of an attempt after its end, in
//! memory and virtual time.

use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use antiphon_net::{NetRuntime, connect_on, duplex};
use antiphon_tokio::service::{Caller, Encoding};
use antiphon_tokio::{
    BearerAuth, CallError, Client, ClientConfig, Config, ConnectError, Connecting, ConnectionState,
    Link, ReconnectStrategy, Target, VersionPolicy, connect, current, reconnect,
};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use crate::reconnect::{again_after_a_second, call, result, target, target_of};
use crate::support::Raw;

// CON-06 CON-09
#[tokio::test(start_paused = true)]
async fn a_call_after_the_close_need_not_be_made_again() {
    let (target, mut server) = target();
    let client = reconnect(target, Config::new(), ()).await.unwrap();
    let _open = server.accept().await;
    client.close();
    let ended = client.call::<u32>("m", ()).await.unwrap_err();
    let waited = client.wait_open(Duration::from_secs(60)).await.unwrap_err();
    for error in [ended, waited] {
        assert!(error.is_closed() && error.is_unsent(), "{error:?}");
        assert!(!error.is_retryable(), "{error:?}");
    }
}

// CLI-06 CON-04
#[tokio::test(start_paused = true)]
async fn a_notification_that_nobody_awaits_holds_up_no_call() {
    let mut config = Config::new();
    config.limits.soft_max_outbox_bytes = 10;
    let (target, mut server) = target_of(1);
    let client = reconnect(target, config, ()).await.unwrap();
    // One is being written to a stream that holds one byte, and one fills the queue.
    client.notify("fills", ()).await.unwrap();
    client.notify("fills", ()).await.unwrap();
    let unawaited = client.notify("late", ());
    let calling = client.clone();
    let calling = tokio::spawn(async move { calling.call::<u32>("m", ()).await });
    let mut server = server.accept().await;
    let notice = |method| format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
    for line in [notice("fills"), notice("fills"), call("m", 1)] {
        let sent = tokio::time::timeout(Duration::from_secs(60), server.line());
        assert_eq!(sent.await.expect("it is sent"), line);
    }
    server.send(result(1)).await.unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), 1);
    let (sent, line) = tokio::join!(unawaited, server.line());
    sent.unwrap();
    assert_eq!(line, notice("late"));
}

// CON-05
#[tokio::test(start_paused = true)]
async fn attempts_without_a_delay_let_other_tasks_run() {
    let turns = Arc::<AtomicU32>::default();
    let counted = Arc::clone(&turns);
    tokio::spawn(poll_fn(move |cx| {
        counted.fetch_add(1, Ordering::Relaxed);
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
    let mut options = ClientConfig::from(Config::new());
    options.reconnect = ReconnectStrategy::Fixed {
        delay: Duration::ZERO,
        max_attempts: 100,
    };
    let refuse = || -> Connecting { Box::pin(async { Err(io::Error::other("no")) }) };
    assert!(reconnect(Target::new(refuse), options, ()).await.is_err());
    assert!(turns.load(Ordering::Relaxed) >= 100);
}

// CON-09
#[tokio::test(start_paused = true)]
async fn a_close_ends_the_attempt_that_is_under_way() {
    // After 10 s one is connecting, and the other makes its first calls.
    for (seconds, first_calls) in [(60, 0), (5, 1)] {
        let (attempt, calls) = (Arc::new(()), Arc::<AtomicU32>::default());
        let (connecting, opening) = (Arc::downgrade(&attempt), Arc::downgrade(&attempt));
        let counted = Arc::clone(&calls);
        let (give, mut server) = unbounded_channel();
        let target = Target::new(move || -> Connecting {
            let (held, give) = (connecting.upgrade(), give.clone());
            Box::pin(async move {
                let _held = held;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                let (near, far) = duplex(1 << 16);
                give.send(far).map_err(|_| io::ErrorKind::BrokenPipe)?;
                Ok(Link::new(near))
            })
        });
        let options = again_after_a_second(Config::new()).with_on_open(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            let held = opening.upgrade();
            async move {
                let _held = held;
                pending::<Result<(), CallError>>().await
            }
        });
        let client = reconnect(target, options, ()).await.unwrap();
        // The attempt that took too long is followed by another one.
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(Arc::strong_count(&attempt), 2);
        let began = Instant::now();
        client.close();
        if first_calls > 0 {
            let mut server = Raw::new(server.recv().await.unwrap());
            assert!(server.ended().await);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(Arc::strong_count(&attempt), 1);
        assert_eq!(client.states(), [ConnectionState::Closed]);
        assert!(began.elapsed() < Duration::from_secs(2));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(calls.load(Ordering::Relaxed), first_calls);
    }
}

/// A network that connects after 20 s, to a server that says nothing.
struct Slow(antiphon_net::SharedRuntime);

impl antiphon_net::Runtime for Slow {
    fn now(&self) -> antiphon::Instant {
        self.0.now()
    }

    fn spawn(&self, task: antiphon_net::Task) {
        self.0.spawn(task);
    }

    fn timer(&self) -> Box<dyn antiphon_net::Timer> {
        self.0.timer()
    }
}

impl antiphon_net::Sockets for Slow {
    fn connect_tcp(&self, _: SocketAddr) -> Connecting {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(Link::pair().0)
        })
    }
}

// CON-05
#[tokio::test(start_paused = true)]
async fn connecting_may_take_as_long_as_the_options_say() {
    let runtime = NetRuntime::new(Slow(current().into()));
    for (seconds, is_connected) in [(30, true), (19, false)] {
        let mut options = ClientConfig::from(Config::new());
        options.connect_timeout = Duration::from_secs(seconds);
        let began = Instant::now();
        let connected = connect_on("tcp://[::1]:1".into(), options, Arc::new(()), &runtime);
        match connected.await {
            Ok(_) => assert!(is_connected),
            Err(error) => assert!(error.is_timeout() && !is_connected, "{error}"),
        }
        assert_eq!(began.elapsed().as_secs(), seconds.min(20));
    }
}

// GEN-04
#[tokio::test(start_paused = true)]
async fn a_typed_client_knows_its_version_before_a_connection_is_open() {
    let mut options = ClientConfig::from(Config::new().version(VersionPolicy::V1Only));
    options.connect_timeout = Duration::from_secs(1);
    let never = Target::new(|| -> Connecting { Box::pin(pending()) });
    let client = reconnect(never, options, ()).await.unwrap();
    assert!(client.peer().is_none());
    assert_eq!(client.encoding(), Some(Encoding::ByPosition));
}

// INT-08 SEC-02
#[tokio::test(start_paused = true)]
async fn options_that_a_target_has_no_use_for_are_refused() {
    let refused = |made: Result<Client, ConnectError>, option: &str| {
        let error = made.unwrap_err();
        assert!(matches!(&error, ConnectError::Target(text) if text.contains(option)));
        assert!(!error.is_retryable());
    };
    let auth = || {
        let auth = BearerAuth::new(|| panic!("nothing sends a token"));
        ClientConfig::from(Config::new()).with_auth(auth)
    };
    let child = || std::process::Command::new("no-such-program");
    refused(connect("tcp://[::1]:1", auth(), ()).await, "with_auth");
    refused(connect(Link::pair().0, auth(), ()).await, "with_auth");
    refused(connect(child(), auth(), ()).await, "with_auth");
    refused(reconnect(target().0, auth(), ()).await, "with_auth");
    let first_calls =
        || ClientConfig::from(Config::new()).with_on_open(|_| pending::<Result<(), CallError>>());
    let opened = connect(Link::pair().0, first_calls(), ()).await;
    refused(opened, "with_on_open");
    #[cfg(feature = "http")]
    refused(
        reconnect("http://[::1]:1/", first_calls(), ()).await,
        "with_on_open",
    );
}

#[cfg(feature = "websocket")]
mod over_websocket {
    use antiphon_tokio::websocket::WebSocketConfig;
    use antiphon_tokio::{ConnectionConfig, OwnedError, Router, attach};

    use super::*;

    // INT-08 SEC-02
    #[tokio::test(start_paused = true)]
    async fn a_token_of_a_client_is_asked_for_at_the_handshake_and_not_at_its_calls() {
        let asked = Arc::<AtomicU32>::default();
        let counted = Arc::clone(&asked);
        let auth = BearerAuth::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(Some("s3cret".into()))
        });
        let speaking = |websocket| ConnectionConfig::new(Config::new()).with_websocket(websocket);
        let (near, far) = Link::pair();
        let router = Router::new().method("ping", [], || Ok::<_, OwnedError>(1));
        let _server = attach(far, speaking(WebSocketConfig::server()), router);
        let options = speaking(WebSocketConfig::client("ws://a/").unwrap());
        let options = ClientConfig::from(options).with_auth(auth);
        let client = connect(near, options, ()).await.unwrap();
        assert_eq!(client.call::<u32>("ping", ()).await.unwrap(), 1);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    // CON-05
    #[tokio::test(start_paused = true)]
    async fn a_handshake_without_an_answer_ends_with_the_time_to_connect() {
        let websocket = WebSocketConfig::client("ws://a/").unwrap();
        let options = ConnectionConfig::new(Config::new()).with_websocket(websocket);
        let mut options = again_after_a_second(options);
        options.connect_timeout = Duration::from_secs(2);
        let (target, mut server) = target();
        let connecting = tokio::spawn(reconnect(target, options, ()));
        let began = Instant::now();
        let mut silent = server.accept().await;
        silent.message().await.expect("the request");
        assert!(silent.ended().await);
        assert_eq!(began.elapsed().as_secs(), 2);
        drop(silent);
        let _next = server.accept().await;
        let client = connecting.await.unwrap().unwrap();
        let why = client.last_error().expect("a reason");
        assert_eq!(why.kind(), io::ErrorKind::TimedOut);
    }

    // CON-01 CON-06
    #[tokio::test(start_paused = true)]
    async fn a_client_of_a_peer_is_not_open_before_its_handshake() {
        let websocket = WebSocketConfig::client("ws://a/").unwrap();
        let options = ConnectionConfig::new(Config::new()).with_websocket(websocket);
        let (near, far) = duplex(1 << 16);
        let client = Client::from(attach(Link::new(near), options, ()));
        assert_eq!(client.states(), [ConnectionState::Connecting]);
        let early = client.wait_open(Duration::from_secs(1)).await.unwrap_err();
        assert!(matches!(&early, CallError::NoConnection(error) if !error.is_final()));
        let waiting = client.wait_open(Duration::from_secs(5));
        drop(far);
        let never = waiting.await.unwrap_err();
        assert!(matches!(&never, CallError::NoConnection(error) if error.is_final()));
        assert_eq!(client.states(), [ConnectionState::Closed]);
    }
}
