//! A session whose clock is moved by hand, and the code that moves its bytes and serves it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::session::{Brought, Moved, Next, Sent, Work, WorkBatch};
use crate::session::{Carries, Session};
use crate::{
    BatchBuilder, ConnectionConfig, Peer, PendingBatch, PendingCall, Request, Responder,
    SharedRuntime, block_on,
};
use antiphon::{Closed, Config, Instant, SendError};

use super::hand::{ByHand, next_request, next_work, turn};
pub(crate) use super::hand::{Hand, Turn};

/// Longer than any step takes unless it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(10);

/// One side of a connection. The test moves its bytes, serves it, and moves its clock.
pub(crate) struct Side {
    pub(crate) session: Arc<Session>,
    pub(crate) clock: Arc<Hand>,
}

impl Side {
    pub(crate) fn new(options: impl Into<ConnectionConfig>) -> Self {
        let clock = Arc::new(Hand::default());
        let shared: SharedRuntime = clock.clone();
        let options = options.into();
        let is_of_messages = options.config.framing == antiphon::Framing::Messages;
        let context = crate::Context::new();
        let carries = match is_of_messages {
            true => Carries::Messages,
            false => Carries::Bytes,
        };
        let session = Session::new(options, carries, context, shared);
        Self { session, clock }
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer::unowned(Arc::clone(&self.session))
    }

    pub(crate) fn notify(&self, method: &str) {
        self.peer().try_notify(method, ()).unwrap();
    }

    pub(crate) fn call(&self, method: &str) -> PendingCall {
        block_on(self.peer().call(method, ()).no_timeout().start()).unwrap()
    }

    pub(crate) fn batch<H: Send>(
        &self,
        build: impl FnOnce(&BatchBuilder) -> Result<H, SendError>,
    ) -> (H, PendingBatch) {
        block_on(self.peer().batch(build).no_timeout().start()).unwrap()
    }

    /// Receives a whole line.
    pub(crate) fn hear(&self, line: &str) {
        let line = format!("{line}\n");
        self.session.receive(line.as_bytes());
    }

    pub(crate) fn end_input(&self) {
        self.session.input_ended(None);
    }

    /// Moves the clock, and gives the session no turn.
    pub(crate) fn pass(&self, millis: u64) {
        self.clock.pass(millis);
    }

    /// Moves the clock, and gives the session a turn.
    pub(crate) fn wait(&self, millis: u64) -> Turn {
        self.pass(millis);
        self.turn()
    }

    pub(crate) fn turn(&self) -> Turn {
        turn(&self.session)
    }

    /// The turn of a task that has brought nothing, and takes no work. `is_drained` says whether it has read
    /// all that could be read.
    pub(crate) fn step(&self, is_drained: bool) -> Next {
        let moved = Moved {
            now: self.session.now(),
            input: Brought::Nothing,
            is_drained,
            sent: Sent::Nothing,
            requests: None,
            is_serving: false,
        };
        let (batch, output) = (&mut WorkBatch::default(), &mut Vec::new());
        self.session
            .turn(moved, |_| {}, batch, output, Waker::noop())
    }

    pub(crate) fn may_read(&self) -> bool {
        self.session.lock().conn.wants_input()
    }

    /// Takes what is to be written next. The time limit for writing it begins now.
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

    /// Takes all output, and reports it as written.
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

    /// The next message or report for the service; the opening and the sizes of batches are
    /// skipped. The service counts as busy until this is called again.
    pub(crate) fn work(&self) -> Option<Work> {
        next_work(&self.session)
    }

    /// The next work, which must be a request, and the right to answer it.
    pub(crate) fn request(&self) -> (Request, Responder) {
        next_request(&self.session)
    }

    pub(crate) fn closed(&self) -> Option<Closed> {
        self.peer().closed()
    }

    pub(crate) fn fault(&self) -> Option<io::ErrorKind> {
        self.peer().transport_error().map(|error| error.kind())
    }
}

impl Default for Side {
    fn default() -> Self {
        Self::new(Config::new())
    }
}

/// The time at which an open connection wants its next turn.
pub(crate) fn wakes(turn: Turn) -> Instant {
    match turn {
        Turn::Open { wake_at } => wake_at,
        Turn::Over => panic!("it is over"),
    }
}

pub(crate) fn request(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"m","id":{id}}}"#)
}

/// Polls a future once, and returns its output if it is ready.
pub(crate) fn poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
