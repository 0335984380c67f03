//! Servers: accept connections, limit their number, and end them together.
//!
//! A connection beyond the limit is refused at once, and reported. A handshake has a deadline. If
//! accepting fails, for example because the system has no descriptors left, the server tries again
//! 50 ms later; at once, if only the connection has failed that was to be accepted. A server that
//! shuts down lets running requests finish, within a time limit.

mod connections;
mod ending;
mod protocol;
mod refused;
mod running;
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub(crate) mod tcp;
#[cfg(all(unix, any(feature = "tokio", feature = "async-io")))]
pub(crate) mod unix;

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::ready;
use std::time::Duration;

use antiphon::{ConnectionLimits, LimitReached, address_key};

use crate::link::{Link, Listen};
use antiphon_shell::{ConnectionConfig, Context, Service, SharedRuntime, Task, until};
pub(crate) use connections::Connections;
use connections::Listening;
pub(crate) use ending::End;
pub use ending::Ending;
use protocol::Plain;
#[cfg(all(feature = "http", feature = "websocket"))]
pub(crate) use protocol::serve_until;
pub use protocol::{Handshake, Protocol, Secure};
use refused::OnRefused;
pub use running::Running;

/// The default deadline of a handshake.
const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait after accepting has failed, because the system may have no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections beyond the limit are answered at the same time; further ones are closed without
/// an answer. Each needs a few KiB for a second or two.
const MAX_REFUSALS: usize = 64;

/// A server that is bound and not started.
#[must_use = "nothing is served before it is started"]
pub struct Server {
    listener: Box<dyn Listen>,
    runtime: SharedRuntime,
    limits: ConnectionLimits,
    handshake_timeout: Duration,
    secure: Option<Arc<dyn Secure>>,
    on_refused: OnRefused,
    /// How many refused connections are being answered.
    refusals: Arc<AtomicUsize>,
}

impl Server {
    /// Makes a server for the connections of `listener`.
    pub fn new(listener: impl Listen, runtime: impl Into<SharedRuntime>) -> Self {
        Self::from_boxed(Box::new(listener), runtime.into())
    }

    pub(crate) fn from_boxed(listener: Box<dyn Listen>, runtime: SharedRuntime) -> Self {
        Self {
            listener,
            runtime,
            limits: ConnectionLimits::new(),
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            secure: None,
            on_refused: OnRefused::default(),
            refusals: Arc::default(),
        }
    }

    #[cfg(feature = "http")]
    pub(crate) fn runtime(&self) -> &SharedRuntime {
        &self.runtime
    }

    /// Sets how many connections may be open at the same time. Further ones are closed as soon as they
    /// are accepted; over HTTP without TLS they are answered 503. Default 10 240.
    pub fn max_connections(mut self, max_connections: usize) -> Self {
        self.limits.max_connections = max_connections;
        self
    }

    /// Sets how many connections from one address may be open at the same time: from an IPv4 address,
    /// or from the /64 network of an IPv6 one ([`address_key`]). Connections whose address is not known, as
    /// on a Unix socket, only count against [`max_connections`](Self::max_connections). Default no
    /// limit, because behind a proxy all connections come from one address.
    pub fn max_connections_per_address(mut self, max_per_address: usize) -> Self {
        self.limits.max_per_key = max_per_address;
        self
    }

    /// Calls `report` for every connection that is refused at a limit, for logs and metrics. It
    /// runs in the task that accepts, so it must be quick. Over HTTP the service gets a report too.
    pub fn on_refused(
        mut self,
        report: impl Fn(&Context, LimitReached) + Send + Sync + 'static,
    ) -> Self {
        self.on_refused = OnRefused::new(report);
        self
    }

    /// Makes every connection begin with a handshake, within
    /// [`handshake_timeout`](Self::handshake_timeout).
    pub fn with_secure(mut self, secure: impl Secure) -> Self {
        self.secure = Some(Arc::new(secure));
        self
    }

    /// Sets how long the handshake may take. Default 10 s.
    pub fn handshake_timeout(mut self, handshake_timeout: Duration) -> Self {
        self.handshake_timeout = handshake_timeout;
        self
    }

