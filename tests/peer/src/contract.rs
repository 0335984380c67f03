//! The methods of the contract, written once for every adapter.
//!
//! Here: what each method answers. Not here: how one waits, which is the only thing that threads
//! and tasks do differently. The rule guarded: nothing else is registered, and every method
//! answers exactly what README.md says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon::{ErrorObject, Json, JsonKind, OwnedError, OwnedJson};
use antiphon_net::{Answer, ConnectionConfig, Notification, Pool, Request};
use serde::Serialize;

use crate::log::say;

/// How long `sleep` may sleep, in milliseconds.
const MAX_SLEEP: u64 = 600_000;
/// How many notifications `emit` may send.
const MAX_EMIT: u64 = 1_000_000;
/// Lets a client that subscribed have its answer in hand before the first event.
pub const EVENT_PAUSE: Duration = Duration::from_millis(10);

/// How many requests may sleep at once.
const MAX_SLEEPERS: usize = 512;
/// How many more may wait for that, or for the client's answer.
const MAX_WAITING: usize = 8192;

/// ConnectionConfig with room for as many sleepers as the contract promises, on threads and on tasks.
pub fn with_room(config: antiphon::Config) -> ConnectionConfig {
    let mut options = ConnectionConfig::from(config);
    options.pool = Pool::new(MAX_SLEEPERS, MAX_WAITING);
    options.max_running_requests = MAX_SLEEPERS + MAX_WAITING;
    options
}

/// The contract's methods. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    counted: Arc<AtomicU64>,
}

/// What became of a request.
#[derive(Debug)]
#[must_use]
pub enum Begun {
    /// There is an answer.
    Answered(Answer),
    /// It is answered after something else has been done.
    Waits(Waiting),
}

/// What is to be done before a request is answered, or after.
#[derive(Debug)]
pub enum Waiting {
    /// Pause; then `"slept"`, or *cancelled* as soon as it is.
    Sleep(Duration),
    /// Call the peer's method with these params, and answer as it does.
    CallBack(String, Option<OwnedJson>),
    /// Notify `tick [0]` and so on, this many times; then answer the number.
    Emit(u64),
    /// Answer; then, after [`EVENT_PAUSE`], notify the [`events`].
    Subscribe,
}

impl Contract {
    /// Answers a request, or says what is to be done before.
    ///
    /// # Errors
    /// The error to answer.
    ///
    /// # Panics
    /// `crash` does.
    pub fn begin(&self, request: &Request) -> Result<Begun, OwnedError> {
        let params = request.raw_params();
        let waiting = match request.method() {
            "sleep" => sleep(params),
            "callback" => call_back(params),
            "emit" => whole(params, None, MAX_EMIT).map(Waiting::Emit),
            "eth_subscribe" => Some(Waiting::Subscribe),
            _ => return self.answer(request).map(Begun::Answered),
        };
        Ok(Begun::Waits(waiting.ok_or(ErrorObject::invalid_params())?))
    }

    fn answer(&self, request: &Request) -> Result<Answer, OwnedError> {
        let params = request.raw_params();
        Ok(match request.method() {
            "subtract" => number(params.and_then(subtract))?,
            "sum" => number(params.and_then(sum))?,
            "get_data" => ("hello", 5).into(),
            "echo" => Answer::new(params),
            "fail" => return Err(error(params)),
            "crash" => crash(),
            "update" | "notify_hello" | "notify_sum" => {
                self.count();
                ().into()
            }
            "count" => self.counted.load(Ordering::SeqCst).into(),
            "eth_chainId" => "0x7a69".into(),
            "net_version" => "31337".into(),
            "eth_blockNumber" => "0x10".into(),
            "eth_getBalance" => "0xde0b6b3a7640000".into(),
            "eth_gasPrice" => "0x3b9aca00".into(),
            "eth_accounts" => [(); 0].into(),
            "eth_unsubscribe" => true.into(),
            _ => return Err(request.unknown_method()),
        })
    }

    /// Takes a notification.
    ///
    /// # Panics
    /// `crash` does.
    pub fn notified(&self, notification: &Notification) {
        match notification.method() {
            "update" | "notify_hello" | "notify_sum" => self.count(),
            "crash" => crash(),
            _ => {}
        }
    }

    fn count(&self) {
        self.counted.fetch_add(1, Ordering::SeqCst);
    }
}

/// The three events that follow a subscription.
pub fn events() -> impl Iterator<Item = OwnedJson> {
    (0x11..0x14_u8).filter_map(|number| {
        let hash = |number: u8| format!("0x{number:064x}");
        let head = format!(
            r#"{{"subscription":"0x51","result":{{"number":"{number:#x}","hash":"{}","parentHash":"{}"}}}}"#,
            hash(number),
            hash(number - 1)
        );
        let parsed = OwnedJson::parse(head);
        let failed = |error| say(format_args!("an event is not JSON: {error}"));
        parsed.map_err(failed).ok()
    })
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

fn number(number: Option<Number>) -> Result<Answer, OwnedError> {
    match number {
        // An infinite number has no JSON form.
        Some(number) if number.real().is_finite() => Ok(number.into()),
        _ => Err(ErrorObject::invalid_params().into()),
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

/// The error that was asked for.
fn error(params: Option<Json<'_>>) -> OwnedError {
    let wanted = params.and_then(|params| {
        let code = params.get("code")?.decode().ok()?;
        let message = params.get("message")?.as_string()?;
        let error = ErrorObject::new(code, message.to_cow_lossy());
        Some(match params.get("data") {
            Some(data) => error.with_data(data),
            None => error,
        })
    });
    wanted.unwrap_or(ErrorObject::invalid_params()).into()
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

fn sleep(params: Option<Json<'_>>) -> Option<Waiting> {
    let millis = whole(params, Some(0), MAX_SLEEP)?;
    Some(Waiting::Sleep(Duration::from_millis(millis)))
}

fn call_back(params: Option<Json<'_>>) -> Option<Waiting> {
    let mut elements = params?.elements();
    let method = elements.next()?.as_string()?.to_cow_lossy();
    let params = elements.next().filter(|params| !params.is_null());
    let is_scalar = |params: Json<'_>| !matches!(params.kind(), JsonKind::Array | JsonKind::Object);
    if elements.next().is_some() || params.is_some_and(is_scalar) || method.trim().is_empty() {
        return None;
    }
    let params = params.map(Json::to_owned_json);
    Some(Waiting::CallBack(method.into_owned(), params))
}
