//! Language servers and tool servers: their end, cancels and timeouts. The tests are named after the fault,
//! and assert that it is gone.

use std::future::pending;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use antiphon::session::Report;
use antiphon::{AcpVersion, Config, Json, McpRevision, Method, OwnedError, OwnedOutcome};
use antiphon_lsp::types::{
    ConfigurationParams, ConfigurationRequest, DidChangeTextDocumentNotification,
    InitializeRequest, InitializeResult, InitializedNotification, InitializedParams,
    PositionEncodingKind, ShutdownRequest,
};
use antiphon_lsp::{LanguageServer, LspPeer, apply_changes};
use antiphon_net::{
    Answer, CallError, ConnectionConfig, Link, Notification, Peer, Request, Router, Service,
    SharedRuntime, drive_on,
};
use antiphon_regressions::{LONG, Rt, on_every_runtime};

on_every_runtime! {
    shutdown_and_exit_waited_for_a_handler_that_waits_for_the_editor;
    exit_waited_for_a_handler_that_never_ends;
    messages_behind_a_slow_handler_waited_and_nobody_was_told_for_which;
    a_call_that_timed_out_ran_on_at_its_peer;
    a_change_with_an_invalid_range_replaced_the_whole_document;
    work_on_the_pool_had_no_context;
    the_revision_of_mcp_was_fixed_before_initialize;
}

/// Runs `service` at one end of a connection, and returns its other side.
fn attach(runtime: &SharedRuntime, link: Link, config: Config, service: impl Service) -> Peer {
    let config = ConnectionConfig::from(config);
    let (peer, driver) = drive_on(link, config, Arc::new(service), runtime);
    runtime.spawn(Box::pin(async move {
        // The tests look at how the connection ends through its peers.
        let _ = driver.await;
    }));
    peer
}

/// An editor that answers nothing.
struct Silent;

impl Service for Silent {
    async fn request(&self, _: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        pending().await
    }
}

/// A server whose handler of `initialized` waits for an answer of the editor, and the reports of it.
fn server() -> (LanguageServer, Receiver<Report>) {
    let (told, reports) = channel();
    let router = Router::new().on_report(move |_, report| {
        // The test may be over.
        let _ = told.send(report);
    });
    let server = LanguageServer::from(router)
        .on::<InitializeRequest>(|_, _| async { Ok(InitializeResult::default()) })
        .on_notification::<InitializedNotification>(|_, call| async move {
            let asked = ConfigurationParams::new(Vec::new());
            let call = call.peer();
            // Nobody answers.
            let _ = call.request::<ConfigurationRequest>(&asked).await;
            Ok(())
        });
    (server, reports)
}

/// Begins a conversation with `server`, up to `initialized`,
/// and returns the editor's side and the server's.
async fn initialized(runtime: &SharedRuntime, server: &LanguageServer) -> (Peer, Peer) {
    let (near, far) = Link::pair();
    let served = attach(runtime, far, Config::lsp(), server.clone());
    let editor = attach(runtime, near, Config::lsp(), Silent);
    let offers = editor.request::<InitializeRequest>(&Default::default());
    offers.await.expect("it offers nothing");
    let none = InitializedParams::default();
    let told = editor.notification::<InitializedNotification>(&none);
    told.expect("it is sent");
    (editor, served)
}

// USE-37
fn shutdown_and_exit_waited_for_a_handler_that_waits_for_the_editor(rt: Rt) {
    rt.run(|runtime| async move {
        let (server, _reports) = server();
        let (editor, _served) = initialized(&runtime, &server).await;
        let begun = Instant::now();
        let shutdown = editor.request::<ShutdownRequest>(&()).timeout(LONG);
        shutdown.await.expect("an answer");
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(10), "{waited:?}");
        editor.notify("exit", ()).await.expect("it is sent");
        assert!(editor.wait_closed(LONG).await.is_some());
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(10), "{waited:?}");
        assert_eq!(server.exit_code(), 0);
    });
}

// USE-37
fn exit_waited_for_a_handler_that_never_ends(rt: Rt) {
    rt.run(|runtime| async move {
        let server = LanguageServer::new()
            .on::<InitializeRequest>(|_, _| async { Ok(InitializeResult::default()) })
            .on_notification::<InitializedNotification>(|_, _| pending());
        let (editor, _served) = initialized(&runtime, &server).await;
        let begun = Instant::now();
        let shutdown = editor.call("shutdown", ()).start().await;
        let shutdown = shutdown.expect("it is sent");
        editor.notify("exit", ()).await.expect("it is sent");
        // Even if both come together, `shutdown` is answered.
        let shutdown = shutdown.await;
        assert!(matches!(shutdown, OwnedOutcome::Ok(_)), "{shutdown:?}");
        assert!(editor.wait_closed(LONG).await.is_some());
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(10), "{waited:?}");
        assert_eq!(server.exit_code(), 0);
    });
}

