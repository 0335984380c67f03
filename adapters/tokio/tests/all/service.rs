//! How the handlers of a service are run, in virtual time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use antiphon::{CancelStyle, CloseReason, Config, RequestKey};
use antiphon_net::{ConnectionConfig, duplex};
use antiphon_tokio::{
    Answer, CallError, Link, Notification, OwnedError, Peer, Report, Request, Responder, Service,
    attach,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3600);

/// Tells what it sees. `wait` waits until it is cancelled, `panic` panics after a second, `close`
/// closes the connection, and `hand on` sends its responder to the test.
struct Told {
    told: UnboundedSender<String>,
    handed: UnboundedSender<Responder>,
    running: Arc<AtomicUsize>,
}

impl Told {
    fn tell(&self, what: impl Into<String>) {
        // The test may have dropped its receiver.
        let _ = self.told.send(what.into());
    }
}

impl Service for Told {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        self.running.fetch_add(1, Ordering::SeqCst);
        self.tell(request.method());
        let answered = match request.method() {
            "wait" => {
                reply.cancellation().await;
                reply.cancelled()
            }
            "panic" => {
                sleep(SECOND).await;
                panic!("as asked")
            }
            "close" => {
                peer.close(CloseReason::Done);
                reply.ok(&1)
            }
            "hand on" => {
                self.handed.send(reply).unwrap();
                Ok(())
            }
            _ => reply.ok(&1),
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        // If the connection has closed meanwhile, the answer cannot be sent.
        drop(answered);
        Ok(Answer::deferred())
    }

    async fn notification(&self, _: &Peer, notification: Notification) {
        self.tell(notification.method());
        if notification.method() == "panic" {
            sleep(SECOND).await;
            panic!("as asked")
        }
    }

    fn cancelled(&self, _: &Peer, _: RequestKey, _: Option<antiphon::OwnedJson>) {
        self.tell("cancelled");
    }

    fn report(&self, _: &Peer, report: Report) {
        self.tell(report.to_string());
    }
}

fn told() -> (
    Told,
    tokio::sync::mpsc::UnboundedReceiver<String>,
    tokio::sync::mpsc::UnboundedReceiver<Responder>,
) {
    let ((told, hears), (handed, takes)) = (unbounded_channel(), unbounded_channel());
    let running = Arc::default();
    let service = Told {
        told,
        handed,
        running,
    };
    (service, hears, takes)
}

fn pair(options: impl Into<ConnectionConfig>, service: impl Service) -> (Peer, Peer) {
    let mut config = Config::new();
    config.dialect.cancel_send = CancelStyle::Lsp;
    let (near, far) = duplex(4096);
    let near = attach(Link::new(near), config, ());
    (near, attach(Link::new(far), options, service))
}

// SRV-25 CAN-09
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_others_is_given_up_unseen() {
    let mut options = ConnectionConfig::from(Config::new());
    options.max_running_requests = 1;
    let (service, mut hears, _) = told();
    let (near, _far) = pair(options, service);
    let first = near.call("wait", ()).no_timeout().start().await.unwrap();
    let second = near
        .call("never seen", ())
        .no_timeout()
        .start()
        .await
        .unwrap();
    let third = near.call("third", ()).no_timeout().start().await.unwrap();
    // All three have been read.
    sleep(SECOND).await;
    near.ask_cancel(second.id()).unwrap();
    let answered = timeout(SECOND, second).await.expect("an answer at once");
    let Err(CallError::Remote(error)) = CallError::of(answered) else {
        panic!("it is answered with an error");
    };
    assert_eq!(error.as_error().code(), antiphon::codes::REQUEST_CANCELLED);
    near.ask_cancel(first.id()).unwrap();
    assert_eq!(third.result::<u8>().await.unwrap(), 1);
    let mut seen = Vec::new();
    while let Ok(one) = hears.try_recv() {
        seen.push(one);
    }
    seen.sort_unstable();
    assert_eq!(seen, ["cancelled", "third", "wait"]);
}

