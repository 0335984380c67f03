//! The client of the contract: one operation per line on stdin, one answer per line on stdout.

use std::io::{self, BufReader, LineWriter, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::contract::with_room;
use crate::desk::Desk;
use crate::operations::Client;
use crate::streams::Streams;
use crate::transports::{Place, Reached, StartedChild, reach, start};
use antiphon::CancelAnswer;
use antiphon_blocking::{ChildConfig, ConnectionConfig};
use antiphon_net::{stdin, stdout_unbuffered};

use crate::usage::{Endpoint, Failure};

/// So many bytes of a server's log are shown; a driver may not read stderr at all.
const MAX_LOG_BYTES: usize = 32 << 10;
/// How long the peer may take to end its direction after we have ended ours.
const LINGER: Duration = Duration::from_millis(250);

/// Drives the peer until stdin ends.
///
/// # Errors
/// The peer cannot be reached.
pub(crate) fn run(endpoint: &Endpoint) -> Result<u8, Failure> {
    let target = &endpoint.target;
    let cannot = |error: io::Error| Failure::new(format!("cannot reach {target}: {error}"));
    let executor = endpoint.runtime.start().map_err(cannot)?;
    let desk = Desk::default();
    let mut options = with_room(endpoint.config);
    options.linger = LINGER;
    let reached = match target.place() {
        Place::Child(words) => {
            let (command, options) = command_of(words, options)?;
            let started = start(executor.as_ref(), command, options, desk.clone());
            // The error names the command.
            started.map_err(|error| Failure::new(error.to_string()))?
        }
        place => {
            if let Place::Web(web) = place {
                // A client over HTTP connects only when it first calls. This reports an absent peer
                // at once.
                drop(TcpStream::connect(&web.address).map_err(cannot)?);
            }
            let reached = reach(
                executor.as_ref(),
                place,
                &endpoint.tls,
                options,
                desk.clone(),
            );
            reached.map_err(cannot)?
        }
    };
    drive(endpoint, reached, &desk)
}

/// The server to drive. What it logs goes to our stderr, up to a limit.
fn command_of(
    words: &[String],
    options: ConnectionConfig,
) -> Result<(Command, ChildConfig), Failure> {
    let (program, arguments) = words.split_first().ok_or(Failure::usage())?;
    let mut command = Command::new(program);
    command.args(arguments);
    let mut options = ChildConfig::from(options);
    let mut room = MAX_LOG_BYTES;
    options.on_stderr = Some(Box::new(move |bytes| {
        let shown = bytes.get(..room).unwrap_or(bytes);
        room -= shown.len();
        // A closed stderr is nobody's fault.
        let _ = io::stderr().write_all(shown);
    }));
    Ok((command, options))
}

/// Works through stdin, and leaves in good order.
fn drive(endpoint: &Endpoint, reached: Reached, desk: &Desk) -> Result<u8, Failure> {
    let client = Client {
        caller: &*reached.caller,
        desk,
        streams: Streams::default(),
        is_silent: endpoint.config.dialect.cancel_answer == CancelAnswer::Silent,
        ended: &|| reached.child.as_ref().and_then(StartedChild::how_ended),
    };
    // These streams also work in non-blocking mode, which a driver may have set on its own ends.
    let mut input = BufReader::new(stdin());
    let ended = stdout_unbuffered().and_then(|output| {
        let mut output = LineWriter::new(output);
        client.work(&mut input, &mut output)
    });
    // Its streams are unsubscribed before the connection ends.
    drop(client);
    match reached.child {
        // Both ways still write what is queued.
        Some(child) => child.close(),
        None => reached.caller.close(),
    }
    ended.map_err(|error| Failure::new(format!("stdin or stdout: {error}")))?;
    Ok(0)
}
