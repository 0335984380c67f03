//! The messages of three protocols as they are sent: `→` is sent, `←` is received.
//!
//! ```sh
//! cargo run -q --example wire
//! ```
//!
//! 1. Two calls to a blockchain node with params by position.
//! 2. An editor and a language server: each message after a header with its length.
//! 3. Two agents: one commands, the other asks back and notifies of progress; then a batch.
//!
//! Only the core is used, and the other side's messages are constants. It exits with 1 if an output
//! is not as expected.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use antiphon::{Config, Connection, ErrorObject, Event, Input, Json, Outcome};

type Anything = Box<dyn Error>;

/// Takes the output, and prints it.
fn send(conn: &mut Connection<&'static str>) {
    let mut sent = Vec::new();
    while conn.take_transmit(&mut sent) {}
    let text = String::from_utf8_lossy(&sent);
    for line in text.lines().filter(|line| !line.is_empty()) {
        print(format_args!("→ {line}"));
    }
}

/// Takes messages of the other side, and calls `handle` with each of their events.
fn arrive(
    conn: &mut Connection<&'static str>,
    said: &str,
    mut handle: impl FnMut(
        &mut Connection<&'static str>,
        Event<'_, &'static str>,
    ) -> Result<(), Anything>,
) -> Result<(), Anything> {
    for line in said.lines().filter(|line| !line.is_empty()) {
        print(format_args!("← {line}"));
    }
    let mut input = Input::stream(said.as_bytes());
    while let Some(event) = conn.poll_event(&mut input) {
        handle(conn, event)?;
    }
    if input.consumed() < said.len() {
        return Err("half a message".into());
    }
    Ok(())
}

/// Returns the tag and the result of a call.
fn result<'a>(event: &Event<'a, &'static str>) -> Result<(&'static str, Json<'a>), Anything> {
    match event {
        Event::Response(response) => match &response.outcome {
            Outcome::Ok(result) => Ok((response.tag, *result)),
            other => Err(format!("{} ended: {other:?}", response.tag).into()),
        },
        other => Err(format!("unexpected: {other:?}").into()),
    }
}

fn blockchain() -> Result<(), Anything> {
    print(format_args!(
        "# blockchain: by position, and numbers as text"
    ));
    let mut conn = Connection::new(Config::ethereum());
    let account = "0x407d73d8a49eeb85d32cf465507dd71d507100c1";
    conn.call("eth_getBalance", &(account, "latest"), None, "balance")?;
    conn.call("eth_blockNumber", Json::parse_str("[]")?, None, "height")?;
    send(&mut conn);
    // Answers may come in any order.
    let said = concat!(
        r#"{"jsonrpc":"2.0","id":2,"result":"0x10d4f"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"result":"0x0234c8a3397aab58"}"#,
        "\n",
    );
    arrive(&mut conn, said, |_, event| {
        let (what, number) = result(&event)?;
        let digits: String = number.decode()?;
        let number = u128::from_str_radix(digits.trim_start_matches("0x"), 16)?;
        print(format_args!("  {what} is {number}"));
        Ok(())
    })
}

fn editor() -> Result<(), Anything> {
    print(format_args!(
        "# language server: a header with the length in bytes, then the message"
    ));
    let mut conn = Connection::new(Config::lsp());
    let at = Json::parse_str(
        r#"{"textDocument":{"uri":"file:///a.rs"},"position":{"line":3,"character":7}}"#,
    )?;
    conn.call("textDocument/hover", at, None, "hover")?;
    send(&mut conn);
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"contents":"fn größe()"}}"#;
    // The line feed belongs to the message: white space after the JSON.
    let said = format!("Content-Length: {}\r\n\r\n{body}\n", body.len() + 1);
    arrive(&mut conn, &said, |_, event| {
        let (what, shown) = result(&event)?;
        print(format_args!(
            "  {what} shows {}",
            shown.get("contents").ok_or("no contents")?
        ));
        Ok(())
    })
}

fn agents() -> Result<(), Anything> {
    print(format_args!(
        "# agents: a command each way, a notification, a batch"
    ));
    let mut conn = Connection::new(Config::new());
    let goal = Json::parse_str(r#"{"goal":"book a table","people":4}"#)?;
    conn.call("task.start", goal, None, "task")?;
    send(&mut conn);
    // The other agent sends a request before it answers, and reports its progress.
    let said = concat!(
        r#"{"jsonrpc":"2.0","method":"user.ask","params":{"question":"When?"},"id":"q-1"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"task.progress","params":{"percent":50}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","result":{"task":"t-7"},"id":1}"#,
        "\n",
    );
    arrive(&mut conn, said, |conn, event| {
        match event {
            Event::Request(request) if request.method == "user.ask" => {
                conn.respond(request.token, "at eight")?;
            }
            Event::Request(request) => {
                conn.respond_err(request.token, &ErrorObject::method_not_found())?;
            }
            Event::Notification(told) => print(format_args!("  told {}", told.method)),
            other => print(format_args!(
                "  {:?} gave {}",
                result(&other)?.0,
                result(&other)?.1
            )),
        }
        Ok(())
    })?;
    send(&mut conn);

    let mut batch = conn.batch(None);
    batch.call::<Json<'_>>("task.status", &["t-7"], "status")?;
    batch.notify("log", &["still here"])?;
    batch.call::<Json<'_>>("agent.load", (), "load")?;
    batch.send()?;
    send(&mut conn);
    let said = concat!(
        r#"[{"jsonrpc":"2.0","result":0.25,"id":3},"#,
        r#"{"jsonrpc":"2.0","result":"done","id":2}]"#,
        "\n",
    );
    arrive(&mut conn, said, |_, event| {
        let (what, result) = result(&event)?;
        print(format_args!("  {what} is {result}"));
        Ok(())
    })
}

fn main() -> Result<(), Anything> {
    blockchain()?;
    editor()?;
    agents()
}

/// Writes a line to standard output. If that is closed, only the line is lost.
fn print(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}
