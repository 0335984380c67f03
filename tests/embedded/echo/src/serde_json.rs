//! What one writes without antiphon, to compare with: lines, a typed request whose params and id
//! stay text, a typed reply. It has no batches, no cancels, no deadlines, and no limit but the buffer.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
mod memory;

use alloc::borrow::Cow;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The buffer has this size and 64 bytes more, as in `echo.rs`. The bytes of a line that do not fit are dropped,
/// so a longer line is answered with a parse error.
const MAX_MESSAGE_BYTES: usize = 1024;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Reply<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Option<&'a RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
    id: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Fault {
    code: i32,
    message: &'static str,
}

/// What to answer to a line, if anything.
fn answer(line: &[u8]) -> Option<Reply<'_>> {
    let fault = |code, message| Reply {
        jsonrpc: "2.0",
        result: None,
        error: Some(Fault { code, message }),
        id: None,
    };
    match serde_json::from_slice::<Request<'_>>(line) {
        Ok(request) if request.jsonrpc == "2.0" && !request.method.is_empty() => Some(Reply {
            jsonrpc: "2.0",
            result: Some(request.params),
            error: None,
            id: Some(request.id?),
        }),
        Ok(_) => Some(fault(-32600, "Invalid Request")),
        Err(error) if error.is_data() => Some(fault(-32600, "Invalid Request")),
        Err(_) => Some(fault(-32700, "Parse error")),
    }
}

fn run() -> ! {
    let mut buffer = [0; MAX_MESSAGE_BYTES + 64];
    let mut filled = 0;
    loop {
        let Some(byte) = board::receive() else {
            continue;
        };
        if let Some(slot) = buffer.get_mut(filled) {
            *slot = byte;
            filled += 1;
        }
        if byte != b'\n' {
            continue;
        }
        if let Some(reply) = answer(&buffer[..filled]) {
            if let Ok(text) = serde_json::to_vec(&reply) {
                text.into_iter().for_each(board::send);
                board::send(b'\n');
            }
        }
        filled = 0;
    }
}
