//! The connections of a server: letting them in, bounding them, and ending them together.
//!
//! The rules guarded here: a connection beyond the limit is closed at once instead of waiting
//! unseen, and told of; and a server that is shut down lets what it has begun come to an end, but not for ever.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
#[cfg(feature = "tls")]
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon::{Admission, AdmissionLimits, CloseReason, Place, Shutdown, ShutdownAction};
use antiphon_net::{Clock, Context, OnRefused, Options, SystemClock};

use crate::driver::{Driver, drive};
use crate::peer::Peer;
use crate::service::Service;
use crate::transport::link::Link;

/// How long connections that were told to end at once may take to write what is queued.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(5);

/// How long to wait after the system refused to accept, for it may have no descriptors left.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where connections come from.
pub(crate) trait Accept: Send + 'static {
    type Address: Copy;

    /// What connections with one limit have in common; none counts only in all.
    fn key(address: Self::Address) -> Option<IpAddr>;

    fn accept(&self) -> io::Result<(Arrived, Self::Address)>;
}

/// A connection that has come in.
pub(crate) enum Arrived {
    Ready(Link),
    /// It has a handshake before it, which takes as long as the other side likes.
    #[cfg(feature = "tls")]
    Shaking(TcpStream, crate::tls::Acceptor),
}

impl Arrived {
    /// What is known of the connection.
    fn context(&self) -> Context {
        match self {
            Self::Ready(link) => link.context.clone(),
            #[cfg(feature = "tls")]
            Self::Shaking(stream, _) => {
                let mut context = Context::new();
                context.peer_addr = stream.peer_addr().ok();
                context
            }
        }
    }

    /// Closes it without a word.
    fn refuse(self) {
        match self {
            Self::Ready(mut link) => {
                if let Some(hang_up) = link.hang_up.take() {
                    hang_up();
                }
            }
            #[cfg(feature = "tls")]
            Self::Shaking(stream, _) => drop(stream),
        }
    }
}

/// A server that is running. Dropping it stops it.
#[must_use = "dropping it stops the server"]
pub struct Running {
    room: Arc<Room>,
    /// Makes a connection, so that a listener that waits sees that it is to stop.
    knock: Box<dyn Fn() + Send + Sync>,
    accepting: Option<JoinHandle<()>>,
}

/// The connections of a server.
struct Room {
    stopping: AtomicBool,
    inside: Mutex<Connections>,
    /// Told whenever a connection is gone.
    left: Condvar,
}

/// Who is connected, and how many more may be.
struct Connections {
    open: HashMap<u32, (Inside, Place<IpAddr>)>,
    admission: Admission<IpAddr>,
}

/// A connection of a server.
#[derive(Clone)]
enum Inside {
    Open(Peer),
    /// In its handshake: what cuts it.
    #[cfg(feature = "tls")]
    Shaking(Arc<TcpStream>),
}

