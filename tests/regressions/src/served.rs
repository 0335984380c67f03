//! Servers of every kind on every runtime, with one service that counts what runs.

use std::fmt;
use std::future::Future;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antiphon::session::Report;
use antiphon::{CloseReason, LimitReached, OwnedError};
use antiphon_net::SharedRuntime;
use antiphon_net::http::{HttpConfig, Refusal, Web};
use antiphon_net::{Answer, ConnectionConfig, Context, Notification, Request};
use antiphon_stress::{LONG, Rt};
use async_io::Timer;

/// What runs the side under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The blocking adapter.
    Threads,
    /// An async adapter.
    Tasks(Rt),
}

/// Threads, and every async runtime.
pub const EVERYWHERE: [On; 5] = [
    On::Threads,
    On::Tasks(Rt::Tokio),
    On::Tasks(Rt::TokioLocal),
    On::Tasks(Rt::Smol),
    On::Tasks(Rt::AsyncStd),
];

/// What a server listens on, and what it speaks.
#[derive(Clone, Debug)]
pub enum Listener {
    /// TCP; a WebSocket if the options say so.
    Tcp(ConnectionConfig),
    /// A Unix socket.
    Unix(ConnectionConfig),
    /// HTTP.
    Http(Box<HttpConfig>),
    /// HTTP and WebSocket on one port.
    Web(Box<OnePort>),
    /// HTTP and WebSocket on one Unix socket.
    UnixWeb(Box<OnePort>),
}

/// A web endpoint, with pages at `/health` and `/metrics`.
#[derive(Clone, Debug)]
pub struct OnePort {
    /// The protocol and the rules.
    pub config: HttpConfig,
    /// Who may come in: everybody, or who passes this check.
    pub check: Option<Check>,
}

/// Decides who may come in.
pub type Check = fn(&Context) -> Result<User, Refusal>;

impl OnePort {
    /// A web endpoint that lets everybody in.
    pub fn new(config: impl Into<HttpConfig>) -> Self {
        Self {
            config: config.into(),
            check: None,
        }
    }

    /// Sets who may come in.
    #[must_use]
    pub fn check(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    fn web(self, service: Counting) -> Web<Counting> {
        let HttpConfig {
            connection, rules, ..
        } = self.config;
        let made = Arc::clone(&service.made);
        let make = move |_: &Context| {
            made.fetch_add(1, Ordering::SeqCst);
            service.clone()
        };
        let web = Web::new(connection, make)
            .rules(rules)
            .health("/health", || async { true })
            .metrics("/metrics", || "up 1\n".into());
        match self.check {
            Some(check) => web.authorize(check),
            None => web,
        }
    }
}

/// The caller, as a check has found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User(pub String);

/// Counts what runs, and passes on what is reported.
///
/// | method | answer |
/// |---|---|
/// | `runtime` | the runtime of the handler |
/// | `slow` | its params, after the milliseconds in them; the handler counts as running until then |
/// | `stream` | as `slow`, but first it notifies, so that the reply over HTTP is a stream |
/// | `fail` | an error with as many bytes of data as its params say |
/// | `leave` | none: the handler closes the connection |
/// | `who` | the user that the check of a web endpoint has found |
/// | `tell` | whether its peer can be notified, and what became of a notification to it |
/// | any other | its params |
#[derive(Clone, Debug)]
struct Counting {
    made: Arc<AtomicUsize>,
    ran: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    reports: mpsc::Sender<String>,
}

impl Counting {
    fn run(&self, request: &Request) -> Result<Answer, OwnedError> {
        self.ran.fetch_add(1, Ordering::SeqCst);
        let peer = request.peer();
        Ok(match request.method() {
            "runtime" => [format!("{:?}", Rt::here())].into(),
            "fail" => {
                let [bytes] = request.params::<[usize; 1]>()?;
                let error = OwnedError::new(1, "failed").with_data(&"x".repeat(bytes));
                return Err(error.expect("a string is JSON"));
            }
            "who" => [request.attribute().map(|User(name)| name)].into(),
            "leave" => {
                peer.close(CloseReason::Done);
                Answer::deferred()
            }
            "tell" => {
                let told = peer.try_notify("told", ());
                Answer::new(&(peer.can_notify(), format!("{told:?}")))
            }
            _ => Answer::new(request.raw_params()),
        })
    }

    /// How long the handler waits, which counts as running until the guard is dropped.
    fn wait(&self, request: &Request) -> Option<(Duration, Running)> {
        match request.method() {
            "slow" => {}
            "stream" => request.peer().try_notify("told", ()).expect("it streams"),
            _ => return None,
        }
        let [millis] = request.params().ok()?;
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(&self.running));
        Some((Duration::from_millis(millis), running))
    }

    fn tell(&self, report: &Report) {
        // The test may be over.
        let _ = self.reports.send(report.to_string());
    }

