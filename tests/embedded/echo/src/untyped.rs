//! Three methods on the least connection, whose params are read from the text: `add [a,b]`, `led {"on":…}` and `status`.
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
use core::str::FromStr;

use antiphon::{Connection, ErrorObject, Json, RequestRef, Settings};
use fixed::Least;

fn number(json: Option<Json<'_>>) -> Option<i32> {
    i32::from_str(json?.as_str()).ok()
}

fn add(params: Option<Json<'_>>) -> Option<i32> {
    let mut numbers = params?.elements();
    number(numbers.next())?.checked_add(number(numbers.next())?)
}

fn led(params: Option<Json<'_>>) -> Option<bool> {
    match params?.get("on")?.as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn answer<S: Settings>(
    conn: &mut Connection<Infallible, S>,
    is_on: &mut bool,
    request: RequestRef<'_>,
) {
    let token = request.token;
    let refused = match &*request.method {
        "add" => match add(request.params) {
            Some(sum) => conn.respond(token, &sum),
            None => conn.respond_err(token, &ErrorObject::invalid_params()),
        },
        "led" => match led(request.params) {
            Some(on) => {
                *is_on = on;
                conn.respond(token, &on)
            }
            None => conn.respond_err(token, &ErrorObject::invalid_params()),
        },
        "status" => conn.respond(token, &(board::ticks(), *is_on)),
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
