//! Replies over HTTP that are streams of events: what the client makes of them, and when it stops.
#![cfg(feature = "http")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon::{Config, McpRevision, Retry, SendError};
use antiphon_tokio::http::{
    HttpError, HttpRequest, HttpResponse, HttpSend, HttpSending, ReplyError, with_send,
};
use antiphon_tokio::{CallError, Client, ClientConfig, PartialResult, Style};
use futures_util::stream;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::http_client::{URL, accept, http_error, raw_client, response, result};
use crate::support::{Message, Raw};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
    transfer-encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";
const SECOND: Duration = Duration::from_secs(1);

fn mcp() -> Config {
    Config::mcp(McpRevision::V2025_11_25)
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn event(data: &str) -> String {
    chunk(&format!("event: message\ndata: {data}\n\n"))
}

/// The progress of a call whose request has this body.
fn progress(body: &str, step: u32) -> String {
    let body: Value = serde_json::from_str(body).expect("a request");
    let token = &body["params"]["_meta"]["progressToken"];
    assert!(token.is_string() || token.is_number(), "{body}");
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{step}}}}}"#
    )
}

fn updated(uri: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":1}},"uri":"{uri}"}}}}"#
    )
}

#[derive(Debug, Deserialize)]
struct Step {
    progress: u32,
}

#[derive(Debug, Deserialize)]
struct Updated {
    params: Uri,
}

#[derive(Debug, Deserialize)]
struct Uri {
    uri: String,
}

/// Begins a call with progress; the steps go into the channel.
fn call(
    client: &Client,
    steps: tokio::sync::mpsc::UnboundedSender<u32>,
) -> JoinHandle<Result<u32, CallError>> {
    let client = client.clone();
    tokio::spawn(async move {
        let call = client.call::<u32>("work", ());
        call.progress(|step: Step| steps.send(step.progress).expect("the test listens"))
            .await
    })
}

async fn request(server: &mut Raw) -> Message {
    let request = server.message().await.expect("a request");
    let accepted = "application/json, text/event-stream";
    assert_eq!(request.header("accept"), Some(accepted), "{}", request.head);
    request
}

