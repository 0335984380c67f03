//! A reconnecting client, in memory and virtual time: the messages on each connection, and their
//! times.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_net::{Io, duplex};
use antiphon_tokio::service::{AnyRequest, Cx, Decision, Interceptor, Reply};
use antiphon_tokio::{
    CallError, Client, ClientConfig, Config, ConnectError, Connecting, ConnectionChange,
    ConnectionConfig, ConnectionState, ErrorProfile, Link, OwnedError, ProgressStyle,
    ReconnectStrategy, Retry, Target, attach, reconnect,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

use crate::support::Raw;

/// The far ends of the connections that a client makes.
pub(crate) struct Server(UnboundedReceiver<Box<dyn Io>>);

impl Server {
    pub(crate) async fn accept(&mut self) -> Raw {
        Raw::new(self.0.recv().await.expect("a connection"))
    }
}

/// A client that connects again after a second, and the server that it connects to.
async fn client(
    options: impl Into<ClientConfig>,
    change: impl FnOnce(ClientConfig) -> ClientConfig,
) -> (Client, Server) {
    let (target, server) = target();
    let client = reconnect(target, change(again_after_a_second(options)), ());
    (client.await.unwrap(), server)
}

pub(crate) fn again_after_a_second(options: impl Into<ClientConfig>) -> ClientConfig {
    let mut options = options.into();
    options.reconnect = ReconnectStrategy::Fixed {
        delay: Duration::from_secs(1),
        max_attempts: 3,
    };
    options.max_waiting_calls = 10;
    options
}

/// Returns a function that returns why the last attempt failed.
#[cfg(feature = "websocket")]
fn last_failure_of(options: &mut ClientConfig) -> impl Fn() -> String + use<> {
    let failures = Arc::<Mutex<Vec<String>>>::default();
    let failed = Arc::clone(&failures);
    options.on_change = Some(Arc::new(move |change: &ConnectionChange| {
        let error = change.error.as_ref().map(ToString::to_string);
        failed.lock().unwrap().extend(error);
    }));
    move || failures.lock().unwrap().last().cloned().unwrap()
}

/// A target to which each attempt connects at once.
pub(crate) fn target() -> (Target, Server) {
    target_of(1 << 16)
}

/// A target whose connections hold this many bytes in each direction.
pub(crate) fn target_of(bytes: usize) -> (Target, Server) {
    let (give, take) = unbounded_channel();
    let target = Target::new(move || -> Connecting {
        let (near, far) = duplex(bytes);
        let given = give.send(far);
        let link = given.map(|()| Link::new(near));
        let link = link.map_err(|_| io::ErrorKind::BrokenPipe.into());
        Box::pin(async { link })
    });
    (target, Server(take))
}

// CON-05
#[tokio::test(start_paused = true)]
async fn a_client_connects_again_without_end_unless_it_is_told_otherwise() {
    let (client, mut server) = client(Config::new(), |mut config| {
        config.reconnect = ClientConfig::from(Config::new()).reconnect;
        config
    })
    .await;
    drop(server.accept().await);
    for attempt in 0..40 {
        let began = Instant::now();
        drop(server.accept().await);
        let delay = began.elapsed().as_millis();
        let longest = (100_u128 << attempt).min(10_000);
        // At most half of a delay is taken away, and the timer counts whole milliseconds.
        let expected = longest / 2..=longest + 1;
        assert!(expected.contains(&delay), "{delay} ms before {attempt}");
    }
    assert_ne!(client.states(), [ConnectionState::Closed]);

    let mut never = ClientConfig::from(Config::new());
    never.reconnect = ReconnectStrategy::None;
    let refuse = || -> Connecting { Box::pin(async { Err(io::Error::other("no")) }) };
    let given_up = reconnect(Target::new(refuse), never, ()).await.unwrap_err();
    assert!(matches!(&given_up, ConnectError::Io(error) if error.to_string().contains("no")));
}

pub(crate) fn call(method: &str, id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","id":{id}}}"#)
}

/// An answer whose result is its id.
pub(crate) fn result(id: u32) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"result\":{id},\"id\":{id}}}\n")
}

