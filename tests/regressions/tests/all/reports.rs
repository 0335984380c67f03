//! Requests that ended without a report, or with one that did not name the request. The tests are
//! named after the fault, and assert that it is gone.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use antiphon::Config;
use antiphon::OwnedError;
use antiphon::session::{Report, Severity, WhenFull};
use antiphon_net::{Answer, ConnectionConfig, Pool, Request};
use antiphon_regressions::board::{Server, request};
use antiphon_regressions::served::EVERYWHERE;
use antiphon_regressions::{LONG, Rt, on_every_runtime};

/// Makes the mistake that the method names, and passes on the reports.
#[derive(Clone)]
struct Wrong(Sender<Report>);

impl Wrong {
    fn serve(&self, request: &Request) -> Answer {
        match request.method() {
            "forget" => drop(request.defer()),
            "panic" => panic!("as the test wants it"),
            "panic with the responder" => {
                let _reply = request.defer();
                panic!("as the test wants it");
            }
            "panic on a thread" => {
                let reply = request.defer();
                reply.spawn(|_reply| panic!("as the test wants it"));
            }
            "forget to defer" => {}
            _ => return 1.into(),
        }
        Answer::deferred()
    }
}

impl antiphon_blocking::Service for Wrong {
    fn request(
        &mut self,
        _: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        Ok(self.serve(request))
    }

    fn report(&mut self, _: &antiphon_blocking::Peer, report: Report) {
        // The test may be over.
        let _ = self.0.send(report);
    }
}

impl antiphon_net::Service for Wrong {
    async fn request(
        &self,
        _: &antiphon_net::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        Ok(self.serve(request))
    }

    fn report(&self, _: &antiphon_net::Peer, report: Report) {
        // The test may be over.
        let _ = self.0.send(report);
    }
}

/// The methods of [`Wrong`], in the order in which they are called.
const WRONG: [&str; 5] = [
    "forget",
    "forget to defer",
    "panic",
    "panic with the responder",
    "panic on a thread",
];

/// The report about the call that was made `nth`, which must be the next one.
fn check(reports: &Receiver<Report>, nth: usize) {
    let report = reports.recv_timeout(LONG).expect("a report");
    let said = report.to_string();
    let (request, is_panic) = match report {
        Report::Unanswered(request) => (request, false),
        Report::Panicked(request) => (request.expect("a request"), true),
        _ => panic!("{said}"),
    };
    let method = WRONG[nth];
    assert_eq!(is_panic, method.starts_with("panic"), "{said}");
    assert_eq!(request.method, method);
    let id = request.id.expect("the id of a request");
    assert_eq!(id.to_string(), (nth + 1).to_string());
    assert!(request.duration < LONG, "{said}");
    let words = format!("{method} (id {})", nth + 1);
    assert!(said.contains(&words) && said.ends_with(" ms"), "{said}");
}

// USE-17
#[test]
fn nobody_was_told_which_request_was_left_without_an_answer_on_threads() {
    use antiphon_blocking::{Link, attach};
    let (told, reports) = channel();
    let (near, far) = Link::pair();
    let _server = attach(far, Config::new(), Wrong(told)).expect("a thread");
    let peer = attach(near, Config::new(), ()).expect("a thread");
    for (nth, method) in WRONG.into_iter().enumerate() {
        peer.call::<u8>(method, ()).wait().expect_err("no answer");
        check(&reports, nth);
    }
    assert_eq!(peer.call::<u8>("well", ()).wait().expect("it goes on"), 1);
    let more = reports.recv_timeout(Duration::from_millis(50));
    assert!(more.is_err(), "one report for each: {more:?}");
}

macro_rules! on_tasks {
    ($name:ident, $adapter:ident) => {
        async fn $name() {
            use $adapter::{Link, attach};
            let (told, reports) = channel();
            let (near, far) = Link::pair();
            let _server = attach(far, Config::new(), Wrong(told));
            let peer = attach(near, Config::new(), ());
            for method in WRONG {
                peer.call::<u8>(method, ()).await.expect_err("no answer");
                // The server's task may have to go on before it reports.
                assert_eq!(peer.call::<u8>("well", ()).await.expect("it goes on"), 1);
                let mut at = 0;
                let report = loop {
                    if let Ok(report) = reports.try_recv() {
                        break report;
                    }
                    at += 1;
                    assert!(at < 10_000, "no report about {method}");
                    let _: u8 = peer.call("well", ()).await.expect("it goes on");
                };
                let said = report.to_string();
                assert!(said.contains(method) && said.contains("(id "), "{said}");
                assert!(said.ends_with(" ms"), "{said}");
            }
            assert!(reports.try_recv().is_err(), "one report for each");
        }
    };
}

