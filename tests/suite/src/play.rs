//! Plays one script in one cell.
//!
//! Rule: the script has every message that our side sends, to the byte and up to the end of the
//! stream, and no script takes longer than its time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use antiphon_peer::desk::Desk;
use antiphon_peer::operations::Client;
use antiphon_peer::streams::Streams;
use antiphon_peer::transports::StartedChild;

use crate::cell::{Cell, Connect};
use crate::raw::Raw;
use crate::script::{Act, Role, Script, Step, What};

/// How long a script may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How much longer the player may take until it notices that.
const GRACE: Duration = Duration::from_secs(5);
/// How many characters of a long text are shown.
const SHOWN: usize = 300;

/// Plays a script to its end.
///
/// # Errors
/// What went otherwise than the script says, with the number of its line.
pub fn play(script: &Script, cell: &Cell) -> Result<(), String> {
    let (script, cell) = (script.clone(), cell.clone());
    let (done, verdict) = mpsc::channel();
    thread::spawn(move || {
        let played = catch_unwind(AssertUnwindSafe(|| play_here(&script, &cell)));
        let told = played.unwrap_or_else(|_| Err("the player panicked".to_owned()));
        // Fails if the script took too long, so that nobody waits any more.
        let _ = done.send(told);
    });
    let verdict = verdict.recv_timeout(TIMEOUT + GRACE);
    verdict.unwrap_or_else(|_| Err(format!("it hangs for more than {TIMEOUT:?}")))
}

fn play_here(script: &Script, cell: &Cell) -> Result<(), String> {
    let deadline = Instant::now() + TIMEOUT;
    let wanted = |step: &&Step| step.only.is_empty() || step.only.contains(&cell.transport);
    let steps = script.steps.iter().filter(wanted);
    match script.role {
        Role::Server => {
            let mut side = cell.open_server(&script.config)?;
            let mut player = Player::new(Role::Server, side.raw, deadline);
            for step in steps {
                let played = match step.what {
                    What::Act(Act::Again) => (side.again)().map(|raw| player.go_on_with(raw)),
                    _ => player.step(step, None),
                };
                played.map_err(|why| format!("line {}: {why}", step.line))?;
            }
            player.finish()
        }
        Role::Client => {
            let side = cell.open_client(&script.config)?;
            let worker = Worker::start(side.connect, side.desk, side.is_silent);
            let raw = (side.accept)(deadline).map_err(|why| worker.why_not(why))?;
            let mut player = Player::new(Role::Client, raw, deadline);
            for step in steps {
                let played = player.step(step, Some(&worker));
                played.map_err(|why| format!("line {}: {why}", step.line))?;
            }
            let worker = worker.end();
            player.finish()?;
            worker.wait(deadline)
        }
    }
}

/// Our client on a thread of its own: one operation after another.
struct Worker {
    operations: Sender<String>,
    answers: Receiver<String>,
    ended: Receiver<Result<(), String>>,
}

impl Worker {
    fn start(connect: Connect, desk: Desk, is_silent: bool) -> Self {
        let (operations, todo) = mpsc::channel::<String>();
        let (answered, answers) = mpsc::channel();
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let reached = match connect() {
                Ok(reached) => reached,
                Err(error) => return drop(done.send(Err(format!("cannot connect: {error}")))),
            };
            let client = Client {
                caller: &*reached.caller,
                desk: &desk,
                streams: Streams::default(),
                is_silent,
                ended: &|| reached.child.as_ref().and_then(StartedChild::how_ended),
            };
            for operation in todo {
                // Nobody listens any more once the script has failed.
                let _ = answered.send(client.answer(operation.as_bytes()));
            }
            reached.caller.close();
            if let Some(child) = reached.child {
                child.close();
            }
            drop(done.send(Ok(())));
        });
        Self {
            operations,
            answers,
            ended,
        }
    }

    /// Ends the operations.
    fn end(self) -> Ending {
        Ending {
            answers: self.answers,
            ended: self.ended,
        }
    }

    /// Our client's own error if it could not connect, or else `why`.
    fn why_not(&self, why: String) -> String {
        match self.ended.try_recv() {
            Ok(Err(better)) => better,
            _ => why,
        }
    }
}

/// Our client while it closes.
struct Ending {
    answers: Receiver<String>,
    ended: Receiver<Result<(), String>>,
}

