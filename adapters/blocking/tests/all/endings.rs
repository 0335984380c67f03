//! However a connection ends, calls end, requests are answered or cancelled, and nothing panics or
//! hangs.

use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::{ByHand, LONG, Scripted, Told, duplex, echo, within};
use antiphon::{CloseReason, Closed, Config, ConnectionError, OwnedOutcome, SendError};
use antiphon_blocking::{CallError, ConnectionConfig, Link, Report, attach, serve};
use serde::{Serialize, Serializer};

/// Options with which our side waits only 20 ms for the end of the peer's stream.
fn hasty(config: Config) -> ConnectionConfig {
    let mut options = ConnectionConfig::from(config);
    options.linger = Duration::from_millis(20);
    options
}

// STD-09
#[test]
fn the_end_of_input_lets_open_requests_finish_and_then_ends_the_output() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (release, held) = mpsc::channel::<()>();
        let mut held = Some(held);
        let (service, log) = Scripted::new(move |_, _, reply| {
            let held = held.take().unwrap();
            reply.spawn(move |reply| {
                held.recv().unwrap();
                while antiphon_blocking::Peer::of(&reply).closed().is_none() {
                    thread::yield_now();
                }
                antiphon_blocking::Peer::of(&reply)
                    .notify("tick", &[1])
                    .wait()
                    .unwrap();
                let called = antiphon_blocking::Peer::of(&reply)
                    .call::<()>("m", ())
                    .wait();
                assert!(called.unwrap_err().is_closed());
                reply.ok("done").unwrap();
            });
        });
        let serving = thread::spawn(move || serve(link, Config::new(), service));
        hand.say(r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
        drop(hand.writer);
        assert!(matches!(log.next(), Told::Opened));
        release.send(()).unwrap();
        let (mut said, mut heard) = (hand.reader, String::new());
        said.read_to_string(&mut heard).unwrap();
        let lines: Vec<_> = heard.lines().collect();
        assert_eq!(
            lines,
            [
                r#"{"jsonrpc":"2.0","method":"tick","params":[1]}"#,
                r#"{"jsonrpc":"2.0","result":"done","id":1}"#
            ]
        );
        assert_eq!(serving.join().unwrap().unwrap(), Closed::EndOfInput);
        assert!(matches!(log.rest()[..], [Told::Closed(Closed::EndOfInput)]));
    });
}

// STD-09 CON-06
#[test]
fn an_input_cut_inside_a_message_is_told_and_fails_what_is_open() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (service, log) = Scripted::new(echo);
        let peer = attach(link, Config::new(), service).unwrap();
        let open = peer.call("m", ()).no_timeout().start().wait().unwrap();
        hand.hear();
        hand.writer
            .write_all(b"{\"jsonrpc\":\"2.0\",\"resu")
            .unwrap();
        drop(hand);
        assert!(matches!(open.wait::<()>(), Err(CallError::Closed)));
        let cut = Closed::Failed(ConnectionError::Truncated);
        assert_eq!(peer.wait_closed(LONG).wait(), Some(cut));
        assert!(matches!(log.rest()[..], [Told::Opened, Told::Closed(why)] if why == cut));
    });
}

// CON-06
#[test]
fn the_loss_of_a_connection_fails_every_open_call() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let peer = attach(link, Config::new(), ()).unwrap();
        let calls: Vec<_> = (0..10)
            .map(|_| peer.call("m", ()).no_timeout().start().wait().unwrap())
            .collect();
        let batch = {
            let peer = peer.clone();
            thread::spawn(move || {
                peer.batch(|batch| batch.call::<()>("b", ()))
                    .no_timeout()
                    .wait()
            })
        };
        (0..11).for_each(|_| drop(hand.hear()));
        drop(hand);
        for call in calls {
            assert_eq!(call.wait_outcome(), OwnedOutcome::Aborted);
        }
        let (handle, mut outcomes) = batch.join().unwrap().unwrap();
        assert_eq!(outcomes.take(handle.call()), Some(OwnedOutcome::Aborted));
    });
}

