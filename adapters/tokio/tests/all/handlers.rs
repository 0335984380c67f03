//! The arguments and the results of handlers, and how calls are built.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_net::duplex;
use antiphon_tokio::{
    Answer, CallError, CancelStyle, Config, ConnectionConfig, ErrorObject, Link, Method,
    Notification, OwnedError, Peer, Pool, Report, Request, Responder, Router, SendError, Service,
    State, attach,
};
use serde::ser::{Error, Serialize, Serializer};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// A value without a JSON form.
struct Formless;

impl Serialize for Formless {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("formless"))
    }
}

/// A program's own error.
struct Overdrawn(u32);

impl From<Overdrawn> for OwnedError {
    fn from(error: Overdrawn) -> Self {
        OwnedError::new(1001, format!("overdrawn by {}", error.0))
    }
}

/// A method for each way to answer. `told` gets notifications and reports; `to the end` waits for
/// `go_on`, and tells that it has ended.
struct Handlers {
    told: UnboundedSender<String>,
    go_on: Arc<Notify>,
}

impl Handlers {
    fn pay(&self, amount: u32) -> Result<u32, Overdrawn> {
        match amount {
            0..=10 => Ok(10 - amount),
            _ => Err(Overdrawn(amount - 10)),
        }
    }
}

impl Service for Handlers {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        match request.method() {
            "add" => {
                let (a, b): (i32, i32) = request.params()?;
                Ok((a + b).into())
            }
            "nothing" => {
                request.params::<()>()?;
                Ok(().into())
            }
            "borrowed" => {
                let [text]: [&str; 1] = request.params()?;
                Ok(Answer::new(text))
            }
            "raw" => Ok(Answer::new(request.raw_params())),
            "id" => Ok(request.id().map(|id| id.to_string()).into()),
            "pay" => {
                let [amount] = request.params::<[u32; 1]>()?;
                Ok(self.pay(amount)?.into())
            }
            "formless" => Ok(Formless.into()),
            "later" => {
                let responder = request.defer();
                tokio::spawn(async move {
                    sleep(SECOND).await;
                    let _ = responder.ok("late");
                });
                Ok(Answer::deferred())
            }
            "forgotten" => Ok(Answer::deferred()),
            "deferred twice" => {
                let (first, second) = (request.defer(), request.defer());
                assert_eq!(second.ok(&2), Err(SendError::NotOpen));
                first.ok(&1).unwrap();
                // The request is answered by now, so the returned value is ignored.
                Err(ErrorObject::internal_error().into())
            }
            "cloned" => {
                let (own, reply) = (request.clone(), request.defer());
                tokio::spawn(async move {
                    let [n] = own.params::<[u8; 1]>().unwrap();
                    assert_eq!(own.answer(Ok(0.into())), Err(SendError::NotOpen));
                    reply.ok(&n).unwrap();
                });
                Ok(Answer::deferred())
            }
            "on the pool" => {
                let [n]: [u32; 1] = request.params()?;
                Ok(request.on_pool(move |_| n + 1).await?.into())
            }
            "panic on the pool" => request.on_pool(|_| panic!("as asked")).await,
            "to the end" => {
                let (told, go_on) = (self.told.clone(), Arc::clone(&self.go_on));
                let work = request.run_to_end(async move {
                    go_on.notified().await;
                    told.send("at the end".into()).unwrap();
                });
                work.await;
                Ok("done".into())
            }
            _ => Err(request.unknown_method()),
        }
    }

    async fn notification(&self, _: &Peer, notification: Notification) {
        if let Ok((a, b)) = notification.params::<(i32, i32)>() {
            let _ = self.told.send(format!("{} {a} {b}", notification.method()));
        }
    }

    fn report(&self, _: &Peer, report: Report) {
        let _ = self.told.send(report.to_string());
    }
}

/// Both sides of a connection: `near` calls the [`Handlers`] of `_far`.
struct Sides {
    near: Peer,
    _far: Peer,
    told: UnboundedReceiver<String>,
    go_on: Arc<Notify>,
}

