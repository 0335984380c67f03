//! Web origins: who may ask from a browser.
//!
//! The rule guarded here: origins are compared by scheme, host and port, never as parts of one
//! another; and what is no origin is only itself.

use alloc::string::String;

/// Whether a request from `origin` is let in where `known` are. No known one lets everybody in;
/// a request that names none is let in unless `required`.
pub(crate) fn lets_in(known: &[String], required: bool, origin: Option<&str>) -> bool {
    match origin {
        _ if known.is_empty() => true,
        None => !required,
        Some(origin) => known.iter().any(|known| is_same(known, origin)),
    }
}

/// Whether two origins are the same: scheme, host and port.
fn is_same(known: &str, origin: &str) -> bool {
    match (parts(known), parts(origin)) {
        (Some((scheme, host, port)), Some((its_scheme, its_host, its_port))) => {
            scheme.eq_ignore_ascii_case(its_scheme)
                && host.eq_ignore_ascii_case(its_host)
                && port == its_port
        }
        // `null`, and what is no origin at all, is only itself.
        _ => known == origin,
    }
}

/// The scheme, host and port of an origin.
pub(crate) fn parts(origin: &str) -> Option<(&str, &str, u16)> {
    let (scheme, authority) = origin.split_once("://")?;
    let at = authority.rfind(':').filter(|&at| {
        // The colons of `[::1]` are none before a port.
        !authority[at..].contains(']')
    });
    let (host, port) = match at {
        Some(at) => (&authority[..at], authority[at + 1..].parse().ok()?),
        None if scheme.eq_ignore_ascii_case("https") => (authority, 443),
        None if scheme.eq_ignore_ascii_case("http") => (authority, 80),
        None => (authority, 0),
    };
    let is_host = !host.is_empty() && !host.contains(['/', '?', '#', '@']);
    is_host.then_some((scheme, host, port))
}