// CAN-12
#[test]
fn closing_gives_open_requests_up_and_drops_their_answers() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (held, holding) = mpsc::channel();
        let (service, log) = Scripted::new(move |_, _, reply| held.send(reply).unwrap());
        let peer = attach(link, hasty(Config::new()), service).unwrap();
        hand.say(r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
        hand.say(r#"{"jsonrpc":"2.0","method":"m","id":2}"#);
        let (one, two) = (holding.recv().unwrap(), holding.recv().unwrap());
        assert!(!one.is_cancelled());
        peer.close(CloseReason::GoingAway);
        assert!(one.cancellation().wait(LONG) && two.is_cancelled());
        assert_eq!(one.ok(&1), Err(SendError::Closed));
        drop(two);
        assert_eq!(hand.hear(), "");
        let why = Closed::Local(CloseReason::GoingAway);
        assert_eq!(peer.wait_closed(LONG).wait(), Some(why));
        let told = log.rest();
        assert!(
            matches!(told[..], [
                Told::Opened,
                Told::Cancelled(..),
                Told::Cancelled(..),
                Told::Closed(last)
            ] if last == why),
            "{told:?}"
        );
    });
}

/// A value that panics when it is serialized.
struct Bomb;

impl Serialize for Bomb {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("secret")
    }
}

// SRV-26 SEC-06
#[test]
fn whatever_a_handler_does_its_request_is_answered_and_the_service_lives_on() {
    within(LONG, || {
        let mut config = Config::new();
        config.limits.max_outbox_bytes = 5000;
        let (link, mut hand) = ByHand::pair(1 << 20);
        let (service, log) = Scripted::new(|_, request, reply| match request.method() {
            "panic" => panic!("secret"),
            "panic in work" => reply.spawn(|_| panic!("secret")),
            "panic in result" => reply.ok(&Bomb).unwrap(),
            "drop" => drop(reply),
            "too large" => {
                let refused = reply.ok(&"secret".repeat(1000));
                assert_eq!(refused, Err(SendError::TooLarge));
            }
            "no JSON" => {
                let keys = std::collections::BTreeMap::from([((1, 2), "secret")]);
                assert!(matches!(reply.ok(&keys), Err(SendError::Encode(_))));
            }
            _ => reply.ok("alive").unwrap(),
        });
        let service = service.hearing(|_, _| panic!("secret"));
        let _peer = attach(link, config, service).unwrap();
        let bad = [
            "panic",
            "panic in work",
            "panic in result",
            "drop",
            "too large",
            "no JSON",
        ];
        for method in bad {
            hand.say(r#"{"jsonrpc":"2.0","method":"note"}"#);
            hand.say(&format!(
                r#"{{"jsonrpc":"2.0","method":"{method}","id":1}}"#
            ));
            assert_eq!(
                hand.hear(),
                r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":1}"#,
                "{method}"
            );
            hand.say(r#"{"jsonrpc":"2.0","method":"fine","id":2}"#);
            assert_eq!(hand.hear(), r#"{"jsonrpc":"2.0","result":"alive","id":2}"#);
        }
        // One for each notification, which panics. One for each request: three panic, one is
        // dropped, and two have an answer that cannot be sent.
        let reports: Vec<_> = (0..bad.len() + 6).map(|_| log.report()).collect();
        let panics = |report: &&Report| matches!(report, Report::Panicked(_));
        let forgotten = |report: &&Report| matches!(report, Report::Unanswered { .. });
        assert_eq!(reports.iter().filter(panics).count(), 9, "{reports:?}");
        assert_eq!(reports.iter().filter(forgotten).count(), 1, "{reports:?}");
        let unsent = |report: &&Report| matches!(report, Report::AnswerRefused(..));
        assert_eq!(reports.iter().filter(unsent).count(), 2, "{reports:?}");
    });
}

#[test]
fn a_peer_that_closed_its_ears_is_an_error_and_no_panic() {
    within(LONG, || {
        let ((reader, writer), (their_reader, mut their_writer)) = duplex(1000);
        let (service, log) = Scripted::new(echo);
        let serving = thread::spawn(move || serve((reader, writer), hasty(Config::new()), service));
        drop(their_reader);
        their_writer
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"id\":1}\n")
            .unwrap();
        let error = serving.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let told = log.rest();
        let reports = told.iter().filter(|told| matches!(told, Told::Report(_)));
        assert_eq!(reports.count(), 1, "{told:?}");
        assert!(matches!(told.last(), Some(Told::Closed(_))));
    });
}

// CON-06
#[test]
fn what_the_peer_said_before_it_closed_its_ears_still_counts() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let peer = attach(link, Config::new(), ()).unwrap();
        let call = peer.call("m", ()).timeout(LONG).start().wait().unwrap();
        hand.hear();
        drop(hand.reader);
        // This write fails; the answer is still to come.
        peer.notify("n", ()).wait().unwrap();
        assert!(peer.flush(LONG).wait().is_err());
        hand.writer
            .write_all(b"{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":1}\n")
            .unwrap();
        assert_eq!(call.wait::<u8>().unwrap(), 1);
    });
}

