//! Moves bytes between a stream and a machine: reading, writing and sleeping in one task, so that
//! none of them ever waits for another.
//!
//! ```text
//!   Open ──Turn::Over──▶ Closing ──our end sent──▶ Lingering ──their end, or linger──▶ done
//! ```
//!
//! The rules guarded here: what is half written stays here and not in a local of some future, so a
//! driver that is dropped and polled again loses no byte; an idle connection holds no buffer; and a
//! stream that had nothing to read is not asked again before it says so, since with some runtimes
//! each question is a system call; others [know](Io::knows_readiness), and need no bell.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use antiphon::Instant;
use antiphon_session::{Machine, Turn};
use futures_util::task::AtomicWaker;

use crate::io::Io;
use crate::runtime::{Runtime, SharedRuntime, Timer};

/// How much is read at once where a thread's own buffer serves.
const SCRATCH_BYTES: usize = 64 * 1024;

/// The largest output buffer that is kept for the next time.
const OUTPUT_BYTES_KEPT: usize = 4 * 1024;

/// How many steps are made in one poll before other tasks get their turn.
const STEPS_MAX: u32 = 64;

/// How often is read before what is due ends, so that a peer that never stops writing postpones nothing for ever.
const LATE_READS_MAX: u32 = 4096;

thread_local! {
    /// Where all connections of a thread read into.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Moves the bytes of `machine` over `io` until there is nothing more to move. Connections do this
/// in their drivers; alone it serves a machine that is no JSON-RPC connection.
pub async fn pump(io: impl Io, machine: Arc<dyn Machine>, runtime: SharedRuntime) {
    let mut pump = Pump::new(Box::new(io));
    poll_fn(|cx| pump.poll(cx, &*machine, &*runtime, |_| false)).await;
}

/// The moving of one connection's bytes.
pub(crate) struct Pump {
    /// None once it has been let go.
    io: Option<Box<dyn Io>>,
    output: Vec<u8>,
    /// How much of `output` has been written.
    written: usize,
    /// Something has been written that has not been flushed.
    is_flushing: bool,
    /// The machine knows since when what was taken waits for room.
    has_waited: bool,
    /// The machine does not know yet that all of it has been written.
    is_written: bool,
    is_read_over: bool,
    /// What could be read was left, as the machine wants nothing more.
    is_paused: bool,
    is_write_over: bool,
    readable: Readable,
    timer: Option<Box<dyn Timer>>,
    /// Something is due: how many reads may still be made before it ends. None while nothing is.
    late_reads: Option<u32>,
    /// When the other side's end is no longer awaited.
    end_at: Option<Instant>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Closing,
    Lingering,
    Done,
}

/// Whether there may be something to read.
struct Readable {
    is_set: bool,
    /// What the stream says so with; none where it is asked whenever the task runs.
    told: Option<Told>,
}

struct Told {
    bell: Arc<Bell>,
    /// Rings it. None only while the stream is asked.
    waker: Option<Waker>,
}

/// Wakes the task, and says that it was for reading.
struct Bell {
    has_rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl Readable {
    fn new(io: &dyn Io) -> Self {
        let told = (!io.knows_readiness()).then(|| {
            let bell = Arc::new(Bell {
                has_rung: AtomicBool::new(false),
                task: AtomicWaker::new(),
            });
            Told {
                waker: Some(Waker::from(Arc::clone(&bell))),
                bell,
            }
        });
        Self { is_set: true, told }
    }

    /// The task runs.
    fn begin(&mut self, cx: &Context<'_>) {
        match &self.told {
            Some(told) => told.bell.task.register(cx.waker()),
            None => self.is_set = true,
        }
    }

    /// Whether the stream is to be asked, which it then is.
    fn take(&mut self) -> bool {
        let told = self.told.as_ref();
        let has_rung = told.is_some_and(|told| told.bell.has_rung.swap(false, Ordering::Acquire));
        std::mem::take(&mut self.is_set) || has_rung
    }
}

impl Pump {
    pub(crate) fn new(io: Box<dyn Io>) -> Self {
        Self {
            readable: Readable::new(&*io),
            io: Some(io),
            output: Vec::new(),
            written: 0,
            is_flushing: false,
            has_waited: false,
            is_written: false,
            is_read_over: false,
            is_paused: false,
            is_write_over: false,
            timer: None,
            late_reads: None,
            end_at: None,
            phase: Phase::Open,
        }
    }

    /// Moves what can be moved. When something has come in, or the task was woken, `work` does what
    /// else is to be done, and says whether it did anything. Ready when the transport has been let
    /// go.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        machine: &dyn Machine,
        runtime: &dyn Runtime,
        mut work: impl FnMut(&mut Context<'_>) -> bool,
    ) -> Poll<()> {
        self.readable.begin(cx);
        // Whether there may be something to do that did not come in just now.
        let mut is_called = true;
        for step in 1..=STEPS_MAX {
            match self.phase {
                Phase::Open => {
                    let came_in = self.read(cx, machine);
                    if came_in {
                        // What is to be written besides is found by the turn.
                        if work(cx) || self.is_writing() {
                            self.write(cx, machine);
                        }
                        is_called = false;
                        // Time is looked at when all is quiet, but not never.
                        if step < STEPS_MAX {
                            continue;
                        }
                    }
                    if is_called {
                        work(cx);
                        self.write(cx, machine);
                    }
                    match self.turn(cx, machine, came_in) {
                        Turn::Busy => is_called = true,
                        // There is room again for what could not be read.
                        Turn::Open { .. } if self.is_paused && machine.may_read() => {
                            is_called = true;
                        }
                        Turn::Open { wake_at } => {
                            let is_late = self.sleep(cx, runtime, wake_at).is_ready();
                            if is_late {
                                // What arrived before the timer went off is there to be read, told of or not.
                                self.readable.is_set = true;
                                self.late_reads.get_or_insert(LATE_READS_MAX);
                            } else if !came_in {
                                return Poll::Pending;
                            }
                        }
                        Turn::Over => {
                            self.end_at = Some(machine.now() + machine.linger());
                            self.phase = Phase::Closing;
                        }
                    }
                }
                Phase::Closing | Phase::Lingering => {
                    work(cx);
                    if self.poll_end(cx, runtime).is_pending() {
                        return Poll::Pending;
                    }
                    self.phase = Phase::Done;
                    self.io = None;
                    self.timer = None;
                    machine.finished();
                }
                Phase::Done => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Lets what is due end once all that has arrived has been read, and asks what comes next.
    fn turn(&mut self, cx: &Context<'_>, machine: &dyn Machine, came_in: bool) -> Turn {
        let is_written = std::mem::take(&mut self.is_written);
        let is_read = |left: u32| !came_in || left == 0;
        if self.late_reads.is_some_and(is_read) {
            self.late_reads = None;
            if is_written {
                machine.output_written();
            }
            let turn = machine.turn(cx.waker());
            let is_put_off = matches!(turn, Turn::Open { wake_at } if wake_at <= machine.now());
            return match is_put_off {
                true => machine.turn(cx.waker()),
                false => turn,
            };
        }
        if is_written {
            return machine.turn_written(cx.waker());
        }
        machine.turn_unread(cx.waker())
    }

    /// Whether a write waits for room.
    fn is_writing(&self) -> bool {
        !self.output.is_empty() || self.is_flushing
    }

    /// Writes what there is to write, until there is no room. What has been added meanwhile is for
    /// the next turn to find.
    fn write(&mut self, cx: &mut Context<'_>, machine: &dyn Machine) {
        let Some(io) = self.io.as_mut() else {
            return;
        };
        if self.output.is_empty() {
            if std::mem::take(&mut self.is_written) {
                machine.output_written();
            }
            if machine.take_output(&mut self.output) {
                self.has_waited = false;
            }
        }
        while !self.output.is_empty() {
            match io.poll_write(cx, &self.output[self.written..]) {
                Poll::Pending => return self.wait_for_room(machine),
                Poll::Ready(Ok(0)) => return self.fail(machine, io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => {
                    self.written += n;
                    self.is_flushing = true;
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) => return self.fail(machine, error),
            }
            if self.written < self.output.len() {
                self.has_waited = true;
                machine.output_waits();
                continue;
            }
            self.written = 0;
            self.output.clear();
        }
        if self.output.capacity() > OUTPUT_BYTES_KEPT {
            self.output = Vec::new();
        }
        if self.is_flushing {
            match io.poll_flush(cx) {
                Poll::Pending => self.wait_for_room(machine),
                Poll::Ready(Ok(())) => {
                    self.is_flushing = false;
                    self.is_written = true;
                }
                Poll::Ready(Err(error)) => self.fail(machine, error),
            }
        }
    }

    /// Has the machine count from now on how long this lasts.
    #[cold]
    fn wait_for_room(&mut self, machine: &dyn Machine) {
        if !std::mem::replace(&mut self.has_waited, true) {
            machine.output_waits();
        }
    }

    #[cold]
    fn fail(&mut self, machine: &dyn Machine, error: io::Error) {
        self.output = Vec::new();
        self.written = 0;
        self.is_flushing = false;
        self.is_write_over = true;
        machine.output_failed(error);
    }

    /// Reads once, if there may be something to read. Says whether anything came of it.
    fn read(&mut self, task: &mut Context<'_>, machine: &dyn Machine) -> bool {
        self.is_paused = !machine.may_read();
        let is_wanted = machine.wants_input() && !self.is_paused;
        if self.is_read_over || !is_wanted || !self.readable.take() {
            return false;
        }
        let told = self.readable.told.as_mut();
        let waker = told.and_then(|told| told.waker.take());
        let cx = &mut Context::from_waker(waker.as_ref().unwrap_or(task.waker()));
        let read = self.poll_read(cx, machine);
        if let Some(told) = &mut self.readable.told {
            told.waker = waker;
        }
        self.readable.is_set |= read.is_ready();
        if let Some(left) = &mut self.late_reads {
            *left = left.saturating_sub(1);
        }
        let failed = match read {
            Poll::Pending => return false,
            Poll::Ready(Ok(0)) => None,
            Poll::Ready(Ok(_)) => return true,
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => return true,
            Poll::Ready(Err(error)) => Some(error),
        };
        self.is_read_over = true;
        machine.input_ended(failed);
        true
    }

    /// Reads once: how many bytes, or a message as one.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        machine: &dyn Machine,
    ) -> Poll<io::Result<usize>> {
        let messages = self.io.as_mut().and_then(|io| io.as_messages());
        if let Some(messages) = messages {
            let received = messages.poll_receive(cx);
            received.map_ok(|message| match message {
                Some(message) => {
                    machine.receive(&message);
                    1
                }
                None => 0,
            })
        } else {
            SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
                Ok(mut scratch) => self.read_into(cx, machine, &mut scratch),
                // A machine that polls another one while it takes bytes.
                Err(_) => self.read_into(cx, machine, &mut Vec::new()),
            })
        }
    }

    fn read_into(
        &mut self,
        cx: &mut Context<'_>,
        machine: &dyn Machine,
        scratch: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let Some(io) = self.io.as_mut() else {
            return Poll::Pending;
        };
        scratch.resize(SCRATCH_BYTES, 0);
        let read = io.poll_read(cx, scratch);
        if let Poll::Ready(Ok(n)) = read {
            let n = n.min(scratch.len());
            if n > 0 {
                machine.receive(&scratch[..n]);
            }
        }
        read
    }

    /// Ends our stream, and waits for the end of theirs, for the linger at most.
    #[cold]
    fn poll_end(&mut self, cx: &mut Context<'_>, runtime: &dyn Runtime) -> Poll<()> {
        let end_at = self.end_at.unwrap_or(Instant::ZERO);
        if self.sleep(cx, runtime, end_at).is_ready() {
            return Poll::Ready(());
        }
        let Some(io) = self.io.as_mut() else {
            return Poll::Ready(());
        };
        if self.phase == Phase::Closing {
            match io.poll_close(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !self.is_write_over => self.phase = Phase::Lingering,
                // Whoever can't be written to has been waited for already.
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        if self.is_read_over || !io.awaits_end() {
            return Poll::Ready(());
        }
        let mut ignored = [0; 1024];
        for _ in 0..STEPS_MAX {
            match io.poll_read(cx, &mut ignored) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(n)) if n > 0 => {}
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn sleep(&mut self, cx: &mut Context<'_>, runtime: &dyn Runtime, at: Instant) -> Poll<()> {
        if at == Instant::FAR_FUTURE {
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| runtime.timer());
        timer.poll_until(at, cx)
    }
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump")
            .field("unwritten", &(self.output.len() - self.written))
            .finish_non_exhaustive()
    }
}
