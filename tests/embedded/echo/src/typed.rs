//! The methods of `untyped.rs` with params as types: each is decoded by serde.
#![no_std]
#![no_main]

extern crate alloc;

mod board;
#[path = "../../../../examples/firmware/src/clock.rs"]
mod clock;
mod echo;
mod fixed;
mod memory;

use core::convert::Infallible;

use antiphon::{Connection, ErrorObject, Json, RequestRef, Settings};
use fixed::Least;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Led {
    on: bool,
}

#[derive(Serialize)]
struct Status {
    ticks: u32,
    on: bool,
}

fn decoded<'p, P: Deserialize<'p>>(params: Option<Json<'p>>) -> Option<P> {
    params?.decode().ok()
}

fn answer<S: Settings>(
    conn: &mut Connection<Infallible, S>,
    is_on: &mut bool,
    request: RequestRef<'_>,
) {
    let token = request.token;
    let refused = match &*request.method {
        "add" => match decoded(request.params).and_then(|(a, b): (i32, i32)| a.checked_add(b)) {
            Some(sum) => conn.respond(token, &sum),
            None => conn.respond_err(token, &ErrorObject::invalid_params()),
        },
        "led" => match decoded(request.params) {
            Some(Led { on }) => {
                *is_on = on;
                conn.respond(token, &on)
            }
            None => conn.respond_err(token, &ErrorObject::invalid_params()),
        },
        "status" => conn.respond(
            token,
            &Status {
                ticks: board::ticks(),
                on: *is_on,
            },
        ),
        _ => conn.respond_err(token, &ErrorObject::method_not_found()),
    };
    if let Err(refused) = refused {
        let _ = conn.respond_err(refused.value, &ErrorObject::internal_error());
    }
}

fn run() -> ! {
    let mut is_on = false;
    echo::serve(Connection::fixed(Least), |conn, request| {
        answer(conn, &mut is_on, request)
    })
}