on_tasks!(on_tokio, antiphon_tokio);
on_tasks!(on_futures, antiphon_async_std);

on_every_runtime! {
    nobody_was_told_which_request_was_left_without_an_answer;
    the_answer_to_a_cancelled_call_was_reported_as_unmatched;
}

// USE-17
fn nobody_was_told_which_request_was_left_without_an_answer(rt: Rt) {
    rt.run(|_| async move {
        match rt {
            Rt::Tokio | Rt::TokioLocal => on_tokio().await,
            Rt::Smol | Rt::AsyncStd => on_futures().await,
        }
    });
}

/// Keeps a thread of the pool with each request until it is cancelled.
struct OnThreads(Sender<Report>);

impl antiphon_blocking::Service for OnThreads {
    fn request(
        &mut self,
        _: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        request.defer().spawn(|reply| {
            reply.cancellation().wait(LONG);
        });
        Ok(Answer::deferred())
    }

    fn report(&mut self, _: &antiphon_blocking::Peer, report: Report) {
        // The test may be over.
        let _ = self.0.send(report);
    }
}

// USE-17
#[test]
fn nobody_was_told_which_request_was_refused() {
    use antiphon_blocking::{Link, attach};
    let (told, reports) = channel();
    let mut options = ConnectionConfig::from(Config::new());
    options.pool = Pool::new(1, 0);
    options.when_full = WhenFull::Drop;
    options.max_queued_bytes = 1000;
    let (near, far) = Link::pair();
    let _server = attach(far, options, OnThreads(told)).expect("a thread");
    let peer = attach(near, Config::new(), ()).expect("a thread");
    let _held = peer
        .call("hold", ())
        .timeout(LONG)
        .start()
        .wait()
        .expect("sent");
    peer.call::<u8>("one too many", ())
        .wait()
        .expect_err("busy");
    let report = reports.recv_timeout(LONG).expect("a report");
    let said = report.to_string();
    assert!(matches!(report, Report::NoCapacity(_)), "{said}");
    assert!(said.contains("one too many (id 2)"), "{said}");
    peer.call::<u8>("too large", &["x".repeat(2000)])
        .wait()
        .expect_err("busy");
    let report = reports.recv_timeout(LONG).expect("a report");
    let said = report.to_string();
    assert!(matches!(report, Report::QueueFull(_)), "{said}");
    assert!(said.contains("too large (id 3)"), "{said}");
}

// USE-37 SRV-27 USE-17
#[test]
fn a_request_for_a_method_that_nobody_serves_was_not_reported() {
    for on in EVERYWHERE {
        for reports in [true, false] {
            let mut options = ConnectionConfig::from(Config::new());
            assert!(options.report_unserved, "by default");
            options.report_unserved = reports;
            let server = Server::start(on, options);
            let mut peer = server.connect();
            for id in (0..20).chain(0..20) {
                peer.send_line(&request(&format!("none-{id}"), id));
                assert!(peer.line().contains("-32601"), "{on:?}");
            }
            peer.end();
            assert_eq!(peer.line(), "");
            server.board.wait_note("closed: EndOfInput", 1);
            let notes = server.board.notes();
            let said: Vec<_> = notes
                .iter()
                .filter(|note| note.contains("nobody serves"))
                .collect();
            if !reports {
                assert!(said.is_empty(), "{on:?} {said:?}");
                continue;
            }
            assert_eq!(said.len(), 17, "{on:?} {said:?}");
            for (id, said) in said[..16].iter().enumerate() {
                let name = format!("none-{id} (id {id})");
                assert!(said.contains(&name), "{on:?} {said}");
            }
            assert_eq!(
                said[16], "report: 24 more messages that nobody serves",
                "{on:?}"
            );
        }
    }
}

/// Reports of a router that serves nothing, and that refuses `secret`.
macro_rules! router {
    ($adapter:ident, $told:ident) => {
        $adapter::Router::new()
            .check(|_, request: &Request| match request.method() {
                "secret" => Err(OwnedError::new(1001, "Unauthorized")),
                _ => Ok(()),
            })
            .on_report(move |_, report| {
                // The test may be over.
                let _ = $told.send(report);
            })
    };
}

/// Checks the reports of the notifications `nobody` and `secret`.
fn check_notifications(reports: &Receiver<Report>) {
    for words in [
        "nobody serves it: nobody (notification)",
        "Unauthorized (1001): secret (notification)",
    ] {
        let report = reports.recv_timeout(LONG).expect("a report");
        let said = report.to_string();
        assert!(said.contains(words), "{said}");
        // Any stranger can cause it, so it is no error of this program.
        assert_eq!(report.severity(), Severity::Info, "{said}");
    }
}

