//! The rules around a connection, together and in virtual time: its states, reconnecting, calls
//! that are sent again, and the end of a server.

use std::collections::BTreeMap;
use std::time::Duration;

use antiphon::{
    CloseReason, Config, Connection, ConnectionState, Event, Input, Instant, KeepAlive,
    KeepAliveAction, KeepAliveConfig, Lifecycle, OwnedOutcome, Reconnect, ReconnectStrategy,
    Resend, Resends, SendError, Shutdown, ShutdownAction,
};
use antiphon_test_support::random::Random;

use crate::{connection, drained, request, written};

/// The state of a connection of this core. Whether it is ending, the caller has to know.
fn state<T>(conn: &Connection<T>, is_ending: bool) -> ConnectionState {
    match (conn.is_closed(), is_ending) {
        (true, _) => ConnectionState::Closed,
        (false, true) => ConnectionState::Closing,
        (false, false) => ConnectionState::Open,
    }
}

// CON-02 CON-10 TST-09
#[test]
fn what_a_connection_takes_is_what_its_state_lets_pass() {
    let mut conn = connection(0);
    let (kept, given_up) = (request(&mut conn), conn.call("m", (), None, 7).unwrap());
    assert!(state(&conn, false).may_send());

    conn.drain();
    let closing = state(&conn, true);
    assert_eq!(closing, ConnectionState::Closing);
    assert!(!closing.may_send());
    // A request is open, and what its handler says may belong to its answer.
    assert_eq!(conn.notify("m", ()), Ok(()));
    let refused = conn.call("m", (), None, 8).unwrap_err();
    assert_eq!((refused.error, refused.value), (SendError::Closed, 8));
    assert!(closing.may_receive() && closing.may_finish());
    assert_eq!(conn.cancel(given_up), Some(7));
    conn.respond(kept, &1).unwrap();
    assert!(written(&mut conn).contains("\"result\":1"));

    drained(&mut conn);
    let closed = state(&conn, true);
    assert_eq!(closed, ConnectionState::Closed);
    assert!(!closed.may_receive() && !closed.may_finish());
    assert_eq!((conn.calls_open(), conn.requests_open()), (0, 0));
    assert!(conn.poll_transmit().is_none() && conn.poll_timeout().is_none());
    let late = br#"{"jsonrpc":"2.0","method":"m","id":2}"#;
    assert!(conn.poll_event(&mut Input::message(late)).is_none());
    assert!(conn.poll_transmit().is_none());
}

/// A call of the application, sent on one connection after another until it settles.
struct Job {
    is_idempotent: bool,
    resends: Resends,
    /// How often a server began it.
    ran: u32,
    settled: Option<OwnedOutcome>,
}

/// A client, the servers that it reaches one after another, and what was seen.
struct World {
    random: Random,
    now: Instant,
    jobs: Vec<Job>,
    queue: Vec<usize>,
    seen: BTreeMap<&'static str, u32>,
}

impl World {
    fn new(seed: u64) -> Self {
        let jobs = (0..6).map(|at| Job {
            is_idempotent: at % 2 == 0,
            resends: Resends::new(2),
            ran: 0,
            settled: None,
        });
        Self {
            random: Random::new(seed),
            now: Instant::ZERO,
            jobs: jobs.collect(),
            queue: (0..6).collect(),
            seen: BTreeMap::new(),
        }
    }

    fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn settle(&mut self, job: usize, outcome: OwnedOutcome) {
        let job = &mut self.jobs[job];
        assert!(job.settled.is_none(), "a call settles once");
        job.settled = Some(outcome);
    }

    /// Tries until everything is settled, or no attempt is left.
    fn run(&mut self, strategy: ReconnectStrategy) {
        let mut reconnect = Reconnect::new(strategy).unwrap();
        while !self.queue.is_empty() {
            let mut life = Lifecycle::new();
            let mut keep_alive = KeepAlive::new(KeepAliveConfig::new(), self.now);
            match self.random.below(4) {
                0 => self.see("refused"),
                1 => {
                    self.now = keep_alive.poll_timeout().unwrap();
                    let action = keep_alive.poll_action(self.now);
                    assert_eq!(action, Some(KeepAliveAction::ConnectTimedOut));
                    self.see("never answered");
                }
                _ => {
                    assert!(life.go(ConnectionState::Open));
                    keep_alive.handle_open(self.now);
                    reconnect.handle_open(self.now);
                    if self.random.below(2) == 0 {
                        reconnect.handle_message();
                        assert_eq!(reconnect.attempts(), 0);
                    }
                    self.converse(&mut keep_alive);
                }
            }
            assert!(life.go(ConnectionState::Closed));
            if self.queue.is_empty() {
                return;
            }
            let entropy = self.random.next();
            let Some(next) = reconnect.handle_lost(self.now, entropy) else {
                assert_eq!(
                    reconnect.handle_lost(self.now, entropy),
                    None,
                    "it is final"
                );
                self.see("given up");
                for job in std::mem::take(&mut self.queue) {
                    self.settle(job, OwnedOutcome::Unsent);
                }
                return;
            };
            assert!(next >= self.now);
            self.now = next;
        }
    }

