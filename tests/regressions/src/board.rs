//! A service on every runtime whose handlers wait until a test lets them go on.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antiphon::Closed;
use antiphon::OwnedError;
use antiphon_net::{Answer, ConnectionConfig, Dispatcher, Notification, Request, Responder};
use antiphon_stress::{LONG, Rt};

use crate::raw::Raw;
use crate::served::On;

/// What the handlers of a server share with the test. A clone is the same board.
#[derive(Clone, Debug, Default)]
pub struct Board {
    inside: Arc<(Mutex<Inside>, Condvar)>,
}

#[derive(Debug, Default)]
struct Inside {
    /// Whether the gate is open, at which handlers wait.
    is_open: bool,
    /// What happened, in order.
    notes: Vec<String>,
    /// The tasks of handlers that wait for the gate.
    tasks: Vec<Waker>,
    /// How many handlers of `counted` run.
    running: usize,
    /// The most of them that ran at once.
    most: usize,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        // A poisoned lock means that a test has failed, which has said why.
        let inside = self.inside.0.lock();
        inside.unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something happened.
    pub fn note(&self, what: impl Into<String>) {
        self.lock().notes.push(what.into());
        self.inside.1.notify_all();
    }

    /// What happened so far.
    pub fn notes(&self) -> Vec<String> {
        self.lock().notes.clone()
    }

    /// Waits until something happened `times` times.
    ///
    /// # Panics
    /// It does not within [`LONG`].
    pub fn wait_note(&self, what: &str, times: usize) {
        let is_missing = |inside: &mut Inside| {
            let seen = inside.notes.iter().filter(|note| *note == what).count();
            seen < times
        };
        let (state, waited) = self
            .inside
            .1
            .wait_timeout_while(self.lock(), LONG, is_missing)
            .expect("nobody panics under the lock");
        assert!(!waited.timed_out(), "no {what:?} in {:?}", state.notes);
    }

    /// Opens the gate: handlers that wait for it go on, and later ones do not wait.
    pub fn open(&self) {
        let mut inside = self.lock();
        inside.is_open = true;
        std::mem::take(&mut inside.tasks)
            .into_iter()
            .for_each(Waker::wake);
        self.inside.1.notify_all();
    }

    /// The most handlers of `counted` that ran at once.
    pub fn most(&self) -> usize {
        self.lock().most
    }

    /// Counts a running handler, until the returned guard is dropped.
    fn count(&self) -> Counted {
        let mut inside = self.lock();
        inside.running += 1;
        inside.most = inside.most.max(inside.running);
        drop(inside);
        self.note("counted");
        Counted(self.clone())
    }

    /// Blocks the service's own thread until the gate is open, for at most [`LONG`].
    fn block(&self) {
        let inside = self.lock();
        let waited = self
            .inside
            .1
            .wait_timeout_while(inside, LONG, |inside| !inside.is_open);
        drop(waited);
    }

    /// How many notifications `change` have been handled.
    fn changes(&self) -> usize {
        let inside = self.lock();
        let notes = inside.notes.iter();
        notes.filter(|note| *note == "change").count()
    }

