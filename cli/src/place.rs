//! From the command line to a place: the target, its framing and what a dialect says first.

use std::time::{Duration, Instant};

use antiphon::Framing;

use crate::args::{Frames, Preset, There};
use crate::cases::call;
use crate::fault::{Fault, unreachable};
use crate::link::{Hello, Place};
use crate::target::Target;
use crate::wire::{self, Dialler, Got};

/// Finds out where the server is and how it is spoken to. A command whose framing nobody names is started to see.
pub(crate) fn find(url: Option<&str>, there: &There) -> Result<Place, Fault> {
    let usage = |text: &str| Fault::Usage(text.to_owned());
    let (target, framing) = match (url, &there.command[..]) {
        (Some(url), []) => Target::read(url).map_err(Fault::Usage)?,
        (None, [_, ..]) => (Target::Command(there.command.clone()), None),
        (Some(_), _) => return Err(usage("a target and a command were given; one is enough")),
        (None, []) => return Err(usage("a target or a command is missing; see --help")),
    };
    let chosen = there.framing.map(Frames::framing);
    if chosen.is_some() && framing.is_some() && chosen != framing {
        return Err(usage(
            "the target has a framing of its own; --framing is for unix: and commands",
        ));
    }
    let is_web = matches!(target, Target::Http(_) | Target::WebSocket(_));
    if !is_web && (!there.header.is_empty() || there.token_env.is_some()) {
        return Err(usage("--header and --token-env are for HTTP and WebSocket"));
    }
    if there.preset == Preset::Mcp && matches!(target, Target::Http(_)) {
        return Err(usage(
            "--preset mcp is for pipes, sockets and WebSocket, not for HTTP",
        ));
    }
    let needs_tls = matches!(&target, Target::Http(web) | Target::WebSocket(web) if web.is_tls);
    let tls = match needs_tls {
        true => Some(wire::tls(there.ca.as_deref()).map_err(Fault::Usage)?),
        false => None,
    };
    let dialler = Dialler {
        target,
        timeout: there.timeout,
        tls,
    };
    let hello = match there.preset {
        Preset::Strict => None,
        Preset::Lsp => Some(Hello {
            method: "initialize",
            params: r#"{"processId":null,"rootUri":null,"capabilities":{}}"#,
            then: "initialized",
        }),
        Preset::Mcp => Some(Hello {
            method: "initialize",
            params: r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"antiphon","version":"0"}}"#,
            then: "notifications/initialized",
        }),
    };
    let mut place = Place {
        dialler,
        framing: Framing::Newline,
        headers: headers(there)?,
        hello,
    };
    place.framing = match (framing.or(chosen), there.preset) {
        (Some(framing), _) => framing,
        (None, Preset::Lsp) => Framing::ContentLength,
        (None, Preset::Strict) if place.is_command() => detect(&place)?,
        (None, _) => Framing::Newline,
    };
    Ok(place)
}

fn headers(there: &There) -> Result<Vec<(String, String)>, Fault> {
    let mut headers = Vec::new();
    for header in &there.header {
        let is_fit = |text: &str| !text.contains(['\r', '\n', '\0']);
        match header.split_once(':') {
            Some((name, value)) if !name.trim().is_empty() && is_fit(header) => {
                headers.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            _ => return Err(Fault::Usage("--header is NAME: VALUE".to_owned())),
        }
    }
    if let Some(name) = &there.token_env {
        let token = std::env::var(name)
            .ok()
            .filter(|token| !token.is_empty() && token.chars().all(|c| c.is_ascii_graphic()));
        let Some(token) = token else {
            return Err(Fault::Usage(format!(
                "--token-env: the variable {name} has no token"
            )));
        };
        headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
    }
    Ok(headers)
}

/// Starts the command with a message behind Content-Length. A server that speaks so answers in that way; any other
/// answers the header as a line that is no JSON, ends, or waits.
fn detect(place: &Place) -> Result<Framing, Fault> {
    let mut wire = place
        .dialler
        .dial()
        .map_err(|error| unreachable(&place.name(), &error))?;
    let message = call("\"antiphon-detect\"");
    let header = format!("Content-Length: {}\r\n\r\n{message}", message.len());
    let _ = wire.write(header.as_bytes());
    let deadline = Instant::now() + place.dialler.timeout.min(Duration::from_secs(3));
    while wire.buffer.trim_ascii_start().is_empty() && wire.read(deadline) == Got::Bytes {}
    let is_header = wire
        .buffer
        .trim_ascii_start()
        .to_ascii_lowercase()
        .starts_with(b"content-");
    Ok(if is_header {
        Framing::ContentLength
    } else {
        Framing::Newline
    })
}
