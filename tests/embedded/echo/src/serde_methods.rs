//! The methods of `untyped.rs` as one writes them without antiphon, to compare with: on `serde_json.rs`, with typed params.
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
    result: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
    id: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Sum(i32),
    On(bool),
    Status { ticks: u32, on: bool },
}

#[derive(Deserialize)]
struct Led {
    on: bool,
}

#[derive(Serialize)]
struct Fault {
    code: i32,
    message: &'static str,
}

fn decoded<'p, P: Deserialize<'p>>(params: Option<&'p RawValue>) -> Result<P, (i32, &'static str)> {
    let params = params.and_then(|params| serde_json::from_str(params.get()).ok());
    params.ok_or((-32602, "Invalid params"))
}

fn outcome(request: &Request<'_>, is_on: &mut bool) -> Result<Outcome, (i32, &'static str)> {
    match &*request.method {
        "add" => {
            let (a, b) = decoded::<(i32, i32)>(request.params)?;
            a.checked_add(b)
                .map(Outcome::Sum)
                .ok_or((-32602, "Invalid params"))
        }
        "led" => {
            *is_on = decoded::<Led>(request.params)?.on;
            Ok(Outcome::On(*is_on))
        }
        "status" => Ok(Outcome::Status {
            ticks: board::ticks(),
            on: *is_on,
        }),
        _ => Err((-32601, "Method not found")),
    }
}

/// What to answer to a line, if anything.
fn answer<'l>(line: &'l [u8], is_on: &mut bool) -> Option<Reply<'l>> {
    let fault = |code, message| Reply {
        jsonrpc: "2.0",
        result: None,
        error: Some(Fault { code, message }),
        id: None,
    };
    match serde_json::from_slice::<Request<'_>>(line) {
        Ok(request) if request.jsonrpc == "2.0" && !request.method.is_empty() => {
            let (result, error) = match outcome(&request, is_on) {
                Ok(outcome) => (Some(outcome), None),
                Err((code, message)) => (None, Some(Fault { code, message })),
            };
            Some(Reply {
                jsonrpc: "2.0",
                result,
                error,
                id: Some(request.id?),
            })
        }
        Ok(_) => Some(fault(-32600, "Invalid Request")),
        Err(error) if error.is_data() => Some(fault(-32600, "Invalid Request")),
        Err(_) => Some(fault(-32700, "Parse error")),
    }
}

fn run() -> ! {
    let mut buffer = [0; MAX_MESSAGE_BYTES + 64];
    let mut filled = 0;
    let mut is_on = false;
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
        if let Some(reply) = answer(&buffer[..filled], &mut is_on) {
            if let Ok(text) = serde_json::to_vec(&reply) {
                text.into_iter().for_each(board::send);
                board::send(b'\n');
            }
        }
        filled = 0;
    }
}
