//! Runs a part of a test as a process of its own, where a process has to be stopped, or to end.
//!
//! A test file that uses this has one test that calls [`obey`]: the process is the test's own program, told to run that
//! test alone.

use std::env;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use antiphon_stress::LONG;

/// The environment variable that tells such a process what to do.
const WORDS: &str = "ANTIPHON_REGRESSION";

/// Separates the words.
const SEPARATOR: char = '\u{1f}';

/// The adapters that a program can be told to run on.
pub const RUNTIMES: [&str; 4] = ["blocking", "tokio", "smol", "async-std"];

/// Runs one function for each runtime, side by side.
///
/// # Panics
/// One of them does.
pub fn on_each_runtime(test: fn(&str)) {
    let threads = RUNTIMES.map(|name| (name, thread::spawn(move || test(name))));
    let failed: Vec<&str> = threads
        .into_iter()
        .filter_map(|(name, thread)| thread.join().is_err().then_some(name))
        .collect();
    assert!(failed.is_empty(), "on {failed:?}");
}

/// In the one test that is the program: does what the process was started for. Does nothing in an ordinary run.
pub fn obey(main: impl FnOnce(Vec<String>) -> u8) {
    if let Ok(words) = env::var(WORDS) {
        let code = main(words.split(SEPARATOR).map(str::to_owned).collect());
        std::process::exit(code.into());
    }
}

/// The command that runs this program as `words` say, by its test named `entry`.
///
/// # Panics
/// The system does not say where this program is.
pub fn command(entry: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command
        .args(["--exact", entry, "--nocapture", "--test-threads=1"])
        .env(WORDS, words.join(&SEPARATOR.to_string()));
    command
}

/// A process that is running. Dropped, it is killed.
pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<Vec<u8>>,
    /// Output that has come and has not been returned yet.
    heard: String,
    log: Receiver<String>,
}

impl Program {
    /// Starts it.
    ///
    /// # Panics
    /// The system refuses.
    pub fn start(entry: &str, words: &[&str]) -> Self {
        let mut command = command(entry, words);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process");
        let (told, log) = channel();
        let stderr = BufReader::new(child.stderr.take().expect("its log"));
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // A test that has seen enough does not listen any more.
                let _ = told.send(line);
            }
        });
        Self {
            stdin: child.stdin.take(),
            stdout: pieces(child.stdout.take().expect("its output")),
            heard: String::new(),
            child,
            log,
        }
    }

    /// The next line of its standard error that begins with `prefix`, without the prefix.
    ///
    /// # Panics
    /// None comes within [`LONG`].
    pub fn logged(&self, prefix: &str) -> String {
        let until = Instant::now() + LONG;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.log.recv_timeout(left).expect("a line of the log");
            if let Some(rest) = line.strip_prefix(prefix) {
                return rest.to_owned();
            }
        }
    }

    /// Writes to its input.
    ///
    /// # Panics
    /// It does not take the bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().expect("its input");
        stdin.write_all(bytes.as_ref()).expect("it takes the bytes");
        stdin.flush().expect("it takes the bytes");
    }

    /// Ends its input.
    pub fn end_input(&mut self) {
        self.stdin = None;
    }

    /// Its next output, up to `end` inclusive. The first begins with what the test harness prints.
    ///
    /// # Panics
    /// That does not come within [`LONG`].
    pub fn heard(&mut self, end: &str) -> String {
        let until = Instant::now() + LONG;
        let mut looked = 0;
        loop {
            if let Some(at) = self.heard[looked..].find(end) {
                let rest = self.heard.split_off(looked + at + end.len());
                return std::mem::replace(&mut self.heard, rest);
            }
            // A part of `end` may have come. This is between two characters: all output here is ASCII.
            looked = self.heard.len().saturating_sub(end.len());
            let left = until.saturating_duration_since(Instant::now());
            let piece = self.stdout.recv_timeout(left);
            let piece = piece.unwrap_or_else(|error| panic!("{error} after {:?}", self.heard));
            self.heard += &String::from_utf8_lossy(&piece);
        }
    }

    /// The next JSON object that it prints on a line.
    ///
    /// # Panics
    /// None comes within [`LONG`].
    pub fn object(&mut self) -> String {
        self.heard("{");
        format!("{{{}", self.heard("\n").trim_end())
    }

    /// Sends it a signal by name, such as `STOP`.
    ///
    /// # Panics
    /// There is no such process any more.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("kill").success());
    }

    /// Waits for its exit. None if that takes longer than `span`.
    ///
    /// # Panics
    /// The system does not tell.
    pub fn exited_within(&mut self, span: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + span;
        loop {
            let status = self.child.try_wait().expect("its state");
            if status.is_some() || Instant::now() >= until {
                return status;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Reads a stream on a thread, and gives what comes, piece by piece.
fn pieces(mut from: ChildStdout) -> Receiver<Vec<u8>> {
    let (told, pieces) = channel();
    thread::spawn(move || {
        let mut buf = [0; 64 << 10];
        while let Ok(n @ 1..) = from.read(&mut buf) {
            if told.send(buf[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    pieces
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("id", &self.child.id())
            .finish_non_exhaustive()
    }
}