// CON-04 CON-06
#[tokio::test(start_paused = true)]
async fn a_call_that_was_sent_does_not_end_as_one_that_was_not() {
    for (attempts, timeout, expected) in [
        (0, 60_000, CallError::<OwnedError>::Closed),
        (3, 60_000, CallError::Closed),
        (u32::MAX, 1500, CallError::TimedOut),
    ] {
        let (client, mut server) = client(Config::new(), |mut config| {
            config.reconnect = ReconnectStrategy::Fixed {
                delay: Duration::from_secs(1),
                max_attempts: attempts,
            };
            config
        })
        .await;
        let calling = client.clone();
        let timeout = Duration::from_millis(timeout);
        let calling = tokio::spawn(async move {
            let call = calling.call::<u32>("m", ()).idempotent();
            call.timeout(timeout).await.unwrap_err()
        });
        let mut first = server.accept().await;
        assert_eq!(first.line().await, call("m", 1));
        let began = Instant::now();
        // No further connection can be made.
        drop((first, server));
        let ended = calling.await.unwrap();
        assert_eq!(format!("{ended:?}"), format!("{expected:?}"));
        let expected = timeout.min(Duration::from_secs(attempts.into()));
        assert_eq!(began.elapsed(), expected);

        // Nothing of this call was sent, so it may say so.
        let call = client.call::<u32>("m", ()).timeout(timeout);
        let never = call.await.unwrap_err();
        assert!(matches!(never, CallError::NoConnection(_)), "{never:?}");
    }

    // The server says that it has not run the call, and is then gone: its answer counts.
    let (client, mut server) = client(Config::new(), |mut config| {
        config
            .connection
            .retry
            .get_or_insert_default()
            .codes
            .push(-32002);
        config
    })
    .await;
    let calling = tokio::spawn(async move { client.call::<u32>("m", ()).await.unwrap_err() });
    let mut first = server.accept().await;
    assert_eq!(first.line().await, call("m", 1));
    first.send(busy(1)).await.unwrap();
    drop((first, server));
    assert_eq!(calling.await.unwrap().to_string(), "Server busy (-32002)");
}

// CON-04 USE-21
#[tokio::test(start_paused = true)]
async fn progress_is_heard_on_each_connection_on_which_its_call_is_sent() {
    let config = Config::new().progress(ProgressStyle::Lsp);
    let (client, mut server) = client(config, |config| config).await;
    let calling = tokio::spawn(async move {
        let mut heard = Vec::new();
        let call = client.call::<u32>("m", ()).idempotent();
        let call = call.timeout(Duration::from_secs(10));
        let call = call.progress(|step: u32| heard.push(step));
        let ended = call.extend_deadline(Duration::from_secs(60)).await;
        (ended.unwrap(), heard)
    });
    let asked = r#"{"jsonrpc":"2.0","method":"m","params":{"workDoneToken":"antiphon-0"},"id":1}"#;
    let told = |step| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"$/progress\",\"params\":{{\"token\":\"antiphon-0\",\"value\":{step}}}}}\n"
        )
    };
    let mut first = server.accept().await;
    assert_eq!(first.line().await, asked);
    first.send(told(1) + &told(2)).await.unwrap();
    drop(first);
    let mut second = server.accept().await;
    assert_eq!(second.line().await, asked);
    // Progress extends the deadline on the second connection by the call's whole timeout.
    tokio::time::sleep(Duration::from_secs(8)).await;
    second.send(told(3)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(9)).await;
    second.send(told(4) + &result(1)).await.unwrap();
    assert_eq!(calling.await.unwrap(), (1, vec![1, 2, 3, 4]));
}

/// Notes every call, and every answer with the milliseconds that it took.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<Vec<String>>>);

impl<R: AnyRequest + ?Sized> Interceptor<R> for Counts {
    fn request(&self, _: &mut Cx, call: &R) -> Decision {
        self.0.lock().unwrap().push(format!("> {}", call.method()));
        Decision::Continue
    }

    fn response(&self, _: &Cx, call: &R, reply: &mut Reply) {
        let line = format!("< {} {}", call.method(), reply.duration().as_millis());
        self.0.lock().unwrap().push(line);
    }
}

// INT-01 CON-04
#[tokio::test(start_paused = true)]
async fn an_interceptor_sees_a_call_once_however_often_it_is_sent() {
    let counts = Counts::default();
    let options = ConnectionConfig::new(Config::new()).intercept(counts.clone());
    let (client, mut server) = client(options, |config| config).await;
    let calling = client.clone();
    let calling = tokio::spawn(async move { calling.call::<u32>("m", ()).idempotent().await });
    let mut first = server.accept().await;
    assert_eq!(first.line().await, call("m", 1));
    drop(first);
    let mut second = server.accept().await;
    assert_eq!(second.line().await, call("m", 1));
    second.send(result(1)).await.unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), 1);
    // A notification that is sent over one of its connections directly is seen, too.
    client.peer().unwrap().try_notify("n", ()).unwrap();
    assert_eq!(second.line().await, r#"{"jsonrpc":"2.0","method":"n"}"#);
    assert_eq!(
        *counts.0.lock().unwrap(),
        ["> m", "< m 1000", "> n", "< n 0"]
    );
}

