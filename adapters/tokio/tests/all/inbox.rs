//! Messages that a program receives from an inbox.

use std::time::Duration;

use antiphon_net::duplex;
use antiphon_tokio::{
    CallError, CancelStyle, Closed, Config, ErrorObject, Inbox, InboxEvent, Link, Peer, Report,
    attach, inbox,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Both sides of a connection, and the inbox of the second.
fn sides() -> (Peer, Peer, Inbox) {
    let (near, far) = duplex(1 << 20);
    let config = Config::new().cancel_send(CancelStyle::Lsp);
    let near = attach(Link::new(near), config, ());
    let (far, inbox) = inbox(Link::new(far), config);
    (near, far, inbox)
}

/// The event in a few words.
fn word(event: &InboxEvent) -> String {
    match event {
        InboxEvent::Request(request) => format!("request {}", request.method()),
        InboxEvent::Notification(notification) => notification.method().to_owned(),
        InboxEvent::Report(report) => format!("report {report}"),
        InboxEvent::Closed(why) => format!("closed {why:?}"),
        other => format!("{other:?}"),
    }
}

// USE-19 USE-01
#[tokio::test(start_paused = true)]
async fn messages_are_received_in_the_order_in_which_they_came() {
    let (near, _far, mut inbox) = sides();
    let mut calls = Vec::new();
    for _ in 0..100 {
        calls.push(near.call("ask", ()).start().await.unwrap());
        near.notify("tell", ()).await.unwrap();
    }
    for _ in 0..100 {
        let Some(InboxEvent::Request(request)) = inbox.recv().await else {
            panic!("a request is next");
        };
        let id = request.id().expect("an answer is awaited").to_string();
        request.answer(Ok(id.into())).unwrap();
        assert_eq!(word(&inbox.recv().await.unwrap()), "tell");
    }
    for (at, call) in calls.into_iter().enumerate() {
        assert_eq!(call.result::<String>().await.unwrap(), (at + 1).to_string());
    }
    assert!(inbox.try_recv().is_none());
}

// USE-19
#[tokio::test(start_paused = true)]
async fn a_request_is_answered_from_anywhere_and_the_next_is_received_meanwhile() {
    let (near, far, mut inbox) = sides();
    let slow = near.call("slow", ()).start().await.unwrap();
    let Some(InboxEvent::Request(asked)) = inbox.recv().await else {
        panic!("a request is next");
    };
    let quick = near.call("quick", ()).start().await.unwrap();
    let Some(InboxEvent::Request(request)) = inbox.recv().await else {
        panic!("a request is next");
    };
    request
        .answer(Err(ErrorObject::internal_error().into()))
        .unwrap();
    assert!(matches!(
        quick.result::<()>().await,
        Err(CallError::Remote(_))
    ));
    tokio::spawn(async move {
        sleep(SECOND).await;
        asked.answer(Ok("at last".into())).unwrap();
    });
    assert_eq!(slow.result::<String>().await.unwrap(), "at last");
    // A call in the other direction is answered at once, by the service `()`.
    assert!(matches!(
        far.call::<()>("any", ()).await,
        Err(CallError::Remote(_))
    ));
}

// USE-19 CAN-09
#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_is_not_received_or_says_so() {
    let (near, _far, mut inbox) = sides();
    let first = near.call("first", ()).start().await.unwrap();
    let Some(InboxEvent::Request(request)) = inbox.recv().await else {
        panic!("a request is next");
    };
    near.ask_cancel(first.id()).unwrap();
    timeout(SECOND, request.cancellation())
        .await
        .expect("it is told");
    assert!(request.is_cancelled());
    drop(request);
    let error = first.result::<()>().await.unwrap_err();
    assert_eq!(error.remote().map(|error| error.code()), Some(-32001));
    // One waits in the inbox, one in its handler, and one in the connection, where it is cancelled.
    let calls = [
        near.call("a", ()).start().await.unwrap(),
        near.call("b", ()).start().await.unwrap(),
        near.call("c", ()).start().await.unwrap(),
    ];
    sleep(SECOND).await;
    near.ask_cancel(calls[2].id()).unwrap();
    sleep(SECOND).await;
    let a = inbox.try_recv().unwrap();
    assert_eq!(word(&a), "request a");
    sleep(SECOND).await;
    let b = inbox.try_recv().unwrap();
    assert_eq!(word(&b), "request b");
    sleep(SECOND).await;
    assert!(inbox.try_recv().is_none());
}

