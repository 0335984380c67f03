//! The core behind a fixed contract: a server, a client and a proxy that anybody's driver can
//! test. README.md beside this package has the contract.
//!
//! Nothing but frames (server, proxy) or answers (client) goes to stdout; everything else goes to
//! stderr.

mod client;
mod pipes;
mod proxy;
mod server;
mod target;
mod usage;

use std::process::ExitCode;

use usage::{Failure, Task};

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("antiphon-peer: {failure}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<u8, Failure> {
    match usage::parse(std::env::args().skip(1))? {
        Task::Help => {
            println!("{}", usage::help());
            Ok(0)
        }
        Task::Serve(endpoint) => server::run(&endpoint),
        Task::Drive(endpoint) => client::run(&endpoint),
        Task::Relay(options) => proxy::run(options),
    }
}