// INT-08 SEC-02
#[tokio::test(start_paused = true)]
async fn the_first_calls_of_a_connection_go_before_all_others() {
    let tokens = Arc::new(Mutex::new(0));
    let (target, mut server) = target();
    let options = again_after_a_second(Config::new()).with_on_open(move |peer| {
        let tokens = Arc::clone(&tokens);
        async move {
            let token = {
                let mut tokens = tokens.lock().unwrap();
                *tokens += 1;
                format!("s3cret{tokens}")
            };
            peer.call::<u32>("login", &[token]).await.map(drop)
        }
    });
    let connecting = tokio::spawn(reconnect(target, options, ()));
    let login =
        |n: u32| format!(r#"{{"jsonrpc":"2.0","method":"login","params":["s3cret{n}"],"id":1}}"#);
    let mut first = server.accept().await;
    assert_eq!(first.line().await, login(1));
    assert!(!connecting.is_finished(), "not before it is done");
    first.send(result(1)).await.unwrap();
    let client = connecting.await.unwrap().unwrap();
    let calling = client.clone();
    let calling = tokio::spawn(async move { calling.call::<u32>("m", ()).await });
    assert_eq!(first.line().await, call("m", 2));
    first.send(result(2)).await.unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), 2);
    drop(first);

    // The next connection logs in again. It is refused, so it is closed and another one is made.
    let mut second = server.accept().await;
    assert_eq!(second.line().await, login(2));
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.call::<u32>("m", ()).no_timeout().await });
    assert!(!second.has_line().await, "no other call before it is done");
    assert!(client.peer().is_none());
    let began = Instant::now();
    let refusal = "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"no\"},\"id\":1}\n";
    second.send(refusal).await.unwrap();
    assert!(second.ended().await, "it is closed");
    drop(second);
    let mut third = server.accept().await;
    assert_eq!(
        began.elapsed().as_secs(),
        1,
        "after the delay of the strategy"
    );
    let why = client.last_error().unwrap().to_string();
    assert_eq!(why, "the first call failed: no (-32000)");
    assert_eq!(third.line().await, login(3));
    // This login is never answered: the time to connect, 10 s, ends it.
    assert!(third.ended().await);
    assert_eq!(began.elapsed().as_secs(), 11);
    drop(third);
    let mut last = server.accept().await;
    assert_eq!(last.line().await, login(4));
    drop(last);
    let given_up = client.wait_open(Duration::from_secs(60)).await.unwrap_err();
    assert!(matches!(given_up, CallError::NoConnection(ref error) if error.is_final()));
    let waited = waiting.await.unwrap();
    assert!(
        matches!(waited, Err(CallError::NoConnection(_))),
        "{waited:?}"
    );
    assert_eq!(client.states(), [ConnectionState::Closed]);
    assert!(!format!("{given_up:?} {client:?}").contains("s3cret"));
}

fn busy(id: u32) -> String {
    let error = r#"{"code":-32002,"message":"Server busy"}"#;
    format!("{{\"jsonrpc\":\"2.0\",\"error\":{error},\"id\":{id}}}\n")
}

/// Calls a server that says `times` times that it is busy before it answers. Returns the times at which
/// the call was sent, in milliseconds from its beginning, its result or error, and the time of that.
async fn refused(times: usize, retry: Retry, timeout: Duration) -> (Vec<u64>, String, u64) {
    let (client, mut server) = client(Config::new(), |mut config| {
        config.connection.retry = Some(retry);
        config
    })
    .await;
    let mut server = server.accept().await;
    let began = Instant::now();
    let millis = move || began.elapsed().as_millis() as u64;
    let serving = async {
        let mut sent = Vec::new();
        while let Some(line) = server.line_or_end().await {
            sent.push(millis());
            let id = sent.len() as u32;
            assert_eq!(line, call("m", id));
            let answer = match sent.len() > times {
                true => result(id),
                false => busy(id),
            };
            server.send(answer).await.unwrap();
        }
        sent
    };
    let calling = async {
        let ended = client.call::<u32>("m", ()).timeout(timeout).await;
        let ended = match ended {
            Ok(result) => result.to_string(),
            Err(error) => error.to_string(),
        };
        let after = millis();
        client.close();
        (ended, after)
    };
    let (sent, (ended, after)) = tokio::join!(serving, calling);
    (sent, ended, after)
}

