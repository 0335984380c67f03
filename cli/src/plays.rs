//! What the server says to a client in each check: conversations as data, and scripts that play them without antiphon.

use antiphon::Framing;

use crate::bytes::{printing, quoted};
use crate::catalogue::Level::{self, Must, Should};
use crate::target::{Target, command};

/// A right answer. `#ID` is the id of the call as it was written, `#N` is the number of the call.
pub(crate) const RIGHT: &str = r##"{"jsonrpc":"2.0","result":"antiphon-#N","id":#ID}"##;
/// What a client must not take for a result.
pub(crate) const WRONG: &str = "antiphon-wrong";
/// No float has these values.
pub(crate) const EXACT: [&str; 2] = ["9007199254740993", "18446744073709551615"];
/// The call at which the conversation leaves the right way.
pub(crate) const PLAYED_AT: usize = 3;

/// What the server does when that call has come. Calls that come meanwhile are held, and answered afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Send(&'static str),
    /// One message in pieces.
    Pieces(&'static str),
    /// Waits for another call, at most so many milliseconds.
    Wait(u64),
    /// Answers the calls that are held, the last one first.
    Held,
    /// Goes on only if no other call has come.
    IfQuiet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    All,
    /// Where messages of the server need no request.
    NotHttp,
    /// Where also the end of text that is no JSON can be told.
    Separated,
    /// With a client that calls before it has the answer to another call.
    Concurrent,
}

/// A conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Play {
    pub(crate) check: &'static str,
    /// How bad it is if the client does not go on.
    pub(crate) level: Level,
    pub(crate) over: Where,
    pub(crate) acts: &'static [Act],
    /// The id of the server's own request, if it makes one.
    pub(crate) callback: Option<&'static str>,
}

const fn play(check: &'static str, level: Level, over: Where, acts: &'static [Act]) -> Play {
    Play {
        check,
        level,
        over,
        acts,
        callback: None,
    }
}

const fn calls_back(check: &'static str, acts: &'static [Act], id: &'static str) -> Play {
    Play {
        callback: Some(id),
        ..play(check, Should, Where::NotHttp, acts)
    }
}

use Act::{Held, IfQuiet, Pieces, Send, Wait};

const ANSWER: Act = Send(RIGHT);

#[rustfmt::skip]
pub(crate) const PLAYS: &[Play] = &[
    play("client.late", Should, Where::All, &[Wait(3000), ANSWER]),
    play("client.unknown", Should, Where::All, &[Send(r##"{"jsonrpc":"2.0","result":"antiphon-wrong","id":987654321}"##), ANSWER]),
    play("client.unknown", Should, Where::All, &[Send(r##"{"jsonrpc":"2.0","result":"antiphon-wrong","id":"antiphon-unknown"}"##), ANSWER]),
    play("client.twice", Should, Where::NotHttp, &[ANSWER, ANSWER]),
    play("client.out-of-order", Must, Where::Concurrent, &[Wait(1000), Held, ANSWER]),
    play("client.null-id", Should, Where::All, &[Send(r##"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"##), ANSWER]),
    play("client.both-members", Should, Where::All, &[Send(r##"{"jsonrpc":"2.0","result":"antiphon-wrong","error":{"code":-32000,"message":"m"},"id":#ID}"##), Wait(500), IfQuiet, ANSWER]),
    play("client.both-members", Should, Where::All, &[Send(r##"{"jsonrpc":"2.0","result":"antiphon-wrong","error":null,"id":#ID}"##), Wait(500), IfQuiet, ANSWER]),
    play("client.garbage", Should, Where::Separated, &[Send("{bad"), ANSWER]),
    play("client.split", Must, Where::All, &[Pieces(RIGHT)]),
    calls_back("client.called-back", &[Send(r##"{"jsonrpc":"2.0","method":"antiphon.conform.no-such-method","params":[1]}"##), Send(r##"{"jsonrpc":"2.0","method":"antiphon.conform.no-such-method","id":"antiphon-callback"}"##), ANSWER], "\"antiphon-callback\""),
    play("client.wrong-version", Should, Where::All, &[Send(r##"{"jsonrpc":"1.0","result":"antiphon-wrong","id":#ID}"##), Wait(500), IfQuiet, ANSWER]),
    play("client.precision", Should, Where::All, &[Send(r##"{"jsonrpc":"2.0","result":["antiphon-#N",9007199254740993,18446744073709551615],"id":#ID}"##)]),
    calls_back("client.precision", &[Send(r##"{"jsonrpc":"2.0","method":"antiphon.conform.no-such-method","id":9007199254740993}"##), ANSWER], "9007199254740993"),
];

/// A command that plays this conversation without antiphon, and prints it.
pub(crate) fn script(
    acts: &[Act],
    listen: Option<&Target>,
    framing: Framing,
    words: &[String],
) -> String {
    let acts: Vec<(&str, serde_json::Value)> = acts
        .iter()
        .map(|act| match act {
            Send(text) => ("send", (*text).into()),
            Pieces(text) => ("pieces", (*text).into()),
            Wait(millis) => ("wait", (*millis).into()),
            Held => ("held", 0.into()),
            IfQuiet => ("if-quiet", 0.into()),
        })
        .collect();
    let acts = serde_json::to_string(&acts).unwrap_or_default();
    let mut source =
        "import atexit, base64, hashlib, json, os, select, socket, subprocess, sys, time\n"
            .to_owned();
    source += &format!("RIGHT = '{RIGHT}'\n");
    let (tcp, connected) = (
        include_str!("player/tcp.py"),
        include_str!("player/connected.py"),
    );
    let parts: &[&str] = match listen {
        None => &[
            include_str!("player/stdio.py"),
            include_str!("player/bytes.py"),
        ],
        Some(Target::Http(_)) => &[tcp, include_str!("player/http.py")],
        Some(_) => &[tcp, connected, include_str!("player/bytes.py")],
    };
    if let Some((host, port)) = listen.and_then(Target::address) {
        let url = listen.map_or(String::new(), |listen| listen.url("{port}", framing));
        source += &format!("HOST, PORT, URL = {host:?}, {port}, {url:?}\n");
    }
    source.extend(parts.iter().copied());
    source += match (listen, framing) {
        (Some(Target::Http(_)), _) => "",
        (_, Framing::ContentLength) => include_str!("player/lsp.py"),
        (_, Framing::Concatenated) => include_str!("player/json.py"),
        (_, Framing::Newline) => include_str!("player/newline.py"),
        _ => include_str!("player/websocket.py"),
    };
    source += include_str!("player/play.py");
    let source = printing(source.trim_end().as_bytes());
    format!(
        "python3 -c \"$({source})\" {} {}",
        quoted(&acts),
        command(words)
    )
}