    /// Ready once the test has opened the gate.
    fn opened(&self) -> impl Future<Output = ()> + Send + use<> {
        let board = self.clone();
        poll_fn(move |cx| {
            let mut inside = board.lock();
            if inside.is_open {
                return Poll::Ready(());
            }
            inside.tasks.push(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Blocks a thread until the gate is open, and returns true, or until the request is cancelled, and
    /// returns false.
    fn wait_opened(&self, reply: &Responder) -> bool {
        loop {
            if self.lock().is_open {
                return true;
            }
            if reply.cancellation().wait(Duration::from_millis(2)) {
                return false;
            }
        }
    }

    /// The answer to `version`: how many changes there were.
    fn version(&self) -> [usize; 1] {
        self.note("version");
        [self.changes()]
    }
}

impl Board {
    /// Waits for the cancellation of the request, answers it as cancelled, and notes what that returned.
    fn answer_cancelled(&self, reply: Responder) {
        self.note("begun");
        while !reply.cancellation().wait(LONG) {}
        self.note(format!("answered: {:?}", reply.cancelled()));
    }
}

/// A running handler of `counted`.
struct Counted(Board);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

/// How often a counted handler lets others run, once the gate is open.
const TURNS: usize = 20;

/// Notes that a handler was dropped before its end.
struct Watched {
    board: Board,
    is_done: bool,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.is_done {
            self.board.note("slow dropped");
        }
    }
}

impl antiphon_blocking::Service for Board {
    fn request(
        &mut self,
        peer: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        let (board, peer) = (self.clone(), peer.clone());
        match request.method() {
            "slow" => request.defer().spawn(move |reply| {
                board.note("slow");
                if board.wait_opened(&reply) {
                    // The peer may be gone.
                    let _ = reply.ok(&["slow"]);
                } else {
                    board.note("slow cancelled");
                }
            }),
            "version" => request.defer().spawn(move |reply| {
                // The peer may be gone.
                let _ = reply.ok(&board.version());
            }),
            "asks" => request.defer().spawn(move |reply| {
                let _ = match peer.call::<u32>("callback", ()).wait() {
                    Ok(answer) => reply.ok(&[answer]),
                    Err(error) => reply.ok(&[error.to_string()]),
                };
            }),
            "then" => {
                let then = move |_| board.note("settled");
                let call = peer.call("callback", ()).no_timeout();
                call.then(then).wait().expect("there is room");
                return Ok(().into());
            }
            "answers when cancelled" => {
                let reply = request.defer();
                reply.spawn(move |reply| board.answer_cancelled(reply));
            }
            "counted" => {
                let _counted = self.count();
                self.block();
                (0..TURNS).for_each(|_| thread::yield_now());
                return Ok(["counted"].into());
            }
            "drains" => {
                peer.drain();
                let told = peer.notify("progress", ()).wait();
                board.note(format!("progress: {told:?}"));
                return Ok(["drained"].into());
            }
            "forgets" => drop(request.defer()),
            "panics" => panic!("it was asked to"),
            _ => return Err(request.unknown_method()),
        }
        Ok(Answer::deferred())
    }

    fn notification(&mut self, peer: &antiphon_blocking::Peer, notification: Notification) {
        if notification.method().starts_with("slowly") {
            self.note("slowly begun");
            self.block();
        }
        if notification.method() == "slowly asks" {
            let asked = peer.call::<u32>("callback", ()).wait();
            self.note(format!("asked: {asked:?}"));
        }
        self.note(notification.method());
    }

    fn report(&mut self, _: &antiphon_blocking::Peer, report: antiphon::session::Report) {
        self.note(format!("report: {report}"));
    }

    fn closed(&mut self, _: &antiphon_blocking::Peer, why: Closed) {
        self.note(format!("closed: {why:?}"));
    }
}

impl antiphon_net::Service for Board {
    async fn request(
        &self,
        peer: &antiphon_net::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        match request.method() {
            "slow" => {
                self.note("slow");
                let mut watched = Watched {
                    board: self.clone(),
                    is_done: false,
                };
                self.opened().await;
                watched.is_done = true;
                Ok(["slow"].into())
            }
            "version" => Ok(self.version().into()),
            "asks" => Ok(match peer.call::<u32>("callback", ()).await {
                Ok(answer) => [answer].into(),
                Err(error) => [error.to_string()].into(),
            }),
            "then" => {
                let board = self.clone();
                let then = move |_| board.note("settled");
                let call = peer.call("callback", ()).no_timeout();
                call.then(then).await.expect("there is room");
                Ok(().into())
            }
            "answers when cancelled" => {
                let (board, reply) = (self.clone(), request.defer());
                // A cancel would drop a task, but not a thread.
                reply.spawn(move |reply| board.answer_cancelled(reply));
                Ok(Answer::deferred())
            }
            "counted" => {
                let _counted = self.count();
                self.opened().await;
                for _ in 0..TURNS {
                    yield_once().await;
                }
                Ok(["counted"].into())
            }
            "drains" => {
                peer.drain();
                let told = peer.notify("progress", ()).await;
                self.note(format!("progress: {told:?}"));
                Ok(["drained"].into())
            }
            "forgets" => {
                drop(request.defer());
                Ok(Answer::deferred())
            }
            "runtime" => Ok([format!("{:?}", Rt::here())].into()),
            "panics" => panic!("it was asked to"),
            _ => Err(request.unknown_method()),
        }
    }

    async fn notification(&self, peer: &antiphon_net::Peer, notification: Notification) {
        if notification.method().starts_with("slowly") {
            self.note("slowly begun");
            self.opened().await;
        }
        if notification.method() == "slowly asks" {
            let asked = peer.call::<u32>("callback", ()).await;
            self.note(format!("asked: {asked:?}"));
        }
        self.note(notification.method());
    }

    fn report(&self, _: &antiphon_net::Peer, report: antiphon::session::Report) {
        self.note(format!("report: {report}"));
    }

    fn closed(&self, _: &antiphon_net::Peer, why: Closed) {
        self.note(format!("closed: {why:?}"));
    }
}

/// Lets other tasks run once.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|cx| match std::mem::replace(&mut has_yielded, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// A server over TCP that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    /// What its handlers share with the test.
    pub board: Board,
    /// What limits its requests.
    pub dispatcher: Dispatcher,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How often a server looks whether it is to stop.
const STEP: Duration = Duration::from_millis(2);

impl Server {
    /// Starts it.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start(on: On, options: ConnectionConfig) -> Self {
        let board = Board::default();
        Self::start_as(on, options, false, &board, board.clone(), board.clone())
    }

    /// Starts one that speaks HTTP.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start_http(on: On, options: ConnectionConfig) -> Self {
        let board = Board::default();
        Self::start_as(on, options, true, &board, board.clone(), board.clone())
    }

    /// Starts one with services of the test's own, which share `board` with it: one for threads, and one
    /// for tasks.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start_as(
        on: On,
        options: ConnectionConfig,
        is_http: bool,
        board: &Board,
        threads: impl antiphon_blocking::Service + Clone + Sync,
        tasks: impl antiphon_net::Service + Clone,
    ) -> Self {
        let (board, dispatcher) = (board.clone(), options.dispatcher.clone());
        let stop = Arc::<AtomicBool>::default();
        let (is_over, (told, address)) = (Arc::clone(&stop), mpsc::channel());
        let thread = thread::spawn(move || match on {
            On::Threads => {
                let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
                let address = server.local_addr().expect("an address");
                let running = match is_http {
                    true => server.start_http(options, move |_| threads.clone()),
                    false => server.start(options, move |_| threads.clone()),
                };
                let _running = running.expect("a thread");
                told.send(address).expect("somebody waits");
                while !is_over.load(Ordering::SeqCst) {
                    thread::sleep(STEP);
                }
            }
            On::Tasks(rt) => rt.run_for(4 * LONG, |runtime| async move {
                let running = match rt {
                    Rt::Tokio | Rt::TokioLocal => {
                        let server = antiphon_tokio::TcpServer::bind("127.0.0.1:0").await;
                        let server = server.expect("a port");
                        told.send(server.local_addr()).expect("somebody waits");
                        match is_http {
                            true => server.start_http(options, tasks),
                            false => server.start(options, move |_| tasks.clone()),
                        }
                    }
                    Rt::Smol | Rt::AsyncStd => {
                        let server = antiphon_async_std::TcpServer::bind("127.0.0.1:0").await;
                        let server = server.expect("a port");
                        told.send(server.local_addr()).expect("somebody waits");
                        match is_http {
                            true => server.start_http(options, tasks),
                            false => server.start(options, move |_| tasks.clone()),
                        }
                    }
                };
                while !is_over.load(Ordering::SeqCst) {
                    runtime.sleep_until(runtime.now() + STEP).await;
                }
                running.shutdown(Duration::ZERO).await;
            }),
        });
        Self {
            board,
            dispatcher,
            address: address.recv_timeout(LONG).expect("it listens"),
            stop,
            thread: Some(thread),
        }
    }

    /// Waits until so many requests wait for a place.
    ///
    /// # Panics
    /// They do not within [`LONG`].
    pub fn wait_waiting(&self, requests: usize) {
        let due = Instant::now() + LONG;
        while self.dispatcher.waiting() != requests {
            assert!(Instant::now() < due, "{:?}", self.dispatcher);
            thread::yield_now();
        }
    }

    /// Waits until no request runs or waits.
    ///
    /// # Panics
    /// One does for longer than [`LONG`].
    pub fn wait_idle(&self) {
        self.wait_waiting(0);
        let due = Instant::now() + LONG;
        while self.dispatcher.running() > 0 {
            assert!(Instant::now() < due, "{:?}", self.dispatcher);
            thread::yield_now();
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connects a plain peer to it.
    pub fn connect(&self) -> Raw {
        Raw::connect(self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.board.open();
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed.
            let _ = thread.join();
        }
    }
}

/// A request with this id.
pub fn request(method: &str, id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","id":{id}}}"#)
}

/// A notification.
pub fn notification(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
}
