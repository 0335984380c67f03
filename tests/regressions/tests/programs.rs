//! The program `antiphon-peer` as other programs start it: with shared standard streams, and with
//! secrets on its command line.
//!
//! The program is this test's own binary, started again with `contract` before its arguments, or with
//! `stdio` to run only [`serve_stdio`]. Most tests are named after the fault, and assert that it is gone.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Config, ConnectionError, Framing};
use antiphon_peer::contract::Contract;
use antiphon_peer::runtime::Runtime;
use antiphon_peer::transports;
use antiphon_regressions::LONG;
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::PipeFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Several times what a pipe holds.
const LARGE_BYTES: usize = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "contract") {
        return ExitCode::from(antiphon_peer::run(arguments.into_iter().skip(1)));
    }
    if let [first, runtime] = &arguments[..] {
        if first == "stdio" {
            return serve_stdio(runtime);
        }
    }
    let mut cases: Vec<Case> = Vec::new();
    for runtime in Runtime::ALL {
        let mut add = |name: &str, case: fn(Runtime)| {
            cases.push((
                format!("{runtime}::{name}"),
                Box::new(move || case(runtime)),
            ));
        };
        add(
            "a_server_ends_on_an_empty_non_blocking_stdin",
            a_server_ends_on_an_empty_non_blocking_stdin,
        );
        add(
            "a_server_on_a_terminal_ends_at_the_first_end_of_file",
            a_server_on_a_terminal_ends_at_the_first_end_of_file,
        );
        add(
            "a_large_answer_is_cut_on_a_non_blocking_stdout",
            a_large_answer_is_cut_on_a_non_blocking_stdout,
        );
        add(
            "a_client_ends_on_non_blocking_streams",
            a_client_ends_on_non_blocking_streams,
        );
        add(
            "garbage_kills_a_server_whose_stderr_is_dead",
            garbage_kills_a_server_whose_stderr_is_dead,
        );
        add(
            "a_listener_whose_stderr_is_dead_does_not_start",
            a_listener_whose_stderr_is_dead_does_not_start,
        );
        add(
            "serve_stdio_is_content_when_the_framing_is_lost",
            serve_stdio_is_content_when_the_framing_is_lost,
        );
        add(
            "credentials_in_a_url_are_printed",
            credentials_in_a_url_are_printed,
        );
    }
    let mut add = |name: &str, case: fn()| cases.push((name.to_owned(), Box::new(case)));
    add(
        "the_proxy_dies_of_a_dead_stderr",
        the_proxy_dies_of_a_dead_stderr,
    );
    add(
        "the_proxy_ends_on_non_blocking_streams",
        the_proxy_ends_on_non_blocking_streams,
    );
    add(
        "wrong_usage_panics_where_nobody_listens",
        wrong_usage_panics_where_nobody_listens,
    );
    add(
        "a_grace_that_is_no_time_is_refused_in_one_line",
        a_grace_that_is_no_time_is_refused_in_one_line,
    );
    add(
        "a_program_or_an_example_prints_with_a_macro_that_panics",
        a_program_or_an_example_prints_with_a_macro_that_panics,
    );
    run(&arguments, &cases)
}

/// A name, and what is run under it.
type Case = (String, Box<dyn Fn()>);

/// Runs the cases whose names contain the filter, as the standard harness does.
fn run(arguments: &[String], cases: &[Case]) -> ExitCode {
    let filters: Vec<&String> = arguments
        .iter()
        .filter(|word| !word.starts_with('-'))
        .collect();
    let is_list = arguments.iter().any(|word| word == "--list");
    let mut failed = 0;
    for (name, case) in cases {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        if is_list {
            println!("{name}: test");
            continue;
        }
        let is_ok = catch_unwind(AssertUnwindSafe(case)).is_ok();
        println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
        failed += u32::from(!is_ok);
    }
    ExitCode::from(u8::from(failed > 0))
}

/// The program with these arguments, before its streams are chosen.
fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("contract").args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// A pipe: what is read from, and what is written to.
fn pipe() -> (OwnedFd, OwnedFd) {
    // The programs must not inherit both ends.
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap()
}

/// The writing end of a pipe whose reading end is closed.
fn dead() -> OwnedFd {
    pipe().1
}

fn set_non_blocking(fd: &OwnedFd) {
    let flags = fcntl_getfl(fd).unwrap();
    fcntl_setfl(fd, flags | OFlags::NONBLOCK).unwrap();
}