    /// Serves in the background until the returned value is stopped or dropped. `make` returns the
    /// service of each connection, which may be an `Arc` of one service for all.
    pub fn start<S: Service>(
        self,
        options: impl Into<ConnectionConfig>,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
    ) -> Running {
        self.start_protocol(Plain {
            options: Arc::new(options.into()),
            make,
        })
    }

    /// Starts the server with another protocol than plain messages.
    pub fn start_protocol(self, protocol: impl Protocol) -> Running {
        let connections = Arc::new(Connections::new(self.limits));
        let runtime = Arc::clone(&self.runtime);
        let listening = connections.listen();
        let accepting = self.accept(Arc::new(protocol), Arc::clone(&connections), listening);
        runtime.spawn(Box::pin(accepting));
        Running {
            connections,
            runtime,
        }
    }

    async fn accept(
        mut self,
        protocol: Arc<dyn Protocol>,
        connections: Arc<Connections>,
        (_listening, mut ending): (Listening, Ending),
    ) {
        let mut pause: Option<Task> = None;
        loop {
            let accepted = poll_fn(|cx| {
                if let Some(pausing) = &mut pause {
                    ready!(pausing.as_mut().poll(cx));
                    pause = None;
                }
                self.listener.poll_accept(cx)
            });
            let mut link = match ending.unless(End::No, accepted).await {
                None => {
                    // The listener is dropped before `_listening`, whose drop says that it has stopped.
                    drop(self.listener);
                    return;
                }
                Some(Ok(link)) => link,
                Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Some(Err(_)) => {
                    let resumed = self.runtime.now() + ACCEPT_PAUSE;
                    pause = Some(self.runtime.sleep_until(resumed));
                    continue;
                }
            };
            let context = &mut link.context;
            context.draw_number();
            context.is_accepted = true;
            let address = context.peer_addr;
            match connections.enter(address.map(|address| address_key(address.ip()))) {
                Ok(ending) => {
                    let task = self.one(link, ending, Arc::clone(&protocol));
                    self.runtime.spawn(Box::pin(task));
                }
                Err(why) => self.refuse(link, why, &*protocol),
            }
        }
    }

    /// Refuses a connection beyond the limit, and reports that.
    fn refuse(&self, link: Link, why: LimitReached, protocol: &dyn Protocol) {
        self.on_refused.tell(&link.context, why);
        let refusal = protocol.refuse(link, why, &self.runtime);
        // With TLS the answer needs a handshake first, which costs too much for a refused connection.
        let Some(refusal) = refusal.filter(|_| self.secure.is_none()) else {
            return;
        };
        let before = self.refusals.fetch_add(1, Ordering::Relaxed);
        let counted = Refusal(Arc::clone(&self.refusals));
        if before < MAX_REFUSALS {
            self.runtime.spawn(Box::pin(async move {
                let _counted = counted;
                refusal.await;
            }));
        }
    }

    /// Returns the task of one connection, from its handshake to its end.
    fn one(
        &self,
        link: Link,
        mut ending: Ending,
        protocol: Arc<dyn Protocol>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (runtime, secure) = (Arc::clone(&self.runtime), self.secure.clone());
        let due = runtime.now() + self.handshake_timeout;
        // It counts to the end of its task, however early the protocol drops the other.
        let counted = ending.another();
        // Boxed, so that what a connection begins with is freed when it has begun.
        let begun = Box::pin(async move {
            let link = match secure {
                None => link,
                Some(secure) => {
                    let shaken = ending.unless(End::No, secure.accept(link));
                    // Without a link, no message has been exchanged yet, so no session has to be ended.
                    until(&*runtime, due, shaken).await??.ok()?
                }
            };
            Some(protocol.serve(link, ending, &runtime))
        });
        async move {
            let _counted = counted;
            if let Some(served) = begun.await {
                served.await;
            }
        }
    }
}

/// Counts a connection that is being refused, until this is dropped.
struct Refusal(Arc<AtomicUsize>);

impl Drop for Refusal {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("limits", &self.limits)
            .field("is_secure", &self.secure.is_some())
            .finish_non_exhaustive()
    }
}