// USE-37 SRV-27 USE-17
#[test]
fn a_notification_that_nobody_takes_was_silent_and_a_refused_one_an_error_on_threads() {
    use antiphon_blocking::{Link, attach};
    let (told, reports) = channel();
    let (near, far) = Link::pair();
    let router = router!(antiphon_blocking, told);
    let _server = attach(far, Config::new(), router).expect("a thread");
    let peer = attach(near, Config::new(), ()).expect("a thread");
    for method in ["nobody", "secret"] {
        peer.notify(method, ()).wait().expect("it is sent");
    }
    check_notifications(&reports);
}

macro_rules! notifications_on_tasks {
    ($name:ident, $adapter:ident) => {
        async fn $name() -> Receiver<Report> {
            use $adapter::{Link, attach};
            let (told, reports) = channel();
            let (near, far) = Link::pair();
            let server = attach(far, Config::new(), router!($adapter, told));
            let peer = attach(near, Config::new(), ());
            for method in ["nobody", "secret"] {
                peer.notify(method, ()).await.expect("it is sent");
            }
            // The notifications come before the end of the stream.
            peer.drain();
            assert!(server.wait_closed(LONG).await.is_some());
            reports
        }
    };
}

notifications_on_tasks!(notify_on_tokio, antiphon_tokio);
notifications_on_tasks!(notify_on_futures, antiphon_async_std);

mod notifications {
    use super::*;

    on_every_runtime! {
        a_notification_that_nobody_takes_was_silent_and_a_refused_one_an_error;
    }

    // USE-37 SRV-27 USE-17
    fn a_notification_that_nobody_takes_was_silent_and_a_refused_one_an_error(rt: Rt) {
        let reports = rt.run(|_| async move {
            match rt {
                Rt::Tokio | Rt::TokioLocal => notify_on_tokio().await,
                Rt::Smol | Rt::AsyncStd => notify_on_futures().await,
            }
        });
        check_notifications(&reports);
    }
}

/// Never answers by itself: `slow` waits until it is cancelled.
#[derive(Clone, Copy)]
struct Slow;

impl antiphon_blocking::Service for Slow {
    fn request(
        &mut self,
        _: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        if request.method() != "slow" {
            return Ok(1.into());
        }
        request.defer().spawn(|reply| {
            reply.cancellation().wait(LONG);
            // The peer may be gone.
            let _ = reply.cancelled();
        });
        Ok(Answer::deferred())
    }
}

impl antiphon_net::Service for Slow {
    async fn request(
        &self,
        _: &antiphon_net::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        if request.method() == "slow" {
            std::future::pending::<()>().await;
        }
        Ok(1.into())
    }
}

/// A dialect in which a call whose time is over is cancelled at the peer.
fn cancelling() -> Config {
    Config::lsp().cancel_on_timeout(true)
}

const SOON: Duration = Duration::from_millis(20);

// CAN-05
#[test]
fn the_answer_to_a_cancelled_call_was_reported_as_unmatched_on_threads() {
    use antiphon_blocking::{Link, attach};
    let (told, reports) = channel();
    let (near, far) = Link::pair();
    let _server = attach(far, cancelling(), Slow).expect("a thread");
    let peer = attach(near, cancelling(), Wrong(told)).expect("a thread");
    let ended = peer.call::<u8>("slow", ()).timeout(SOON).wait();
    ended.expect_err("it is slow");
    let report = reports.recv_timeout(Duration::from_millis(300));
    assert!(report.is_err(), "{report:?}");
    assert_eq!(peer.call::<u8>("well", ()).wait().expect("it goes on"), 1);
}

macro_rules! cancelled_on_tasks {
    ($name:ident, $adapter:ident) => {
        async fn $name() {
            use $adapter::{Link, attach};
            let (told, reports) = channel();
            let (near, far) = Link::pair();
            let _server = attach(far, cancelling(), Slow);
            let peer = attach(near, cancelling(), Wrong(told));
            let ended = peer.call::<u8>("slow", ()).timeout(SOON).await;
            ended.expect_err("it is slow");
            // The answer to the cancel comes before those to these calls.
            for _ in 0..20 {
                assert_eq!(peer.call::<u8>("well", ()).await.expect("it goes on"), 1);
            }
            let report = reports.try_recv();
            assert!(report.is_err(), "{report:?}");
        }
    };
}

cancelled_on_tasks!(cancelled_on_tokio, antiphon_tokio);
cancelled_on_tasks!(cancelled_on_futures, antiphon_async_std);

// CAN-05
fn the_answer_to_a_cancelled_call_was_reported_as_unmatched(rt: Rt) {
    rt.run(|_| async move {
        match rt {
            Rt::Tokio | Rt::TokioLocal => cancelled_on_tokio().await,
            Rt::Smol | Rt::AsyncStd => cancelled_on_futures().await,
        }
    });
}
