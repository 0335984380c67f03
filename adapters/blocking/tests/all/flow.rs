//! No thread waits for another: reading, writing, serving and deadlines go on independently.

use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::support::{ByHand, LONG, Scripted, Told, duplex, echo, within};
use antiphon::codes::ErrorKind;
use antiphon::{
    CancelStyle, CloseReason, Closed, Config, ConnectionError, OwnedOutcome, SendError,
};
use antiphon_blocking::{
    CallError, ConnectionConfig, Report, UnmatchedDetails, WhenFull, attach, serve, to_error,
};

/// Options with which our side waits only 20 ms for the end of the peer's stream.
fn hasty(config: Config) -> ConnectionConfig {
    let mut options = ConnectionConfig::from(config);
    options.linger = Duration::from_millis(20);
    options
}

// STD-10 TRN-07 D-08
#[test]
fn two_sides_that_both_write_more_than_the_pipes_hold_do_not_block_each_other() {
    within(LONG, || {
        let (left, right) = duplex(64);
        let left = attach(left, Config::new(), Scripted::new(echo).0).unwrap();
        let right = attach(right, Config::new(), Scripted::new(echo).0).unwrap();
        let text = "x".repeat(4000);
        // `left` and `right` are kept until the last caller is done, because a connection is closed
        // when its last handle is dropped.
        let callers: Vec<_> = [left.clone(), right.clone()]
            .into_iter()
            .flat_map(|peer| (0..4).map(move |n| (peer.clone(), n)))
            .map(|(peer, n)| {
                let text = text.clone();
                thread::spawn(move || {
                    for m in 0..20 {
                        let sent = (n, m, text.as_str());
                        let back: (u32, u32, String) = peer.call("echo", &sent).wait().unwrap();
                        assert_eq!((back.0, back.1, back.2.as_str()), sent);
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.join().unwrap();
        }
    });
}

#[test]
fn notifications_both_ways_beyond_every_buffer_all_arrive_in_order() {
    within(LONG, || {
        let mut config = Config::new();
        config.limits.soft_max_outbox_bytes = 1000;
        let (left, right) = duplex(64);
        let (ends, heard) = mpsc::channel();
        let side = |link: (crate::support::PipeReader, crate::support::PipeWriter)| {
            let ends = ends.clone();
            let mut next = 0;
            let service = Scripted::new(echo).0.hearing(move |_, notification| {
                let [n]: [u32; 1] = notification.params().unwrap();
                assert_eq!(n, next);
                next += 1;
                if next == 5000 {
                    ends.send(()).unwrap();
                }
            });
            attach(link, config, service).unwrap()
        };
        let (left, right) = (side(left), side(right));
        let other = thread::spawn(move || {
            (0..5000).for_each(|n| right.notify("n", &[n]).wait().unwrap());
            right
        });
        (0..5000).for_each(|n| left.notify("n", &[n]).wait().unwrap());
        let _right = other.join().unwrap();
        heard.recv().unwrap();
        heard.recv().unwrap();
    });
}

#[test]
fn a_peer_that_stops_reading_costs_only_what_is_said_to_it() {
    within(LONG, || {
        let mut config = Config::new();
        config.limits.soft_max_outbox_bytes = 100;
        config.timeouts.write_timeout = Some(Duration::from_millis(300));
        let (link, hand) = ByHand::pair(64);
        let (service, log) = Scripted::new(echo);
        let peer = attach(link, hasty(config), service).unwrap();
        let waiting = peer
            .call("early", ())
            .timeout(Duration::from_millis(50))
            .start()
            .wait()
            .unwrap();
        let text = ["x".repeat(200)];
        // One write is under way and blocked, the next messages fill the queue.
        peer.notify("n", &text).wait().unwrap();
        hand.reader.get_ref().wait_until_full();
        peer.notify("n", &text).wait().unwrap();
        assert_eq!(peer.try_notify("n", &text), Err(SendError::Full));
        let short = Some(Duration::from_millis(10));
        let called = peer.call::<()>("m", ()).timeout(short).wait();
        assert!(matches!(called, Err(CallError::Rejected(SendError::Full))));
        // Time goes on although the writer is blocked.
        assert_eq!(waiting.wait_outcome(), OwnedOutcome::TimedOut);
        assert!(peer.flush(Duration::from_millis(1)).wait().is_err());
        // In the end the write timeout closes the connection.
        let Report::Transport(fault) = log.report() else {
            panic!("no fault");
        };
        let error = to_error(&fault);
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        // The same timeout holds in the core, for queued output, and in the driver, for the write
        // that is under way. The one that passes first gives the reason.
        let why = peer.wait_closed(LONG).wait().unwrap();
        let by_core = Closed::Failed(ConnectionError::WriteTimedOut);
        assert!(why == by_core || why == Closed::Local(CloseReason::TransportFailed));
        assert_eq!(peer.notify("n", ()).wait(), Err(SendError::Closed));
        drop(hand);
    });
}

// CLI-06
#[test]
fn a_peer_that_never_answers_costs_a_timeout_and_its_late_answer_is_reported() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (service, log) = Scripted::new(echo);
        let peer = attach(link, Config::new(), service).unwrap();
        let short = Some(Duration::from_millis(5));
        let called = peer.call::<()>("m", ()).timeout(short).wait();
        assert!(matches!(called, Err(CallError::TimedOut)));
        hand.hear();
        hand.say(r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
        let report = log.report();
        let Report::UnmatchedResponse {
            kind: UnmatchedDetails::Late(OwnedOutcome::Ok(_)),
            ..
        } = report
        else {
            panic!("{report}");
        };
        // The connection goes on.
        let answering = thread::spawn(move || {
            assert!(hand.hear().contains(r#""id":2"#));
            hand.say(r#"{"jsonrpc":"2.0","result":[2],"id":2}"#);
            hand
        });
        assert_eq!(peer.call::<[u8; 1]>("m", ()).wait().unwrap(), [2]);
        answering.join().unwrap();
    });
}

// STD-10 SRV-25 D-08 D-09
#[test]
fn answers_time_and_output_go_on_while_the_service_does_not_return() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (release, held) = mpsc::channel::<()>();
        let (entered, inside) = mpsc::channel();
        let (service, _log) = Scripted::new(move |_, _, reply| {
            entered.send(()).unwrap();
            let _ = held.recv();
            // By then the connection has closed.
            assert_eq!(reply.ok(&1), Err(SendError::Closed));
        });
        let mut config = Config::new();
        config.timeouts.drain_timeout = Some(Duration::from_millis(10));
        let peer = attach(link, hasty(config), service).unwrap();
        hand.say(r#"{"jsonrpc":"2.0","method":"hold","id":"a"}"#);
        inside.recv().unwrap();
        let calling = {
            let peer = peer.clone();
            thread::spawn(move || peer.call::<u8>("m", ()).wait())
        };
        hand.hear();
        hand.say(r#"{"jsonrpc":"2.0","result":3,"id":1}"#);
        assert_eq!(calling.join().unwrap().unwrap(), 3);
        let short = Some(Duration::from_millis(5));
        let called = peer.call::<()>("m", ()).timeout(short).wait();
        assert!(matches!(called, Err(CallError::TimedOut)));
        peer.close(CloseReason::Done);
        let why = peer.wait_closed(LONG).wait();
        assert_eq!(why, Some(Closed::Local(CloseReason::Done)));
        drop(release);
    });
}

// SRV-25 SRV-32 D-09
#[test]
fn sixty_four_handlers_that_all_call_back_at_once_are_all_answered() {
    within(LONG, || {
        let (left, right) = duplex(256);
        // The pool has 64 threads, and none of them goes on before all have begun.
        let together = Arc::new(Barrier::new(64));
        let (service, _log) = Scripted::new(move |_, request, reply| {
            let together = Arc::clone(&together);
            reply.spawn(move |reply| {
                let [n]: [u64; 1] = request.raw_params().unwrap().decode().unwrap();
                together.wait();
                let back: [u64; 1] = antiphon_blocking::Peer::of(&reply)
                    .call("echo", &[n])
                    .wait()
                    .unwrap();
                reply.ok(&back[0]).unwrap();
            });
        });
        let _server = attach(left, Config::new(), service).unwrap();
        let client = attach(right, Config::new(), Scripted::new(echo).0).unwrap();
        let calls: Vec<_> = (0..64_u64)
            .map(|n| {
                client
                    .call("ask", &[n])
                    .timeout(LONG)
                    .start()
                    .wait()
                    .unwrap()
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.wait::<u64>().unwrap(), n as u64);
        }
    });
}

// SRV-25
#[test]
fn a_flood_beyond_the_limit_is_refused_and_our_own_answers_still_flow() {
    within(LONG, || {
        let mut config = Config::new();
        config.limits.max_open_requests = 4;
        let (link, mut hand) = ByHand::pair(1 << 20);
        let (held, holding) = mpsc::channel();
        let (service, log) = Scripted::new(move |_, _, reply| held.send(reply).unwrap());
        let peer = attach(link, config, service).unwrap();
        for n in 0..1000 {
            hand.say(&format!(r#"{{"jsonrpc":"2.0","method":"m","id":{n}}}"#));
        }
        let call = peer.call("ours", ()).timeout(LONG).start().wait().unwrap();
        // The answer comes after the flood.
        hand.say(r#"{"jsonrpc":"2.0","result":5,"id":1}"#);
        assert_eq!(call.wait::<u8>().unwrap(), 5);
        for _ in 0..4 {
            holding.recv().unwrap().ok("done").unwrap();
        }
        let (mut busy, mut done, mut asked) = (0, 0, 0);
        while busy + done + asked < 1001 {
            let line = hand.hear();
            busy += u32::from(line.contains("-32002"));
            done += u32::from(line.contains("done"));
            asked += u32::from(line.contains("ours"));
        }
        assert_eq!((busy, done, asked), (996, 4, 1));
        assert!(matches!(
            log.report(),
            Report::Refused {
                answered: Some(-32002),
                ..
            }
        ));
    });
}

// OBS-10
#[test]
fn a_service_too_slow_for_its_notifications_is_told_how_many_it_missed() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1 << 20);
        let (entered, inside) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let (service, log) = Scripted::new(echo);
        let mut seen = 0;
        let service = service.hearing(move |_, notification| match notification.method() {
            "hold" => {
                entered.send(seen).unwrap();
                held.recv().unwrap();
            }
            "last" => entered.send(seen).unwrap(),
            _ => seen += 1,
        });
        let mut options = ConnectionConfig::from(Config::new());
        options.max_queued_messages = 10;
        options.when_full = WhenFull::Drop;
        let peer = attach(link, options, service).unwrap();
        hand.say(r#"{"jsonrpc":"2.0","method":"hold"}"#);
        inside.recv().unwrap();
        for _ in 0..100 {
            hand.say(r#"{"jsonrpc":"2.0","method":"n"}"#);
        }
        // When this answer has been read, all notifications before it have been, too.
        let call = peer.call("ours", ()).timeout(LONG).start().wait().unwrap();
        hand.say(r#"{"jsonrpc":"2.0","result":5,"id":1}"#);
        call.wait::<u8>().unwrap();
        release.send(()).unwrap();
        assert!(matches!(log.report(), Report::Dropped { messages: 90 }));
        hand.say(r#"{"jsonrpc":"2.0","method":"last"}"#);
        assert_eq!(inside.recv().unwrap(), 10);
    });
}

// SEC-11
#[test]
fn requests_that_wait_hold_only_so_many_bytes_and_one_always_fits() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1 << 20);
        let (entered, inside) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let (service, log) = Scripted::new(move |_, _, reply| {
            entered.send(()).unwrap();
            held.recv().unwrap();
            reply.ok("served").unwrap();
        });
        // A request has about 260 bytes: two fit, of which one runs and one waits.
        let mut options = ConnectionConfig::from(Config::new());
        options.max_queued_bytes = 600;
        options.when_full = WhenFull::Drop;
        let _peer = attach(link, options, service).unwrap();
        let request = |id: u32, bytes: usize| {
            let text = "x".repeat(bytes);
            format!(r#"{{"jsonrpc":"2.0","method":"m","params":["{text}"],"id":{id}}}"#)
        };
        hand.say(&request(1, 200));
        inside.recv().unwrap();
        hand.say(&request(2, 200));
        hand.say(&request(3, 200));
        let refused = hand.hear();
        assert!(
            refused.contains("-32002") && refused.contains(r#""id":3"#),
            "{refused}"
        );
        release.send(()).unwrap();
        release.send(()).unwrap();
        assert!(hand.hear().ends_with(r#""result":"served","id":1}"#));
        assert!(hand.hear().ends_with(r#""result":"served","id":2}"#));
        assert!(matches!(log.report(), Report::QueueFull(_)));
        // While nothing waits, a request is taken that is larger than the limit.
        hand.say(&request(4, 1000));
        release.send(()).unwrap();
        assert!(hand.hear().ends_with(r#""result":"served","id":4}"#));
    });
}

// TRN-07
#[test]
fn what_a_handler_tells_comes_before_its_result_and_is_served_before_it() {
    within(LONG, || {
        let (left, right) = duplex(100);
        let (service, _log) = Scripted::new(|peer, _, reply| {
            for n in 0..100 {
                peer.notify("tick", &[n]).wait().unwrap();
            }
            reply.ok(&100).unwrap();
        });
        let _server = attach(left, Config::new(), service).unwrap();
        let (ticks, seen) = mpsc::channel();
        let ends = ticks.clone();
        let service = Scripted::new(echo).0.hearing(move |_, notification| {
            let [n]: [u32; 1] = notification.params().unwrap();
            ticks.send(n).unwrap();
        });
        let client = attach(right, Config::new(), service).unwrap();
        client
            .call("emit", ())
            .timeout(LONG)
            .then(move |outcome| {
                assert!(matches!(outcome, OwnedOutcome::Ok(n) if n.as_str() == "100"));
                // Stands for the result among the numbers of the ticks.
                ends.send(1000).unwrap();
            })
            .wait()
            .unwrap();
        let expected = (0..100).chain([1000]);
        assert!(expected.eq(seen.iter().take(101)));
    });
}

// CAN-09
#[test]
fn a_cancel_in_the_same_read_keeps_its_request_from_ever_starting() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (service, log) = Scripted::new(|_, request, reply| {
            assert_eq!(request.method(), "wanted");
            reply.ok(&1).unwrap();
        });
        let _peer = attach(link, Config::new(), service).unwrap();
        hand.say(concat!(
            r#"{"jsonrpc":"2.0","method":"unwanted","id":1}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"wanted","id":2}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#,
        ));
        assert!(hand.hear().contains(r#""code":-32001"#));
        assert_eq!(hand.hear(), r#"{"jsonrpc":"2.0","result":1,"id":2}"#);
        drop(hand);
        assert!(matches!(
            log.rest()[..],
            [Told::Opened, Told::Closed(Closed::EndOfInput)]
        ));
    });
}

// CAN-09 D-09
#[test]
fn a_cancel_reaches_a_request_that_waits_and_one_that_runs() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (entered, inside) = mpsc::channel();
        let (service, log) = Scripted::new(move |_, request, reply| {
            assert_eq!(request.method(), "runs");
            assert!(!reply.is_cancelled());
            assert!(!reply.cancellation().wait(Duration::ZERO));
            entered.send(reply.key()).unwrap();
            assert!(reply.cancellation().wait(LONG));
            assert!(reply.is_cancelled());
            reply.cancelled().unwrap();
        });
        let _peer = attach(
            link,
            Config::lsp().framing(antiphon::Framing::Newline),
            service,
        )
        .unwrap();
        hand.say(r#"{"jsonrpc":"2.0","method":"runs","id":1}"#);
        let key = inside.recv().unwrap();
        hand.say(r#"{"jsonrpc":"2.0","method":"waits","id":2}"#);
        hand.say(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#);
        let waited = hand.hear();
        assert!(
            waited.contains("-32800") && waited.contains(r#""id":2"#),
            "{waited}"
        );
        hand.say(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#);
        let ran = hand.hear();
        assert!(ran.contains("-32800") && ran.contains(r#""id":1"#), "{ran}");
        assert!(matches!(log.next(), Told::Opened));
        assert!(matches!(log.next(), Told::Cancelled(told, None) if told == key));
    });
}

// CAN-09 D-09
#[test]
fn a_cancel_keeps_what_waits_in_the_same_batch_from_ever_starting() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (entered, inside) = mpsc::channel();
        let (service, log) = Scripted::new(move |_, request, reply| {
            let method = request.method();
            entered.send(method.to_owned()).unwrap();
            assert_ne!(method, "waits");
            if method == "runs" {
                assert!(reply.cancellation().wait(LONG));
            }
            reply.ok(method).unwrap();
        });
        let _peer = attach(link, Config::new(), service).unwrap();
        let call =
            |method: &str, id| format!(r#"{{"jsonrpc":"2.0","method":"{method}","id":{id}}}"#);
        let cancel = |id| {
            format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#)
        };
        let batch = [call("runs", 1), call("waits", 2), call("goes on", 3)];
        hand.say(&format!("[{}]", batch.join(",")));
        assert_eq!(inside.recv().unwrap(), "runs");
        hand.say(&cancel(2));
        hand.say(&cancel(1));
        let answers = hand.hear();
        let [ran, waited, went_on] =
            ["runs", "-32001", "goes on"].map(|wanted| answers.find(wanted));
        assert!(
            ran.is_some() && ran < waited && waited < went_on,
            "{answers}"
        );
        assert_eq!(inside.recv().unwrap(), "goes on");
        // The next batch is served as usual.
        let batch = [call("next", 4), call("last", 5)];
        hand.say(&format!("[{}]", batch.join(",")));
        let answers = hand.hear();
        assert!(
            answers.contains("next") && answers.contains("last"),
            "{answers}"
        );
        drop(hand);
        let told = log.rest();
        let cancelled = told
            .iter()
            .filter(|told| matches!(told, Told::Cancelled(..)));
        assert_eq!(cancelled.count(), 1, "{told:?}");
    });
}

#[test]
fn work_that_is_cancelled_while_it_waits_for_a_thread_never_starts() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let (entered, inside) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let (service, log) = Scripted::new(move |_, request, reply| {
            let (entered, held) = (entered.clone(), Arc::clone(&held));
            let method = request.method().to_owned();
            reply.spawn(move |reply| {
                assert_eq!(method, "runs");
                entered.send(()).unwrap();
                held.lock().unwrap().recv().unwrap();
                reply.ok(&1).unwrap();
            });
        });
        let mut options = ConnectionConfig::from(Config::new());
        options.pool = antiphon_blocking::Pool::new(1, 1);
        let _peer = attach(link, options, service).unwrap();
        hand.say(r#"{"jsonrpc":"2.0","method":"runs","id":1}"#);
        inside.recv().unwrap();
        hand.say(r#"{"jsonrpc":"2.0","method":"waits","id":2}"#);
        hand.say(r#"{"jsonrpc":"2.0","method":"is too much","id":3}"#);
        let refused = hand.hear();
        assert!(
            refused.contains("-32002") && refused.contains(r#""id":3"#),
            "{refused}"
        );
        hand.say(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#);
        assert!(matches!(log.next(), Told::Opened));
        assert!(matches!(log.report(), Report::NoCapacity(about) if about.method == "is too much"));
        assert!(matches!(log.next(), Told::Cancelled(..)));
        release.send(()).unwrap();
        assert_eq!(hand.hear(), r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
        assert!(hand.hear().contains("-32001"));
    });
}

#[test]
fn giving_a_pending_call_up_tells_the_peer_and_settles_nothing_else() {
    within(LONG, || {
        let mut config = Config::new();
        config.dialect.cancel_send = CancelStyle::Lsp;
        let (link, mut hand) = ByHand::pair(1000);
        let peer = attach(link, config, ()).unwrap();
        let dropped = peer.call("m", ()).no_timeout().start().wait().unwrap();
        let mut kept = peer.call("m", ()).no_timeout().start().wait().unwrap();
        hand.hear();
        hand.hear();
        drop(dropped);
        assert_eq!(
            hand.hear(),
            r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#
        );
        assert_eq!(kept.poll_outcome(Duration::from_millis(1)), None);
        peer.ask_cancel(kept.id()).unwrap();
        assert_eq!(
            hand.hear(),
            r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#
        );
        hand.say(r#"{"jsonrpc":"2.0","result":7,"id":2}"#);
        assert!(matches!(kept.poll_outcome(LONG), Some(OwnedOutcome::Ok(_))));
        // It has settled: nothing is left to cancel.
        drop(kept);
        peer.notify("end", ()).wait().unwrap();
        assert!(hand.hear().contains("end"));
    });
}

// CLI-17
#[test]
fn a_batch_is_one_message_and_every_outcome_is_fetched_by_its_handle() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let peer = attach(link, Config::new(), ()).unwrap();
        let answering = thread::spawn(move || {
            let batch = hand.hear();
            assert!(batch.starts_with('[') && batch.contains("note"), "{batch}");
            hand.say(concat!(
                r#"[{"jsonrpc":"2.0","error":{"code":1,"message":"no"},"id":2},"#,
                r#"{"jsonrpc":"2.0","result":3,"id":1}]"#
            ));
            hand
        });
        let ((sum, name, lost), mut outcomes) = peer
            .batch(|batch| {
                batch.notify("note", ())?;
                let sum = batch.call::<i32>("add", &(1, 2))?;
                let name = batch.call::<String>("name", ())?;
                Ok((sum, name, batch.call::<()>("lost", ())?))
            })
            .timeout(Duration::from_millis(300))
            .wait()
            .unwrap();
        let _hand = answering.join().unwrap();
        assert_eq!(outcomes.fetch(sum).unwrap(), 3);
        assert_eq!(outcomes.fetch(name).unwrap_err().to_string(), "no (1)");
        assert_eq!(outcomes.take(lost.call()), Some(OwnedOutcome::TimedOut));
        // A batch with params that are a scalar is refused, and so is an empty one.
        let refused = peer
            .batch(|batch| {
                batch.call::<()>("m", ())?;
                batch.call::<()>("m", &7)
            })
            .wait();
        assert!(matches!(
            refused,
            Err(CallError::Rejected(SendError::ParamsScalar))
        ));
        let empty = peer.batch(|_| Ok(())).wait();
        assert!(matches!(
            empty,
            Err(CallError::Rejected(SendError::BatchEmpty))
        ));
    });
}

// ERR-08
#[test]
fn every_way_for_a_call_to_fail_is_an_error_of_its_own() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(10_000);
        let peer = attach(link, hasty(Config::new()), ()).unwrap();
        let mut next = 0;
        let mut call = |answer: &str| {
            next += 1;
            let call = peer.call("m", ()).timeout(LONG).start().wait().unwrap();
            hand.hear();
            hand.say(&format!(r#"{{"jsonrpc":"2.0",{answer},"id":{next}}}"#));
            call.wait::<u8>().unwrap_err()
        };
        assert!(matches!(
            call(r#""error":{"code":-32601,"message":"Method not found"}"#),
            CallError::Remote(error) if error.as_error().kind() == ErrorKind::MethodNotFound
        ));
        assert!(matches!(call(r#""result":"text""#), CallError::Decode(_)));
        assert!(matches!(
            call(r#""result":1,"error":2"#),
            CallError::Invalid(_)
        ));
        let blank = peer.call::<()>("", ()).wait();
        assert!(matches!(
            blank,
            Err(CallError::Rejected(SendError::BlankMethod))
        ));
        let open = peer.call("m", ()).no_timeout().start().wait().unwrap();
        hand.hear();
        drop(hand);
        let lost = CallError::of(open.wait_outcome()).unwrap_err();
        assert!(matches!(lost, CallError::Closed) && lost.is_closed());
        let late = peer.call::<()>("m", ()).wait().unwrap_err();
        assert!(matches!(late, CallError::Rejected(SendError::Closed)) && late.is_closed());
    });
}

#[test]
fn a_serving_loop_blocks_until_its_connection_ends() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let serving = thread::spawn(move || serve(link, Config::new(), Scripted::new(echo).0));
        hand.say(r#"{"jsonrpc":"2.0","method":"echo","params":[1e2],"id":"a"}"#);
        assert_eq!(hand.hear(), r#"{"jsonrpc":"2.0","result":[1e2],"id":"a"}"#);
        drop(hand.writer);
        assert_eq!(serving.join().unwrap().unwrap(), Closed::EndOfInput);
    });
}

#[test]
fn a_peer_that_asks_and_does_not_read_is_cut_off_at_the_hard_limit() {
    within(LONG, || {
        let mut config = Config::new();
        config.limits.max_outbox_bytes = 10_000;
        let (link, mut hand) = ByHand::pair(100);
        let peer = attach(link, hasty(config), Scripted::new(echo).0).unwrap();
        let text = "x".repeat(500);
        let request = format!(r#"{{"jsonrpc":"2.0","method":"echo","params":["{text}"],"id":1}}"#);
        // Nobody reads any more once the connection is over, and writing then fails.
        while writeln!(hand.writer, "{request}").is_ok() && peer.closed().is_none() {}
        let why = Closed::Failed(ConnectionError::OutboxFull);
        assert_eq!(peer.closed(), Some(why));
        drop(hand);
        assert_eq!(peer.wait_closed(LONG).wait(), Some(why));
    });
}

/// A reader and a writer that panic.
struct Panics;

impl Read for Panics {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        panic!("on purpose")
    }
}

impl Write for Panics {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        panic!("on purpose")
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_transport_that_panics_ends_the_connection_and_nothing_else() {
    within(LONG, || {
        let reading = attach((Panics, io::sink()), hasty(Config::new()), ()).unwrap();
        let ended = Some(Closed::Local(CloseReason::TransportFailed));
        assert_eq!(reading.wait_closed(LONG).wait(), ended);
        let (silent, _open) = crate::support::pipe(1);
        let writing = attach((silent, Panics), hasty(Config::new()), ()).unwrap();
        let call = writing.call::<()>("m", ()).wait().unwrap_err();
        assert!(call.is_closed());
        assert_eq!(writing.wait_closed(LONG).wait(), ended);
        assert!(writing.transport_error().is_some());
    });
}

// CLI-07
#[test]
fn what_a_deadline_makes_be_said_is_written_though_nothing_else_happens() {
    within(LONG, || {
        let (link, mut hand) = ByHand::pair(1000);
        let mut config = Config::new();
        config.dialect.cancel_send = CancelStyle::Lsp;
        config.dialect.cancel_on_timeout = true;
        let peer = attach(link, config, ()).unwrap();
        let slow = peer
            .call::<()>("slow", ())
            .timeout(Duration::from_millis(10))
            .wait();
        assert!(matches!(slow, Err(CallError::TimedOut)));
        assert!(hand.hear().contains("slow"));
        assert!(hand.hear().contains("$/cancelRequest"));
    });
}
