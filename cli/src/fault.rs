//! Why the program ends early, and its exit codes.

use std::process::ExitCode;

/// There are findings, or the server answered with an error.
pub(crate) const FINDINGS: u8 = 1;
const USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;
const TIMED_OUT: u8 = 4;

/// Why the program ends early.
#[derive(Debug)]
pub(crate) enum Fault {
    Usage(String),
    Unreachable(String),
    TimedOut(String),
}

impl Fault {
    /// Says so on standard error.
    pub(crate) fn end(&self) -> ExitCode {
        let (text, code) = match self {
            Self::Usage(text) => (text, USAGE),
            Self::Unreachable(text) => (text, UNREACHABLE),
            Self::TimedOut(text) => (text, TIMED_OUT),
        };
        eprintln!("antiphon: {}", crate::bytes::shown(text.as_bytes()));
        ExitCode::from(code)
    }
}

/// Where a server could not be reached, for this reason.
pub(crate) fn unreachable(name: &str, error: &std::io::Error) -> Fault {
    match error.kind() {
        std::io::ErrorKind::TimedOut => Fault::TimedOut(format!("{name}: {error}")),
        _ => Fault::Unreachable(format!("{name}: {error}")),
    }
}