fn is_non_blocking(fd: &OwnedFd) -> bool {
    fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
}

/// Waits for the end of a process; kills one that does not end.
fn status_of(mut child: Child) -> ExitStatus {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the program does not end");
        }
        // There is no event to wait for.
        thread::sleep(Duration::from_millis(5));
    }
}

/// The lines of a stream, each of which must come in time.
struct Lines(mpsc::Receiver<String>);

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                if line.is_err() || send.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self(lines)
    }

    /// The next line; none at the end.
    fn next(&self) -> Option<String> {
        match self.0.recv_timeout(LONG) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line comes"),
        }
    }

    /// The next line, which must have this in it.
    fn expect(&self, part: &str) {
        let line = self.next().expect("a line before the end");
        let shown = &line[..line.len().min(200)];
        assert!(line.contains(part), "{part} in {shown}");
    }
}

fn echo(id: usize, text: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"echo\",\"params\":[\"{text}\"]}}\n")
}

// USE-05 STD-06
fn a_server_ends_on_an_empty_non_blocking_stdin(runtime: Runtime) {
    let (theirs, ours) = pipe();
    set_non_blocking(&theirs);
    let same = theirs.try_clone().unwrap();
    let mut command = program(&["--runtime", runtime.name(), "server", "stdio:ndjson"]);
    let mut child = command
        .stdin(theirs)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(command);
    let lines = Lines::of(child.stdout.take().unwrap());
    let mut ours = File::from(ours);
    // After each answer the server finds nothing to read.
    for id in 0..20 {
        ours.write_all(echo(id, "hello").as_bytes()).unwrap();
        lines.expect(&format!("\"id\":{id}"));
        thread::sleep(Duration::from_millis(5));
    }
    assert!(
        is_non_blocking(&same),
        "the flag is shared with other processes, and stays set"
    );
    drop(ours);
    assert!(lines.next().is_none());
    assert!(status_of(child).success());
}

// STD-06
fn a_server_on_a_terminal_ends_at_the_first_end_of_file(runtime: Runtime) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let theirs = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    let mut command = program(&["--runtime", runtime.name(), "server", "stdio:ndjson"]);
    let mut child = command
        .stdin(theirs)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = Lines::of(child.stdout.take().unwrap());
    let mut ours = File::from(ours);
    ours.write_all(echo(1, "hello").as_bytes()).unwrap();
    lines.expect("hello");
    // Ctrl-D, which ends what was typed and nothing that is typed after it.
    ours.write_all(b"\x04").unwrap();
    assert!(lines.next().is_none());
    assert!(status_of(child).success());
}