// USE-37
fn messages_behind_a_slow_handler_waited_and_nobody_was_told_for_which(rt: Rt) {
    rt.run(|runtime| async move {
        let (server, reports) = server();
        let (editor, _served) = initialized(&runtime, &server).await;
        let hover = editor.call::<u8>("textDocument/hover", ());
        let hover = hover.timeout(Duration::from_secs(8)).await;
        assert!(matches!(hover, Err(CallError::TimedOut)), "{hover:?}");
        let said: Vec<_> = reports
            .try_iter()
            .map(|report| report.to_string())
            .collect();
        let told = said
            .iter()
            .filter(|said| said.contains("initialized"))
            .count();
        assert_eq!(told, 1, "{said:?}");
    });
}

/// A service whose handler never answers, and says when its request is cancelled.
#[derive(Clone)]
struct Cancelled(Sender<()>);

impl Service for Cancelled {
    async fn request(&self, _: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        pending().await
    }

    fn cancelled(&self, _: &Peer, _: antiphon::RequestKey, _: Option<antiphon::OwnedJson>) {
        // The test may be over.
        let _ = self.0.send(());
    }
}

impl antiphon_blocking::Service for Cancelled {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        std::thread::spawn(move || reply.cancellation().wait(LONG));
        Ok(Answer::deferred())
    }

    fn cancelled(&mut self, _: &Peer, _: antiphon::RequestKey, _: Option<antiphon::Json<'_>>) {
        // The test may be over.
        let _ = self.0.send(());
    }
}

/// The dialects that have a cancel.
fn dialects() -> [Config; 3] {
    let mcp = Config::mcp(McpRevision::V2025_11_25);
    [Config::lsp(), mcp, Config::acp(AcpVersion::V1)]
}

const SOON: Duration = Duration::from_millis(100);

// USE-03
fn a_call_that_timed_out_ran_on_at_its_peer(rt: Rt) {
    for config in dialects() {
        rt.run(|runtime| async move {
            let (told, cancelled) = channel();
            let (near, far) = Link::pair();
            let _server = attach(&runtime, far, config, Cancelled(told));
            let peer = attach(&runtime, near, config, ());
            let slow = peer.call::<u8>("slow", ()).timeout(SOON).await;
            assert!(matches!(slow, Err(CallError::TimedOut)), "{slow:?}");
            let begun = Instant::now();
            while cancelled.try_recv().is_err() {
                assert!(begun.elapsed() < LONG / 2, "no cancel");
                let _ = peer.call::<u8>("another", ()).timeout(SOON / 10).await;
            }
        });
    }
}

// USE-03
#[test]
fn a_call_that_timed_out_ran_on_at_its_peer_on_threads() {
    use antiphon_blocking::{Link, attach};
    for config in dialects() {
        let (told, cancelled) = channel();
        let (near, far) = Link::pair();
        let _server = attach(far, config, Cancelled(told)).expect("a thread");
        let peer = attach(near, config, ()).expect("a thread");
        let slow = peer.call::<u8>("slow", ()).timeout(SOON).wait();
        assert!(matches!(slow, Err(CallError::TimedOut)), "{slow:?}");
        cancelled.recv_timeout(LONG).expect("a cancel");
    }
}

/// A server on threads, written by hand, whose handler of `initialized` waits for the editor.
struct OnThreads;

impl antiphon_blocking::Service for OnThreads {
    fn request(&mut self, _: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(().into())
    }

    fn notification(&mut self, peer: &Peer, notification: Notification) {
        if notification.method() == "initialized" {
            // Nobody answers.
            let _ = peer.call::<u8>("workspace/configuration", ()).wait();
        }
    }
}

impl antiphon_blocking::Service for Silent {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        std::mem::forget(request.defer());
        Ok(Answer::deferred())
    }
}

// USE-37
#[test]
fn exit_waited_for_a_handler_that_waits_for_the_editor_on_threads() {
    use antiphon_blocking::{Link, attach};
    let (near, far) = Link::pair();
    let _server = attach(far, Config::lsp(), OnThreads).expect("a thread");
    let editor = attach(near, Config::lsp(), Silent).expect("a thread");
    editor
        .call::<()>("initialize", ())
        .wait()
        .expect("an answer");
    editor.notify("initialized", ()).wait().expect("it is sent");
    let begun = Instant::now();
    let shutdown = editor
        .call("shutdown", ())
        .start()
        .wait()
        .expect("it is sent");
    editor.notify("exit", ()).wait().expect("it is sent");
    // The handler's call ends with `exit`, and so does the handler.
    shutdown.wait::<()>().expect("an answer");
    assert!(editor.wait_closed(LONG).wait().is_some());
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(10), "{waited:?}");
}