    /// One connection: some of the calls leave, some are answered, then it is lost.
    fn converse(&mut self, keep_alive: &mut KeepAlive) {
        let mut client: Connection<usize> = Connection::new(Config::new());
        for job in std::mem::take(&mut self.queue) {
            let method = job.to_string();
            client.call(&method, (), None, job).unwrap();
        }
        let mut sent = client.poll_transmit().unwrap().to_vec();
        sent.truncate(self.random.size(0, sent.len()));
        client.consume_transmit(sent.len());
        let mut answers = self.serve(&sent);
        answers.truncate(self.random.size(0, answers.len()));
        self.take(&mut client, &mut Input::stream(&answers));
        if self.random.below(2) == 0 {
            // The other side falls silent: a ping finds out.
            self.now = keep_alive.poll_timeout().unwrap();
            let ping = keep_alive.poll_action(self.now);
            assert_eq!(ping, Some(KeepAliveAction::SendPing));
            self.now = keep_alive.poll_timeout().unwrap();
            let dead = keep_alive.poll_action(self.now);
            assert_eq!(dead, Some(KeepAliveAction::PeerDead));
            self.see("fell silent");
        }
        client.close(CloseReason::TransportFailed);
        self.take(&mut client, &mut Input::none());
        assert_eq!(client.calls_open(), 0);
    }

    /// What a server that got these bytes did, and wrote.
    fn serve(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut server: Connection = Connection::new(Config::new());
        let mut input = Input::stream(bytes);
        while let Some(event) = server.poll_event(&mut input) {
            if let Event::Request(request) = event {
                self.jobs[request.method.parse::<usize>().unwrap()].ran += 1;
                server.respond(request.token, &true).unwrap();
            }
        }
        let mut answers = Vec::new();
        server.take_transmit(&mut answers);
        answers
    }

    fn take(&mut self, client: &mut Connection<usize>, input: &mut Input<'_>) {
        while let Some(event) = client.poll_event(input) {
            if let Event::Response(response) = event {
                self.judge(response.tag, response.outcome.into_owned());
            }
        }
    }

    fn judge(&mut self, job: usize, outcome: OwnedOutcome) {
        let (ran, is_idempotent) = (self.jobs[job].ran, self.jobs[job].is_idempotent);
        if matches!(outcome, OwnedOutcome::Unsent) && ran == 0 {
            self.see("provably unsent");
        }
        let judged = self.jobs[job].resends.judge(&outcome, is_idempotent);
        match (judged, &outcome) {
            (Resend::Again, OwnedOutcome::Aborted) => self.see("sent again by its caller's word"),
            (Resend::Never, OwnedOutcome::Aborted) if is_idempotent => self.see("too often"),
            (Resend::Never, OwnedOutcome::Aborted) => self.see("in doubt"),
            (Resend::Never, OwnedOutcome::Ok(_)) => self.see("answered"),
            (Resend::Again, OwnedOutcome::Unsent) => {}
            other => panic!("{other:?}"),
        }
        match judged {
            Resend::Again => self.queue.push(job),
            Resend::Never => self.settle(job, outcome),
        }
    }

    fn check(&self) {
        for job in &self.jobs {
            let settled = job.settled.as_ref().expect("every call settles");
            // Its caller allowed it two more times, or none.
            let max_ran = if job.is_idempotent { 3 } else { 1 };
            assert!(job.ran <= max_ran, "ran {} times: {settled:?}", job.ran);
            match settled {
                OwnedOutcome::Ok(_) => assert!(job.ran > 0),
                OwnedOutcome::Unsent if !job.is_idempotent => assert_eq!(job.ran, 0),
                _ => {}
            }
        }
    }
}