impl Ending {
    /// Waits until it has closed everything. It must have given no answer that the script does not have.
    fn wait(self, deadline: Instant) -> Result<(), String> {
        let left = deadline.saturating_duration_since(Instant::now());
        let ended = self.ended.recv_timeout(left);
        ended.map_err(|_| "our client does not end".to_owned())??;
        match self.answers.try_recv() {
            Ok(answer) => Err(format!("this is not in the script: {}", cut(&answer))),
            Err(_) => Ok(()),
        }
    }
}

struct Player {
    role: Role,
    raw: Box<dyn Raw>,
    deadline: Instant,
    is_cut: bool,
}

impl Player {
    fn new(role: Role, raw: Box<dyn Raw>, deadline: Instant) -> Self {
        Self {
            role,
            raw,
            deadline,
            is_cut: false,
        }
    }

    fn go_on_with(&mut self, raw: Box<dyn Raw>) {
        self.raw = raw;
        self.is_cut = false;
    }

    fn step(&mut self, step: &Step, worker: Option<&Worker>) -> Result<(), String> {
        match &step.what {
            What::Send(message) => self.raw.send(message),
            What::SendRaw(bytes) => self.raw.send_raw(bytes),
            What::Receive(wanted) => {
                let got = self.receive()?;
                matches(wanted, &got)
            }
            What::ReceiveAll(wanted) => self.receive_all(wanted),
            What::Operate(operation) => {
                let worker = worker.ok_or("a server is told nothing")?;
                let told = worker.operations.send(operation.clone());
                told.map_err(|_| worker.why_not("our client has ended".to_owned()))
            }
            What::Answered(wanted) => {
                let worker = worker.ok_or("a server answers no operations")?;
                let left = self.deadline.saturating_duration_since(Instant::now());
                let got = worker.answers.recv_timeout(left);
                let got = got.map_err(|_| worker.why_not(format!("no answer: {}", cut(wanted))))?;
                matches(wanted, &got)
            }
            What::Act(act) => self.act(*act),
        }
    }

    fn act(&mut self, act: Act) -> Result<(), String> {
        match act {
            Act::End => self.raw.end(),
            Act::Cut => {
                self.raw.cut();
                self.is_cut = true;
            }
            Act::Ended => return self.raw.receive(self.deadline).and_then(nothing),
            Act::Settle => return self.raw.settle(self.deadline),
            Act::Hold => self.raw.hold(true),
            Act::Release => self.raw.hold(false),
            Act::Again => return Err("a client connects by itself".to_owned()),
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<String, String> {
        let message = self.raw.receive(self.deadline)?;
        let message = message.ok_or("the stream has ended")?;
        String::from_utf8(message).map_err(|error| error.to_string())
    }

    fn receive_all(&mut self, wanted: &[String]) -> Result<(), String> {
        let mut left: VecDeque<&String> = wanted.iter().collect();
        while !left.is_empty() {
            let got = self.receive()?;
            let Some(place) = left.iter().position(|wanted| **wanted == got) else {
                return Err(format!("not among what is wanted: {}", cut(&got)));
            };
            left.remove(place);
        }
        Ok(())
    }

    /// Waits until our side has ended its direction, with no further message. A server ends it when
    /// the plain peer ends its own, a client by itself.
    fn finish(&mut self) -> Result<(), String> {
        if self.is_cut {
            return Ok(());
        }
        if self.role == Role::Server {
            self.raw.end();
        }
        let ended = self.raw.receive_last(self.deadline).and_then(nothing);
        self.raw.end();
        ended.map_err(|why| format!("at the end: {why}"))
    }
}

/// Fails if a message came where the stream had to end.
fn nothing(came: Option<Vec<u8>>) -> Result<(), String> {
    match came {
        None => Ok(()),
        Some(message) => {
            let text = String::from_utf8_lossy(&message);
            Err(format!("this is not in the script: {}", cut(&text)))
        }
    }
}

fn matches(wanted: &str, got: &str) -> Result<(), String> {
    let is_right = match wanted.strip_suffix('…') {
        Some(beginning) => got.starts_with(beginning),
        None => wanted == got,
    };
    match is_right {
        true => Ok(()),
        false => Err(format!(
            "\n    wanted {}\n    got    {}",
            cut(wanted),
            cut(got)
        )),
    }
}

/// A text, or the beginning of a long one.
fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}
