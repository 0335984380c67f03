//! What the calls of a connection or a server may cost, in virtual time and to the byte: the clock moves
//! only when every task waits.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::Raw;
use antiphon::Config;
use antiphon::session::Report;
use antiphon_net::{Link, duplex};
use antiphon_tokio::service::Prices;
use antiphon_tokio::{Answer, CostLimit, OwnedError, Peer, Request, Router, attach};
use tokio::time::{Instant, sleep, timeout};

const LIMITED: &str =
    r#"{"jsonrpc":"2.0","error":{"code":-32002,"message":"Rate limit exceeded"},"id":0}"#;
const DONE: &str = r#"{"jsonrpc":"2.0","result":1,"id":0}"#;
const CHEAP: &str = r#"{"jsonrpc":"2.0","method":"one","id":0}"#;
const PATIENCE: Duration = Duration::from_secs(3600);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One unit for what is named, nothing for the rest.
fn only(what: &str) -> Prices {
    let mut prices = Prices::new();
    prices.per_byte_in = u64::from(what == "in");
    prices.per_byte_out = u64::from(what == "out");
    prices.per_millisecond = u64::from(what == "time");
    prices
}

/// A connection may spend 100 units at once, and one more each millisecond.
fn own(what: &str) -> CostLimit {
    CostLimit::per_connection(1000, 100).with_prices(only(what))
}

/// All connections of a server together may spend as much.
fn shared(what: &str) -> CostLimit {
    CostLimit::per_server(1000, 100).with_prices(only(what))
}

/// A text whose JSON has this many bytes, with its quotes.
fn text(bytes: usize) -> String {
    "x".repeat(bytes - 2)
}

/// A call of this many bytes.
fn padded(bytes: usize) -> String {
    let blanks = " ".repeat(bytes - CHEAP.len());
    CHEAP.replacen(',', &format!(",{blanks}"), 1)
}

fn call(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":0}}"#)
}

fn result(result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","result":"{result}","id":0}}"#)
}

/// Answers after its handler has returned: `bytes` bytes, `after` milliseconds later. With 0 bytes it
/// drops its responder instead.
fn later(request: &Request) -> Result<Answer, OwnedError> {
    let (after, bytes): (u64, usize) = request.params()?;
    let (responder, request) = (request.defer(), request.clone());
    tokio::spawn(async move {
        sleep(millis(after)).await;
        // The attributes of the connection can still be used.
        let _attributes = request.connection_attributes();
        match bytes {
            0 => drop(responder),
            bytes => responder.ok(&text(bytes)).unwrap(),
        }
    });
    Ok(Answer::deferred())
}

fn router() -> Router {
    Router::new()
        .method("one", [], || Ok::<_, OwnedError>(1))
        .method("large", ["bytes"], |bytes: usize| {
            Ok::<_, OwnedError>(text(bytes))
        })
        .method("error", ["bytes"], |bytes: usize| {
            let without = r#"{"code":1000,"message":"m","data":}"#.len();
            let error = OwnedError::new(1000, "m").with_data(&text(bytes - without));
            Err::<(), _>(error.unwrap())
        })
        .method("slow", ["after"], async |after: u64| {
            sleep(millis(after)).await;
            Ok::<_, OwnedError>(1)
        })
        .method(
            "panic",
            ["after"],
            async |after: u64| -> Result<u8, OwnedError> {
                sleep(millis(after)).await;
                panic!("as asked")
            },
        )
        .method("never", [], async || {
            pending::<Result<u8, OwnedError>>().await
        })
        .raw("later", later)
}

/// A client of a server in memory.
struct Client {
    raw: Raw,
    _serving: Peer,
}

impl Client {
    fn of(router: &Router) -> Self {
        let mut config = Config::new();
        config.timeouts.drain_timeout = Some(millis(50));
        let (near, far) = duplex(1 << 16);
        Self {
            raw: Raw::new(near),
            _serving: attach(Link::new(far), config, router.clone()),
        }
    }

    async fn say(&mut self, message: &str) {
        self.raw.send(format!("{message}\n")).await.unwrap();
    }

    async fn hear(&mut self) -> String {
        let line = timeout(PATIENCE, self.raw.line()).await;
        line.expect("an answer")
    }

    async fn ask(&mut self, message: &str) -> String {
        self.say(message).await;
        self.hear().await
    }