// CLI-27 CON-06
#[tokio::test(start_paused = true)]
async fn a_call_that_finds_the_server_busy_is_sent_again_after_growing_delays() {
    let (long, busy) = (Duration::from_secs(30), "Server busy (-32002)");
    let mut retry = Retry::new();
    retry.jitter = 0.0;
    assert_eq!(
        refused(1, retry.clone(), long).await,
        (vec![0], busy.into(), 0),
        "by default it is not sent again"
    );
    retry = retry.when_busy(ErrorProfile::Antiphon);
    assert_eq!(
        refused(2, retry.clone(), long).await,
        (vec![0, 100, 300], "3".into(), 300)
    );
    assert_eq!(
        refused(9, retry.clone(), long).await,
        (vec![0, 100, 300, 700], busy.into(), 700),
        "three times at most"
    );
    // The timeout holds for all attempts together: the third would be sent after it, so the call ends
    // without waiting for it.
    assert_eq!(
        refused(9, retry.clone(), Duration::from_millis(299)).await,
        (vec![0, 100], busy.into(), 100)
    );
    // Jitter makes the delays shorter, and the same seed gives the same delays.
    (retry.jitter, retry.seed) = (0.5, Some(1));
    let first = refused(9, retry.clone(), long).await;
    assert!((50..=100).contains(&first.0[1]), "{first:?}");
    assert!(first.2 < 700, "{first:?}");
    assert_eq!(refused(9, retry.clone(), long).await, first);
    retry.seed = Some(2);
    assert_ne!(refused(9, retry, long).await, first);
}

// CLI-27
#[tokio::test(start_paused = true)]
async fn a_plain_connection_sends_a_call_again_that_was_not_done() {
    let busy = |id: u32| {
        let error = r#"{"code":-32002,"message":"Server busy"}"#;
        format!("{{\"jsonrpc\":\"2.0\",\"error\":{error},\"id\":{id}}}\n")
    };
    let counts = Counts::default();
    let mut options = ConnectionConfig::new(Config::new()).intercept(counts.clone());
    let mut retry = Retry::new().when_busy(ErrorProfile::Antiphon);
    (retry.jitter, retry.max_resends) = (0.0, 2);
    options.retry = Some(retry);
    let (near, far) = duplex(1 << 16);
    let peer = attach(Link::new(near), options, ());
    let mut server = Raw::new(far);
    let began = Instant::now();

    let serving = async {
        for id in 1..=2 {
            assert_eq!(server.line().await, call("m", id));
            server.send(busy(id)).await.unwrap();
        }
        assert_eq!(server.line().await, call("m", 3));
        server.send(result(3)).await.unwrap();
    };
    let (_, answer) = tokio::join!(serving, peer.call::<u32>("m", ()));
    assert_eq!((answer.unwrap(), began.elapsed().as_millis()), (3, 300));
    assert_eq!(*counts.0.lock().unwrap(), ["> m", "< m 300"]);

    // A call is not sent again after its timeout, nor if it was begun by `start`, nor after the
    // connection has ended.
    let serving = async {
        assert_eq!(server.line().await, call("m", 4));
        server.send(busy(4)).await.unwrap();
        assert_eq!(server.line().await, call("m", 5));
        server.send(busy(5)).await.unwrap();
        assert_eq!(server.line().await, call("m", 6));
    };
    let calling = async {
        let late = peer.call::<u32>("m", ());
        let late = late.timeout(Duration::from_millis(100)).await;
        assert!(matches!(late, Err(CallError::Remote(_))), "{late:?}");
        let started = peer.call("m", ()).start().await.unwrap();
        let started = started.result::<u32>().await;
        assert!(matches!(started, Err(CallError::Remote(_))), "{started:?}");
        peer.call::<u32>("m", ()).await
    };
    let ended = async {
        serving.await;
        peer.close(antiphon_tokio::CloseReason::Done);
    };
    let ((), ended) = tokio::join!(ended, calling);
    assert!(matches!(ended, Err(CallError::Closed)), "{ended:?}");
    assert_eq!(began.elapsed().as_millis(), 300);
}