// USE-14 HTP-08
#[tokio::test(start_paused = true)]
async fn progress_comes_before_the_answer_of_one_reply() {
    let (client, mut accepted) = raw_client(mcp()).await;
    let (heard, mut steps) = unbounded_channel();
    let calling = call(&client, heard);
    let mut server = accept(&mut accepted).await;
    let asked = request(&mut server).await;
    server.send(HEAD).await.unwrap();
    for step in 1..=3 {
        let said = chunk(": alive\n\n") + &event("") + &event(&progress(&asked.body, step));
        server.send(said).await.unwrap();
        assert_eq!(steps.recv().await, Some(step));
    }
    assert!(!calling.is_finished());
    // Steps that come with the answer in one read are heard before it, and others of the server ignored.
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let last = event(&progress(&asked.body, 4)) + &event(ping) + &event(&result(1)) + END;
    server.send(last).await.unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), 1);
    assert_eq!(steps.recv().await, Some(4));
    assert_eq!(steps.recv().await, None);
    // The body has ended, so the connection is used again, for a call whose events are not read.
    let other = client.clone();
    let calling = tokio::spawn(async move { other.call::<u32>("add", &[1]).await });
    let asked = request(&mut server).await;
    assert!(asked.body.contains(r#""id":2"#), "{}", asked.body);
    let answered = HEAD.to_owned() + &event(ping) + &event(&result(2)) + END;
    for byte in answered.as_bytes() {
        server.send([*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(calling.await.unwrap().unwrap(), 2);
    // The end of the body came after the answer, and the connection is used again all the same.
    let calling = tokio::spawn(async move { client.call::<u32>("add", &[1]).await });
    request(&mut server).await;
    server.send(response(200, "", &result(3))).await.unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), 3);
    assert!(accepted.try_recv().is_err(), "one connection is enough");
}

// USE-14
#[tokio::test(start_paused = true)]
async fn a_call_whose_progress_is_heard_takes_an_ordinary_reply_too() {
    let (client, mut accepted) = raw_client(mcp()).await;
    let (heard, _steps) = unbounded_channel();
    let mut server = None;
    for (status, body, said) in [
        (200, result(1), "Ok(1)"),
        // An answer makes up for a status, as it does without progress.
        (404, result(2), "Ok(2)"),
        (200, "<html>".to_owned(), "NoAnswer"),
        (503, "<html>".to_owned(), "Status { status: 503"),
        (200, String::new(), "Missing"),
        (204, String::new(), "Missing"),
    ] {
        let calling = call(&client, heard.clone());
        if server.is_none() {
            server = Some(accept(&mut accepted).await);
        }
        let server = server.as_mut().expect("a connection");
        request(server).await;
        server.send(response(status, "", &body)).await.unwrap();
        let ended = format!("{:?}", calling.await.unwrap());
        assert!(ended.contains(said), "{status} {body}: {ended}");
    }
}

// USE-14 USE-15
#[tokio::test(start_paused = true)]
async fn a_call_listens_over_http_and_dropping_the_stream_closes_the_exchange() {
    let config = Config::mcp(McpRevision::V2026_07_28);
    let (client, mut accepted) = raw_client(config).await;
    let call = client.call::<Value>("subscriptions/listen", ());
    let mut changes = call.listen::<Updated>();
    let listening = async {
        let mut uris = Vec::new();
        for _ in 0..2 {
            match changes.next().await {
                Some(Ok(PartialResult::Part(change))) => uris.push(change.params.uri),
                other => panic!("{other:?}"),
            }
        }
        uris
    };
    let serving = async {
        let mut server = accept(&mut accepted).await;
        request(&mut server).await;
        let first = HEAD.to_owned() + &event(&updated("a"));
        server.send(first).await.unwrap();
        // It has no timeout.
        sleep(3600 * SECOND).await;
        server.send(event(&updated("b"))).await.unwrap();
        server
    };
    let (uris, mut server) = tokio::join!(listening, serving);
    assert_eq!(uris, ["a", "b"]);
    drop(changes);
    let ended = timeout(SECOND, server.message()).await;
    assert!(ended.expect("the client hangs up at once").is_none());
}

// USE-14
#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_stops_the_reading_and_a_quick_one_loses_nothing() {
    const EVENTS: usize = 20_000;
    let config = Config::mcp(McpRevision::V2026_07_28);
    let (client, mut accepted) = raw_client(config).await;
    let mut changes = client
        .call::<Value>("subscriptions/listen", ())
        .listen::<Updated>();
    let serving = tokio::spawn(async move {
        let mut server = accept(&mut accepted).await;
        request(&mut server).await;
        server.send(HEAD).await.unwrap();
        let sent = Arc::new(Mutex::new(0));
        let count = Arc::clone(&sent);
        let sending = tokio::spawn(async move {
            for at in 0..EVENTS {
                server.send(event(&updated(&at.to_string()))).await.unwrap();
                *count.lock().unwrap() = at + 1;
            }
            server.send(event(&result(1)) + END).await.unwrap();
            server
        });
        (sent, sending)
    });
    let mut uris = 0..EVENTS;
    let mut take = async || match changes.next().await {
        Some(Ok(PartialResult::Part(change))) => {
            assert_eq!(
                Some(change.params.uri),
                uris.next().map(|at| at.to_string())
            );
            true
        }
        Some(Ok(PartialResult::Result(_))) => false,
        other => panic!("{other:?}"),
    };
    assert!(take().await);
    let (sent, sending) = serving.await.unwrap();
    sleep(60 * SECOND).await;
    let before = *sent.lock().unwrap();
    sleep(600 * SECOND).await;
    let after = *sent.lock().unwrap();
    assert_eq!(before, after, "nobody reads");
    // What the pipe holds, hyper, and the events of one turn.
    assert!(after < 2000, "{after} events were taken");
    while take().await {}
    assert_eq!(uris.next(), None);
    sending.await.unwrap();
}

// USE-14 CON-06
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_an_answer_is_an_error_and_only_an_idempotent_call_is_sent_again()
 {
    for is_cut in [true, false] {
        let options = ClientConfig::from(mcp()).with_retry(Retry::new());
        let (client, mut accepted) = raw_client(options).await;
        let other = client.clone();
        let calling = tokio::spawn(async move { other.call::<u32>("pay", ()).await });
        let mut server = accept(&mut accepted).await;
        request(&mut server).await;
        let note = event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
        let said = HEAD.to_owned() + &note + if is_cut { "" } else { END };
        server.send(&said).await.unwrap();
        drop(server);
        let error = http_error(calling.await.unwrap().expect_err("no answer came"));
        let HttpError::Lost(why) = &error else {
            panic!("{error:?}");
        };
        let is_told = why.to_string().contains("ended without an answer");
        assert_eq!(is_told, !is_cut, "{why}");
        assert!(accepted.try_recv().is_err(), "it may have been done");
        let calling = async { client.call::<u32>("get", ()).idempotent().await };
        let serving = async {
            let mut server = accept(&mut accepted).await;
            request(&mut server).await;
            server.send(&said).await.unwrap();
            drop(server);
            let mut server = accept(&mut accepted).await;
            let again = request(&mut server).await;
            server
                .send(
                    HEAD.to_owned()
                        + &event(&result(if again.body.contains(r#""id":3"#) {
                            3
                        } else {
                            2
                        })),
                )
                .await
                .unwrap();
            server
        };
        let (answer, _server) = tokio::join!(calling, serving);
        assert!(answer.is_ok(), "{answer:?}");
    }
}

// USE-14 CLI-14
#[tokio::test(start_paused = true)]
async fn comments_do_not_move_a_deadline_and_progress_does_if_it_is_asked_to() {
    let (client, mut accepted) = raw_client(mcp()).await;
    let begun = Instant::now();
    let calling = async {
        let call = client.call::<u32>("work", ()).timeout(10 * SECOND);
        call.progress(|_: Step| {}).await
    };
    let serving = async {
        let mut server = accept(&mut accepted).await;
        let asked = request(&mut server).await;
        server.send(HEAD).await.unwrap();
        loop {
            let said = chunk(": alive\n\n") + &event(&progress(&asked.body, 1));
            if server.send(said).await.is_err() {
                return;
            }
            sleep(SECOND).await;
        }
    };
    let (ended, ()) = tokio::join!(calling, serving);
    assert!(matches!(ended, Err(CallError::TimedOut)), "{ended:?}");
    assert!(begun.elapsed() < 12 * SECOND, "{:?}", begun.elapsed());

    // Each step begins the timeout anew, up to 35 s; comments do not.
    for (steps, ends_after) in [(3, 28), (100, 35)] {
        let begun = Instant::now();
        let calling = async {
            let call = client.call::<u32>("work", ()).timeout(10 * SECOND);
            let call = call.progress(|_: Step| {});
            let ended = call.extend_deadline(35 * SECOND).await;
            (ended, begun.elapsed())
        };
        let serving = async {
            let mut server = accept(&mut accepted).await;
            let asked = request(&mut server).await;
            server.send(HEAD).await.unwrap();
            for at in 1.. {
                sleep(6 * SECOND).await;
                let step = if at <= steps {
                    event(&progress(&asked.body, at))
                } else {
                    String::new()
                };
                if server.send(chunk(":\n") + &step).await.is_err() {
                    return;
                }
            }
        };
        let ((ended, took), ()) = tokio::join!(calling, serving);
        assert!(matches!(ended, Err(CallError::TimedOut)), "{ended:?}");
        assert_eq!(took.as_secs(), ends_after);
    }
}

// USE-14
#[tokio::test(start_paused = true)]
async fn an_event_over_the_limit_ends_the_call() {
    let (client, mut accepted) = raw_client(mcp().max_message_bytes(1000)).await;
    for progressing in [false, true] {
        let (heard, _steps) = unbounded_channel();
        let other = client.clone();
        let calling = match progressing {
            true => call(&client, heard),
            false => tokio::spawn(async move { other.call::<u32>("work", ()).await }),
        };
        let mut server = accept(&mut accepted).await;
        request(&mut server).await;
        server
            .send(HEAD.to_owned() + &chunk(&format!("data: {}", "x".repeat(2000))))
            .await
            .unwrap();
        let error = http_error(calling.await.unwrap().expect_err("it is too large"));
        let HttpError::Reply(ReplyError::TooLarge { max_bytes: 1000 }, reply) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(reply.status, 200);
        assert!(server.message().await.is_none(), "the client hangs up");
    }
}

// USE-14 HTP-08
#[tokio::test(start_paused = true)]
async fn what_follows_its_answer_is_refused_and_nothing_is_sent() {
    let (client, mut accepted) = raw_client(mcp()).await;
    let refused = client
        .subscribe::<Value>(Style::ETHEREUM, &["newHeads"])
        .await;
    assert!(
        matches!(refused, Err(CallError::Rejected(SendError::NoPush))),
        "{refused:?}"
    );
    assert!(accepted.try_recv().is_err());
    // A dialect without progress has none here either.
    let (client, _accepted) = raw_client(Config::new()).await;
    let refused = client.call::<u32>("work", ()).progress(|_: Step| {}).await;
    assert!(
        matches!(refused, Err(CallError::Rejected(SendError::Encode(_)))),
        "{refused:?}"
    );
}

// USE-14
#[tokio::test(start_paused = true)]
async fn the_answers_of_a_batch_may_come_one_by_one() {
    let (client, mut accepted) = raw_client(Config::new()).await;
    let calling = async {
        let batch =
            client.batch(|batch| Ok((batch.call::<u32>("a", ())?, batch.call::<u32>("b", ())?)));
        let ((a, b), mut outcomes) = batch.await.expect("it is answered");
        (outcomes.fetch(b), outcomes.fetch(a))
    };
    let serving = async {
        let mut server = accept(&mut accepted).await;
        request(&mut server).await;
        let said = HEAD.to_owned() + &event(&result(2)) + &event(&format!("[{}]", result(1)));
        server.send(said).await.unwrap();
        server
    };
    let ((b, a), mut server) = tokio::join!(calling, serving);
    assert!(matches!((a, b), (Ok(1), Ok(2))));
    // The body did not end with the answer, so nobody uses the connection again.
    assert!(server.message().await.is_none());
}

/// A sender of a program's own, whose replies come in these pieces and then stay open.
struct InPieces(Vec<&'static str>);

impl HttpSend for InPieces {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> HttpSending<'a> {
        assert_eq!(request.accept, "application/json, text/event-stream");
        let pieces = self.0.clone().into_iter().map(Ok::<_, Infallible>);
        Box::pin(async move {
            let mut response = HttpResponse::new(200, "");
            let media_type = if self.0[0].starts_with("data") {
                "text/event-stream"
            } else {
                "application/json"
            };
            response.headers.push("Content-Type", media_type.as_bytes());
            Ok(match media_type {
                "application/json" => response.with_pieces(stream::iter(pieces)),
                _ => response.with_pieces(stream::StreamExt::chain(
                    stream::iter(pieces),
                    stream::pending(),
                )),
            })
        })
    }
}

// USE-14 HTP-05
#[tokio::test(start_paused = true)]
async fn a_sender_of_the_program_may_give_a_body_in_pieces() {
    for pieces in [
        vec![
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n",
            "\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,",
            "\"result\":5}\n\n",
        ],
        vec!["{\"jsonrpc\":\"2.0\",", "\"id\":1,\"result\":5}"],
    ] {
        let client = with_send(URL, mcp().max_message_bytes(60), InPieces(pieces.clone()))
            .expect("a client");
        assert_eq!(client.call::<u32>("work", ()).await.unwrap(), 5);
        let client =
            with_send(URL, mcp().max_message_bytes(30), InPieces(pieces)).expect("a client");
        let error = http_error(
            client
                .call::<u32>("work", ())
                .await
                .expect_err("it is too large"),
        );
        assert!(
            matches!(error, HttpError::Reply(ReplyError::TooLarge { .. }, _)),
            "{error:?}"
        );
    }
    let with_reader = HttpResponse::new(200, "").with_reader(&b"0123456789"[..]);
    drop(with_reader);
}

// USE-14
#[tokio::test(start_paused = true)]
async fn a_burst_in_one_piece_is_not_too_quick_for_its_reader() {
    const EVENTS: usize = 5000;
    let event = |data: &str| format!("data: {data}\n\n");
    let events = (0..EVENTS).map(|at| event(&updated(&at.to_string())));
    let piece = events.collect::<String>() + &event(&result(1));
    let config = Config::mcp(McpRevision::V2026_07_28);
    let client = with_send(URL, config, InPieces(vec![piece.leak()])).expect("a client");
    let call = client.call::<Value>("subscriptions/listen", ());
    let mut changes = call.listen::<Updated>();
    for at in 0..EVENTS {
        match changes.next().await {
            Some(Ok(PartialResult::Part(change))) => assert_eq!(change.params.uri, at.to_string()),
            other => panic!("{at}: {other:?}"),
        }
    }
    let end = changes.next().await;
    assert!(matches!(end, Some(Ok(PartialResult::Result(_)))), "{end:?}");
}