// USE-17
fn a_change_with_an_invalid_range_replaced_the_whole_document(rt: Rt) {
    rt.run(|runtime| async move {
        let (told, reports) = channel();
        let (seen, changes) = channel();
        let router = Router::with_state(seen).on_report(move |_, report| {
            // The test may be over.
            let _ = told.send(report.to_string());
        });
        let server = LanguageServer::from(router)
            .on::<InitializeRequest>(|_, _| async { Ok(InitializeResult::default()) })
            .on_notification::<DidChangeTextDocumentNotification>(|said, call| async move {
                let mut text = String::from("one\ntwo\n");
                let utf16 = &PositionEncodingKind::UTF16;
                apply_changes(&mut text, &said.content_changes, utf16)?;
                // The test may be over.
                let _ = call.state().send(text);
                Ok(())
            });
        let (near, far) = Link::pair();
        let _served = attach(&runtime, far, Config::lsp(), server);
        let editor = attach(&runtime, near, Config::lsp(), ());
        let offers = editor.request::<InitializeRequest>(&Default::default());
        offers.await.expect("it offers nothing");
        let place = |line: &str, character: &str| {
            format!(r#"{{"line":{line},"character":{character}}}"#)
        };
        for (range, is_valid) in [
            (format!("{},\"end\":{}", place("-1", "0"), place("0", "1")), false),
            (format!("{},\"end\":{}", place("0", "0.5"), place("1", "0")), false),
            (format!("{},\"end\":{}", place("1", "0"), place("0", "0")), false),
            (place("0", "0"), false),
            (format!("{},\"end\":{}", place("1", "0"), place("1", "3")), true),
        ] {
            let params = format!(
                r#"{{"textDocument":{{"uri":"a","version":1}},"contentChanges":[{{"range":{{"start":{range}}},"text":"2"}}]}}"#
            );
            let json = Json::parse_str(&params).expect("JSON");
            let told = editor.notify("textDocument/didChange", json).await;
            told.expect("it is sent");
            let hover = editor.call::<u8>("textDocument/hover", ()).await;
            hover.expect_err("nobody serves it");
            let said: Vec<_> = reports.try_iter().collect();
            if is_valid {
                assert_eq!(changes.try_recv().expect("a change"), "one\n2\n");
                continue;
            }
            let invalid = |said: &String| said.starts_with("invalid params");
            assert!(said.iter().any(invalid), "{range} {said:?}");
            assert!(changes.try_recv().is_err(), "{range}");
        }
    });
}

/// A method that computes until it is cancelled.
enum Compute {}

impl Method for Compute {
    const NAME: &'static str = "compute";
    type Params = ();
    type Result = bool;
    type Error = OwnedError;
}

// USE-22 USE-27
fn work_on_the_pool_had_no_context(rt: Rt) {
    rt.run(|runtime| async move {
        let (told, ended) = channel();
        let router = Router::with_state(told).on::<Compute>(|(), context| async move {
            assert!(!context.is_cancelled());
            let told = context.state().clone();
            let computed = context.on_pool(move |cancellation| {
                let begun = Instant::now();
                while !cancellation.is_cancelled() && begun.elapsed() < LONG / 2 {
                    std::thread::sleep(SOON / 20);
                }
                // The test may be over.
                let _ = told.send(begun.elapsed());
                true
            });
            computed.await
        });
        let (near, far) = Link::pair();
        let _served = attach(&runtime, far, Config::lsp(), router);
        let peer = attach(&runtime, near, Config::lsp(), ());
        let computed = peer.send::<Compute>(&()).timeout(SOON * 2).await;
        assert!(matches!(computed, Err(CallError::TimedOut)), "{computed:?}");
        // The connection goes on meanwhile.
        let unknown = peer.call::<u8>("nobody", ()).await;
        assert!(matches!(unknown, Err(CallError::Remote(_))), "{unknown:?}");
        // The call that timed out has cancelled its request.
        let worked = loop {
            if let Ok(worked) = ended.try_recv() {
                break worked;
            }
            runtime.sleep_until(runtime.now() + SOON / 10).await;
        };
        assert!(worked < LONG / 2, "it was not told of the cancel");
    });
}

/// A tool server that speaks the revision for which it is asked.
struct Tools;

impl Service for Tools {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        if request.method() != "initialize" {
            return Ok(().into());
        }
        let (version,): (String,) = request.params()?;
        let revision = McpRevision::of(&version).unwrap_or(McpRevision::V2025_11_25);
        assert!(peer.set_dialect(Config::mcp(revision).dialect));
        Ok(revision.as_str().into())
    }
}

fn the_revision_of_mcp_was_fixed_before_initialize(rt: Rt) {
    for (asked, spoken) in [
        ("2025-03-26", McpRevision::V2025_03_26),
        ("1999-12-31", McpRevision::V2025_11_25),
    ] {
        rt.run(|runtime| async move {
            let config = Config::mcp(McpRevision::V2025_11_25);
            let (near, far) = Link::pair();
            let _served = attach(&runtime, far, config, Tools);
            let peer = attach(&runtime, near, config, ());
            let said: String = peer.call("initialize", &[asked]).await.expect("a version");
            assert_eq!(said, spoken.as_str());
            let revision = McpRevision::of(&said).expect("a revision");
            assert!(peer.set_dialect(Config::mcp(revision).dialect));
            assert!(!peer.set_dialect(config.dialect), "only once");
            let batch = peer.batch(|batch| batch.call::<()>("tools/list", ())).await;
            let has_batches = spoken == McpRevision::V2025_03_26;
            assert_eq!(batch.is_ok(), has_batches, "{asked}");
        });
    }
}