// CLI-25
#[tokio::test(start_paused = true)]
async fn calls_of_many_tasks_are_joined_and_nothing_waits_for_it() {
    let (near, far) = duplex(1 << 16);
    let peer = attach(Link::new(near), Config::new().max_joined_calls(3), ());
    let mut server = Raw::new(far);
    let call_in_task = |method: &'static str| {
        let peer = peer.clone();
        tokio::spawn(async move { peer.call::<u32>(method, ()).await })
    };
    let began = Instant::now();
    let alone = call_in_task("alone");
    assert_eq!(server.line().await, call("alone", 1));
    server.send(result(1)).await.unwrap();
    assert_eq!(alone.await.unwrap().unwrap(), 1);

    let calls = ["a", "b", "c", "d"].map(call_in_task);
    let batch = [call("a", 2), call("b", 3), call("c", 4)].join(",");
    assert_eq!(server.line().await, format!("[{batch}]"));
    assert_eq!(server.line().await, call("d", 5));
    assert_eq!(began.elapsed(), Duration::ZERO);
    // One is cancelled and one never answered. The others are answered in one batch, in another order.
    let [a, b, c, d] = calls;
    c.abort();
    let answers: Vec<_> = [5, 2].map(|id| result(id).trim_end().to_owned()).into();
    server
        .send(format!("[{}]\n", answers.join(",")))
        .await
        .unwrap();
    assert_eq!(a.await.unwrap().unwrap(), 2);
    assert_eq!(d.await.unwrap().unwrap(), 5);
    assert!(matches!(b.await.unwrap(), Err(CallError::TimedOut)));
    assert_eq!(began.elapsed().as_secs(), 30);
}

// INT-08 SEC-02 SEC-15
#[cfg(feature = "websocket")]
#[tokio::test(start_paused = true)]
async fn a_token_is_asked_for_at_every_handshake_of_a_client_that_reconnects() {
    use antiphon_tokio::BearerAuth;
    use antiphon_tokio::websocket::WebSocketConfig;

    let count = Mutex::new(0);
    let auth = BearerAuth::new(move || {
        let mut count = count.lock().unwrap();
        *count += 1;
        match *count {
            3 => Err("the vault is shut".into()),
            n => Ok(Some(format!("s3cret{n}"))),
        }
    });
    let websocket = WebSocketConfig::client("ws://a/").unwrap().with_auth(auth);
    let options = ConnectionConfig::new(Config::new()).with_websocket(websocket);
    let (target, mut server) = target();
    let mut options = again_after_a_second(options);
    let last_failure = last_failure_of(&mut options);
    let connecting = tokio::spawn(reconnect(target, options, ()));
    for wanted in ["Bearer s3cret1", "Bearer s3cret2"] {
        let mut handshake = server.accept().await;
        let asked = handshake.message().await.unwrap();
        assert_eq!(asked.header("authorization"), Some(wanted));
    }
    // The source fails, and with it the attempt to connect. `on_change` says so, and the next attempt
    // is made.
    assert!(server.accept().await.ended().await, "nothing is said");
    let mut last = server.accept().await;
    assert_eq!(last_failure(), "the vault is shut");
    let asked = last.message().await.unwrap();
    assert_eq!(asked.header("authorization"), Some("Bearer s3cret4"));
    let client = connecting.await.unwrap().unwrap();
    assert!(!format!("{client:?}").contains("s3cret"));
}

// INT-08 SEC-02
#[cfg(feature = "websocket")]
#[tokio::test(start_paused = true)]
async fn a_handshake_waits_for_its_token_as_long_as_it_may_take() {
    use antiphon_tokio::BearerAuth;
    use antiphon_tokio::websocket::WebSocketConfig;

    let count = Arc::new(Mutex::new(0));
    let auth = BearerAuth::from_async(move || {
        let count = Arc::clone(&count);
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let asked = {
                let mut count = count.lock().unwrap();
                *count += 1;
                *count
            };
            match asked {
                2 => Err("the vault is shut".into()),
                3 => std::future::pending().await,
                n => Ok(Some(format!("s3cret{n}"))),
            }
        }
    });
    let websocket = WebSocketConfig::client("ws://a/").unwrap().with_auth(auth);
    let options = ConnectionConfig::new(Config::new()).with_websocket(websocket);
    let (target, mut server) = target();
    let mut options = again_after_a_second(options);
    let last_failure = last_failure_of(&mut options);
    let connecting = tokio::spawn(reconnect(target, options, ()));
    let mut first = server.accept().await;
    let asked = first.message().await.unwrap();
    assert_eq!(asked.header("authorization"), Some("Bearer s3cret1"));
    drop(first);
    assert!(server.accept().await.ended().await, "nothing is said");
    assert_eq!(last_failure(), "the vault is shut");
    assert!(server.accept().await.ended().await, "nothing is said");
    let mut last = server.accept().await;
    let why = last_failure();
    assert!(why.contains("took too long"), "{why}");
    let asked = last.message().await.unwrap();
    assert_eq!(asked.header("authorization"), Some("Bearer s3cret4"));
    let client = connecting.await.unwrap().unwrap();
    assert!(!format!("{client:?}").contains("s3cret"));
}