    /// Reports the connections that the server itself refuses.
    fn refused(&self) -> impl Fn(&Context, LimitReached) + Send + Sync + 'static {
        let reports = self.reports.clone();
        move |context, why| {
            let from = context.peer_addr.map(|address| address.ip());
            // The test may be over.
            let _ = reports.send(format!("the server refused {from:?}: {why}"));
        }
    }
}

/// A handler of `slow` that runs.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl antiphon_blocking::Service for Counting {
    fn request(
        &mut self,
        _: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        if let Some((span, _running)) = self.wait(request) {
            let begun = Instant::now();
            while begun.elapsed() < span && !request.is_cancelled() {
                thread::sleep(STEP);
            }
        }
        self.run(request)
    }

    fn notification(&mut self, _: &antiphon_blocking::Peer, _: Notification) {
        self.ran.fetch_add(1, Ordering::SeqCst);
    }

    fn report(&mut self, _: &antiphon_blocking::Peer, report: Report) {
        self.tell(&report);
    }
}

impl antiphon_net::Service for Counting {
    async fn request(
        &self,
        _: &antiphon_net::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        if let Some((span, _running)) = self.wait(request) {
            Timer::after(span).await;
        }
        self.run(request)
    }

    async fn notification(&self, _: &antiphon_net::Peer, _: Notification) {
        self.ran.fetch_add(1, Ordering::SeqCst);
    }

    fn report(&self, _: &antiphon_net::Peer, report: Report) {
        self.tell(&report);
    }
}

/// A server that runs until it is dropped.
pub struct Served {
    place: Place,
    made: Arc<AtomicUsize>,
    ran: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    reports: mpsc::Receiver<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Debug)]
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Served {
    /// Starts a server with the default limit on connections at once.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start(on: On, listener: Listener) -> Self {
        Self::start_with(on, listener, None)
    }

    /// Starts a server with a limit on connections at once, or with the default one.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start_with(on: On, listener: Listener, max_connections: Option<usize>) -> Self {
        Self::run(move |service, told, is_over| match on {
            On::Threads => {
                let _running = on_threads(listener, max_connections, service, &told);
                while !is_over() {
                    thread::sleep(STEP);
                }
            }
            On::Tasks(rt) => rt.run_for(4 * LONG, |runtime| async move {
                let running: antiphon_net::Running = match rt {
                    Rt::Tokio | Rt::TokioLocal => {
                        on_tokio(listener, max_connections, service, &told).await
                    }
                    Rt::Smol | Rt::AsyncStd => {
                        on_futures(listener, max_connections, service, &told).await
                    }
                };
                while !is_over() {
                    step(&runtime).await;
                }
                running.shutdown(Duration::ZERO).await;
            }),
        })
    }

    /// Starts a web endpoint as a service of an axum application, on tokio.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn behind_axum(one: OnePort) -> Self {
        Self::run(move |service, told, is_over| {
            Rt::Tokio.run_for(4 * LONG, |runtime| async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
                let listener = listener.expect("a port");
                let address = listener.local_addr().expect("an address");
                told.send(Place::Tcp(address)).expect("somebody waits");
                let routes = axum::Router::new().fallback_service(one.web(service).into_service());
                let serving = tokio::spawn(async { axum::serve(listener, routes).await });
                while !is_over() {
                    step(&runtime).await;
                }
                serving.abort();
            });
        })
    }

    /// Starts a thread with a server, which tells where it listens, and looks whether it is over.
    fn run(
        serve: impl FnOnce(Counting, mpsc::Sender<Place>, &dyn Fn() -> bool) + Send + 'static,
    ) -> Self {
        let (reports, reported) = mpsc::channel();
        let service = Counting {
            made: Arc::default(),
            ran: Arc::default(),
            running: Arc::default(),
            reports,
        };
        let (ran, running) = (Arc::clone(&service.ran), Arc::clone(&service.running));
        let made = Arc::clone(&service.made);
        let stop = Arc::<AtomicBool>::default();
        let (inside, (told, place)) = (Arc::clone(&stop), mpsc::channel());
        let thread = thread::spawn(move || {
            serve(service, told, &|| inside.load(Ordering::SeqCst));
        });
        Self {
            place: place.recv_timeout(LONG).expect("it listens"),
            made,
            ran,
            running,
            reports: reported,
            stop,
            thread: Some(thread),
        }
    }

    /// The address of a server over TCP.
    ///
    /// # Panics
    /// It listens on a Unix socket.
    pub fn address(&self) -> SocketAddr {
        match self.place {
            Place::Tcp(address) => address,
            Place::Unix(_) => panic!("a Unix socket has no address"),
        }
    }

    /// The path of a server on a Unix socket.
    ///
    /// # Panics
    /// It listens on a port.
    pub fn path(&self) -> &std::path::Path {
        match &self.place {
            Place::Unix(path) => path,
            Place::Tcp(_) => panic!("a port has no path"),
        }
    }

    /// Opens a connection, and sends nothing.
    ///
    /// # Panics
    /// Nobody listens.
    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).expect("it listens")
    }

    /// How many services a web endpoint has made.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    /// How many requests and notifications have run.
    pub fn ran(&self) -> usize {
        self.ran.load(Ordering::SeqCst)
    }

    /// Waits until so many handlers of `slow` run, and returns how long that took.
    ///
    /// # Panics
    /// It takes longer than [`LONG`].
    pub fn wait_running(&self, wanted: usize) -> Duration {
        let begun = Instant::now();
        while self.running.load(Ordering::SeqCst) != wanted {
            let running = self.running.load(Ordering::SeqCst);
            assert!(begun.elapsed() < LONG, "{running} run, and not {wanted}");
            thread::sleep(STEP);
        }
        begun.elapsed()
    }

    /// Drops the reports that have come.
    pub fn forget_reports(&self) {
        while self.reports.try_recv().is_ok() {}
    }

    /// The next report that contains `part`.
    ///
    /// # Panics
    /// None comes within [`LONG`].
    pub fn report(&self, part: &str) -> String {
        let due = Instant::now() + LONG;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let report = self.reports.recv_timeout(left);
            let report = report.unwrap_or_else(|_| panic!("no report says {part:?}"));
            if report.contains(part) {
                return report;
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// How often a server looks whether it is to stop.
const STEP: Duration = Duration::from_millis(2);

fn step(runtime: &SharedRuntime) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let runtime = Arc::clone(runtime);
    Box::pin(async move { runtime.sleep_until(runtime.now() + STEP).await })
}

fn socket_path() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let n = COUNT.fetch_add(1, Ordering::SeqCst);
    std::env::temp_dir().join(format!("antiphon-served-{}-{n}", std::process::id()))
}

