//! Invariant: over a transport that splits, stalls, fails and is cut, a driven connection delivers the events and writes the bytes that the core alone does; no wake-up is lost, every call settles, and nothing is leaked.

mod alone;
mod transport;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use antiphon::session::{Order, Report, UnmatchedDetails};
use antiphon::{CancelStyle, CloseReason, Closed, Config, Framing, OwnedError, OwnedOutcome};
use antiphon_net::{
    Answer, ConnectionConfig, Driver, Link, Notification, Peer, PendingCall, Request, Service,
    SharedRuntime, drive_on,
};

use crate::bytes::Bytes;
use alone::Alone;
use transport::{Clockwork, Pipe, Wire};

const MAX_STEPS: usize = 200;

/// How often time is let pass at the end, until all is over.
const MAX_TURNS: usize = 500;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut world = World::new(config(&mut bytes));
    let off = bytes.word();
    let hot = bytes.byte();
    for _ in 0..MAX_STEPS {
        let Some(which) = bytes.some() else { break };
        // Swarm testing: an operation that is off in this run is never done.
        if off >> (which % 16) & 1 == 0 {
            world.step(which % 16, hot, &mut bytes);
            world.poll();
        }
    }
    world.finish();
}

fn config(bytes: &mut Bytes<'_>) -> Config {
    let mut config = Config::new();
    config.framing = *bytes.one(&[
        Framing::Newline,
        Framing::ContentLength,
        Framing::Concatenated,
    ]);
    // A request that is cancelled before its handler begins is answered without the service. The
    // core alone cannot know which had begun, so cancels by the peer are left to other tests.
    config.dialect.cancel_receive = CancelStyle::None;
    config.dialect.cancel_send = *bytes.one(&[CancelStyle::None, CancelStyle::Lsp]);
    config.limits.max_message_bytes = 200;
    config.limits.max_open_requests = 1 + bytes.below(6);
    // How much waits depends on the transport; these limits have their own tests.
    (
        config.limits.soft_max_outbox_bytes,
        config.limits.max_outbox_bytes,
    ) = (1 << 30, 1 << 30);
    (
        config.timeouts.message_timeout,
        config.timeouts.write_timeout,
        config.timeouts.drain_timeout,
    ) = (None, None, None);
    config
}

/// What was done to the connection, in order, for the core to be told the same.
#[derive(Debug)]
pub(crate) enum Act {
    Call {
        tag: usize,
        deadline: Option<u64>,
    },
    Notify(usize),
    Cancel(usize),
    Read(Vec<u8>),
    Clock(u64),
    Answer {
        serial: u64,
        how: u8,
    },
    End,
    /// The driver was polled, and looked at the time: only then may it end calls.
    Turn,
}

/// What a service was told.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) requests: Vec<String>,
    pub(crate) notifications: Vec<String>,
    pub(crate) reports: Vec<String>,
}

/// What service, transport and caller write down.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) acts: Vec<Act>,
    told: Told,
    closed: Vec<Closed>,
    /// Handlers that wait, by the number in their params.
    gates: BTreeMap<u64, (bool, Option<Waker>)>,
}

pub(crate) type Shared<V> = Arc<Mutex<V>>;

