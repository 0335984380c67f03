//! Calls of threads over a socket: no thread waits for ever, and messages stay in order.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{LONG, Scripted, echo, within};
use antiphon::{Config, Framing, SendError};
use antiphon_blocking::{CallError, Context, Link, Peer, Request, Responder, TcpServer, attach};

/// In this time a message must have been handled. It is shorter than the timeouts of calls that are to be
/// answered.
const SOON: Duration = Duration::from_secs(2);

/// A client, and the server's end of its connection, which the test reads and writes.
fn client(service: Scripted) -> (Peer, BufReader<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let link = Link::tcp(listener.local_addr().unwrap()).unwrap();
    let peer = attach(link, Config::new(), service).unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    let reader = BufReader::new(stream.try_clone().unwrap());
    (peer, reader, stream)
}

/// Answers the requests one by one, each with its id as the result.
fn answer(mut reader: BufReader<TcpStream>, mut writer: TcpStream) {
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|n| n > 0) {
        let id = line.rsplit_once("\"id\":").unwrap().1;
        let id = id.trim_end().trim_end_matches('}');
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"result\":{id},\"id\":{id}}}\n");
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
        line.clear();
    }
}

#[test]
fn calls_from_many_threads_all_get_their_answers() {
    within(LONG, || {
        let (peer, reader, writer) = client(Scripted::new(echo).0);
        thread::spawn(move || answer(reader, writer));
        let callers: Vec<_> = (0..4)
            .map(|caller| {
                let peer = peer.clone();
                thread::spawn(move || {
                    for round in 0..500 {
                        peer.call::<u64>("m", ()).wait().unwrap();
                        // Pauses of 0 to 11 ms, so that the threads meet in many ways.
                        if round % 50 == caller {
                            thread::sleep(Duration::from_millis(round / 40));
                        }
                    }
                })
            })
            .collect();
        callers
            .into_iter()
            .for_each(|caller| caller.join().unwrap());
    });
}

#[test]
fn a_thread_that_waits_for_an_answer_is_told_of_the_end() {
    within(LONG, || {
        // The stream ends after a message, or inside one.
        for begun in ["", "{\"jsonrpc\":\"2.0\",\"res"] {
            let (peer, mut reader, mut writer) = client(Scripted::new(echo).0);
            let far = thread::spawn(move || {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                writer
                    .write_all(b"{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":1}\n")
                    .unwrap();
                // By the time the end comes, the caller waits.
                reader.read_line(&mut line).unwrap();
                thread::sleep(Duration::from_millis(1));
                writer.write_all(begun.as_bytes()).unwrap();
            });
            peer.call::<u64>("m", ()).wait().unwrap();
            let ended = peer.call::<u64>("m", ()).wait().unwrap_err();
            assert!(matches!(ended, CallError::Closed), "{ended}");
            far.join().unwrap();
            assert!(peer.wait_closed(SOON).wait().is_some());
        }
    });
}

#[test]
fn what_comes_after_an_answer_is_read_though_nobody_waits() {
    within(LONG, || {
        let (told, tells) = mpsc::channel();
        let service = Scripted::new(echo).0;
        let service = service.hearing(move |_, notification| {
            told.send(notification.method().to_owned()).unwrap();
        });
        let (peer, reader, mut writer) = client(service);
        let other = writer.try_clone().unwrap();
        thread::spawn(move || answer(reader, other));
        for _ in 0..50 {
            for _ in 0..3 {
                peer.call::<u64>("m", ()).wait().unwrap();
            }
            let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"news\"}\n";
            writer.write_all(line).unwrap();
            assert_eq!(tells.recv_timeout(SOON).unwrap(), "news");
        }
    });
}

#[test]
fn a_handler_that_takes_long_is_told_of_its_cancel_at_once() {
    within(LONG, || {
        let mut config = Config::lsp();
        config.framing = Framing::Newline;
        let server = TcpServer::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let (told, tells) = mpsc::channel();
        let make = move |_: &Context| {
            let told = told.clone();
            let serve = move |peer: &Peer, request: Request, reply: Responder| {
                match request.method() {
                    "quick" => reply.ok(&1).unwrap(),
                    // The service's thread waits for this answer.
                    "back" => reply
                        .ok(&peer.call::<[u8; 1]>("echo", &[7]).wait().unwrap())
                        .unwrap(),
                    _ => {
                        told.send("begun").unwrap();
                        assert!(reply.cancellation().wait(LONG));
                        told.send("cancelled").unwrap();
                        let _ = reply.cancelled();
                    }
                }
            };
            Scripted::new(serve).0
        };
        let _running = server.start(config, make).unwrap();
        let link = Link::tcp(address).unwrap();
        let peer = attach(link, config, Scripted::new(echo).0).unwrap();
        for _ in 0..20 {
            assert_eq!(peer.call::<u64>("quick", ()).wait().unwrap(), 1);
            assert_eq!(peer.call::<[u8; 1]>("back", ()).wait().unwrap(), [7]);
            let long = peer.call("long", ()).timeout(LONG).start().wait().unwrap();
            assert_eq!(tells.recv_timeout(SOON).unwrap(), "begun");
            drop(long);
            assert_eq!(tells.recv_timeout(SOON).unwrap(), "cancelled");
        }
    });
}

#[test]
fn a_call_ends_in_time_whatever_came_before() {
    within(LONG, || {
        let (peer, mut reader, mut writer) = client(Scripted::new(echo).0);
        let mut line = String::new();
        for span in [0, 1, 5, 30, 100] {
            // A call that is answered comes before.
            let calling = {
                let peer = peer.clone();
                thread::spawn(move || peer.call::<u64>("m", ()).wait())
            };
            while !line.contains("\"m\"") {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            // The id, and the `}` after it, which ends the answer too.
            let id = line.rsplit_once("\"id\":").unwrap().1.trim_end();
            writeln!(writer, "{{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":{id}").unwrap();
            assert_eq!(calling.join().unwrap().unwrap(), 1);
            let (before, span) = (Instant::now(), Duration::from_millis(span));
            line.clear();
            let timed = peer.call::<u64>("timed", ()).timeout(span).wait();
            assert!(matches!(timed, Err(CallError::TimedOut)), "{timed:?}");
            assert!(before.elapsed() >= span && before.elapsed() < span + SOON);
        }
    });
}

#[test]
fn a_peer_that_does_not_read_holds_up_no_caller_and_gets_everything_in_order() {
    within(LONG, || {
        let (peer, mut reader, _writer) = client(Scripted::new(echo).0);
        let text = "x".repeat(400_000);
        let mut begun = 0;
        // Until the output is full.
        loop {
            let timeout = Some(Duration::from_millis(20));
            match peer
                .call::<()>("m", &(begun, &text))
                .timeout(timeout)
                .wait()
            {
                Err(CallError::TimedOut) => begun += 1,
                Err(CallError::Rejected(SendError::Full)) => break,
                other => panic!("{other:?}"),
            }
        }
        // More than the 1 MiB that may be queued: the rest is in the socket.
        assert!(begun > 4, "{begun}");
        for number in 0..begun {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let wanted = format!("\"params\":[{number},\"{text}\"]");
            assert!(line.contains(&wanted), "{number}: {} bytes", line.len());
        }
    });
}
