//! Connections: the calling thread runs them, or the thread that reads and writes for all.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use antiphon::{Closed, Instant};
use antiphon_net::{ConnectionConfig, Inbox, Peer, SharedRuntime, drive_on, unless_broken, until};

use crate::in_turn::{InTurn, MAX_REQUESTS};
use crate::link::Link;
use crate::runtime::{clock, runtime};
use crate::serve::Service;

/// Serves until the connection ends, and returns why it ended.
///
/// When the input ends, the messages that came before are still handled, and open requests
/// answered, within the configuration's `drain_timeout`. A `link` may be a pair `(reader, writer)`;
/// `options` may be a [`Config`](antiphon::Config).
///
/// # Errors
/// The transport failed before the connection was meant to end: the peer has reset it, or has
/// closed the pipe for the answers.
pub fn serve(
    link: impl Into<Link>,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Closed> {
    let (peer, driver) = drive(link, options, service);
    let ended = driver.run();
    drop(peer);
    ended
}

/// Serves on this process's standard input and output: see [`Link::stdio`] and [`serve`].
///
/// # Errors
/// As [`serve`]; a standard output that is closed; and the reason why the connection broke, such as
/// input that cannot be split into messages. Its [`io::Error::get_ref`] is then the
/// [`ConnectionError`](antiphon::ConnectionError).
pub fn serve_stdio(
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Closed> {
    unless_broken(serve(Link::stdio()?, options, service))
}

/// Runs a connection over an open link in the background, and returns the handle to its other side: for
/// programs that need a [`Peer`]. Otherwise [`connect`](crate::connect) does it too.
///
/// # Errors
/// The system refused the thread that reads and writes.
pub fn attach(
    link: impl Into<Link>,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Peer> {
    let runtime = runtime()?;
    let (peer, driver) = drive(link, options, service);
    // The service and the peer's `closed` and `transport_error` tell how the connection ended.
    runtime.spawn(Box::pin(async { drop(driver.await) }));
    Ok(peer)
}

/// Runs a connection in the background, whose messages the program receives by
/// [`recv`](Inbox::recv)`().wait()` in a loop of its own, instead of in a [`Service`].
///
/// # Errors
/// The system refused the thread that reads and writes.
pub fn inbox(
    link: impl Into<Link>,
    options: impl Into<ConnectionConfig>,
) -> io::Result<(Peer, Inbox)> {
    let runtime = runtime()?;
    let (service, inbox) = Inbox::new();
    let mut options = options.into();
    // As `antiphon_net::inbox` does: a later request could be received first.
    options.max_running_requests = 1;
    let (peer, driver) = drive_on(link.into().0, options, Arc::new(service), &runtime);
    runtime.spawn(Box::pin(async { drop(driver.await) }));
    Ok((peer, inbox))
}

/// Prepares a connection. Returns the handle to its other side, and the driver, which can run on
/// any thread.
pub fn drive(
    link: impl Into<Link>,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> (Peer, Driver) {
    let (runtime, options) = (clock(), Arc::new(in_turn(options)));
    let drain_timeout = options.config.timeouts.drain_timeout;
    let (service, has_ended) = InTurn::new(service);
    let (peer, driver) = drive_on(link.into().0, options, Arc::new(service), &runtime);
    let run = async move {
        let ended = driver.await;
        // The service has this time to notice the end. If it does not return, it goes on without us.
        let until_at = after(&runtime, drain_timeout);
        let _ = until(&*runtime, until_at, has_ended.recv()).await;
        ended
    };
    (peer, Driver(Box::pin(run)))
}

/// The methods of a service are called one after another, on the pool: few requests wait for their turn.
pub(crate) fn in_turn(options: impl Into<ConnectionConfig>) -> ConnectionConfig {
    let mut options = options.into();
    (options.max_running_requests, options.spawn_handlers) = (MAX_REQUESTS, false);
    options
}

fn after(runtime: &SharedRuntime, span: Option<std::time::Duration>) -> Instant {
    span.map_or(Instant::FAR_FUTURE, |span| runtime.now() + span)
}

/// Runs one connection: a future that is ready when it has ended, with the reason. Made by [`drive`].
/// Dropping it earlier ends the connection.
///
/// # Errors
/// The transport failed before the connection was meant to end.
#[must_use = "nothing happens before `run`"]
pub struct Driver(Pin<Box<dyn Future<Output = io::Result<Closed>> + Send>>);

impl Driver {
    /// Runs the connection on this thread until it ends, and returns why it ended.
    ///
    /// # Errors
    /// The transport failed before the connection was meant to end.
    pub fn run(self) -> io::Result<Closed> {
        async_io::block_on(self)
    }
}

impl Future for Driver {
    type Output = io::Result<Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}