pub(crate) fn with<V, R>(shared: &Shared<V>, act: impl FnOnce(&mut V) -> R) -> R {
    act(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Set when the driver is woken.
pub(crate) struct Flag(AtomicBool);

impl Flag {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Echo {
    notes: Shared<Notes>,
    /// Whether handlers return their answers; else they give them to responders. A responder's answer
    /// leaves at once and a returned one with the next turn, so with both in one run the answers would
    /// have an order that the core does not know.
    returns: bool,
}

impl Service for Echo {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let params = request.raw_params().expect("it has params");
        let (serial, how): (u64, u8) = params.decode().expect("two numbers");
        let line = format!("{} {}", request.method(), params.as_str());
        with(&self.notes, |notes| notes.told.requests.push(line));
        if request.method() == "later" {
            std::future::poll_fn(|cx| self.poll_gate(serial, cx)).await;
        }
        with(&self.notes, |notes| {
            notes.acts.push(Act::Answer { serial, how })
        });
        if self.returns {
            return match how % 4 {
                0 => Err(request.unknown_method()),
                1 => Ok(Answer::deferred()),
                _ => Ok(Answer::new(params)),
            };
        }
        let params = params.to_owned_json();
        let reply = request.defer();
        let given = match how % 4 {
            0 => reply.unknown_method(request.method()),
            1 => {
                drop(reply);
                Ok(())
            }
            _ => reply.ok(params.as_json()),
        };
        // It is refused after the end.
        drop(given);
        Ok(Answer::deferred())
    }

    async fn notification(&self, _: &Peer, told: Notification) {
        let params = told.raw_params().map(|params| params.as_str().to_string());
        let line = format!("{} {params:?}", told.method());
        with(&self.notes, |notes| notes.told.notifications.push(line));
    }

    fn report(&self, _: &Peer, report: Report) {
        let line = match report {
            Report::Malformed { cause, text, .. } => format!("{cause:?} {text:?}"),
            Report::Refused { cause, id, .. } => format!("{cause:?} {id:?}"),
            Report::UnmatchedResponse { kind, id } => format!("{} {id:?}", unmatched(&kind)),
            // Reports about the transport, which the core alone does not have.
            _ => return,
        };
        with(&self.notes, |notes| notes.told.reports.push(line));
    }

    fn closed(&self, _: &Peer, why: Closed) {
        with(&self.notes, |notes| notes.closed.push(why));
    }
}

impl Echo {
    fn poll_gate(&self, serial: u64, cx: &mut Context<'_>) -> Poll<()> {
        with(&self.notes, |notes| {
            let gate = notes.gates.entry(serial).or_default();
            gate.1 = Some(cx.waker().clone());
            match gate.0 {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
    }
}

struct World {
    config: Config,
    clock: Arc<Clockwork>,
    wire: Shared<Wire>,
    notes: Shared<Notes>,
    service: Arc<Echo>,
    peer: Option<Peer>,
    driver: Option<Driver>,
    flag: Arc<Flag>,
    calls: BTreeMap<usize, PendingCall>,
    settled: BTreeMap<usize, OwnedOutcome>,
    tag: usize,
    serial: u64,
    /// How much had been written when the transport broke, or the connection was ended here. What
    /// was not written by then may be missing.
    broken_at: Option<usize>,
}

impl World {
    fn new(config: Config) -> Self {
        let notes: Shared<Notes> = Shared::default();
        let wire = Shared::new(Mutex::new(Wire::new(Arc::clone(&notes))));
        let clock = Arc::new(Clockwork::default());
        let service = Arc::new(Echo {
            notes: Arc::clone(&notes),
            returns: config.limits.max_open_requests % 2 == 0,
        });
        let mut options = ConnectionConfig::from(config);
        options.max_running_requests = 2;
        options.order = match config.limits.max_open_requests % 5 {
            0 => Order::Free,
            1 => Order::Serial,
            _ => Order::Notifications,
        };
        let runtime: SharedRuntime = Arc::clone(&clock) as SharedRuntime;
        let link = Link::new(Pipe(Arc::clone(&wire)));
        let (peer, driver) = drive_on(link, options, Arc::clone(&service), &runtime);
        Self {
            config,
            clock,
            wire,
            notes,
            service,
            peer: Some(peer),
            driver: Some(driver),
            flag: Flag::new(),
            calls: BTreeMap::new(),
            settled: BTreeMap::new(),
            tag: 0,
            serial: 0,
            broken_at: None,
        }
    }

    fn step(&mut self, op: u8, hot: u8, bytes: &mut Bytes<'_>) {
        match op {
            0 | 1 => self.call(bytes.byte()),
            2 => self.notify(),
            3 => self.cancel(bytes.place(hot)),
            4..=6 => {
                let message = self.message(bytes, hot);
                with(&self.wire, |wire| wire.input.extend(message));
            }
            7 | 8 => {
                let n = 1 + usize::from(bytes.byte());
                with(&self.wire, |wire| wire.let_read(n));
            }
            9 | 10 => {
                let n = 1 + usize::from(bytes.byte());
                with(&self.wire, |wire| wire.let_write(n));
            }
            11 => self.pass(u64::from(bytes.byte())),
            12 => self.open(bytes.place(hot)),
            13 => with(&self.wire, |wire| {
                wire.interrupts = usize::from(bytes.byte() % 4)
            }),
            14 => self.end(bytes.byte()),
            // Polled without being woken: nothing may come of it.
            _ => self.poll_driver(),
        }
    }

    /// Ends are rare, or every run would be short.
    fn end(&mut self, how: u8) {
        match how {
            // Calls of which nothing was written when the end came are dropped unsent: how many is
            // the transport's doing, so all is written first.
            0 => {
                with(&self.wire, |wire| wire.let_write(1 << 40));
                self.poll();
                with(&self.wire, Wire::end);
            }
            1 | 2 => {
                self.broken();
                with(&self.wire, |wire| wire.fail(how == 1));
            }
            3 => {
                self.broken();
                self.driver = None;
            }
            4 => {
                self.broken();
                self.peer = None;
            }
            5 => {
                self.broken();
                if let Some(peer) = &self.peer {
                    peer.close(CloseReason::Done);
                }
            }
            _ => {}
        }
    }

    fn broken(&mut self) {
        let n = with(&self.wire, |wire| wire.output.len());
        self.broken_at.get_or_insert(n);
    }

    /// One message of the peer's, framed.
    fn message(&mut self, bytes: &mut Bytes<'_>, hot: u8) -> Vec<u8> {
        self.serial += 1;
        let (serial, how) = (self.serial, bytes.byte());
        let id = bytes.place(hot) % 8;
        let call = 1 + usize::from(bytes.place(hot)) % self.tag.max(1);
        let text = match bytes.byte() % 12 {
            0..=2 => ask("now", serial, how, id),
            3 | 4 => ask("later", serial, how, id),
            5 => format!(r#"{{"jsonrpc":"2.0","method":"tell","params":[{serial},"\u00e9é"]}}"#),
            6 => format!(
                "[{},{}]",
                ask("now", serial, how, id),
                ask("later", serial + 1_000_000, how, id)
            ),
            7 | 8 => format!(r#"{{"jsonrpc":"2.0","result":[{serial}],"id":{call}}}"#),
            9 => format!(
                r#"{{"jsonrpc":"2.0","error":{{"code":{serial},"message":"no"}},"id":{call}}}"#
            ),
            10 => "{\"nope\"}".to_string(),
            _ => format!("[1,\"{}\"]", "x".repeat(usize::from(how))),
        };
        match self.config.framing {
            Framing::ContentLength => format!("Content-Length: {}\r\n\r\n{text}", text.len()),
            _ => format!("{text}\n"),
        }
        .into_bytes()
    }

    /// Whether calls and notifications are still made, and noted for the core: until something ends.
    fn is_open(&self) -> bool {
        self.broken_at.is_none() && !with(&self.wire, |wire| wire.is_ended())
    }

    fn call(&mut self, span: u8) {
        let Some(peer) = self.peer.clone().filter(|_| self.is_open()) else {
            return;
        };
        self.tag += 1;
        let tag = self.tag;
        let span = (span >= 0x80).then(|| u64::from(span - 0x80));
        let deadline = span.map(|span| self.clock.millis() + span);
        let timeout = span.map(Duration::from_millis);
        with(&self.notes, |notes| {
            notes.acts.push(Act::Call { tag, deadline })
        });
        let params = [tag];
        let mut start = Box::pin(peer.call("ask", &params).timeout(timeout).start());
        match start.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(call)) => drop(self.calls.insert(tag, call)),
            refused => panic!("{refused:?}"),
        }
    }

    fn notify(&mut self) {
        let Some(peer) = self.peer.clone().filter(|_| self.is_open()) else {
            return;
        };
        self.tag += 1;
        with(&self.notes, |notes| notes.acts.push(Act::Notify(self.tag)));
        assert_eq!(peer.try_notify("tell", &[self.tag]), Ok(()));
    }

    fn cancel(&mut self, which: u8) {
        let place = usize::from(which) % self.calls.len().max(1);
        let tag = self.calls.keys().nth(place).copied();
        if let Some(tag) = tag.filter(|_| self.is_open()) {
            with(&self.notes, |notes| notes.acts.push(Act::Cancel(tag)));
            self.calls.remove(&tag);
        }
    }

    /// Lets time pass, while nothing can be read: else the driver would choose whether an answer or a
    /// deadline comes first. It passes from timer to timer, for after a clock
    /// that jumps over a deadline the driver grants more time.
    fn pass(&mut self, span: u64) {
        let granted = with(&self.wire, |wire| std::mem::take(&mut wire.read_grant));
        self.poll();
        let end = self.clock.millis() + span;
        while self.clock.millis() < end {
            let soon = self.clock.millis() + 1;
            let now = self.clock.next().unwrap_or(end).clamp(soon, end);
            with(&self.notes, |notes| notes.acts.push(Act::Clock(now)));
            self.clock.pass(now);
            self.poll();
        }
        with(&self.wire, |wire| wire.let_read(granted));
    }

    fn open(&mut self, which: u8) {
        let wakers = with(&self.notes, |notes| {
            let place = usize::from(which) % notes.gates.len().max(1);
            let gate = notes.gates.values_mut().nth(place)?;
            gate.0 = true;
            gate.1.take()
        });
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Polls the driver for as long as it is woken, and looks which calls have settled.
    fn poll(&mut self) {
        let mut turns = 0;
        while self.driver.is_some() && self.flag.take() {
            self.poll_driver();
            turns += 1;
            assert!(turns < 10_000, "it wakes itself for ever");
        }
        let mut cx = Context::from_waker(Waker::noop());
        let settled = &mut self.settled;
        self.calls
            .retain(|&tag, call| match Pin::new(call).poll(&mut cx) {
                Poll::Ready(outcome) => {
                    settled.insert(tag, outcome);
                    false
                }
                Poll::Pending => true,
            });
    }

    fn poll_driver(&mut self) {
        let waker = Waker::from(Arc::clone(&self.flag));
        let before = self.clock.looks();
        let driver = self
            .driver
            .as_mut()
            .map(|driver| Pin::new(driver).poll(&mut Context::from_waker(&waker)));
        // A turn without a look at the time ends no call yet: what can be read comes first.
        if self.clock.looks() > before {
            with(&self.notes, |notes| notes.acts.push(Act::Turn));
        }
        if let Some(Poll::Ready(ended)) = driver {
            assert!(ended.is_ok() || self.broken_at.is_some(), "{ended:?}");
            self.driver = None;
        }
    }

    /// Lets everything come to its end, and compares.
    fn finish(mut self) {
        with(&self.wire, |wire| wire.let_write(1 << 40));
        self.poll();
        with(&self.wire, Wire::heal);
        self.poll();
        for turn in 0.. {
            let gates = with(&self.notes, |notes| notes.gates.len());
            (0..gates).for_each(|gate| self.open(gate as u8));
            self.poll();
            if self.driver.is_none() {
                break;
            }
            assert!(turn < MAX_TURNS, "it never ends: {:?}", self.driver);
            let next = self.clock.next().unwrap_or(self.clock.millis() + 1);
            self.clock.pass(next.max(self.clock.millis() + 1));
        }
        self.poll();
        assert!(
            self.calls.is_empty(),
            "calls that never settle: {:?}",
            self.calls
        );
        let closed = with(&self.notes, |notes| notes.closed.len());
        assert_eq!(closed, 1, "the service is told of the end once");
        self.peer = None;
        let Self {
            wire,
            service,
            notes,
            clock,
            ..
        } = &self;
        assert_eq!(Arc::strong_count(wire), 1, "the transport is let go");
        assert_eq!(Arc::strong_count(service), 1, "the service is let go");
        assert_eq!(clock.timers(), 0, "a timer is left");
        let output = with(wire, |wire| std::mem::take(&mut wire.output));
        let acts = with(notes, |notes| std::mem::take(&mut notes.acts));
        let alone = Alone::run(self.config, &acts);
        self.compare(&alone, &output);
    }

    fn compare(&self, alone: &Alone, output: &[u8]) {
        let told = with(&self.notes, |notes| std::mem::take(&mut notes.told));
        if let Some(n) = self.broken_at {
            assert_eq!(
                output.get(..n),
                alone.output.get(..n),
                "what was written before"
            );
            let is_first = told
                .requests
                .iter()
                .zip(&alone.told.requests)
                .all(|(a, b)| a == b);
            assert!(is_first, "what was served before is the core's");
            return;
        }
        assert_eq!(
            String::from_utf8_lossy(output),
            String::from_utf8_lossy(&alone.output)
        );
        assert_eq!(told, alone.told);
        for (tag, outcome) in &self.settled {
            assert_eq!(Some(outcome), alone.outcomes.get(tag), "call {tag}");
        }
    }
}

fn unmatched(kind: &UnmatchedDetails) -> &'static str {
    match kind {
        UnmatchedDetails::Late(_) => "late",
        UnmatchedDetails::Unknown(_) => "unknown",
        UnmatchedDetails::NullId(_) => "null",
        UnmatchedDetails::Cancelled(_) => "cancelled",
        _ => "cancel",
    }
}

fn ask(method: &str, serial: u64, how: u8, id: u8) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":[{serial},{how}],"id":{id}}}"#)
}
