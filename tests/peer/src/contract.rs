//! The methods of the contract, written once for every adapter.
//!
//! This module has the answer of each method. Only how to wait differs between threads and tasks,
//! so each makes a router of the two sets of methods. No other methods are registered, and every
//! method answers exactly as README.md says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use antiphon::service::{
    Discovery, Failure, MethodInfo, Methods, ResultText, ServiceInfo, write_result,
};
use antiphon::{ErrorObject, Json, JsonKind, OwnedError, OwnedJson};
use antiphon_net::{ConnectionConfig, Dispatcher, Pool, Request};
use serde::Serialize;

use crate::layers::Layers;
use crate::log::say;

/// How long `sleep` may sleep, in milliseconds.
const MAX_SLEEP: u64 = 600_000;
/// How many notifications `emit` may send.
const MAX_EMIT: u64 = 1_000_000;
/// Lets a client that subscribed have its answer in hand before the first event.
pub const EVENT_PAUSE: Duration = Duration::from_millis(10);

/// How many requests may sleep at once.
const MAX_SLEEPERS: usize = 512;
/// How many more may wait until they can sleep, or for the client's answer.
const MAX_WAITING: usize = 8192;

/// ConnectionConfig with room for as many sleepers as the contract promises, on threads and on tasks.
pub fn with_room(config: antiphon::Config) -> ConnectionConfig {
    let mut options = ConnectionConfig::from(config);
    options.pool = Pool::new(MAX_SLEEPERS, MAX_WAITING);
    options.max_running_requests = MAX_SLEEPERS + MAX_WAITING;
    options.dispatcher = Dispatcher::new(MAX_SLEEPERS + MAX_WAITING, MAX_WAITING);
    options
}

/// The contract's methods. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    /// Whether `rpc.listMethods` and `rpc.discover` are served.
    pub has_extensions: bool,
    /// Topics and the chain of blocks, where they are served.
    pub layers: Option<Layers>,
    counted: Arc<AtomicU64>,
}

impl Contract {
    /// The methods about methods. Topics are extensions, too.
    pub(crate) fn discovery(&self) -> Option<Discovery> {
        match (self.has_extensions, &self.layers) {
            (true, _) => Some(Discovery::default()),
            (false, Some(_)) => {
                let none = Discovery::default().without("rpc.listMethods");
                Some(none.without("rpc.discover"))
            }
            (false, None) => None,
        }
    }
}

/// What is done before a request is answered, or after: the one thing that threads and tasks do differently.
#[derive(Debug)]
pub enum Waiting {
    /// Pause; then `"slept"`, or *cancelled* as soon as it is.
    Sleep(Duration),
    /// Call the peer's method with these params, and answer as it does.
    CallBack(String, Option<OwnedJson>),
    /// Notify `tick [0]` and so on, this many times; then answer the number.
    Emit(u64),
}

/// The methods that wait.
pub static WAITING: ServiceInfo = ServiceInfo {
    name: "Waits",
    doc: "",
    prefix: "",
    methods: &[
        MethodInfo::request("sleep", &[]),
        MethodInfo::request("callback", &[]),
        MethodInfo::request("emit", &[]),
    ],
};

/// The methods that answer at once.
static AT_ONCE: ServiceInfo = ServiceInfo {
    name: "Contract",
    doc: "",
    prefix: "",
    methods: &[
        MethodInfo::request("subtract", &[]),
        MethodInfo::request("sum", &[]),
        MethodInfo::request("get_data", &[]),
        MethodInfo::request("echo", &[]),
        MethodInfo::request("fail", &[]),
        MethodInfo::request("crash", &[]),
        MethodInfo::request("update", &[]),
        MethodInfo::request("notify_hello", &[]),
        MethodInfo::request("notify_sum", &[]),
        MethodInfo::request("count", &[]),
        MethodInfo::request("eth_chainId", &[]),
        MethodInfo::request("net_version", &[]),
        MethodInfo::request("eth_getBalance", &[]),
        MethodInfo::request("eth_gasPrice", &[]),
        MethodInfo::request("eth_accounts", &[]),
    ],
};

/// The methods that answer at once and that are others with [`Layers`]. So is `eth_subscribe`.
static WITHOUT_LAYERS: ServiceInfo = ServiceInfo {
    name: "Blocks",
    doc: "",
    prefix: "",
    methods: &[
        MethodInfo::request("eth_blockNumber", &[]),
        MethodInfo::request("eth_unsubscribe", &[]),
    ],
};

/// What answers them.
#[derive(Debug)]
pub struct WithoutLayers;

impl Methods<Request, ()> for WithoutLayers {
    fn info(&self) -> &'static ServiceInfo {
        &WITHOUT_LAYERS
    }

    fn call(
        &self,
        method: usize,
        _: Option<Json<'_>>,
        _: &Request,
        (): &(),
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        match WITHOUT_LAYERS.methods[method].name() {
            "eth_blockNumber" => write("0x10", result),
            _ => write(true, result),
        }
    }
}

/// Reads what a method that waits is to do, by its place in [`WAITING`].
///
/// # Errors
/// The params are not those of the contract.
pub fn waiting_of(method: usize, params: Option<Json<'_>>) -> Result<Waiting, OwnedError> {
    let waiting = match WAITING.methods[method].name() {
        "sleep" => sleep(params),
        "callback" => call_back(params),
        _ => whole(params, None, MAX_EMIT).map(Waiting::Emit),
    };
    waiting.ok_or(ErrorObject::invalid_params().into())
}

impl Methods<Request, ()> for Contract {
    fn info(&self) -> &'static ServiceInfo {
        &AT_ONCE
    }

    fn call(
        &self,
        method: usize,
        params: Option<Json<'_>>,
        request: &Request,
        (): &(),
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        match AT_ONCE.methods[method].name() {
            "subtract" => write(number(params.and_then(subtract))?, result),
            "sum" => write(number(params.and_then(sum))?, result),
            "get_data" => write(("hello", 5), result),
            "echo" => write(params, result),
            "fail" => Err(error(params).into()),
            "crash" => crash(),
            "update" | "notify_hello" | "notify_sum" => {
                self.counted.fetch_add(1, Ordering::SeqCst);
                write((), result)
            }
            "count" => write(self.counted.load(Ordering::SeqCst), result),
            "eth_chainId" => write("0x7a69", result),
            "net_version" => write("31337", result),
            "eth_getBalance" => write("0xde0b6b3a7640000", result),
            "eth_gasPrice" => write("0x3b9aca00", result),
            "eth_accounts" => write([(); 0], result),
            _ => Err(request.unknown_method().into()),
        }
    }
}

fn write(value: impl Serialize, result: &mut ResultText) -> Result<(), Failure> {
    write_result(Ok::<_, OwnedError>(value), result)
}

/// The id of every subscription without [`Layers`].
pub const SUBSCRIPTION: &str = "0x51";

/// The three events that follow such a subscription, after [`EVENT_PAUSE`].
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

fn number(number: Option<Number>) -> Result<Number, OwnedError> {
    match number {
        // An infinite number has no JSON form.
        Some(number) if number.real().is_finite() => Ok(number),
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
