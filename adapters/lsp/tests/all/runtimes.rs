//! A language server on another runtime than tokio.

use antiphon_lsp::types::{InitializeParams, InitializeRequest, InitializeResult, ShutdownRequest};
use antiphon_lsp::{LanguageServer, LspPeer};
use antiphon_smol::{Config, Link, attach};

#[test]
fn a_language_server_runs_on_smol() {
    let server = LanguageServer::new()
        .on::<InitializeRequest>(|_, _| async { Ok(InitializeResult::default()) });
    let (near, far) = Link::pair();
    let served = attach(far, Config::lsp(), server.clone());
    let editor = attach(near, Config::lsp(), ());
    let asked = InitializeParams::default();
    let answered = editor.request::<InitializeRequest>(&asked).wait();
    assert_eq!(answered.unwrap(), InitializeResult::default());
    editor.request::<ShutdownRequest>(&()).wait().unwrap();
    editor.notify("exit", ()).wait().unwrap();
    let ended = served.wait_closed(std::time::Duration::from_secs(60));
    assert!(ended.wait().is_some());
    assert_eq!(server.exit_code(), 0);
}