// USE-05 STD-06
fn a_large_answer_is_cut_on_a_non_blocking_stdout(runtime: Runtime) {
    let (ours, theirs) = pipe();
    set_non_blocking(&theirs);
    let same = theirs.try_clone().unwrap();
    let mut command = program(&["--runtime", runtime.name(), "server", "stdio:ndjson"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(theirs)
        .spawn()
        .unwrap();
    drop(command);
    let text = "x".repeat(LARGE_BYTES);
    let mut stdin = child.stdin.take().unwrap();
    let large = echo(1, &text);
    // The server must read all of this before anybody reads its answer.
    stdin.write_all(large.as_bytes()).unwrap();
    drop(stdin);
    let lines = Lines::of(File::from(ours));
    lines.expect(&text);
    assert!(
        is_non_blocking(&same),
        "the flag is shared with other processes, and stays set"
    );
    assert!(status_of(child).success());
}

// USE-05 STD-06
fn a_client_ends_on_non_blocking_streams(runtime: Runtime) {
    let (theirs, ours) = pipe();
    let (read, written) = pipe();
    set_non_blocking(&theirs);
    set_non_blocking(&written);
    let own = std::env::current_exe().unwrap();
    let target = format!(
        "stdio:ndjson:{} contract server stdio:ndjson",
        own.display()
    );
    let mut command = program(&["--runtime", runtime.name(), "client", &target]);
    let child = command.stdin(theirs).stdout(written).spawn().unwrap();
    drop(command);
    let lines = Lines::of(File::from(read));
    let mut ours = File::from(ours);
    let large = "x".repeat(LARGE_BYTES);
    for text in ["a", "b", &large, "c"] {
        let operation =
            format!("{{\"op\":\"call\",\"method\":\"echo\",\"params\":[\"{text}\"]}}\n");
        ours.write_all(operation.as_bytes()).unwrap();
        lines.expect(text);
        thread::sleep(Duration::from_millis(5));
    }
    drop(ours);
    assert!(status_of(child).success());
}

// USE-17 STD-06
fn garbage_kills_a_server_whose_stderr_is_dead(runtime: Runtime) {
    let mut command = program(&["--runtime", runtime.name(), "server", "stdio:ndjson"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(dead());
    let mut child = command.spawn().unwrap();
    drop(command);
    let lines = Lines::of(child.stdout.take().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"this is no JSON\n").unwrap();
    lines.expect("-32700");
    stdin.write_all(echo(1, "hello").as_bytes()).unwrap();
    lines.expect("hello");
    drop(stdin);
    assert!(status_of(child).success());
}

// USE-17
fn a_listener_whose_stderr_is_dead_does_not_start(runtime: Runtime) {
    let number = std::process::id();
    let path = std::env::temp_dir().join(format!("antiphon-programs-{number}-{runtime}"));
    let target = format!("unix:{}", path.display());
    let mut command = program(&["--runtime", runtime.name(), "server", &target]);
    let mut child = command.stderr(dead()).spawn().unwrap();
    drop(command);
    let deadline = Instant::now() + LONG;
    let stream = loop {
        if let Ok(stream) = UnixStream::connect(&path) {
            break stream;
        }
        assert_eq!(child.try_wait().unwrap(), None, "it listens");
        assert!(Instant::now() < deadline, "it listens in time");
        // The line that says so goes to the dead stderr.
        thread::sleep(Duration::from_millis(5));
    };
    let lines = Lines::of(stream.try_clone().unwrap());
    (&stream).write_all(b"this is no JSON\n").unwrap();
    lines.expect("-32700");
    (&stream).write_all(echo(1, "hello").as_bytes()).unwrap();
    lines.expect("hello");
    child.kill().unwrap();
    status_of(child);
    let _ = std::fs::remove_file(path);
}

/// The proxy in front of a server of ours, with a trace of what passes on its stderr.
fn proxy() -> Command {
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let mut command = program(&[
        "--trace",
        "proxy",
        own,
        "contract",
        "server",
        "stdio:ndjson",
    ]);
    command.env("ANTIPHON_FRAMING", "newline");
    command
}

// USE-17 STD-06
fn the_proxy_dies_of_a_dead_stderr() {
    let mut command = proxy();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(dead());
    let mut child = command.spawn().unwrap();
    drop(command);
    let lines = Lines::of(child.stdout.take().unwrap());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"this is no JSON\n").unwrap();
    lines.expect("-32700");
    stdin.write_all(echo(1, "hello").as_bytes()).unwrap();
    lines.expect("hello");
    drop(stdin);
    assert!(status_of(child).success());
}

// USE-05 STD-06
fn the_proxy_ends_on_non_blocking_streams() {
    let (theirs, ours) = pipe();
    let (read, written) = pipe();
    set_non_blocking(&theirs);
    set_non_blocking(&written);
    let mut command = proxy();
    let child = command.stdin(theirs).stdout(written).spawn().unwrap();
    drop(command);
    let lines = Lines::of(File::from(read));
    let mut ours = File::from(ours);
    let large = "x".repeat(LARGE_BYTES);
    for (id, text) in ["a", "b", &large, "c"].into_iter().enumerate() {
        ours.write_all(echo(id, text).as_bytes()).unwrap();
        lines.expect(text);
        thread::sleep(Duration::from_millis(5));
    }
    drop(ours);
    assert!(status_of(child).success());
}

// USE-17
fn a_program_or_an_example_prints_with_a_macro_that_panics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    let mut folders = vec![
        root.join("docs"),
        root.join("examples"),
        root.join("tests/peer/src"),
    ];
    for adapter in std::fs::read_dir(root.join("adapters")).unwrap() {
        let adapter = adapter.unwrap().path();
        folders.extend([adapter.join("src"), adapter.join("examples")]);
    }
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            match path.is_dir() {
                // What tests print is for who runs them.
                true if path.ends_with("tests") => {}
                true => folders.push(path),
                // Cargo reads what it prints.
                false if path.ends_with("build.rs") => {}
                false => files.push(path),
            }
        }
    }
    assert!(files.len() > 150, "{} files are read", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        // This finds `eprint` and `eprintln`, too.
        for (number, line) in text.lines().enumerate() {
            let prints = line.contains("print!(") || line.contains("println!(");
            assert!(!prints, "{}:{}: {line}", file.display(), number + 1);
        }
    }
}

