//! The example `minimal_lsp`: it has no more lines of code than the example of that name of
//! lsp-server 0.10, which offers the same methods, and in a conversation it sends what it should.

use std::io::{BufReader, Read, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use programs::example;

#[path = "../../../tokio/tests/all/programs/mod.rs"]
mod programs;

/// How many lines of code lsp-server's example has: lines that are neither blank nor a comment.
const THEIR_CODE_LINES: usize = 220;

/// Only a test that fails waits as long as this.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn the_minimal_language_server_is_no_longer_than_that_of_lsp_server() {
    let text = include_str!("../../examples/minimal_lsp.rs");
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let code: Vec<_> = text.lines().filter(is_code).collect();
    assert!(code.len() <= THEIR_CODE_LINES, "{} lines", code.len());
    // The number of lines means something only in a formatted file. `cargo fmt --check` checks that
    // it is formatted, unless a `rustfmt::` attribute excepts a part of it.
    assert!(code.iter().all(|line| line.len() <= 100));
    assert!(!text.contains("rustfmt::"));
}

/// Messages to the server, and what it sends after each. The `{"jsonrpc":"2.0",` with which all
/// begin and the `}` with which they end are left out.
const CONVERSATION: [(&str, &[&str]); 13] = [
    (
        r#""id":0,"method":"textDocument/hover","params":{}"#,
        &[r#""error":{"code":-32002,"message":"Server not initialized"},"id":0"#],
    ),
    (
        r#""id":1,"method":"initialize","params":{"capabilities":{}}"#,
        &[
            r#""result":{"capabilities":{"textDocumentSync":1,"completionProvider":{},"hoverProvider":true,"definitionProvider":true,"documentFormattingProvider":true}},"id":1"#,
        ],
    ),
    (r#""method":"initialized","params":{}"#, &[]),
    (
        r#""method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///tmp/foo.rs","languageId":"rust","version":1,"text":"fn  main( ){println!(\"hi\") }"}}"#,
        &[DIAGNOSTICS],
    ),
    (
        r#""id":2,"method":"textDocument/completion","params":{"textDocument":{"uri":"file:///tmp/foo.rs"},"position":{"line":0,"character":0}}"#,
        &[
            r#""result":{"isIncomplete":false,"items":[{"label":"HelloFromLSP","kind":3,"detail":"dummy completion"}]},"id":2"#,
        ],
    ),
    (
        r#""id":3,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///tmp/foo.rs"},"position":{"line":0,"character":0}}"#,
        &[r#""result":{"contents":{"kind":"markdown","value":"Hello from *minimal_lsp*"}},"id":3"#],
    ),
    (
        r#""id":4,"method":"textDocument/definition","params":{"textDocument":{"uri":"file:///tmp/foo.rs"},"position":{"line":0,"character":0}}"#,
        &[r#""result":[],"id":4"#],
    ),
    (
        r#""id":5,"method":"textDocument/formatting","params":{"textDocument":{"uri":"file:///tmp/foo.rs"},"options":{"tabSize":4,"insertSpaces":true}}"#,
        &[
            r#""result":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":28}},"newText":"fn main() {\n    println!(\"hi\")\n}\n"}],"id":5"#,
        ],
    ),
    (
        r#""method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///tmp/foo.rs","version":2},"contentChanges":[{"text":"fn a( ) { }"}]}"#,
        &[DIAGNOSTICS],
    ),
    (
        r#""id":"f","method":"textDocument/formatting","params":{"textDocument":{"uri":"file:///tmp/foo.rs"},"options":{"tabSize":4,"insertSpaces":true}}"#,
        &[
            r#""result":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":11}},"newText":"fn a() {}\n"}],"id":"f""#,
        ],
    ),
    (
        r#""id":6,"method":"textDocument/rename","params":{}"#,
        &[r#""error":{"code":-32601,"message":"Method not found"},"id":6"#],
    ),
    (
        r#""id":7,"method":"shutdown","params":null"#,
        &[r#""result":null,"id":7"#],
    ),
    (r#""method":"exit","params":null"#, &[]),
];

const DIAGNOSTICS: &str = r#""method":"textDocument/publishDiagnostics","params":{"uri":"file:///tmp/foo.rs","diagnostics":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":1}},"severity":3,"source":"minimal_lsp","message":"dummy diagnostic"}]}"#;

fn frame(message: &str) -> String {
    let body = format!(r#"{{"jsonrpc":"2.0",{message}}}"#);
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn the_minimal_language_server_answers_as_that_of_lsp_server() {
    let mut server = example("minimal_lsp");
    server.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = server.spawn().expect("it starts");
    let mut stdin = server.stdin.take().expect("a pipe");
    let mut stdout = BufReader::new(server.stdout.take().expect("a pipe"));
    let (ask, asked) = mpsc::channel::<usize>();
    let (read, heard) = mpsc::channel();
    // Read on a thread, so that waiting has a deadline. It ends when nothing more is asked.
    std::thread::spawn(move || {
        for length in asked {
            let mut bytes = vec![0; length];
            let text = stdout.read_exact(&mut bytes).map(|()| bytes);
            let _ = read.send(text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
    });
    for (message, answers) in CONVERSATION {
        stdin
            .write_all(frame(message).as_bytes())
            .expect("it reads");
        for answer in answers {
            let expected = frame(answer);
            ask.send(expected.len()).expect("the thread runs");
            let said = heard
                .recv_timeout(LONG)
                .expect("in time")
                .expect("an answer");
            assert_eq!(said, expected, "{message}");
        }
    }
    // It ends after `exit`, though its input is still open.
    let ended = (0..LONG.as_millis() / 5).find_map(|_| {
        let status = server.try_wait().expect("a child");
        status.or_else(|| {
            std::thread::sleep(Duration::from_millis(5));
            None
        })
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
    drop(stdin);
}
