//! An answer that is passed by value.

use antiphon::{Connection, ReplyToken};

fn answer(conn: &mut Connection, to: ReplyToken) {
    let _ = conn.respond(to, (1, 2));
}

fn main() {
    let _ = answer;
}