// USE-17
fn wrong_usage_panics_where_nobody_listens() {
    for (arguments, code) in [
        (&["nothing"][..], 2),
        (&["server", "tcp://nowhere"], 2),
        (&["client", "tcp://127.0.0.1:1"], 2),
        (&["proxy", "/does/not/exist"], 2),
        (&["--help"], 0),
    ] {
        let mut command = program(arguments);
        let child = command.stdout(dead()).stderr(dead()).spawn().unwrap();
        assert_eq!(status_of(child).code(), Some(code), "{arguments:?}");
    }
}

// USE-17
fn a_grace_that_is_no_time_is_refused_in_one_line() {
    let too_large = "18446744073709551616";
    for grace in ["soon", "", "-1", "1.5", "1s", too_large] {
        let mut command = program(&["--grace-ms", grace, "proxy", "true"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let ended = command.output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{grace:?}: {said}");
        assert!(ended.stdout.is_empty(), "{grace:?}");
        assert_eq!(said.lines().count(), 1, "{grace:?}: {said}");
        assert!(said.contains("--grace-ms"), "{grace:?}: {said}");
        // The user has to see which word it was.
        assert!(said.contains(grace), "{grace:?}: {said}");
    }
    // The largest number is accepted.
    let largest = "18446744073709551615";
    let mut command = program(&["--grace-ms", largest, "proxy", "true"]);
    assert_eq!(status_of(command.spawn().unwrap()).code(), Some(0));
}

/// The process of the next case: exits with 0 if `serve_stdio` returns no error, and with 3 if it
/// returns what broke the connection.
fn serve_stdio(runtime: &str) -> ExitCode {
    let executor = Runtime::named(runtime).unwrap().start().unwrap();
    let mut config = Config::new();
    config.framing = Framing::ContentLength;
    let served = transports::serve_stdio(executor.as_ref(), config.into(), Contract::default());
    match served {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            let inner = error.get_ref().expect("an error inside");
            assert!(inner.is::<ConnectionError>(), "{error}");
            ExitCode::from(3)
        }
    }
}

// USE-17 STD-06
fn serve_stdio_is_content_when_the_framing_is_lost(runtime: Runtime) {
    for (input, code) in [
        ("", 0),
        ("Content-Length: many\r\n\r\n{}", 3),
        ("Content-Length: 100\r\n\r\n{}", 3),
    ] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["stdio", runtime.name()])
            .stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        assert_eq!(status_of(child).code(), Some(code), "{input:?}");
    }
}

// USE-18 SEC-06
fn credentials_in_a_url_are_printed(runtime: Runtime) {
    for (role, url) in [
        ("client", "http://user:p%40ss@127.0.0.1"),
        ("client", "http://user:p%40ss@127.0.0.1:1/"),
        ("client", "https://user:p%40ss@127.0.0.1:1/"),
        ("client", "ws://user:p%40ss@127.0.0.1:1/"),
        ("client", "wss://user:p%40ss@127.0.0.1:1/"),
        ("client", "tcp://user:p%40ss@127.0.0.1:1"),
        ("client", "tcp+lsp://user:p%40ss@127.0.0.1:1"),
        ("client", "ftp://user:p%40ss@127.0.0.1:1"),
        ("client", "user:p%40ss@127.0.0.1:1"),
        ("server", "http://user:p%40ss@127.0.0.1:0"),
        ("server", "tcp://user:p%40ss@127.0.0.1:0"),
        ("http://user:p%40ss@127.0.0.1", "client"),
    ] {
        let mut command = program(&["--runtime", runtime.name(), role, url]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = Lines::of(child.stderr.take().unwrap());
        let said = lines.next().expect("a line that says why");
        assert!(lines.next().is_none(), "one line");
        let is_hidden = !said.contains("p%40ss") && !said.contains("p@ss");
        assert!(is_hidden && !said.contains("user:"), "{said}");
        assert_eq!(status_of(child).code(), Some(2), "{said}");
    }
}
