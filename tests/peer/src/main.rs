//! The contract as a program; see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(antiphon_peer::run(std::env::args().skip(1)))
}
