//! Lines on stderr, and no more of them than a driver that never reads stderr can bear.
//!
//! A full pipe would stop the thread that writes to it. So the number of lines is bounded, and
//! the last one says so.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// With lines of 120 bytes this stays well below the 64 KiB that a pipe holds.
const LINES_MAX: usize = 300;

static LINES: AtomicUsize = AtomicUsize::new(0);

/// Says something, if not too much has been said already.
pub fn say(line: fmt::Arguments<'_>) {
    match LINES.fetch_add(1, Ordering::Relaxed) {
        said if said < LINES_MAX => eprintln!("antiphon-peer: {line}"),
        LINES_MAX => eprintln!("antiphon-peer: further lines are left out"),
        _ => {}
    }
}