/// A reader that waits, and fails when the test sends `()` or drops the sender.
struct Failing(Receiver<()>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

// TRN-09 CON-06
#[test]
fn a_read_error_is_told_unless_the_connection_was_meant_to_end() {
    within(LONG, || {
        for is_meant in [false, true] {
            let (fail, failing) = mpsc::channel();
            let (service, log) = Scripted::new(echo);
            let reader = Failing(failing);
            let peer = attach((reader, io::sink()), hasty(Config::new()), service).unwrap();
            let call = peer.call("m", ()).no_timeout().start().wait().unwrap();
            peer.flush(LONG).wait().unwrap();
            if is_meant {
                peer.close(CloseReason::Done);
            }
            fail.send(()).unwrap();
            assert!(matches!(call.wait::<()>(), Err(CallError::Closed)));
            peer.wait_closed(LONG).wait().unwrap();
            let told = log.rest();
            let io = |told: &&Told| matches!(told, Told::Report(Report::Transport(_)));
            assert_eq!(told.iter().filter(io).count(), usize::from(!is_meant));
            assert_eq!(peer.transport_error().is_none(), is_meant);
        }
    });
}

/// A writer that the test can still use.
struct Lent<W>(Arc<Mutex<W>>);

impl<W: Write> Write for Lent<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().flush()
    }
}

// TRN-08
#[test]
fn what_was_only_lent_is_not_closed() {
    within(LONG, || {
        let ((reader, writer), (mut their_reader, their_writer)) = duplex(1000);
        let writer = Arc::new(Mutex::new(writer));
        let lent = Lent(Arc::clone(&writer));
        drop(their_writer);
        let ended = serve((reader, lent), Config::new(), ()).unwrap();
        assert_eq!(ended, Closed::EndOfInput);
        writer.lock().unwrap().write_all(b"still").unwrap();
        let mut heard = [0; 5];
        their_reader.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"still");
    });
}

#[test]
fn a_handler_that_never_returns_does_not_keep_the_connection() {
    within(LONG, || {
        let mut config = Config::new();
        config.timeouts.drain_timeout = Some(Duration::from_millis(30));
        let (link, mut hand) = ByHand::pair(1000);
        let (release, held) = mpsc::channel::<()>();
        let (entered, inside) = mpsc::channel();
        let (service, _log) = Scripted::new(move |_, _, reply| {
            entered.send(()).unwrap();
            let _ = held.recv();
            drop(reply);
        });
        let serving = thread::spawn(move || serve(link, hasty(config), service));
        hand.say(r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
        inside.recv().unwrap();
        drop(hand.writer);
        assert_eq!(serving.join().unwrap().unwrap(), Closed::EndOfInput);
        let mut heard = String::new();
        hand.reader.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "");
        drop(release);
    });
}

#[test]
fn a_drain_finishes_what_is_open_and_takes_nothing_new() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (held, holding) = mpsc::channel();
        let (service, _log) = Scripted::new(move |_, _, reply| held.send(reply).unwrap());
        let peer = attach(link, hasty(Config::new()), service).unwrap();
        hand.say(r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
        let reply = holding.recv().unwrap();
        peer.drain();
        // A notification may belong to the request that is open.
        assert_eq!(peer.notify("n", ()).wait(), Ok(()));
        assert!(hand.hear().contains(r#""method":"n""#));
        hand.say(r#"{"jsonrpc":"2.0","method":"m","id":2}"#);
        assert!(hand.hear().contains("-32002"));
        assert_eq!(peer.wait_closed(Duration::from_millis(1)).wait(), None);
        reply.ok(&1).unwrap();
        assert_eq!(hand.hear(), r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
        assert_eq!(peer.wait_closed(LONG).wait(), Some(Closed::Drained));
        assert_eq!(hand.hear(), "");
    });
}

#[test]
fn dropping_the_last_handle_ends_the_connection_after_what_was_said() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(10);
        let peer = attach(link, Config::new(), ()).unwrap();
        let clone = peer.clone();
        drop(peer);
        let text = "x".repeat(1000);
        clone.notify("last words", &[text]).wait().unwrap();
        drop(clone);
        assert!(hand.hear().contains("last words"));
        assert_eq!(hand.hear(), "");
    });
}