impl Inside {
    /// Tells it to end: by itself, at once, or whether all is written or not.
    fn end(&self, how: ShutdownAction) {
        match self {
            Self::Open(peer) => match how {
                ShutdownAction::Drain => peer.drain(),
                ShutdownAction::Flush => peer.close(CloseReason::GoingAway),
                ShutdownAction::Release => peer.release(),
            },
            // Nothing has begun that could be finished.
            #[cfg(feature = "tls")]
            Self::Shaking(stream) => {
                // A stream that is closed already is what is wanted.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }
}

impl Room {
    fn new(limits: AdmissionLimits) -> Self {
        Self {
            stopping: AtomicBool::new(false),
            inside: Mutex::new(Connections {
                open: HashMap::new(),
                admission: Admission::new(limits),
            }),
            left: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        // Nothing that can panic runs under the lock.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Puts a connection where it can be told to end.
    fn insert(&self, number: u32, inside: Inside, place: Place<IpAddr>) {
        self.lock().open.insert(number, (inside, place));
    }

    /// The same for one whose handshake is done.
    #[cfg(feature = "tls")]
    fn replace(&self, number: u32, inside: Inside) {
        if let Some(known) = self.lock().open.get_mut(&number) {
            known.0 = inside;
        }
    }

    fn leave(&self, number: u32) {
        let mut connections = self.lock();
        if let Some((_, place)) = connections.open.remove(&number) {
            connections.admission.leave(place);
        }
        drop(connections);
        self.left.notify_all();
    }

    fn end(&self, how: ShutdownAction) {
        let open: Vec<Inside> = {
            let connections = self.lock();
            let open = connections.open.values();
            open.map(|(inside, _)| inside.clone()).collect()
        };
        open.iter().for_each(|inside| inside.end(how));
    }

    /// Waits until nobody is connected, or for `span`.
    fn wait_empty(&self, span: Duration) -> bool {
        let connections = self.lock();
        let waited = self
            .left
            .wait_timeout_while(connections, span, |inside| !inside.open.is_empty());
        let (connections, _) = waited.unwrap_or_else(PoisonError::into_inner);
        connections.open.is_empty()
    }
}

impl Running {
    pub(crate) fn start<L: Accept, S: Service>(
        listener: L,
        limits: AdmissionLimits,
        on_refused: OnRefused,
        options: impl Into<Options>,
        mut make: impl FnMut(L::Address) -> S + Send + 'static,
        knock: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let room = Arc::new(Room::new(limits));
        let (inside, options) = (Arc::clone(&room), options.into());
        let accepting = thread::Builder::new()
            .name("antiphon-accept".into())
            .spawn(move || {
                let mut number = 0_u32;
                loop {
                    let accepted = listener.accept();
                    if inside.is_stopping() {
                        return;
                    }
                    match accepted {
                        Ok((arrived, address)) => {
                            let admitted = inside.lock().admission.enter(L::key(address));
                            let place = match admitted {
                                Ok(place) => place,
                                Err(why) => {
                                    on_refused.tell(&arrived.context(), why);
                                    arrived.refuse();
                                    continue;
                                }
                            };
                            // A panic costs this one connection, which is dropped.
                            match catch_unwind(AssertUnwindSafe(|| make(address))) {
                                Ok(service) => {
                                    number = number.wrapping_add(1).max(1);
                                    let entry = Entry {
                                        room: Arc::clone(&inside),
                                        number,
                                        options: options.clone(),
                                    };
                                    entry.begin(arrived, place, service);
                                }
                                Err(_) => inside.lock().admission.leave(place),
                            }
                        }
                        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                        Err(_) => thread::sleep(ACCEPT_PAUSE),
                    }
                }
            })?;
        Ok(Self {
            room,
            knock: Box::new(knock),
            accepting: Some(accepting),
        })
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.room.lock().open.len()
    }

    /// Stops listening and closes every connection.
    pub fn stop(self) {}

    /// Stops listening, lets the connections finish what has begun, and closes what is left after
    /// `grace`; that then has 5 s to write what is queued. Says whether all had ended by
    /// themselves.
    pub fn shutdown(mut self, grace: Duration) -> bool {
        let clock = SystemClock::new();
        let mut shutdown = Shutdown::new(FLUSH_TIME_MAX);
        shutdown.begin(clock.now(), grace);
        self.stop_listening();
        loop {
            while let Some(action) = shutdown.poll_action(clock.now()) {
                self.room.end(action);
            }
            let Some(until) = shutdown.poll_timeout() else {
                return shutdown.is_clean();
            };
            if self.room.wait_empty(until.saturating_since(clock.now())) {
                shutdown.handle_idle(clock.now());
                shutdown.handle_flushed();
            }
        }
    }

    fn stop_listening(&mut self) {
        self.room.stopping.store(true, Ordering::SeqCst);
        if let Some(accepting) = self.accepting.take() {
            (self.knock)();
            // A panic in it has been printed.
            let _ = accepting.join();
        }
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(accepting) = self.accepting.take() {
            // It ends only when it is told to, or with a panic, which has been printed.
            let _ = accepting.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop_listening();
        self.room.end(ShutdownAction::Flush);
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

/// A connection that has been let in, before it is served.
struct Entry {
    room: Arc<Room>,
    number: u32,
    options: Options,
}

impl Entry {
    /// Serves it on threads of its own.
    fn begin(self, arrived: Arrived, place: Place<IpAddr>, service: impl Service) {
        let (room, number) = (Arc::clone(&self.room), self.number);
        let builder = thread::Builder::new().name("antiphon-time".into());
        let started = match arrived {
            Arrived::Ready(link) => {
                let (peer, driver) = self.drive(link, service);
                room.insert(number, Inside::Open(peer.to_unowned()), place);
                builder.spawn(move || self.stay(peer, driver))
            }
            #[cfg(feature = "tls")]
            Arrived::Shaking(stream, acceptor) => {
                // Without a way to cut it there is no connection; the peer sees it closed.
                let Ok(control) = stream.try_clone() else {
                    return room.lock().admission.leave(place);
                };
                room.insert(number, Inside::Shaking(Arc::new(control)), place);
                builder.spawn(move || self.shake(stream, &acceptor, service))
            }
        };
        if started.is_err() {
            room.leave(number);
        }
    }

    /// Serves it once its handshake is done.
    #[cfg(feature = "tls")]
    fn shake(self, stream: TcpStream, acceptor: &crate::tls::Acceptor, service: impl Service) {
        match acceptor.accept_prepared(stream) {
            Ok(link) => {
                let (peer, driver) = self.drive(link, service);
                self.room
                    .replace(self.number, Inside::Open(peer.to_unowned()));
                if self.room.is_stopping() {
                    peer.close(CloseReason::GoingAway);
                }
                self.stay(peer, driver);
            }
            // The acceptor has told it to whoever wants to know.
            Err(_) => self.room.leave(self.number),
        }
    }

    fn drive(&self, mut link: Link, service: impl Service) -> (Peer, Driver) {
        let mut options = self.options.clone();
        options.config.connection = self.number;
        link.context.connection = self.number;
        link.context.is_accepted = true;
        drive(link, options, service)
    }

    fn stay(self, peer: Peer, driver: Driver) {
        // Without threads there is no connection; the peer sees it closed.
        let _ = driver.run();
        self.room.leave(self.number);
        drop(peer);
    }
}
