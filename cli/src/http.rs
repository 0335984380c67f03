//! HTTP/1.1, as much of it as a test of servers needs: requests are bytes, replies are read.

use std::time::Instant;

use crate::target::Web;
use crate::wire::{Got, Wire};

/// The longest head and the longest body that are read.
const HEAD_MAX: usize = 64 * 1024;
const BODY_MAX: usize = 64 * 1024 * 1024;

/// A reply.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self
            .fields
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// A POST with these extra fields. A field of ours with the name of one of these is left out.
pub(crate) fn post(web: &Web, extra: &[(String, String)], body: &[u8], is_last: bool) -> Vec<u8> {
    let length = body.len().to_string();
    let own = [
        ("Host", web.authority()),
        ("Content-Type", "application/json".to_owned()),
        ("Accept", "application/json".to_owned()),
        ("Content-Length", length),
        (
            "Connection",
            if is_last { "close" } else { "keep-alive" }.to_owned(),
        ),
    ];
    let own = own.into_iter().filter(|(name, _)| {
        !extra
            .iter()
            .any(|(given, _)| given.eq_ignore_ascii_case(name))
    });
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let mut out = request("POST", web, own.chain(extra.iter().cloned()));
    out.extend_from_slice(body);
    out
}

/// The head of a request with these fields.
pub(crate) fn request(
    method: &str,
    web: &Web,
    fields: impl Iterator<Item = (String, String)>,
) -> Vec<u8> {
    let mut out = format!("{method} {} HTTP/1.1\r\n", web.path);
    for (name, value) in fields {
        out += &format!("{name}: {value}\r\n");
    }
    (out + "\r\n").into_bytes()
}

/// Reads one reply. `None`: the connection ended, the time did, or it is no HTTP.
pub(crate) fn read_reply(wire: &mut Wire, deadline: Instant) -> Option<Reply> {
    loop {
        let head = loop {
            if let Some(at) = find(&wire.buffer, b"\r\n\r\n") {
                break wire.buffer.drain(..at + 4).collect::<Vec<u8>>();
            }
            if wire.buffer.len() > HEAD_MAX || wire.read(deadline) != Got::Bytes {
                return None;
            }
        };
        let text = String::from_utf8_lossy(&head).into_owned();
        let mut lines = text.split("\r\n");
        let status: u16 = lines
            .next()?
            .strip_prefix("HTTP/1.")?
            .get(2..5)?
            .parse()
            .ok()?;
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        let mut reply = Reply {
            status,
            fields,
            body: Vec::new(),
        };
        if (100..200).contains(&status) && status != 101 {
            continue;
        }
        if matches!(status, 101 | 204 | 304) {
            return Some(reply);
        }
        let is_chunked = reply
            .field("transfer-encoding")
            .is_some_and(|value| value.to_ascii_lowercase().contains("chunked"));
        let length = reply
            .field("content-length")
            .and_then(|value| value.parse::<usize>().ok());
        reply.body = match (is_chunked, length) {
            (true, _) => chunked(wire, deadline)?,
            (false, Some(length)) => take(wire, length, deadline)?,
            (false, None) => {
                while wire.read(deadline) == Got::Bytes && wire.buffer.len() <= BODY_MAX {}
                std::mem::take(&mut wire.buffer)
            }
        };
        return Some(reply);
    }
}

fn take(wire: &mut Wire, length: usize, deadline: Instant) -> Option<Vec<u8>> {
    if length > BODY_MAX {
        return None;
    }
    while wire.buffer.len() < length {
        if wire.read(deadline) != Got::Bytes {
            return None;
        }
    }
    Some(wire.buffer.drain(..length).collect())
}

fn line(wire: &mut Wire, deadline: Instant) -> Option<String> {
    loop {
        if let Some(at) = find(&wire.buffer, b"\r\n") {
            let bytes: Vec<u8> = wire.buffer.drain(..at + 2).collect();
            return Some(String::from_utf8_lossy(&bytes[..at]).into_owned());
        }
        if wire.buffer.len() > HEAD_MAX || wire.read(deadline) != Got::Bytes {
            return None;
        }
    }
}

fn chunked(wire: &mut Wire, deadline: Instant) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(wire, deadline)?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            while !line(wire, deadline)?.is_empty() {}
            return Some(body);
        }
        if body.len() + size > BODY_MAX {
            return None;
        }
        body.extend(take(wire, size, deadline)?);
        line(wire, deadline)?;
    }
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}
