//! Servers: accepting connections, bounding them, and ending them together.
//!
//! The rules guarded here: a connection beyond the limit is refused at once instead of waiting
//! unseen, and told of; a handshake has a deadline; a listener that fails for want of descriptors is tried
//! again; and a server that is shut down lets what it has begun come to an end, but not for ever.

pub(crate) mod refused;
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub(crate) mod tcp;
#[cfg(all(unix, any(feature = "tokio", feature = "async-io")))]
pub(crate) mod unix;

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker, ready};
use std::time::Duration;

use crate::{Context, OnRefused, Options};
use antiphon::{
    Admission, AdmissionLimits, CloseReason, Instant, NoRoom, Shutdown, ShutdownAction, address_key,
};

use crate::driver::{Driver, drive};
use crate::peer::Peer;
use crate::runtime::{SharedRuntime, Task, Timer, until};
use crate::service::Service;
use crate::transport::link::{Link, Listen};

/// How many connections a server has at once, if nothing else is said.
const CONNECTIONS_MAX_DEFAULT: usize = 10_240;

/// How long a handshake may take, if nothing else is said.
const HANDSHAKE_TIME_MAX_DEFAULT: Duration = Duration::from_secs(10);

/// How long connections that were told to end at once may take to write what is queued.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(5);

/// How long to wait after the system refused to accept, for it may have no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections beyond the limit are told so at once; further ones are closed without a
/// word. Each costs a few KiB for a second or two.
const REFUSALS_MAX: usize = 64;

/// A handshake under way.
pub type Handshake = Pin<Box<dyn Future<Output = io::Result<Link>> + Send>>;

/// What a connection goes through before it says anything: TLS.
pub trait Secure: Send + Sync + 'static {
    /// Begins the handshake.
    fn accept(&self, link: Link) -> Handshake;
}

/// What is spoken on the connections of a server.
pub trait Protocol: Send + Sync + 'static {
    /// Serves one connection, until it ends or is told to.
    fn serve(&self, link: Link, ending: Ending, runtime: &SharedRuntime) -> Task;

    /// Tells the other side of a connection beyond the limit that it is not served, within a
    /// second or two. None closes it without a word, as plain messages do.
    fn refuse(&self, link: Link, why: NoRoom, runtime: &SharedRuntime) -> Option<Task> {
        let _ = (link, why, runtime);
        None
    }
}

/// How far a server, and each of its connections, has been told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Not at all.
    No,
    /// Finish what has begun, take nothing new.
    Drain,
    /// Close, and write only what is queued.
    Now,
    /// Let go, written or not.
    Release,
}

/// Tells one connection that it is to end. For one task.
#[derive(Debug)]
pub struct Ending {
    slot: Arc<Slot>,
    /// Who waits in the slot, and how much had been told when he was put there.
    waiting: Option<(u8, Waker)>,
}