// SRV-25 CAN-09
#[tokio::test(start_paused = true)]
async fn a_request_that_was_taken_with_the_one_that_closes_never_begins() {
    let (service, mut hears, _) = told();
    let (near, _far) = pair(Config::new(), service);
    let sent = near.batch(|batch| {
        batch.call::<u8>("close", ())?;
        batch.call::<u8>("never seen", ())
    });
    // What became of the calls does not matter here.
    let _ = timeout(LONG, sent)
        .await
        .expect("it ends with the connection");
    sleep(SECOND).await;
    let mut seen = Vec::new();
    while let Ok(one) = hears.try_recv() {
        seen.push(one);
    }
    // `close` itself is cancelled, because it closes the connection before it answers.
    assert_eq!(seen, ["close", "cancelled"]);
}

// SRV-26
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_after_a_while_costs_its_own_request() {
    let (service, mut hears, _) = told();
    let running = Arc::clone(&service.running);
    let (near, _far) = pair(Config::new(), service);
    let start = Instant::now();
    let calls: HashSet<_> = [
        near.call::<()>("panic", ()).await,
        near.call("panic", ()).await,
    ]
    .into_iter()
    .map(|called| match called {
        Err(CallError::Remote(error)) => error.as_error().code(),
        other => panic!("{other:?}"),
    })
    .collect();
    assert_eq!(calls, HashSet::from([antiphon::codes::INTERNAL_ERROR]));
    assert_eq!(start.elapsed(), 2 * SECOND);
    assert_eq!(near.call::<u8>("fine", ()).await.unwrap(), 1);
    let first = "the service panicked: panic (id 1) after 1000 ms";
    let second = "the service panicked: panic (id 2) after 1000 ms";
    for wanted in ["panic", first, "panic", second, "fine"] {
        assert_eq!(hears.recv().await.as_deref(), Some(wanted));
    }
    assert_eq!(
        running.load(Ordering::SeqCst),
        2,
        "what panicked never came to its end"
    );
}

// SRV-26
#[tokio::test(start_paused = true)]
async fn a_notification_whose_handler_panics_is_told_of_and_the_next_is_served() {
    let (service, mut hears, _) = told();
    let (near, _far) = pair(Config::new(), service);
    near.notify("panic", ()).await.unwrap();
    near.notify("next", ()).await.unwrap();
    assert_eq!(near.call::<u8>("fine", ()).await.unwrap(), 1);
    for wanted in ["panic", "the service panicked", "next", "fine"] {
        assert_eq!(hears.recv().await.as_deref(), Some(wanted));
    }
}

// SRV-26 CAN-13
#[tokio::test(start_paused = true)]
async fn a_request_that_was_handed_on_is_cancelled_with_its_connection() {
    let (service, _, mut takes) = told();
    let (near, _far) = pair(Config::new(), service);
    let call = near.call("hand on", ()).no_timeout().start().await.unwrap();
    let reply = takes.recv().await.unwrap();
    assert!(!reply.is_cancelled());
    near.close(antiphon::CloseReason::Done);
    timeout(LONG, reply.cancellation()).await.expect("the end");
    assert!(matches!(CallError::of(call.await), Err(CallError::Closed)));
}

#[cfg(feature = "http")]
// SRV-26 CAN-13
#[tokio::test(start_paused = true)]
async fn a_request_that_was_handed_on_is_cancelled_with_its_exchange() {
    let (service, _, mut takes) = told();
    let endpoint = antiphon_tokio::http::endpoint(Config::new(), service);
    let body = r#"{"jsonrpc":"2.0","method":"hand on","id":1}"#;
    let request = hyper::Request::post("/")
        .header("host", "x")
        .body(body.into());
    let answering = endpoint.answer_whole(request.unwrap());
    let taking = async {
        let reply = takes.recv().await.unwrap();
        assert!(!reply.is_cancelled());
        reply
    };
    let reply = tokio::select! {
        _ = answering => panic!("nobody has answered"),
        reply = taking => reply,
    };
    assert!(reply.is_cancelled(), "nobody waits any more");
    assert!(reply.ok(&1).is_err());
}
