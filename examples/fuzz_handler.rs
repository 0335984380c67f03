//! Fuzzes a handler with conversations that the feature `arbitrary` generates, and finds its fault.
//!
//! The handler lends books: `lend` takes one from the shelf, `back` returns one, `left` returns how
//! many there are. It forgets that a notification may take the last book, so the count falls below
//! zero. `--fixed` fuzzes the handler without the fault; then nothing is found.
//!
//! A fuzzing engine would pass bytes that it learns from; here a small generator makes them, so
//! that the example needs no engine. Prints what it found, and exits with 1 if that is not what it
//! should find.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use antiphon::generate::Conversation;
use antiphon::{Config, Connection, ErrorObject, Event, Framing};
use arbitrary::Unstructured;

const METHODS: [&str; 3] = ["lend", "back", "left"];
const BOOKS: i64 = 3;
const CASES: u64 = 20_000;

struct Shelf {
    books: i64,
    is_fixed: bool,
}

impl Shelf {
    /// Lends a book. The fault: it does not check the count for notifications.
    fn lend(&mut self, is_answered: bool) -> Result<i64, ErrorObject<'static>> {
        if self.books == 0 && (is_answered || self.is_fixed) {
            return Err(ErrorObject::new(1, "no book is left"));
        }
        self.books -= 1;
        Ok(self.books)
    }

    /// Runs one method of the handler under test.
    fn do_it(&mut self, method: &str, is_answered: bool) -> Result<i64, ErrorObject<'static>> {
        match method {
            "lend" => self.lend(is_answered),
            "back" => {
                self.books = (self.books + 1).min(BOOKS);
                Ok(self.books)
            }
            "left" => Ok(self.books),
            _ => Err(ErrorObject::method_not_found()),
        }
    }
}

/// Runs one conversation with the handler, and returns it as an error if the count of books fell
/// below zero.
fn holds(bytes: &[u8], is_fixed: bool) -> arbitrary::Result<Result<(), Conversation>> {
    let mut u = Unstructured::new(bytes);
    let conversation = Conversation::of(&mut u, Framing::Newline, &METHODS)?;
    let mut shelf = Shelf {
        books: BOOKS,
        is_fixed,
    };
    let mut lowest = BOOKS;
    let mut conn: Connection = Connection::new(Config::new());
    conversation.play(&mut conn, |conn, event| {
        match event {
            Event::Request(request) => {
                let given = match shelf.do_it(&request.method, true) {
                    Ok(books) => conn.respond(request.token, &books),
                    Err(error) => conn.respond_err(request.token, &error),
                };
                given.expect("the request is open");
            }
            Event::Notification(told) => {
                // The result of a notification is dropped.
                let _ = shelf.do_it(&told.method, false);
            }
            _ => {}
        }
        lowest = lowest.min(shelf.books);
    });
    Ok(if lowest < 0 {
        Err(conversation)
    } else {
        Ok(())
    })
}

/// Makes random-looking bytes by xorshift, the same ones for each case every time.
fn bytes(case: u64) -> Vec<u8> {
    let mut state = case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    let n = usize::from(next());
    (0..n).map(|_| next()).collect()
}

fn main() -> ExitCode {
    let is_fixed = std::env::args().any(|argument| argument == "--fixed");
    let found = (1..=CASES).find_map(|case| match holds(&bytes(case), is_fixed) {
        Ok(Err(conversation)) => Some((case, conversation)),
        _ => None,
    });
    match &found {
        None => print(format_args!("{CASES} conversations, and the shelf held")),
        Some((case, conversation)) => {
            print(format_args!(
                "conversation {case} takes a book that is not there:"
            ));
            conversation
                .messages()
                .for_each(|text| print(format_args!("{text}")));
        }
    }
    match found.is_none() == is_fixed {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Writes a line to standard output. If that is closed, only the line is lost.
fn print(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}