#[derive(Debug, Default)]
struct Slot {
    end: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        // Nothing that can panic runs under the lock.
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, end: End) {
        let mut place = self.lock();
        let is_more = self.end.fetch_max(end as u8, Ordering::SeqCst) < end as u8;
        // Whoever waits stays there until there is more, and then finds the lock free.
        let waker = place.take_if(|_| is_more);
        drop(place);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Ending {
    fn new(slot: &Arc<Slot>) -> Self {
        Self {
            slot: Arc::clone(slot),
            waiting: None,
        }
    }

    /// Ready once more is to be ended than `known`, with how much.
    #[inline]
    pub fn poll_beyond(&mut self, known: End, cx: &mut TaskContext<'_>) -> Poll<End> {
        let told = self.slot.end.load(Ordering::SeqCst);
        if let Some((before, waker)) = &self.waiting {
            // Nobody has been woken since then.
            if *before == told && told <= known as u8 && waker.will_wake(cx.waker()) {
                return Poll::Pending;
            }
        }
        self.poll_slot(known, cx)
    }

    #[inline(never)]
    fn poll_slot(&mut self, known: End, cx: &TaskContext<'_>) -> Poll<End> {
        let mut waker = self.slot.lock();
        let told = self.slot.end.load(Ordering::SeqCst);
        let end = match told {
            0 => End::No,
            1 => End::Drain,
            2 => End::Now,
            _ => End::Release,
        };
        if end > known {
            return Poll::Ready(end);
        }
        *waker = Some(cx.waker().clone());
        self.waiting = Some((told, cx.waker().clone()));
        Poll::Pending
    }
}

/// A server that listens and has not begun.
#[must_use = "nothing is served before it is started"]
pub struct Server {
    listener: Box<dyn Listen>,
    runtime: SharedRuntime,
    limits: AdmissionLimits,
    handshake_time_max: Duration,
    secure: Option<Arc<dyn Secure>>,
    on_refused: OnRefused,
    /// How many are being told that they are refused.
    refusals: Arc<AtomicUsize>,
}

impl Server {
    /// Serves the connections of `listener`.
    pub fn new(listener: impl Listen, runtime: SharedRuntime) -> Self {
        Self::from_boxed(Box::new(listener), runtime)
    }

    pub(crate) fn from_boxed(listener: Box<dyn Listen>, runtime: SharedRuntime) -> Self {
        let mut limits = AdmissionLimits::new();
        limits.connections_max = CONNECTIONS_MAX_DEFAULT;
        Self {
            listener,
            runtime,
            limits,
            handshake_time_max: HANDSHAKE_TIME_MAX_DEFAULT,
            secure: None,
            on_refused: OnRefused::default(),
            refusals: Arc::default(),
        }
    }

    /// The same with another limit on connections at once. Further ones are closed as soon as
    /// they are made; over HTTP without TLS they are answered 503. Default 10 240.
    pub fn with_connections_max(mut self, connections_max: usize) -> Self {
        self.limits.connections_max = connections_max;
        self
    }

    /// The same with a limit on connections at once from one address, so that nobody takes every
    /// place: an IPv4 address, or the network of an IPv6 one ([`address_key`]). Connections whose
    /// address is not known, as on a Unix socket, count only in all. Default none: behind a proxy
    /// all come from one address.
    pub fn with_connections_per_address_max(mut self, per_address_max: usize) -> Self {
        self.limits.per_key_max = per_address_max;
        self
    }

    /// Tells `report` of every connection that is refused at a limit, for logs and counts. It runs
    /// where the server accepts: briefly. Over HTTP the service has a report of it as well.
    pub fn on_refused(mut self, report: impl Fn(&Context, NoRoom) + Send + Sync + 'static) -> Self {
        self.on_refused = OnRefused::new(report);
        self
    }

    /// Has every connection go through a handshake first, within 10 s.
    pub fn with_secure(mut self, secure: impl Secure) -> Self {
        self.secure = Some(Arc::new(secure));
        self
    }

    /// The same with another deadline for the handshake.
    pub fn with_handshake_time_max(mut self, handshake_time_max: Duration) -> Self {
        self.handshake_time_max = handshake_time_max;
        self
    }

    /// Serves in the background until what it gives is stopped or dropped. Every connection is
    /// served by what `make` gives for it, which may be an `Arc` of one service for all.
    pub fn start<S: Service>(
        self,
        options: impl Into<Options>,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
    ) -> Running {
        self.start_protocol(Plain {
            options: options.into(),
            make,
        })
    }

    /// The same with another protocol below the messages.
    pub fn start_protocol(self, protocol: impl Protocol) -> Running {
        let room = Arc::new(Room::new(self.limits));
        let runtime = Arc::clone(&self.runtime);
        let accepting = self.accept(Arc::new(protocol), Arc::clone(&room));
        runtime.spawn(Box::pin(accepting));
        Running { room, runtime }
    }

    async fn accept(mut self, protocol: Arc<dyn Protocol>, room: Arc<Room>) {
        let mut listening = Ending::new(&room.listening);
        let _guard = Listening(Arc::clone(&room));
        let mut number = 0_u32;
        let mut pause: Option<(Instant, Box<dyn Timer>)> = None;
        loop {
            let accepted = poll_fn(|cx| {
                if listening.poll_beyond(End::No, cx).is_ready() {
                    return Poll::Ready(None);
                }
                if let Some((at, timer)) = &mut pause {
                    ready!(timer.poll_until(*at, cx));
                    pause = None;
                }
                self.listener.poll_accept(cx).map(Some)
            });
            let mut link = match accepted.await {
                None => {
                    // Before it is said that nobody listens any more.
                    drop(self.listener);
                    return;
                }
                Some(Ok(link)) => link,
                Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Some(Err(_)) => {
                    pause = Some((self.runtime.now() + ACCEPT_PAUSE, self.runtime.timer()));
                    continue;
                }
            };
            number = number.wrapping_add(1).max(1);
            link.context.connection = number;
            link.context.is_accepted = true;
            let address = link
                .context
                .peer_addr
                .map(|address| address_key(address.ip()));
            match room.enter(number, address) {
                Ok(place) => {
                    let task = self.one(link, place, Arc::clone(&protocol));
                    self.runtime.spawn(Box::pin(task));
                }
                Err(why) => self.refuse(link, why, &*protocol),
            }
        }
    }

    /// Lets go of a connection beyond the limit, and tells of it.
    fn refuse(&self, link: Link, why: NoRoom, protocol: &dyn Protocol) {
        self.on_refused.tell(&link.context, why);
        let refusal = protocol.refuse(link, why, &self.runtime);
        // A handshake first would cost more than the refusal is worth.
        let Some(refusal) = refusal.filter(|_| self.secure.is_none()) else {
            return;
        };
        let counted = Refusal(Arc::clone(&self.refusals));
        if self.refusals.fetch_add(1, Ordering::SeqCst) < REFUSALS_MAX {
            self.runtime.spawn(Box::pin(async move {
                let _counted = counted;
                refusal.await;
            }));
        }
    }

    /// One connection, from its handshake to its end.
    fn one(
        &self,
        link: Link,
        place: Place,
        protocol: Arc<dyn Protocol>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let runtime = Arc::clone(&self.runtime);
        let handshake = self.secure.as_ref().map(|secure| {
            let until_at = runtime.now() + self.handshake_time_max;
            (until_at, Arc::clone(secure))
        });
        async move {
            let mut ending = Ending::new(&place.slot);
            let link = match handshake {
                None => link,
                Some((until_at, secure)) => {
                    let shaken = unless_ended(&mut ending, secure.accept(link));
                    match until(&*runtime, until_at, shaken).await {
                        Some(Some(Ok(link))) => link,
                        // Nobody has said anything yet who could be told.
                        Some(Some(Err(_)) | None) | None => return,
                    }
                }
            };
            protocol.serve(link, ending, &runtime).await;
        }
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

/// Counts a connection that is being refused, until it is dropped.
struct Refusal(Arc<AtomicUsize>);

impl Drop for Refusal {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Goes on with a handshake unless the server is told to end: nothing has begun that could be
/// finished.
async fn unless_ended(ending: &mut Ending, mut handshake: Handshake) -> Option<io::Result<Link>> {
    poll_fn(|cx| {
        if ending.poll_beyond(End::No, cx).is_ready() {
            return Poll::Ready(None);
        }
        handshake.as_mut().poll(cx).map(Some)
    })
    .await
}

/// Messages straight on the stream.
struct Plain<F> {
    options: Options,
    make: F,
}

impl<S: Service, F: Fn(&Context) -> S + Send + Sync + 'static> Protocol for Plain<F> {
    fn serve(&self, link: Link, ending: Ending, runtime: &SharedRuntime) -> Task {
        let mut options = self.options.clone();
        options.config.connection = link.context.connection;
        let service = Arc::new((self.make)(&link.context));
        let (peer, driver) = drive(link, options, service, runtime);
        Box::pin(serve_until(peer, driver, ending))
    }
}

/// Runs a connection, and ends it as it is told.
pub(crate) async fn serve_until(peer: Peer, driver: Driver, mut ending: Ending) {
    let mut driver = pin!(driver);
    let mut end = End::No;
    poll_fn(|cx| {
        while let Poll::Ready(more) = ending.poll_beyond(end, cx) {
            end = more;
            match end {
                End::No => {}
                End::Drain => peer.drain(),
                End::Now => peer.close(CloseReason::GoingAway),
                End::Release => return Poll::Ready(()),
            }
        }
        // How it ended has been told to the service.
        driver.as_mut().poll(cx).map(drop)
    })
    .await;
}

/// The connections of a server.
#[derive(Debug)]
struct Room {
    listening: Arc<Slot>,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    open: HashMap<u32, Arc<Slot>>,
    admission: Admission<IpAddr>,
    has_stopped_listening: bool,
    watchers: Vec<Waker>,
}

impl Room {
    fn new(limits: AdmissionLimits) -> Self {
        Self {
            listening: Arc::default(),
            inside: Mutex::new(Inside {
                open: HashMap::new(),
                admission: Admission::new(limits),
                has_stopped_listening: false,
                watchers: Vec::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing that can panic runs under the lock.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, number: u32, address: Option<IpAddr>) -> Result<Place, NoRoom> {
        let mut inside = self.lock();
        let admitted = inside.admission.enter(address)?;
        let slot = Arc::new(Slot::default());
        inside.open.insert(number, Arc::clone(&slot));
        let room = Arc::clone(self);
        Ok(Place {
            room,
            number,
            slot,
            admitted: Some(admitted),
        })
    }

    fn tell(&self, end: End) {
        self.listening.tell(end);
        let open: Vec<_> = self.lock().open.values().cloned().collect();
        for slot in open {
            slot.tell(end);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Inside)) {
        let mut inside = self.lock();
        change(&mut inside);
        let watchers = std::mem::take(&mut inside.watchers);
        drop(inside);
        watchers.into_iter().for_each(Waker::wake);
    }

    /// Ready once `is_so`.
    fn poll(&self, cx: &TaskContext<'_>, is_so: impl Fn(&Inside) -> bool) -> Poll<()> {
        let mut inside = self.lock();
        if is_so(&inside) {
            return Poll::Ready(());
        }
        inside.watchers.push(cx.waker().clone());
        Poll::Pending
    }
}

/// The place of one connection, free again when it is dropped.
struct Place {
    room: Arc<Room>,
    number: u32,
    slot: Arc<Slot>,
    /// None once it has been given back.
    admitted: Option<antiphon::Place<IpAddr>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let admitted = self.admitted.take();
        self.room.change(|inside| {
            inside.open.remove(&self.number);
            if let Some(admitted) = admitted {
                inside.admission.leave(admitted);
            }
        });
    }
}

/// Says that the listener is gone, whatever ended its task.
struct Listening(Arc<Room>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.change(|inside| inside.has_stopped_listening = true);
    }
}

/// A server that is running. Dropping it stops it.
#[must_use = "dropping it stops the server"]
pub struct Running {
    room: Arc<Room>,
    runtime: SharedRuntime,
}

impl Running {
    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.room.lock().open.len()
    }

    /// Stops listening and closes every connection at once.
    pub fn stop(self) {}

    /// Stops listening, lets the connections finish what has begun, and closes what is left after
    /// `grace`; that then has 5 s to write what is queued. Says whether all had ended by
    /// themselves.
    pub async fn shutdown(self, grace: Duration) -> bool {
        let mut shutdown = Shutdown::new(FLUSH_TIME_MAX);
        shutdown.begin(self.runtime.now(), grace);
        let mut timer = self.runtime.timer();
        poll_fn(|cx| {
            loop {
                let is_empty =
                    |inside: &Inside| inside.open.is_empty() && inside.has_stopped_listening;
                let now = self.runtime.now();
                if self.room.poll(cx, is_empty).is_ready() {
                    shutdown.handle_idle(now);
                    shutdown.handle_flushed();
                }
                while let Some(action) = shutdown.poll_action(now) {
                    self.room.tell(match action {
                        ShutdownAction::Drain => End::Drain,
                        ShutdownAction::Flush => End::Now,
                        ShutdownAction::Release => End::Release,
                    });
                }
                let Some(until_at) = shutdown.poll_timeout() else {
                    return Poll::Ready(shutdown.is_clean());
                };
                ready!(timer.poll_until(until_at, cx));
            }
        })
        .await
    }

    /// Serves until the listener ends, which it only does when the runtime does.
    pub async fn wait(self) {
        poll_fn(|cx| self.room.poll(cx, |inside| inside.has_stopped_listening)).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.room.tell(End::Now);
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context as TaskContext, Poll, Wake, Waker};

    use super::{End, Ending, Slot};

    struct Counted {
        slot: Arc<Slot>,
        wakes: AtomicUsize,
    }

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            // Who is woken may look at once.
            assert!(self.slot.waker.try_lock().is_ok(), "the lock is free");
            self.wakes.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn whoever_waits_is_woken_for_each_step_and_only_for_that() {
        let slot = Arc::new(Slot::default());
        let mut ending = Ending::new(&slot);
        let counted = Arc::new(Counted {
            slot: Arc::clone(&slot),
            wakes: AtomicUsize::new(0),
        });
        let waker = Waker::from(Arc::clone(&counted));
        let count = || counted.wakes.load(Ordering::SeqCst);
        let mut poll =
            |known, waker| ending.poll_beyond(known, &mut TaskContext::from_waker(waker));
        assert_eq!(poll(End::No, &waker), Poll::Pending);
        assert_eq!(poll(End::No, &waker), Poll::Pending);
        slot.tell(End::No);
        assert_eq!((count(), poll(End::No, &waker)), (0, Poll::Pending));
        slot.tell(End::Drain);
        assert_eq!(count(), 1);
        assert_eq!(poll(End::No, &waker), Poll::Ready(End::Drain));
        assert_eq!(poll(End::Drain, &waker), Poll::Pending);
        // Told again, and polled by another task in between.
        slot.tell(End::Drain);
        assert_eq!(poll(End::Drain, Waker::noop()), Poll::Pending);
        assert_eq!(poll(End::Drain, &waker), Poll::Pending);
        slot.tell(End::Now);
        assert_eq!(count(), 2);
        // It has been told more than it knows, whatever it waited for before.
        assert_eq!(poll(End::Drain, &waker), Poll::Ready(End::Now));
        assert_eq!(poll(End::No, &waker), Poll::Ready(End::Now));
    }
}