#[test]
fn a_call_that_never_left_is_told_from_one_that_may_have_arrived() {
    within(LONG, || {
        let (link, hand) = ByHand::pair(10);
        let peer = attach(link, hasty(Config::new()), ()).unwrap();
        let begun = peer.call("m", ()).no_timeout().start().wait().unwrap();
        hand.reader.get_ref().wait_until_full();
        let queued = peer.call("m", ()).no_timeout().start().wait().unwrap();
        peer.close(CloseReason::Done);
        assert!(matches!(begun.wait::<()>(), Err(CallError::Closed)));
        let unsent = queued.wait::<()>().unwrap_err();
        assert!(matches!(unsent, CallError::Unsent) && unsent.is_closed());
    });
}

// STD-03
#[test]
fn a_lost_framing_ends_the_reading_but_not_the_answers() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (held, holding) = mpsc::channel();
        let (service, _log) = Scripted::new(move |_, _, reply| held.send(reply).unwrap());
        let peer = attach(link, hasty(Config::lsp()), service).unwrap();
        let body = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;
        let frame = format!(
            "Content-Length: {}\r\n\r\n{body}no header\r\n\r\n",
            body.len()
        );
        hand.writer.write_all(frame.as_bytes()).unwrap();
        let reply = holding.recv().unwrap();
        reply.ok(&1).unwrap();
        let why = peer.wait_closed(LONG).wait().unwrap();
        assert!(matches!(why, Closed::Failed(ConnectionError::Framing(_))));
        let mut heard = String::new();
        hand.reader.read_to_string(&mut heard).unwrap();
        assert!(heard.ends_with(r#""result":1,"id":1}"#), "{heard}");
    });
}

#[test]
fn a_link_is_hung_up_once_when_the_connection_ends() {
    within(LONG, || {
        let (hung, ended) = mpsc::channel();
        let (held, reader) = mpsc::channel();
        let link = Link::new(Failing(reader), io::sink()).with_hang_up(move || {
            hung.send(()).unwrap();
            drop(held);
        });
        let peer = attach(link, hasty(Config::new()), ()).unwrap();
        peer.close(CloseReason::Done);
        assert_eq!(ended.iter().count(), 1);
        assert_eq!(
            peer.wait_closed(LONG).wait(),
            Some(Closed::Local(CloseReason::Done))
        );
    });
}

#[test]
fn a_connection_that_is_never_run_keeps_nobody_waiting() {
    within(LONG, || {
        let (peer, driver) = antiphon_blocking::drive((io::empty(), io::sink()), Config::new(), ());
        let call = peer.call("m", ()).no_timeout().start().wait().unwrap();
        drop(driver);
        assert!(matches!(call.wait::<()>(), Err(CallError::Unsent)));
        assert!(peer.wait_closed(LONG).wait().is_some());
    });
}

// STD-09
#[test]
fn what_came_before_the_end_of_input_is_served_and_may_be_spoken_of() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (release, held) = mpsc::channel::<()>();
        let service = Scripted::new(echo).0.hearing(move |peer, notification| {
            held.recv().unwrap();
            peer.notify("heard", notification.raw_params())
                .wait()
                .unwrap();
        });
        let serving = thread::spawn(move || serve(link, Config::new(), service));
        hand.say(r#"{"jsonrpc":"2.0","method":"open","params":[1]}"#);
        hand.say(r#"{"jsonrpc":"2.0","method":"open","params":[2]}"#);
        hand.writer.finish();
        release.send(()).unwrap();
        release.send(()).unwrap();
        let mut heard = String::new();
        hand.reader.read_to_string(&mut heard).unwrap();
        assert_eq!(
            heard.lines().collect::<Vec<_>>(),
            [1, 2].map(|n| format!(r#"{{"jsonrpc":"2.0","method":"heard","params":[{n}]}}"#))
        );
        assert_eq!(serving.join().unwrap().unwrap(), Closed::EndOfInput);
    });
}

// CON-06
#[test]
fn a_handler_that_calls_a_peer_that_has_left_is_not_kept_waiting() {
    within(LONG, || {
        // The handler calls before the peer leaves, or after it.
        for calls_first in [true, false] {
            let (link, mut hand) = ByHand::pair(1000);
            let (ready, go) = mpsc::channel::<()>();
            let service = Scripted::new(echo).0.hearing(move |peer, _| {
                if !calls_first {
                    go.recv().unwrap();
                }
                let called = peer.call::<()>("ask", ()).no_timeout().wait();
                assert!(called.unwrap_err().is_closed());
            });
            let serving = thread::spawn(move || serve(link, Config::new(), service));
            hand.say(r#"{"jsonrpc":"2.0","method":"open"}"#);
            if calls_first {
                hand.hear();
            }
            hand.writer.finish();
            if !calls_first {
                ready.send(()).unwrap();
            }
            assert_eq!(serving.join().unwrap().unwrap(), Closed::EndOfInput);
        }
    });
}
