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
        field(&self.fields, name)
    }
}

/// The first line of a request or a reply, and the fields behind it.
pub(crate) struct Head {
    first: String,
    pub(crate) fields: Vec<(String, String)>,
}

pub(crate) fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = fields
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
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

/// The reply to a request, after which the connection ends.
pub(crate) fn reply(body: &[u8]) -> Vec<u8> {
    let length = format!("Content-Length: {}", body.len());
    [reply_head(&length).as_bytes(), body].concat()
}

/// A reply whose body comes in these pieces.
pub(crate) fn chunked_reply<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut out = vec![reply_head("Transfer-Encoding: chunked").into_bytes()];
    for piece in pieces {
        let head = format!("{:x}\r\n", piece.len());
        out.push([head.as_bytes(), piece, b"\r\n"].concat());
    }
    out.push(b"0\r\n\r\n".to_vec());
    out
}

fn reply_head(field: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n{field}\r\n\r\n"
    )
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

/// Reads the head of a request or a reply. `None`: the connection ended, the time did, or it is too long.
pub(crate) fn read_head(wire: &mut Wire, deadline: Instant) -> Option<Head> {
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
    let first = lines.next()?.to_owned();
    let fields = lines.filter_map(|line| line.split_once(':'));
    let fields = fields
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    Some(Head { first, fields })
}

/// Reads one request, and returns its body. `None`: the connection ended, the time did, or it is no HTTP.
pub(crate) fn read_request(wire: &mut Wire, deadline: Instant) -> Option<Vec<u8>> {
    let head = read_head(wire, deadline)?;
    let is_chunked = field(&head.fields, "transfer-encoding")
        .is_some_and(|value| value.to_ascii_lowercase().contains("chunked"));
    if field(&head.fields, "expect").is_some() {
        wire.write(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    match (is_chunked, field(&head.fields, "content-length")) {
        (true, _) => chunked(wire, deadline),
        (false, Some(length)) => take(wire, length.parse().ok()?, deadline),
        (false, None) => Some(Vec::new()),
    }
}

/// Reads one reply. `None`: the connection ended, the time did, or it is no HTTP.
pub(crate) fn read_reply(wire: &mut Wire, deadline: Instant) -> Option<Reply> {
    loop {
        let Head { first, fields } = read_head(wire, deadline)?;
        let status: u16 = first.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
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

pub(crate) fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}
