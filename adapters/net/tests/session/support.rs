//! A session whose clock is moved by hand, and who moves its bytes and serves it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use antiphon::{Closed, Config, Instant};
use antiphon_net::{
    Brought, Clock, Context, Handle, Machine, Moved, Next, Options, Pending, Request, Responder,
    Room, Sent, Session, Turn, Work,
};

/// Longer than anything takes that works.
pub(crate) const LONG: Duration = Duration::from_secs(10);

/// A clock that is moved by hand, and counts how often it is looked at.
#[derive(Default)]
pub(crate) struct Hand {
    millis: AtomicU64,
    pub(crate) looks: AtomicU64,
}

impl Clock for Hand {
    fn now(&self) -> Instant {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Instant::from_millis(self.millis.load(Ordering::SeqCst))
    }
}

pub(crate) struct Side {
    pub(crate) session: Arc<Session>,
    pub(crate) clock: Arc<Hand>,
}

impl Side {
    pub(crate) fn new(options: impl Into<Options>) -> Self {
        let clock = Arc::new(Hand::default());
        let shared: Arc<dyn Clock> = clock.clone();
        let session = Session::new(options.into(), Context::new(), shared);
        Self {
            session: Arc::new(session),
            clock,
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle::unowned(Arc::clone(&self.session))
    }

    pub(crate) fn notify(&self, method: &str) {
        self.handle().notify(method, (), Room::Now).unwrap();
    }

    pub(crate) fn call(&self, method: &str) -> Pending {
        let never = Instant::FAR_FUTURE;
        self.handle().call(method, (), never, Room::Now).unwrap()
    }

    /// Takes a line in, whole.
    pub(crate) fn hear(&self, line: &str) {
        let line = format!("{line}\n");
        self.session.receive(line.as_bytes());
    }

    pub(crate) fn end_input(&self) {
        self.session.input_ended(None);
    }

    /// Lets time pass, and tells nobody.
    pub(crate) fn pass(&self, millis: u64) {
        self.clock.millis.fetch_add(millis, Ordering::SeqCst);
    }

    /// Lets time pass, and the session act on it.
    pub(crate) fn wait(&self, millis: u64) -> Turn {
        self.pass(millis);
        self.turn()
    }

    pub(crate) fn turn(&self) -> Turn {
        let now = self.session.now();
        self.session.act(|state| {
            state.conn.handle_timeout(now);
            match state.conn.phase().is_over() {
                true => Turn::Over,
                false => Turn::Open {
                    wake_at: state.conn.poll_timeout().unwrap_or(Instant::FAR_FUTURE),
                },
            }
        })
    }

    /// The turn of a task that has brought nothing, and takes no work.
    pub(crate) fn step(&self, is_drained: bool) -> Next {
        let moved = Moved {
            now: self.session.now(),
            input: Brought::Nothing,
            is_drained,
            sent: Sent::Nothing,
            requests: None,
        };
        let (work, output) = (&mut VecDeque::new(), &mut Vec::new());
        self.session.turn(moved, work, output, Waker::noop())
    }

    pub(crate) fn may_read(&self) -> bool {
        self.session.lock().conn.may_read()
    }

    /// Takes what is to be written next; it waits for room from now on.
    pub(crate) fn take(&self) -> String {
        let mut taken = Vec::new();
        let now = self.session.now();
        self.session.act(|state| {
            if state.conn.take_transmit(&mut taken) {
                state.conn.handle_write_progress(now);
            }
        });
        String::from_utf8(taken).unwrap()
    }

    /// All that is to be written, and was.
    pub(crate) fn written(&self) -> String {
        let mut all = String::new();
        loop {
            let some = self.take();
            if some.is_empty() {
                return all;
            }
            all += &some;
            self.session.output_written();
        }
    }

    /// The next thing for the service, which is at work until it asks again.
    pub(crate) fn work(&self) -> Option<Work> {
        let mut state = self.session.lock();
        match state.conn.poll_work(true) {
            Some(Work::Opened) => state.conn.poll_work(true),
            work => work,
        }
    }

    pub(crate) fn request(&self) -> (Request, Responder) {
        match self.work() {
            Some(Work::Request(message, ticket)) => Request::new(&self.session, message, ticket),
            other => panic!("no request but {other:?}"),
        }
    }

    pub(crate) fn closed(&self) -> Option<Closed> {
        self.handle().closed()
    }

    pub(crate) fn fault(&self) -> Option<io::ErrorKind> {
        self.handle().transport_error().map(|error| error.kind())
    }
}

impl Default for Side {
    fn default() -> Self {
        Self::new(Config::new())
    }
}

/// When an open connection wants to be looked at again, in milliseconds.
pub(crate) fn wakes(turn: Turn) -> Instant {
    match turn {
        Turn::Open { wake_at } => wake_at,
        Turn::Over => panic!("it is over"),
    }
}

pub(crate) fn request(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"m","id":{id}}}"#)
}