// TST-10 CON-04 CON-05 CON-06 CON-07
#[test]
fn over_connections_that_are_lost_every_call_settles_once_and_is_done_no_oftener_than_allowed() {
    let second = Duration::from_secs(1);
    let fixed = ReconnectStrategy::Fixed {
        delay: second,
        max_attempts: 3,
    };
    let jittered = ReconnectStrategy::ExponentialBackoff {
        initial_delay: second,
        max_delay: 10 * second,
        max_attempts: 4,
        multiplier: 2.0,
        jitter: 0.5,
    };
    let backoff = ReconnectStrategy::backoff(second, 10 * second, 3);
    for strategy in [ReconnectStrategy::None, fixed, backoff, jittered] {
        let mut seen = BTreeMap::new();
        for seed in 1..=400 {
            let mut world = World::new(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
            world.run(strategy);
            world.check();
            for (what, count) in world.seen {
                *seen.entry(what).or_insert(0) += count;
            }
        }
        let mut wanted = vec![
            "refused",
            "never answered",
            "fell silent",
            "given up",
            "provably unsent",
            "sent again by its caller's word",
            "in doubt",
            "answered",
        ];
        if strategy != ReconnectStrategy::None {
            wanted.push("too often");
        }
        for what in wanted {
            let count = seen.get(what).copied().unwrap_or(0);
            assert!(count > 10, "{what}: {count} times under {strategy:?}");
        }
    }
}

/// One connection of a server that shuts down.
struct Served {
    conn: Connection<u32>,
    /// Whether the other side takes what is written.
    reads: bool,
    written: Vec<u8>,
}

impl Served {
    fn new(number: u32, reads: bool) -> Self {
        Self {
            conn: connection(number),
            reads,
            written: Vec::new(),
        }
    }

    fn turn(&mut self, now: Instant) {
        self.conn.handle_timeout(now);
        drained(&mut self.conn);
        if self.reads {
            self.conn.take_transmit(&mut self.written);
        }
    }

    fn has_output(&self) -> bool {
        self.conn.poll_transmit().is_some()
    }
}

// CON-09
#[test]
fn a_server_ends_in_order_whatever_its_connections_do() {
    // Requests have 20 s to be answered, and then output has 1 s to be written.
    let (finishes, never_ends, never_reads) = (0, 1, 2);
    let mut served = [
        Served::new(1, true),
        Served::new(2, true),
        Served::new(3, false),
    ];
    let mut tokens: Vec<_> = served.iter_mut().map(|it| request(&mut it.conn)).collect();
    let mut shutdown = Shutdown::new(Duration::from_secs(1));
    let mut told = Vec::new();
    shutdown.begin(Instant::ZERO, Duration::from_secs(20));
    for second in 0..=40 {
        let now = Instant::from_millis(second * 1000);
        if second == 5 {
            let token = tokens.remove(finishes);
            served[finishes].conn.respond(token, &5).unwrap();
            let token = tokens.pop().unwrap();
            served[never_reads].conn.respond(token, &5).unwrap();
        }
        served.iter_mut().for_each(|it| it.turn(now));
        if served.iter().all(|it| it.conn.requests_open() == 0) {
            shutdown.handle_idle(now);
            if !served.iter().any(Served::has_output) {
                shutdown.handle_flushed();
            }
        }
        while let Some(action) = shutdown.poll_action(now) {
            told.push((second, action));
            match action {
                ShutdownAction::Drain => served.iter_mut().for_each(|it| it.conn.drain()),
                ShutdownAction::Flush => {
                    let close = |it: &mut Served| it.conn.close(CloseReason::GoingAway);
                    served.iter_mut().for_each(close);
                }
                ShutdownAction::Release => {}
            }
            served.iter_mut().for_each(|it| it.turn(now));
        }
        if second == 2 {
            // While it drains, a connection asks nothing new. Its request is answered at second 5.
            let refused = served[finishes].conn.call("m", (), None, 0);
            assert_eq!(refused.unwrap_err().error, SendError::Closed);
        }
    }
    let wanted = [
        (0, ShutdownAction::Drain),
        (20, ShutdownAction::Flush),
        (21, ShutdownAction::Release),
    ];
    assert_eq!(told, wanted);
    assert!(shutdown.is_over() && !shutdown.is_clean());
    let answer = String::from_utf8(served[finishes].written.clone()).unwrap();
    assert!(answer.contains("\"result\":5"), "{answer}");
    assert!(served[never_ends].written.is_empty());
    let token = tokens.pop().unwrap();
    let late = served[never_ends].conn.respond(token, &9).unwrap_err();
    assert_eq!(late.error, SendError::Closed);
}

// CON-09
#[test]
fn a_server_that_finishes_in_time_ends_without_waiting() {
    let mut served = Served::new(1, true);
    let token = request(&mut served.conn);
    let mut shutdown = Shutdown::new(Duration::from_secs(1));
    shutdown.begin(Instant::ZERO, Duration::from_secs(20));
    assert_eq!(
        shutdown.poll_action(Instant::ZERO),
        Some(ShutdownAction::Drain)
    );
    served.conn.drain();
    served.conn.respond(token, &1).unwrap();
    let now = Instant::from_millis(10);
    served.turn(now);
    assert_eq!(served.conn.requests_open(), 0);
    shutdown.handle_idle(now);
    assert_eq!(shutdown.poll_action(now), Some(ShutdownAction::Flush));
    served.conn.close(CloseReason::GoingAway);
    assert!(!served.has_output() && !served.written.is_empty());
    shutdown.handle_flushed();
    assert_eq!(shutdown.poll_action(now), Some(ShutdownAction::Release));
    assert!(shutdown.is_clean());
}