// USE-19 USE-02
#[tokio::test(start_paused = true)]
async fn what_is_not_received_waits_in_the_connection_and_then_in_the_peer() {
    let (mut raw, far) = tokio::io::duplex(1024);
    let mut options = antiphon_tokio::ConnectionConfig::from(Config::new());
    options.max_queued_messages = 10;
    let (_far, mut inbox) = inbox(Link::from_tokio(far), options);
    let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"tell\"}\n";
    let mut written = 0;
    // In the end the peer can write no more.
    while timeout(SECOND, raw.write_all(line)).await.is_ok() {
        written += 1;
        assert!(written < 10_000, "nothing holds the peer back");
    }
    let mut received = 0;
    while let Ok(event) = timeout(SECOND, inbox.recv()).await {
        assert_eq!(word(&event.unwrap()), "tell");
        received += 1;
    }
    // None was lost.
    assert!(received >= written, "{received} of {written}");
}

// USE-17 USE-19
#[tokio::test(start_paused = true)]
async fn the_end_comes_last_and_reports_are_counted_where_too_many_wait() {
    let (mut raw, far) = tokio::io::duplex(1 << 20);
    let (_far, mut inbox) = inbox(Link::from_tokio(far), Config::new());
    for _ in 0..100 {
        raw.write_all(b"what\n").await.unwrap();
    }
    raw.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"tell\"}\n")
        .await
        .unwrap();
    raw.shutdown().await.unwrap();
    let mut answers = String::new();
    raw.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.lines().count(), 100);
    sleep(SECOND).await;
    let mut events = Vec::new();
    while let Some(event) = inbox.recv().await {
        events.push(event);
    }
    let words: Vec<_> = events.iter().map(word).collect();
    let malformed = words
        .iter()
        .filter(|word| word.starts_with("report a malformed"));
    // 64 reports wait at most, and the other 36 are only counted.
    assert_eq!(malformed.count(), 64, "{words:?}");
    assert_eq!(
        words[64..],
        ["tell", "report 36 messages dropped", "closed EndOfInput"]
    );
    assert!(matches!(
        events[65],
        InboxEvent::Report(Report::Dropped { messages: 36 })
    ));
    assert!(matches!(events[66], InboxEvent::Closed(Closed::EndOfInput)));
    assert!(inbox.recv().await.is_none() && inbox.try_recv().is_none());
}

/// The number that a message has as its one parameter. A request is answered first.
fn number(event: InboxEvent) -> u32 {
    let [number] = match event {
        InboxEvent::Request(request) => {
            let params = request.params();
            request.answer(Ok(().into())).unwrap();
            params.unwrap()
        }
        InboxEvent::Notification(notification) => notification.params().unwrap(),
        other => panic!("{other:?}"),
    };
    number
}

// USE-19 USE-01
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_received_in_order_while_others_come_in() {
    const MESSAGES: u32 = 6000;
    let (near, _far, mut inbox) = sides();
    let told = tokio::spawn(async move {
        let mut calls = Vec::new();
        for at in 0..MESSAGES {
            match at % 2 {
                0 => near.notify("tell", &[at]).await.unwrap(),
                _ => calls.push(near.call("ask", &[at]).start().await.unwrap()),
            }
            if calls.len() == 50 {
                for call in calls.drain(..) {
                    call.result::<()>().await.unwrap();
                }
            }
        }
        near
    });
    for at in 0..MESSAGES {
        let event = timeout(10 * SECOND, inbox.recv()).await;
        assert_eq!(number(event.unwrap().unwrap()), at);
    }
    told.await.unwrap();
}
