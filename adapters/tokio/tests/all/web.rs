//! A web endpoint: who is let in, what handlers know of that, and what is left when a client has gone.
#![cfg(all(feature = "http", feature = "websocket"))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Echo, Served, call, post};
use antiphon::Config;
use antiphon_tokio::http::{Endpoint, Refusal, Web};
use antiphon_tokio::{
    ClientConfig, Context, Extension, OwnedError, Peer, Router, Service, TcpServer, connect,
    current,
};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, timeout};

const HOUR: Duration = Duration::from_secs(3600);

const UPGRADE: &str = "GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[derive(Clone)]
struct User(String);

/// Lets in who has a token, by its name.
fn check(context: &Context) -> Result<User, Refusal> {
    let token = context.header("authorization").unwrap_or_default();
    match token.strip_prefix("Bearer ") {
        Some(name) => Ok(User(name.into())),
        None => Err(Refusal::unauthorized("Bearer")),
    }
}

fn served<S: Service>(web: Web<S>) -> Served {
    Served::new(Endpoint::of(web, current()))
}

// web.md §2
// USE-13 USE-12
#[tokio::test]
async fn what_a_check_has_found_is_an_argument_of_handlers_over_http_and_websocket() {
    let router = Router::new()
        .method("me", [], |Extension(User(name)): Extension<User>| {
            Ok::<_, OwnedError>(name)
        })
        .method("known", [], |peer: Peer| {
            Ok::<_, OwnedError>(peer.context().extension::<User>().is_some())
        });
    let web = Web::new(Config::new(), router.into_make_service()).authorize(check);
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let at = server.local_addr();
    let running = server.start_web(web);
    for scheme in ["http", "ws"] {
        let url = format!("{scheme}://{at}/");
        let config = ClientConfig::new(Config::new()).with_header("authorization", "Bearer Ada");
        let client = connect(&url, config, ()).await.unwrap();
        assert_eq!(client.call::<String>("me", ()).await.unwrap(), "Ada");
        assert!(client.call::<bool>("known", ()).await.unwrap(), "{scheme}");
        let refused = match connect(&url, Config::new(), ()).await {
            Ok(client) => client
                .call::<String>("me", ())
                .await
                .unwrap_err()
                .to_string(),
            Err(error) => error.to_string(),
        };
        assert!(refused.contains("401"), "{scheme}: {refused}");
    }
    running.stop();
}

/// Tells when it is dropped.
struct Gone(tokio::sync::mpsc::UnboundedSender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

// web.md §5
// USE-13
#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_ends_the_check_that_it_waits_for() {
    let (gone, mut went) = unbounded_channel();
    let web = Web::new(Config::new(), |_| Echo::new().0).authorize_async(move |_| {
        let gone = Gone(gone.clone());
        async move {
            tokio::time::sleep(HOUR).await;
            drop(gone);
            Ok(())
        }
    });
    let served = served(web);
    for request in [post("/", "", &call("echo", 1)), format!("{UPGRADE}\r\n")] {
        let mut raw = served.connect(4096);
        raw.send(&request).await.unwrap();
        let begun = Instant::now();
        drop(raw);
        timeout(HOUR / 2, went.recv()).await.expect("it ends");
        assert!(
            begun.elapsed() <= Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    }
}

/// Counts how many of it there are.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Counted {}

// web.md §5
// USE-12 SEC-10
#[tokio::test(start_paused = true)]
async fn a_thousand_upgrades_at_once_leave_nothing_behind() {
    let (count, made) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (own, ours) = (Arc::clone(&count), Arc::clone(&made));
    let web = Web::new(Config::new(), move |_| {
        ours.fetch_add(1, Ordering::SeqCst);
        Counted::new(&own)
    });
    let served = served(web.authorize(check));
    let mut open = Vec::new();
    for n in 0..1000 {
        let token = if n % 2 == 0 {
            ""
        } else {
            "authorization: Bearer Ada\r\n"
        };
        let mut raw = served.connect(4096);
        raw.send(format!("{UPGRADE}{token}\r\n")).await.unwrap();
        open.push((raw, if n % 2 == 0 { 401 } else { 101 }));
    }
    for (raw, wanted) in &mut open {
        assert_eq!(raw.reply().await.expect("an answer").status, *wanted);
    }
    assert_eq!(served.running.connections(), 1000);
    assert_eq!(made.load(Ordering::SeqCst), 500);
    assert_eq!(count.load(Ordering::SeqCst), 500);
    drop(open);
    let ended = async {
        while served.running.connections() > 0 || count.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), ended)
        .await
        .expect("all end");
}
