//! Child processes: one that exits while its own child holds its output, one that is frozen, and one
//! that has closed its input.
#![cfg(unix)]

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use antiphon::{Config, ReconnectStrategy};
use antiphon_net::{CallError, ChildConfig, ClientConfig};
use antiphon_peer::runtime::Runtime;
use antiphon_regressions::program::{Program, obey, on_each_runtime};
use antiphon_regressions::{LONG, Rt, on_every_runtime};

/// The programs under test: a client of a child, on a runtime, or `antiphon-peer`.
#[test]
fn as_program() {
    obey(|words| match &words[..] {
        [word, runtime, script] if word == "calls" => call_child(runtime, script),
        [word, runtime, script] if word == "closes" => close_child(runtime, script),
        [word, runtime, script] if word == "breaks" => break_pipe(runtime, script),
        _ => antiphon_peer::run(words.into_iter()),
    });
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Prints how a call ended, the exit code of the child, the error of the connection, and how many
/// seconds have passed since `began`.
fn say(
    called: Result<String, CallError>,
    status: Option<i32>,
    error: Option<std::io::Error>,
    began: Instant,
) -> u8 {
    let called = match called {
        Ok(result) => format!("{} bytes", result.len()),
        Err(error) => error.to_string(),
    };
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    println!(
        "{{\"called\":\"{called}\",\"code\":{status:?},\"error\":\"{error}\",\"seconds\":{}}}",
        began.elapsed().as_secs()
    );
    0
}

/// Calls a child once, and says how that ended and how the child did.
fn call_child(runtime: &str, script: &str) -> u8 {
    let executor = Runtime::named(runtime).expect("a runtime").start();
    let began = Instant::now();
    match executor.expect("it starts") {
        None => {
            let child = antiphon_blocking::Child::spawn(shell(script), Config::new(), ());
            let child = child.expect("a child");
            let called = child.peer().call("m", ()).timeout(LONG).wait();
            let status = child.wait(LONG).expect("its state");
            say(
                called,
                status.and_then(|status| status.code()),
                child.peer().transport_error(),
                began,
            )
        }
        Some(executor) => executor.block_on(async {
            let spawned = antiphon_net::spawn(shell(script), Config::new(), ());
            let child = spawned.expect("a child");
            let called = child.peer().call("m", ()).timeout(LONG).await;
            let status = child.wait(LONG).await.expect("its state");
            say(
                called,
                status.and_then(|status| status.code()),
                child.peer().transport_error(),
                began,
            )
        }),
    }
}

/// Leaves 300 KB unsent to a child, closes it, and says how long that took.
fn close_child(runtime: &str, script: &str) -> u8 {
    let executor = Runtime::named(runtime).expect("a runtime").start();
    let text = "x".repeat(300_000);
    let span = Duration::from_secs(2);
    let took = match executor.expect("it starts") {
        None => {
            let child = antiphon_blocking::Child::spawn(shell(script), Config::new(), ());
            let child = child.expect("a child");
            child
                .peer()
                .notify("m", &[&text])
                .wait()
                .expect("it is queued");
            let began = Instant::now();
            child.close(span).expect("its state");
            began.elapsed()
        }
        Some(executor) => executor.block_on(async {
            let spawned = antiphon_net::spawn(shell(script), Config::new(), ());
            let child = spawned.expect("a child");
            child
                .peer()
                .notify("m", &[&text])
                .await
                .expect("it is queued");
            let began = Instant::now();
            child.close(span).await.expect("its state");
            began.elapsed()
        }),
    };
    println!("{{\"milliseconds\":{}}}", took.as_millis());
    0
}

// USE-22
#[test]
fn calls_end_with_the_child_while_a_grandchild_holds_its_output() {
    on_each_runtime(|runtime| {
        let script = "sleep 45 & read line; exit 7";
        let mut program = Program::start("children::as_program", &["calls", runtime, script]);
        let said = program.object();
        let ended = said.split(",\"seconds\"").next().expect("words");
        assert_eq!(
            ended,
            r#"{"called":"the connection ended before the answer came","code":Some(7),"error":"the child has exited: exit status: 7""#
        );
        let seconds = said.trim_end_matches('}').rsplit(':').next();
        let seconds: u64 = seconds
            .and_then(|text| text.parse().ok())
            .expect("a number");
        assert!(seconds < 15, "{said}");
    });
}

// USE-22
#[test]
fn what_a_child_said_before_its_exit_is_read_while_a_grandchild_holds_its_output() {
    on_each_runtime(|runtime| {
        let script = r#"sleep 45 & read line; printf '{"jsonrpc":"2.0","result":"%060000d","id":1}\n' 0; exit 0"#;
        let mut program = Program::start("children::as_program", &["calls", runtime, script]);
        let said = program.object();
        assert!(
            said.starts_with(r#"{"called":"60000 bytes","code":Some(0)"#),
            "{said}"
        );
    });
}

/// The number that `close_child` has printed.
fn milliseconds(said: &str) -> u64 {
    let number = said.trim_end_matches('}').rsplit(':').next();
    number.and_then(|text| text.parse().ok()).expect("a number")
}

// USE-22
#[test]
fn a_frozen_child_with_much_unsent_is_closed_in_the_time_given() {
    on_each_runtime(|runtime| {
        let mut program = Program::start(
            "children::as_program",
            &["closes", runtime, "kill -STOP $$; cat"],
        );
        let took = milliseconds(&program.object());
        assert!((1900..5000).contains(&took), "{took} ms");
    });
}

// USE-22
#[test]
fn the_client_of_a_frozen_child_leaves_after_two_seconds() {
    on_each_runtime(|runtime| {
        let command = [
            "--runtime",
            runtime,
            "client",
            "stdio:ndjson:sh",
            "-c",
            "kill -STOP $$; cat",
        ];
        let mut program = Program::start("children::as_program", &command);
        let text = "x".repeat(300_000);
        program.send(format!(
            "{{\"op\":\"notify\",\"method\":\"m\",\"params\":[\"{text}\"]}}\n"
        ));
        assert_eq!(program.object(), r#"{"ok":true}"#);
        let began = Instant::now();
        program.end_input();
        let status = program.exited_within(LONG).expect("an exit");
        assert!(status.success(), "{status}");
        // The documented time is two seconds; a busy machine may take longer.
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    });
}

/// Sends 300 KB to a child that has closed its input, and says what broke the connection.
fn break_pipe(runtime: &str, script: &str) -> u8 {
    let executor = Runtime::named(runtime).expect("a runtime").start();
    let text = "x".repeat(300_000);
    let error = match executor.expect("it starts") {
        None => {
            let child = antiphon_blocking::Child::spawn(shell(script), Config::new(), ());
            let child = child.expect("a child");
            child
                .peer()
                .notify("m", &[&text])
                .wait()
                .expect("it is queued");
            child.peer().wait_closed(LONG).wait().expect("an end");
            child.peer().transport_error()
        }
        Some(executor) => executor.block_on(async {
            let spawned = antiphon_net::spawn(shell(script), Config::new(), ());
            let child = spawned.expect("a child");
            let peer = child.peer();
            peer.notify("m", &[&text]).await.expect("it is queued");
            peer.wait_closed(LONG).await.expect("an end");
            peer.transport_error()
        }),
    };
    println!("{{\"error\":\"{:?}\"}}", error.map(|error| error.kind()));
    0
}

// USE-22
#[test]
fn a_child_that_reads_no_more_breaks_the_pipe() {
    on_each_runtime(|runtime| {
        let script = "head -c 1000 >/dev/null; exec sleep 45 <&-";
        let mut program = Program::start("children::as_program", &["breaks", runtime, script]);
        assert_eq!(program.object(), r#"{"error":"Some(BrokenPipe)"}"#);
    });
}

/// What such a child says last, on its standard error.
const LAST_WORDS: &str = "cat >/dev/null; echo why it ends >&2; exit 3";

/// Options by which it is read a little after the child has exited.
fn read_late() -> ChildConfig {
    let mut config = ChildConfig::from(Config::new());
    config.on_stderr = Some(Box::new(|_| std::thread::sleep(Duration::from_millis(25))));
    config
}

fn what_a_child_said_was_gone_once_it_was_closed(rt: Rt) {
    rt.run(|_| async {
        let child = antiphon_net::spawn(shell(LAST_WORDS), read_late(), ()).expect("a child");
        let status = child.close(LONG / 2).await.expect("its state");
        assert_eq!(status.code(), Some(3), "{rt:?}");
        assert_eq!(child.stderr(), b"why it ends\n", "{rt:?}");
    });
}

// USE-18
#[test]
fn what_a_child_said_was_gone_once_it_was_closed_on_threads() {
    let child = antiphon_blocking::Child::spawn(shell(LAST_WORDS), read_late(), ());
    let child = child.expect("a child");
    let status = child.close(LONG / 2).expect("its state");
    assert_eq!(status.code(), Some(3));
    assert_eq!(child.stderr(), b"why it ends\n");
}

/// Whether there is a process with this id, even one that has exited and was not reaped.
fn exists(id: u32) -> bool {
    let probe = Command::new("kill").args(["-0", &id.to_string()]).output();
    probe.expect("it runs").status.success()
}

fn a_dropped_child_is_killed_and_reaped(rt: Rt) {
    rt.run(|_| async move {
        let child = antiphon_net::spawn(shell("exec sleep 45"), Config::new(), ());
        let child = child.expect("a child");
        let id = child.id();
        assert!(exists(id), "{rt:?}");
        drop(child);
        let runtime = antiphon_net::current();
        let until = Instant::now() + LONG;
        while exists(id) {
            assert!(Instant::now() < until, "{rt:?}");
            let soon = runtime.now() + Duration::from_millis(5);
            runtime.sleep_until(soon).await;
        }
    });
}

fn a_child_that_does_not_go_is_killed_in_the_end(rt: Rt) {
    rt.run(|_| async move {
        let script = "trap '' TERM; exec sleep 45";
        let child = antiphon_net::spawn(shell(script), Config::new(), ()).expect("a child");
        let wait = Duration::from_millis(20);
        assert_eq!(child.wait(wait).await.expect("its state"), None, "{rt:?}");
        let status = child.close(wait).await.expect("its state");
        assert_eq!(status.signal(), Some(9), "{rt:?}");
        assert_eq!(child.kill().await.expect("its state"), status, "{rt:?}");
        assert_eq!(child.wait(wait).await.expect("its state"), Some(status));
        assert!(!exists(child.id()), "{rt:?}");
    });
}

fn ten_mebibytes_of_log_do_not_block_a_child_and_its_end_is_kept(rt: Rt) {
    rt.run(|_| async move {
        let script = "head -c 10485760 /dev/zero >&2; echo last >&2; read line; exit 5";
        let child = antiphon_net::spawn(shell(script), Config::new(), ()).expect("a child");
        let status = child.close(LONG).await.expect("its state");
        assert_eq!(status.code(), Some(5), "{rt:?}");
        let kept = child.stderr();
        assert_eq!(kept.len(), 64 << 10, "{rt:?}");
        assert!(kept.ends_with(b"\0last\n"), "{rt:?}");
    });
}

fn a_missing_command_is_named(rt: Rt) {
    rt.run(|_| async move {
        let missing = Command::new("no-such-program");
        let error = antiphon_net::spawn(missing, Config::new(), ()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{rt:?}");
        assert!(error.to_string().contains("`no-such-program`"), "{error}");
    });
}

/// Answers the first call with a variable that cargo sets, and exits.
const SAYS_VARIABLE: &str =
    r#"read line; printf '{"jsonrpc":"2.0","result":"%s","id":1}\n' "$CARGO_MANIFEST_DIR""#;

fn a_child_that_was_started_again_had_the_whole_environment(rt: Rt) {
    rt.run(|_| async move {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SAYS_VARIABLE]).env_clear();
        let mut options = ClientConfig::from(Config::new());
        options.reconnect = ReconnectStrategy::Fixed {
            delay: Duration::from_millis(1),
            max_attempts: 10,
        };
        let client = antiphon_net::reconnect(command, options, ()).await;
        let client = client.expect("a client");
        for _ in 0..2 {
            client.wait_open(LONG).await.expect("it is open");
            let peer = client.peer().expect("a connection");
            let variable = peer.call::<String>("m", ()).timeout(LONG).await;
            assert_eq!(variable.expect("an answer"), "", "{rt:?}");
            peer.wait_closed(LONG).await.expect("it ends");
        }
    });
}

fn a_client_of_a_missing_command_tried_for_ever(rt: Rt) {
    rt.run(|_| async move {
        let missing = Command::new("no-such-program");
        let error = antiphon_net::reconnect(missing, Config::new(), ()).await;
        let error = error.expect_err("it gives up");
        assert!(error.to_string().contains("`no-such-program`"), "{error}");
        assert!(!error.is_retryable(), "{rt:?}");
    });
}

on_every_runtime! {
    a_child_that_was_started_again_had_the_whole_environment;
    a_client_of_a_missing_command_tried_for_ever;
    // USE-18
    what_a_child_said_was_gone_once_it_was_closed;
    a_dropped_child_is_killed_and_reaped;
    a_child_that_does_not_go_is_killed_in_the_end;
    ten_mebibytes_of_log_do_not_block_a_child_and_its_end_is_kept;
    a_missing_command_is_named;
}
