//! Accepts connections on a thread, for [`antiphon_net::Server`], and starts their services.

use std::io;
#[cfg(feature = "tls")]
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};
use std::thread::{self, JoinHandle};

use antiphon_net::{
    Arrived, ConnectionConfig, Context, Ending, Listen, Protocol, SharedRuntime, Task, serve_until,
};

use crate::driver::drive;
use crate::serve::Service;
use crate::transport::link::Link;

/// An accepted connection.
pub(crate) enum Incoming {
    Open(Link),
    /// A TCP connection whose TLS handshake is still to come.
    #[cfg(feature = "tls")]
    Secret(TcpStream, Context),
}

impl Incoming {
    fn into_link(self) -> Option<Link> {
        match self {
            Self::Open(link) => Some(link),
            #[cfg(feature = "tls")]
            Self::Secret(..) => None,
        }
    }
}

impl Arrived for Incoming {
    fn context_mut(&mut self) -> &mut Context {
        match self {
            Self::Open(link) => &mut link.context,
            #[cfg(feature = "tls")]
            Self::Secret(_, context) => context,
        }
    }
}

/// Accepts connections on a thread, at most two before the server takes them: one waits in a
/// channel, and the thread holds the next. Dropping this drops the listener.
pub(crate) struct Accepting {
    /// `None` once the thread must end.
    accepted: Option<Receiver<io::Result<Incoming>>>,
    shared: Arc<Shared>,
    /// Connects to the listener, so that the thread, which waits for a connection, notices that it
    /// must stop. Returns whether the connection was made.
    knock: Box<dyn Fn() -> bool + Send>,
    thread: Option<JoinHandle<()>>,
}

/// What the accepting thread and the server share.
#[derive(Default)]
struct Shared {
    /// Whether the thread must end.
    is_over: AtomicBool,
    /// Wakes the server when a connection was accepted.
    waiter: Mutex<Option<Waker>>,
}

impl Shared {
    /// Sets the waiter, and returns the earlier one.
    fn set_waiter(&self, waiter: Option<Waker>) -> Option<Waker> {
        let known = self.waiter.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *known, waiter)
    }
}

impl Accepting {
    /// Starts the thread, which calls `accept` until this is dropped.
    ///
    /// # Errors
    /// The system refused a thread.
    pub(crate) fn start(
        accept: impl Fn() -> io::Result<Incoming> + Send + 'static,
        knock: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let (accepting, accepted) = sync_channel(1);
        let shared = Arc::<Shared>::default();
        let inside = Arc::clone(&shared);
        let run = move || {
            loop {
                let incoming = accept();
                let is_over = inside.is_over.load(Ordering::SeqCst);
                if is_over || accepting.send(incoming).is_err() {
                    return;
                }
                if let Some(waiter) = inside.set_waiter(None) {
                    waiter.wake();
                }
            }
        };
        let thread = thread::Builder::new().name("antiphon-accept".into());
        Ok(Self {
            accepted: Some(accepted),
            shared,
            knock: Box::new(knock),
            thread: Some(thread.spawn(run)?),
        })
    }
}

impl Listen<Incoming> for Accepting {
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<Incoming>> {
        // The waiter is set first, so that it is woken for a connection that comes meanwhile.
        drop(self.shared.set_waiter(Some(cx.waker().clone())));
        let accepted = self.accepted.as_ref().map(Receiver::try_recv);
        match accepted {
            Some(Ok(accepted)) => Poll::Ready(accepted),
            // The thread ends only when this listener is dropped.
            None | Some(Err(TryRecvError::Empty | TryRecvError::Disconnected)) => Poll::Pending,
        }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.accepted = None;
        let has_knocked = (self.knock)();
        // If connecting to the listener failed, the thread ends only with the next connection from
        // elsewhere, so it is not waited for.
        if let Some(thread) = self.thread.take().filter(|_| has_knocked) {
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}

/// Runs JSON-RPC on each accepted connection, with threads and a service of its own. `make` makes
/// the services.
pub(crate) struct OnThreads<F> {
    pub(crate) options: ConnectionConfig,
    pub(crate) make: Mutex<F>,
}

impl<S, F> Protocol<Incoming> for OnThreads<F>
where
    S: Service,
    F: FnMut(&Context) -> S + Send + 'static,
{
    fn serve(&self, incoming: Incoming, ending: Ending, _: &SharedRuntime) -> Task {
        // The TLS handshake, which comes before this, has turned each `Secret` into an `Open`.
        let Some(link) = incoming.into_link() else {
            return Box::pin(std::future::ready(()));
        };
        let service = {
            let make = self.make.lock();
            // A panic in `make` ends only the connection for which it was called.
            let mut make = make.unwrap_or_else(PoisonError::into_inner);
            (*make)(&link.context)
        };
        let (peer, driver) = drive(link, self.options.clone(), service);
        Box::pin(serve_until(peer, driver, ending))
    }
}