fn on_threads(
    listener: Listener,
    max_connections: Option<usize>,
    service: Counting,
    told: &mpsc::Sender<Place>,
) -> antiphon_blocking::Running {
    use antiphon_blocking::{TcpServer, UnixServer};
    if let Listener::Unix(_) | Listener::UnixWeb(_) = listener {
        let path = socket_path();
        let mut server = UnixServer::bind(&path)
            .expect("a socket")
            .on_refused(service.refused());
        if let Some(max) = max_connections {
            server = server.max_connections(max);
        }
        let running = match listener {
            Listener::UnixWeb(one) => server.start_web(one.web(service)),
            Listener::Unix(options) => server.start(options, move || service.clone()),
            _ => unreachable!("it is a Unix socket"),
        };
        told.send(Place::Unix(path)).expect("somebody waits");
        return running.expect("a thread");
    }
    let mut server = TcpServer::bind("127.0.0.1:0")
        .expect("a port")
        .on_refused(service.refused());
    let address = server.local_addr().expect("an address");
    if let Some(max) = max_connections {
        server = server.max_connections(max);
    }
    let running = match listener {
        Listener::Http(options) => server.start_http(*options, move |_| service.clone()),
        Listener::Web(one) | Listener::UnixWeb(one) => server.start_web(one.web(service)),
        Listener::Tcp(options) | Listener::Unix(options) => {
            server.start(options, move |_| service.clone())
        }
    };
    told.send(Place::Tcp(address)).expect("somebody waits");
    running.expect("a thread")
}

/// The servers of the async adapters, which have the same names in each.
macro_rules! on_tasks {
    ($name:ident, $adapter:ident) => {
        async fn $name(
            listener: Listener,
            max_connections: Option<usize>,
            service: Counting,
            told: &mpsc::Sender<Place>,
        ) -> antiphon_net::Running {
            use $adapter::{TcpServer, UnixServer};
            if let Listener::Unix(_) | Listener::UnixWeb(_) = listener {
                let path = socket_path();
                let mut server = UnixServer::bind(&path)
                    .expect("a socket")
                    .on_refused(service.refused());
                if let Some(max) = max_connections {
                    server = server.max_connections(max);
                }
                let running = match listener {
                    Listener::UnixWeb(one) => server.start_web(one.web(service)),
                    Listener::Unix(options) => server.start(options, move |_| service.clone()),
                    _ => unreachable!("it is a Unix socket"),
                };
                told.send(Place::Unix(path)).expect("somebody waits");
                return running;
            }
            let mut server = TcpServer::bind("127.0.0.1:0")
                .await
                .expect("a port")
                .on_refused(service.refused());
            let address = server.local_addr();
            if let Some(max) = max_connections {
                server = server.max_connections(max);
            }
            let running = match listener {
                Listener::Http(options) => server.start_http(*options, service),
                Listener::Web(one) | Listener::UnixWeb(one) => server.start_web(one.web(service)),
                Listener::Tcp(options) | Listener::Unix(options) => {
                    server.start(options, move |_| service.clone())
                }
            };
            told.send(Place::Tcp(address)).expect("somebody waits");
            running
        }
    };
}

on_tasks!(on_tokio, antiphon_tokio);
on_tasks!(on_futures, antiphon_async_std);
