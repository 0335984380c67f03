//! The server of the contract: its methods, and where it listens.
//!
//! The rule guarded here: nothing else is registered, and every method answers exactly what
//! README.md says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use antiphon::{
    CloseReason, Closed, Config, ErrorObject, Json, JsonKind, OwnedJson, OwnedNotification,
    SendError,
};
use antiphon_blocking::{
    CALL_TIMEOUT_DEFAULT, Link, Options, Peer, Pool, Report, Request, Responder, Service,
    TcpServer, serve,
};
use serde::Serialize;

use crate::log::say;
use crate::target::Place;
use crate::usage::{Endpoint, Failure};

/// How long `sleep` may sleep, in milliseconds.
const SLEEP_MAX: u64 = 600_000;
/// How many notifications `emit` may send.
const EMIT_MAX: u64 = 1_000_000;
/// Lets a client that subscribed have its answer in hand before the first event.
const EVENT_PAUSE: Duration = Duration::from_millis(10);

/// Serves until the input ends, or for ever where connections come and go.
///
/// # Errors
/// The target cannot be served.
pub(crate) fn run(endpoint: &Endpoint) -> Result<u8, Failure> {
    std::panic::set_hook(Box::new(|panic| say(format_args!("{panic}"))));
    let target = &endpoint.target;
    let options = options(endpoint.config);
    let contract = Contract::default();
    let cannot = |error: std::io::Error| Failure::new(format!("cannot serve {target}: {error}"));
    match target.place() {
        Place::Stdio => {
            let link = Link::stdio().map_err(cannot)?;
            let why = serve(link, options, contract).map_err(cannot)?;
            Ok(code_of(why))
        }
        Place::Tcp(address) => {
            let server = TcpServer::bind(address.as_str()).map_err(cannot)?;
            let bound = server.local_addr().map_err(cannot)?;
            eprintln!("listening {}", target.at(&bound.to_string()));
            let running = server.start(options, move |_| contract.clone());
            running.map_err(cannot)?.wait();
            Ok(0)
        }
        #[cfg(unix)]
        Place::Unix(path) => {
            let server = antiphon_blocking::UnixServer::bind(path).map_err(cannot)?;
            eprintln!("listening {target}");
            let running = server.start(options, move || contract.clone());
            running.map_err(cannot)?.wait();
            Ok(0)
        }
        _ => Err(Failure::new(format!("{target}: cannot be served"))),
    }
}

/// Many sleep at once here; they cost a thread each.
pub(crate) fn options(config: Config) -> Options {
    let mut options = Options::from(config);
    options.pool = Pool::new(512, 8192);
    options
}

/// The code to exit with after the only connection has ended.
fn code_of(why: Closed) -> u8 {
    match why {
        Closed::EndOfInput | Closed::Drained | Closed::Local(CloseReason::Done) => 0,
        Closed::Failed(error) => {
            say(format_args!("{error}"));
            1
        }
        other => {
            say(format_args!("closed: {other:?}"));
            1
        }
    }
}

/// The contract's methods. Clones count together.
#[derive(Clone, Debug, Default)]
struct Contract {
    counted: Arc<AtomicU64>,
}

impl Service for Contract {
    fn request(&mut self, peer: &Peer, request: Request, reply: Responder) {
        let answered = self.answer(peer, &request, reply);
        if let Err(error) = answered {
            say(format_args!(
                "{} was not answered: {error}",
                request.method()
            ));
        }
    }

    fn notification(&mut self, _: &Peer, notification: OwnedNotification) {
        match notification.method() {
            "update" | "notify_hello" | "notify_sum" => self.count(),
            "crash" => crash(),
            _ => {}
        }
    }

    fn report(&mut self, _: &Peer, report: Report) {
        say(format_args!("{report}"));
    }
}

impl Contract {
    fn answer(&self, peer: &Peer, request: &Request, reply: Responder) -> Result<(), SendError> {
        let params = request.params();
        match request.method() {
            "subtract" => answer_number(reply, params.and_then(subtract)),
            "sum" => answer_number(reply, params.and_then(sum)),
            "get_data" => reply.ok(&("hello", 5)),
            "echo" => reply.ok(params.unwrap_or(Json::NULL)),
            "fail" => fail(params, reply),
            "crash" => crash(),
            "sleep" => sleep(params, reply),
            "update" | "notify_hello" | "notify_sum" => {
                self.count();
                reply.ok(())
            }
            "count" => reply.ok(&self.counted.load(Ordering::SeqCst)),
            "callback" => call_back(peer, params, reply),
            "emit" => emit(params, reply),
            "eth_chainId" => reply.ok("0x7a69"),
            "net_version" => reply.ok("31337"),
            "eth_blockNumber" => reply.ok("0x10"),
            "eth_getBalance" => reply.ok("0xde0b6b3a7640000"),
            "eth_gasPrice" => reply.ok("0x3b9aca00"),
            "eth_accounts" => reply.ok(&[(); 0]),
            "eth_subscribe" => {
                reply.spawn(subscribe);
                Ok(())
            }
            "eth_unsubscribe" => reply.ok(&true),
            other => reply.unknown_method(other),
        }
    }

    fn count(&self) {
        self.counted.fetch_add(1, Ordering::SeqCst);
    }
}

/// A number that stays whole as long as it can.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    fn read(json: Json<'_>) -> Option<Self> {
        if json.kind() != JsonKind::Number {
            return None;
        }
        let whole = json.decode().map(Self::Whole);
        whole.or_else(|_| json.decode().map(Self::Real)).ok()
    }

    fn real(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }

    fn join(
        self,
        other: Self,
        whole: impl Fn(i64, i64) -> Option<i64>,
        real: impl Fn(f64, f64) -> f64,
    ) -> Self {
        let exact = match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => whole(a, b),
            _ => None,
        };
        exact.map_or_else(|| Self::Real(real(self.real(), other.real())), Self::Whole)
    }
}

