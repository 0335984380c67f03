//! Real child processes.
#![cfg(unix)]

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{LONG, Scripted, Told, echo, within};
use antiphon::{Closed, Config};
use antiphon_blocking::{CallError, Child, ChildConfig, Report};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Whether there is a process with this id, even one that has exited and was not reaped.
fn exists(id: u32) -> bool {
    let mut probe = Command::new("kill");
    let probe = probe.args(["-0", &id.to_string()]).stderr(Stdio::null());
    probe.status().unwrap().success()
}

#[test]
fn a_child_is_spoken_to_over_its_standard_input_and_output() {
    within(LONG, || {
        // `cat` sends our request back to us; we answer it, and `cat` sends the answer back, too.
        let child = Child::spawn(Command::new("cat"), Config::lsp(), Scripted::new(echo).0);
        let child = child.unwrap();
        let text = "ü".repeat(300_000);
        let back: (String,) = child.peer().call("echo", &[&text]).wait().unwrap();
        assert_eq!(back.0, text);
        let status = child.close(LONG).unwrap();
        assert!(status.success());
    });
}

#[test]
fn ten_mebibytes_of_log_do_not_block_a_child_and_its_end_is_kept() {
    within(LONG, || {
        let script = "head -c 10485760 /dev/zero | tr '\\0' x >&2; printf end >&2; exec cat";
        let (seen, pieces) = mpsc::channel();
        let mut options = ChildConfig::from(Config::new());
        options.max_stderr_bytes = 100;
        options.on_stderr = Some(Box::new(move |piece| seen.send(piece.len()).unwrap()));
        let child = Child::spawn(shell(script), options, Scripted::new(echo).0).unwrap();
        // `cat` runs only after the whole log was written, which more than fills a pipe.
        assert_eq!(
            child.peer().call::<[u8; 1]>("echo", &[1]).wait().unwrap(),
            [1]
        );
        // 10 MiB, and the three bytes of `end`.
        let mut total = 0;
        while total < 10_485_763 {
            total += pieces.recv_timeout(LONG).unwrap();
        }
        assert_eq!(total, 10_485_763);
        let mut end = vec![b'x'; 97];
        end.extend(b"end");
        // A piece is kept after it was shown.
        while child.stderr() != end {
            std::thread::yield_now();
        }
        assert!(child.close(LONG).unwrap().success());
        assert!(pieces.recv().is_err());
    });
}

#[test]
fn the_end_of_a_log_is_there_to_be_shown() {
    within(LONG, || {
        let mut options = ChildConfig::from(Config::new());
        options.max_stderr_bytes = 8;
        let (seen, pieces) = mpsc::channel();
        options.on_stderr = Some(Box::new(move |piece| seen.send(piece.to_vec()).unwrap()));
        let script = "echo a long story with an >&2; echo end >&2";
        let child = Child::spawn(shell(script), options, ()).unwrap();
        // This ends when the thread that reads the log has ended, so all of it has been read.
        let all: Vec<u8> = pieces.iter().flatten().collect();
        assert_eq!(all, b"a long story with an\nend\n");
        assert_eq!(child.stderr(), b" an\nend\n");
    });
}

#[test]
fn a_child_is_killed_and_reaped_when_its_handle_is_dropped() {
    within(LONG, || {
        let child = Child::spawn(shell("exec sleep 1000"), Config::new(), ()).unwrap();
        let (id, peer) = (child.id(), child.peer().clone());
        assert!(exists(id));
        assert_eq!(child.wait(Duration::from_millis(5)).unwrap(), None);
        let call = peer.call("m", ()).no_timeout().start().wait().unwrap();
        drop(child);
        assert!(!exists(id));
        assert!(matches!(
            call.wait::<()>(),
            Err(CallError::Closed | CallError::Unsent)
        ));
        peer.wait_closed(LONG).wait().unwrap();
    });
}

// CON-06
#[test]
fn the_exit_status_of_a_child_is_told_and_its_calls_fail() {
    within(LONG, || {
        let (service, log) = Scripted::new(echo);
        let child = Child::spawn(shell("read line; exit 7"), Config::new(), service).unwrap();
        let called = child.peer().call::<()>("m", ()).wait();
        assert!(matches!(called, Err(CallError::Closed)), "{called:?}");
        assert_eq!(child.wait(LONG).unwrap().unwrap().code(), Some(7));
        assert_eq!(
            child.peer().wait_closed(LONG).wait(),
            Some(Closed::EndOfInput)
        );
        // The status can be asked for again.
        assert_eq!(child.close(LONG).unwrap().code(), Some(7));
        assert!(matches!(
            log.rest().last(),
            Some(Told::Closed(Closed::EndOfInput))
        ));
    });
}

#[test]
fn a_child_that_does_not_go_is_killed_in_the_end() {
    within(LONG, || {
        let child = Child::spawn(shell("exec sleep 1000"), Config::new(), ()).unwrap();
        let id = child.id();
        let status = child.close(Duration::from_millis(20)).unwrap();
        assert_eq!(status.code(), None);
        assert!(!exists(id));
    });
}

// STD-07
#[test]
fn a_child_that_prints_what_is_no_message_is_told_of_and_lives_on() {
    within(LONG, || {
        let (service, log) = Scripted::new(echo);
        let child = Child::spawn(shell("echo Starting...; exec cat"), Config::new(), service);
        let child = child.unwrap();
        let Report::Malformed { text, answered, .. } = log.report() else {
            panic!("another report");
        };
        assert_eq!(text, b"Starting...");
        assert_eq!(answered, Some(-32700));
        assert_eq!(
            child.peer().call::<[u8; 1]>("echo", &[1]).wait().unwrap(),
            [1]
        );
    });
}

#[test]
fn a_missing_command_is_named() {
    let error = Child::spawn(Command::new("no-such-program"), Config::new(), ()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("cannot start `no-such-program`"));
}