fn sides(config: Config) -> Sides {
    let (told, hears) = unbounded_channel();
    let go_on = Arc::new(Notify::new());
    let service = Handlers {
        told,
        go_on: Arc::clone(&go_on),
    };
    let (near, far) = duplex(4096);
    Sides {
        near: attach(Link::new(near), config.cancel_send(CancelStyle::Lsp), ()),
        _far: attach(Link::new(far), config, service),
        told: hears,
        go_on,
    }
}

/// The code of the error with which `method` is answered, if its one parameter is a text.
async fn code(sides: &Sides, method: &str) -> i64 {
    match sides.near.call::<()>(method, &["?"]).await {
        Err(CallError::Remote(error)) => error.code(),
        other => panic!("{method}: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_returns_its_answer() {
    let sides = sides(Config::new());
    let near = &sides.near;
    assert_eq!(near.call::<i32>("add", &(1, 2)).await.unwrap(), 3);
    near.call::<()>("nothing", ()).await.unwrap();
    assert_eq!(near.call::<String>("borrowed", &["é"]).await.unwrap(), "é");
    assert_eq!(near.call::<u32>("pay", &[4]).await.unwrap(), 6);
    let raw = near.call("raw", &[1.50]).raw().await.unwrap();
    assert_eq!(raw.as_json().as_str(), "[1.5]");
    let id: String = near.call("id", ()).await.unwrap();
    // It is the sixth call.
    assert_eq!(id, "6");
}

#[tokio::test(start_paused = true)]
async fn params_that_do_not_fit_are_invalid_and_the_service_is_told_why() {
    let mut sides = sides(Config::new());
    for (method, why) in [
        ("add", "invalid params: invalid type: string, expected i32"),
        (
            "nothing",
            "invalid params: invalid type: sequence, expected unit",
        ),
        ("pay", "invalid params: invalid type: string, expected u32"),
    ] {
        assert_eq!(code(&sides, method).await, -32602);
        let told = sides.told.recv().await.unwrap();
        assert!(told.starts_with(why) && told.contains(method), "{told}");
    }
    // Without params at all.
    let none = sides.near.call::<i32>("add", ()).await.unwrap_err();
    assert_eq!(none.remote().map(|error| error.code()), Some(-32602));
    assert!(sides.told.recv().await.unwrap().contains("null"));
}

#[tokio::test(start_paused = true)]
async fn params_of_a_notification_that_do_not_fit_are_reported() {
    let mut sides = sides(Config::new());
    let near = &sides.near;
    near.notify("log", &(1, "?")).await.unwrap();
    near.notify("log", &(1, 2)).await.unwrap();
    // Without params at all.
    near.notify("log", ()).await.unwrap();
    let mut told = Vec::new();
    for _ in 0..3 {
        let next = timeout(SECOND, sides.told.recv()).await;
        told.push(next.expect("a report").unwrap());
    }
    told.sort();
    let [none, wrong, right] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(right, "log 1 2");
    assert!(wrong.contains("string, expected i32"), "{wrong}");
    assert!(none.contains("null"), "{none}");
    for report in [wrong, none] {
        assert!(report.starts_with("invalid params: "), "{report}");
        assert!(report.ends_with(": log (notification)"), "{report}");
    }
    assert_eq!(sides.near.call::<i32>("add", &(1, 2)).await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_program_is_sent_as_it_says() {
    let sides = sides(Config::new());
    let error = sides.near.call::<u32>("pay", &[12]).await.unwrap_err();
    let error = error.remote().expect("an error object");
    assert_eq!((error.code(), error.message()), (1001, "overdrawn by 2"));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_method_is_named_only_if_that_is_wanted() {
    for echo in [false, true] {
        let sides = sides(Config::new().echo_method_names(echo));
        let error = sides.near.call::<()>("what", ()).await.unwrap_err();
        let error = error.remote().expect("an error object");
        assert_eq!(error.code(), -32601);
        assert_eq!(
            error.data().map(|data| data.as_str()),
            echo.then_some("\"what\"")
        );
    }
}

// USE-17
#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_sent_is_an_internal_error_and_told() {
    let mut sides = sides(Config::new());
    assert_eq!(code(&sides, "formless").await, -32603);
    let told = sides.told.recv().await.unwrap();
    assert!(
        told.starts_with("an answer could not be sent: ") && told.contains("formless (id 1)"),
        "{told}"
    );
    assert_eq!(code(&sides, "forgotten").await, -32603);
    let told = sides.told.recv().await.unwrap();
    assert!(
        told.starts_with("a handler gave no answer: forgotten (id 2)"),
        "{told}"
    );
}

// SRV-26
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_later_comes_once() {
    let sides = sides(Config::new());
    assert_eq!(
        sides.near.call::<String>("later", ()).await.unwrap(),
        "late"
    );
    assert_eq!(
        sides.near.call::<u8>("deferred twice", ()).await.unwrap(),
        1
    );
    assert_eq!(sides.near.call::<u8>("cloned", &[7]).await.unwrap(), 7);
}

#[tokio::test]
async fn work_on_a_thread_returns_its_answer_too() {
    let mut sides = sides(Config::new());
    assert_eq!(
        sides.near.call::<u32>("on the pool", &[7]).await.unwrap(),
        8
    );
    assert_eq!(code(&sides, "on the pool").await, -32602);
    assert!(
        sides
            .told
            .recv()
            .await
            .unwrap()
            .starts_with("invalid params")
    );
    assert_eq!(code(&sides, "panic on the pool").await, -32603);
    let told = sides.told.recv().await.unwrap();
    assert!(
        told.starts_with("the service panicked: panic on the pool (id 3)"),
        "{told}"
    );
}

// USE-22
#[tokio::test(start_paused = true)]
async fn a_handler_may_ask_to_run_to_its_end_though_it_is_cancelled() {
    let mut sides = sides(Config::new());
    let call = sides.near.call("to the end", ()).start().await.unwrap();
    sleep(SECOND).await;
    sides.near.ask_cancel(call.id()).unwrap();
    sleep(SECOND).await;
    sides.go_on.notify_one();
    assert_eq!(sides.told.recv().await.unwrap(), "at the end");
    // The peer was told at once that its call is cancelled.
    let Err(CallError::Remote(error)) = call.result::<String>().await else {
        panic!("it is cancelled");
    };
    assert_eq!(error.code(), -32001);
}

/// `pay`, which a type describes.
enum Pay {}

impl Method for Pay {
    const NAME: &str = "pay";
    type Params = [u32; 1];
    type Result = u32;
    type Error = OwnedError;
}

// USE-20
#[tokio::test(start_paused = true)]
async fn a_method_that_is_a_type_is_called_by_it() {
    let sides = sides(Config::new());
    assert_eq!(sides.near.send::<Pay>(&[3]).await.unwrap(), 7);
    let short = sides.near.send::<Pay>(&[13]).timeout(SECOND).await;
    assert!(matches!(short, Err(CallError::Remote(_))));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_a_call_is_awaited() {
    let sides = sides(Config::new());
    drop(sides.near.call::<()>("add", &(1, 2)));
    drop(sides.near.batch(|batch| batch.call::<()>("add", &(1, 2))));
    assert_eq!(sides.near.transmit_queued(), 0);
    // The next call is the first that has an id.
    assert_eq!(sides.near.call::<String>("id", ()).await.unwrap(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_as_long_as_it_says() {
    let sides = sides(Config::new());
    let near = &sides.near;
    let short = near.call::<()>("to the end", ()).timeout(SECOND);
    assert!(matches!(short.await, Err(CallError::TimedOut)));
    // The default is 30 s.
    let long = near.call::<()>("to the end", ());
    let ended = timeout(31 * SECOND, long).await;
    assert!(matches!(ended, Ok(Err(CallError::TimedOut))));
    let for_ever = near.call::<()>("to the end", ()).no_timeout();
    assert!(timeout(1_000_000 * SECOND, for_ever).await.is_err());
    let optional = near.call::<()>("to the end", ()).timeout(Some(SECOND));
    assert!(matches!(optional.await, Err(CallError::TimedOut)));
    let (_, outcomes) = near
        .batch(|batch| batch.call::<()>("to the end", ()))
        .timeout(SECOND)
        .await
        .unwrap();
    assert_eq!(outcomes.len(), 1);
}

// INT-12 USE-01
#[tokio::test(start_paused = true)]
async fn a_notification_waits_until_the_checks_before_it_are_done() {
    let state = Arc::new(AtomicU32::new(0));
    let router = Router::with_state(Arc::clone(&state))
        .check_async(|request| {
            let waits = match request.method() {
                "get" => SECOND,
                "given up" => 40 * SECOND,
                _ => Duration::ZERO,
            };
            async move {
                sleep(waits).await;
                Ok::<_, OwnedError>(())
            }
        })
        .handler_timeout(60 * SECOND)
        .method("get", [], |State(state): State<Arc<AtomicU32>>| {
            Ok::<_, OwnedError>(state.load(Ordering::SeqCst))
        })
        .method("given up", [], || Ok::<_, OwnedError>(()))
        .notification(
            "set",
            ["to"],
            |to: u32, State(state): State<Arc<AtomicU32>>| {
                state.store(to, Ordering::SeqCst);
            },
        );
    let (near, far) = Link::pair();
    let config = Config::new().cancel_send(CancelStyle::Lsp);
    let (peer, _server) = (attach(near, config, ()), attach(far, config, router));
    let before = peer.call("get", ()).start().await.unwrap();
    peer.try_notify("set", &[1]).unwrap();
    let after = peer.call("get", ()).start().await.unwrap();
    assert_eq!(before.result::<u32>().await.unwrap(), 0);
    assert_eq!(after.result::<u32>().await.unwrap(), 1);
    // A request that is cancelled while it is checked no longer holds up what came after it.
    let given_up = peer.call("given up", ()).start().await.unwrap();
    peer.try_notify("set", &[2]).unwrap();
    sleep(SECOND).await;
    assert_eq!(state.load(Ordering::SeqCst), 1);
    given_up.cancel();
    sleep(SECOND).await;
    assert_eq!(state.load(Ordering::SeqCst), 2);
}

// USE-01
#[tokio::test]
async fn a_notification_waits_until_work_before_it_has_a_thread() {
    let state = Arc::new(AtomicU32::new(0));
    let (let_go, held) = std::sync::mpsc::channel();
    let held = Arc::new(Mutex::new(held));
    let (reads, writes) = (Arc::clone(&state), Arc::clone(&state));
    let router = Router::new()
        .raw("hold", move |request: &Request| {
            let held = Arc::clone(&held);
            request.defer().spawn(move |reply| {
                held.lock().unwrap().recv_timeout(10 * SECOND).unwrap();
                reply.ok(()).unwrap();
            });
            Ok(Answer::deferred())
        })
        .raw("get", move |request: &Request| {
            let state = Arc::clone(&reads);
            let read = move |reply: Responder| reply.ok(&state.load(Ordering::SeqCst)).unwrap();
            request.defer().spawn(read);
            Ok(Answer::deferred())
        })
        .notification("set", ["to"], move |to: u32| {
            writes.store(to, Ordering::SeqCst);
        });
    let mut options = ConnectionConfig::new(Config::new());
    options.pool = Pool::new(1, 10);
    let (near, far) = Link::pair();
    let (peer, _server) = (
        attach(near, Config::new(), ()),
        attach(far, options, router),
    );
    let holding = peer.call("hold", ()).start().await.unwrap();
    let get = peer.call("get", ()).start().await.unwrap();
    peer.try_notify("set", &[1]).unwrap();
    let after = peer.call("get", ()).start().await.unwrap();
    sleep(Duration::from_millis(50)).await;
    assert_eq!(state.load(Ordering::SeqCst), 0);
    let_go.send(()).unwrap();
    assert!(holding.result::<()>().await.is_ok());
    // The work of `get` began before the notification, but may read after it was handled.
    assert!(get.result::<u32>().await.unwrap() <= 1);
    assert_eq!(after.result::<u32>().await.unwrap(), 1);
}
