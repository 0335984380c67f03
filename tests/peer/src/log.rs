//! Writes lines to stderr, but not more than a program that never reads stderr can bear.
//!
//! A full pipe would stop the thread that writes to it. So `say` writes only so many lines, and the last
//! one says that. `write_line` has no limit: it is for the few lines that a user has asked for or needs.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

/// With lines of 120 bytes this stays well below the 64 KiB that a pipe holds.
const MAX_LINES: usize = 300;

static LINES: AtomicUsize = AtomicUsize::new(0);

/// Says something, if not too much has been said already.
pub fn say(line: fmt::Arguments<'_>) {
    match LINES.fetch_add(1, Ordering::Relaxed) {
        said if said < MAX_LINES => write_line(format_args!("antiphon-peer: {line}")),
        MAX_LINES => write_line(format_args!("antiphon-peer: further lines are left out")),
        _ => {}
    }
}

/// Writes a line to stderr, however many there were. If nobody reads it, the line is lost and
/// nothing else: a log that cannot be written ends no program.
pub fn write_line(line: fmt::Arguments<'_>) {
    // In one piece, so that the lines of several processes do not mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