    /// Checks that the client owes `units`: after as many milliseconds a call is still refused, and
    /// one millisecond later a call is served.
    async fn owes(&mut self, units: u64) {
        sleep(millis(units)).await;
        assert_eq!(self.ask(CHEAP).await, LIMITED, "{units} units");
        sleep(millis(1)).await;
        assert_eq!(self.ask(CHEAP).await, DONE, "{units} units");
    }
}

// SEC-10 SEC-09
#[tokio::test(start_paused = true)]
async fn bytes_that_come_in_are_paid_before_the_next_call() {
    let mut client = Client::of(&router().intercept(own("in")));
    assert_eq!(client.ask(&padded(150)).await, DONE);
    client.owes(50).await;
    sleep(PATIENCE).await;
    // If one unit is left, a call is served, whatever it costs.
    assert_eq!(client.ask(&padded(99)).await, DONE);
    assert_eq!(client.ask(&padded(120)).await, DONE);
    client.owes(119).await;
    sleep(PATIENCE).await;
    // A notification costs as much as a call.
    let notification = padded(150).replace(r#","id":0"#, "       ");
    assert_eq!(notification.len(), 150);
    client.say(&notification).await;
    client.owes(50).await;
    // Each entry of a batch is paid for itself.
    sleep(PATIENCE).await;
    let (entry, done) = (padded(40), DONE);
    let answers = client
        .ask(&format!("[{entry},{entry},{entry},{entry}]"))
        .await;
    assert_eq!(answers, format!("[{done},{done},{done},{LIMITED}]"));
    client.owes(20).await;
}

// SEC-10
#[tokio::test(start_paused = true)]
async fn bytes_that_are_answered_are_paid_before_the_next_call() {
    let mut client = Client::of(&router().intercept(own("out")));
    assert_eq!(
        client.ask(&call("large", "[150]")).await,
        result(&text(150))
    );
    client.owes(50).await;
    sleep(PATIENCE).await;
    // An error costs as much as a result of its length.
    let error = client.ask(&call("error", "[150]")).await;
    let without = r#"{"jsonrpc":"2.0","error":,"id":0}"#.len();
    assert_eq!(error.len(), 150 + without, "{error}");
    client.owes(50).await;
    sleep(PATIENCE).await;
    // So does an answer that is given after the handler has returned.
    let answer = client.ask(&call("later", "[7,150]")).await;
    assert_eq!(answer, result(&text(150)));
    client.owes(50).await;
    sleep(PATIENCE).await;
    let error = client.ask(&call("later", "[7,0]")).await;
    assert!(error.contains("-32603"), "{error}");
    let bytes = (error.len() - without) as u64;
    assert_eq!(
        client.ask(&call("large", "[150]")).await,
        result(&text(150))
    );
    client.owes(50 + bytes).await;
    sleep(PATIENCE).await;
    // A notification is not answered, so its result costs nothing.
    let notification = call("large", "[150]").replace(r#","id":0"#, "");
    client.say(&notification).await;
    assert_eq!(client.ask(CHEAP).await, DONE);
}

// SEC-10
#[tokio::test(start_paused = true)]
async fn the_time_of_handlers_is_paid_however_they_end() {
    let mut client = Client::of(&router().intercept(own("time")));
    assert_eq!(client.ask(&call("slow", "[150]")).await, DONE);
    client.owes(50).await;
    sleep(PATIENCE).await;
    let error = client.ask(&call("panic", "[150]")).await;
    assert!(error.contains("-32603"), "{error}");
    client.owes(50).await;
    sleep(PATIENCE).await;
    assert_eq!(
        client.ask(&call("later", "[150,9]")).await,
        result(&text(9))
    );
    client.owes(50).await;
    sleep(PATIENCE).await;
    // A call that the peer cancels is paid until then.
    client.say(&call("never", "[]")).await;
    sleep(millis(150)).await;
    let cancelled = client
        .ask(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":0}}"#)
        .await;
    assert!(cancelled.contains("-32001"), "{cancelled}");
    client.owes(50).await;
}

// SEC-10
#[tokio::test(start_paused = true)]
async fn a_call_whose_connection_ends_is_paid_by_the_server() {
    let router = router().intercept(shared("time"));
    let (mut one, mut other) = (Client::of(&router), Client::of(&router));
    one.say(&call("never", "[]")).await;
    sleep(millis(150)).await;
    assert_eq!(other.ask(CHEAP).await, DONE);
    drop(one.raw);
    // Its handler runs on for as long as a drain may take.
    sleep(millis(50)).await;
    other.owes(100).await;
}

// SEC-09 SEC-10 INT-06
#[tokio::test(start_paused = true)]
async fn what_is_refused_costs_nothing_and_notifications_are_reported() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&reports);
    let router = router().intercept(own("in")).on_report(move |_, report| {
        if let Report::Failed(about, error) = report {
            let line = format!("{} {}", about.method, error.code());
            told.lock().unwrap().push(line);
        }
    });
    let mut client = Client::of(&router);
    assert_eq!(client.ask(&padded(100)).await, DONE);
    for _ in 0..100 {
        assert_eq!(client.ask(&padded(1000)).await, LIMITED);
    }
    let notification = CHEAP.replace(r#","id":0"#, "");
    client.say(&notification).await;
    client.owes(0).await;
    assert_eq!(*reports.lock().unwrap(), ["one -32002"]);
}

// SEC-10 SEC-09
#[tokio::test(start_paused = true)]
async fn limits_stand_side_by_side_and_so_do_connections() {
    let router = router().intercept(own("in")).intercept(own("out"));
    let (mut one, mut other) = (Client::of(&router), Client::of(&router));
    assert_eq!(one.ask(&padded(150)).await, DONE);
    one.owes(50).await;
    sleep(PATIENCE).await;
    assert_eq!(one.ask(&call("large", "[300]")).await, result(&text(300)));
    // What one connection has spent is not taken from another.
    assert_eq!(one.ask(CHEAP).await, LIMITED);
    assert_eq!(other.ask(&call("large", "[99]")).await, result(&text(99)));
    assert_eq!(other.ask(CHEAP).await, DONE);
    assert_eq!(other.ask(CHEAP).await, LIMITED);
    one.owes(200).await;
    // All connections of a server spend from its one limit.
    let router = self::router()
        .intercept(own("out"))
        .intercept(shared("out"));
    let (mut one, mut other) = (Client::of(&router), Client::of(&router));
    assert_eq!(one.ask(&call("large", "[150]")).await, result(&text(150)));
    assert_eq!(other.ask(CHEAP).await, LIMITED);
    one.owes(50).await;
}

// SEC-10
#[tokio::test(start_paused = true)]
async fn a_flood_of_large_answers_gets_what_the_budget_has() {
    let limit = CostLimit::per_connection(100_000, 100_000).with_prices(only("out"));
    let mut client = Client::of(&router().intercept(limit));
    let (large, answer) = (call("large", "[10000]"), result(&text(10_000)));
    let (start, mut served) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(10) {
        let heard = client.ask(&large).await;
        match heard == LIMITED {
            true => sleep(millis(1)).await,
            false => {
                assert_eq!(heard, answer);
                served += 1;
            }
        }
    }
    // Ten at once, and then ten a second for ten seconds.
    assert_eq!(served, 10 + 100);
}

#[cfg(feature = "http")]
mod over_http {
    use antiphon_tokio::http::{HttpConfig, endpoint};

    use super::*;
    use crate::support::Served;

    // SEC-10 USE-42
    #[tokio::test(start_paused = true)]
    async fn requests_of_a_connection_share_its_budget_and_connections_the_servers() {
        let served = |router| Served::new(endpoint(HttpConfig::from(Config::new()), router));
        let (large, answer) = (call("large", "[150]"), result(&text(150)));
        // The HTTP requests of a connection share its budget.
        let own = served(router().intercept(own("out")));
        let mut raw = own.connect(4096);
        assert_eq!(raw.post(&large).await.body, answer);
        assert_eq!(raw.post(CHEAP).await.body, LIMITED);
        sleep(millis(51)).await;
        assert_eq!(raw.post(&large).await.body, answer);
        let mut raw = own.connect(4096);
        let answers = raw.post(&format!("[{large},{CHEAP}]")).await.body;
        assert_eq!(answers, format!("[{answer},{LIMITED}]"));
        assert_eq!(raw.post(CHEAP).await.body, LIMITED);
        let shared = served(router().intercept(shared("out")));
        let mut raw = shared.connect(4096);
        assert_eq!(raw.post(&large).await.body, answer);
        sleep(millis(50)).await;
        assert_eq!(shared.connect(4096).post(&large).await.body, LIMITED);
        sleep(millis(1)).await;
        assert_eq!(raw.post(CHEAP).await.body, DONE);
    }
}