fn answer_number(reply: Responder, number: Option<Number>) -> Result<(), SendError> {
    match number {
        // An infinite number has no JSON form.
        Some(number) if number.real().is_finite() => reply.ok(&number),
        _ => reply.err(&ErrorObject::invalid_params()),
    }
}

fn subtract(params: Json<'_>) -> Option<Number> {
    let (minuend, subtrahend) = if params.kind() == JsonKind::Object {
        let is_known = |name: &str| name == "minuend" || name == "subtrahend";
        let known = params
            .members()
            .filter(|(name, _)| is_known(&name.to_cow_lossy()));
        if known.count() != 2 || params.members().count() != 2 {
            return None;
        }
        (params.get("minuend")?, params.get("subtrahend")?)
    } else {
        let mut elements = params.elements();
        let pair = (elements.next()?, elements.next()?);
        if elements.next().is_some() {
            return None;
        }
        pair
    };
    let (minuend, subtrahend) = (Number::read(minuend)?, Number::read(subtrahend)?);
    Some(minuend.join(subtrahend, i64::checked_sub, |a, b| a - b))
}

fn sum(params: Json<'_>) -> Option<Number> {
    if params.kind() != JsonKind::Array {
        return None;
    }
    params
        .elements()
        .try_fold(Number::Whole(0), |sum, element| {
            Some(sum.join(Number::read(element)?, i64::checked_add, |a, b| a + b))
        })
}

fn fail(params: Option<Json<'_>>, reply: Responder) -> Result<(), SendError> {
    let wanted = params.and_then(|params| {
        let code = params.get("code")?.decode().ok()?;
        let message = params.get("message")?.as_string()?;
        let error = ErrorObject::new(code, message.to_cow_lossy());
        Some(match params.get("data") {
            Some(data) => error.with_data(data),
            None => error,
        })
    });
    reply.err(&wanted.unwrap_or(ErrorObject::invalid_params()))
}

fn crash() -> ! {
    panic!("asked to crash");
}

/// Reads `[n]`, or nothing where that is allowed.
fn whole(params: Option<Json<'_>>, absent: Option<u64>, max: u64) -> Option<u64> {
    let Some(params) = params else { return absent };
    let mut elements = params.elements();
    let number = match elements.next() {
        None if params.kind() == JsonKind::Array => absent?,
        None => return None,
        Some(element) => element.decode().ok()?,
    };
    (elements.next().is_none() && number <= max).then_some(number)
}

fn sleep(params: Option<Json<'_>>, reply: Responder) -> Result<(), SendError> {
    let Some(millis) = whole(params, Some(0), SLEEP_MAX) else {
        return reply.err(&ErrorObject::invalid_params());
    };
    reply.spawn(move |reply| {
        let answered = if reply.wait_cancelled(Duration::from_millis(millis)) {
            reply.cancelled()
        } else {
            reply.ok("slept")
        };
        // Nobody waits for it any more: a silent cancel, or the end.
        drop(answered);
    });
    Ok(())
}

fn call_back(peer: &Peer, params: Option<Json<'_>>, reply: Responder) -> Result<(), SendError> {
    let wanted = params.and_then(|params| {
        let mut elements = params.elements();
        let method = elements.next()?.as_string()?.to_cow_lossy();
        let params = elements.next().filter(|params| !params.is_null());
        elements.next().is_none().then_some((method, params))
    });
    let Some((method, params)) = wanted else {
        return reply.err(&ErrorObject::invalid_params());
    };
    let is_scalar = |params: Json<'_>| !matches!(params.kind(), JsonKind::Array | JsonKind::Object);
    if params.is_some_and(is_scalar) || method.trim().is_empty() {
        return reply.err(&ErrorObject::invalid_params());
    }
    // Nobody waits on a thread: any number of these can be open. Refused, it drops the responder,
    // which answers.
    let called = peer.call_then(&method, params, Some(CALL_TIMEOUT_DEFAULT), |outcome| {
        // A connection that has closed in the meantime awaits no answer.
        drop(reply.outcome(&outcome));
    });
    called.map(drop).map_err(|refused| refused.error)
}

fn emit(params: Option<Json<'_>>, reply: Responder) -> Result<(), SendError> {
    let Some(count) = whole(params, None, EMIT_MAX) else {
        return reply.err(&ErrorObject::invalid_params());
    };
    reply.spawn(move |reply| {
        let peer = Peer::of(&reply);
        for i in 0..count {
            if let Err(error) = peer.notify("tick", &[i]) {
                return say(format_args!("tick {i} was not sent: {error}"));
            }
        }
        // A connection that has closed in the meantime awaits no answer.
        drop(reply.ok(&count));
    });
    Ok(())
}

fn subscribe(reply: Responder) {
    let peer = Peer::of(&reply);
    if reply.ok("0x51").is_err() {
        return;
    }
    thread::sleep(EVENT_PAUSE);
    for number in 0x11..0x14_u8 {
        let hash = |number: u8| format!("0x{number:064x}");
        let head = format!(
            r#"{{"subscription":"0x51","result":{{"number":"{number:#x}","hash":"{}","parentHash":"{}"}}}}"#,
            hash(number),
            hash(number - 1)
        );
        let event = match OwnedJson::parse(head) {
            Ok(event) => event,
            Err(error) => return say(format_args!("an event is not JSON: {error}")),
        };
        if let Err(error) = peer.notify("eth_subscription", event.as_json()) {
            return say(format_args!("an event was not sent: {error}"));
        }
    }
}
