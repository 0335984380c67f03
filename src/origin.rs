//! Where a browser's request comes from: the origin of its page, and the host that it was sent to.
//!
//! A page may use a server if it is of an origin that is listed, or if it is the server's own. A
//! page of another site can give its own name the address of this machine (DNS rebinding). Its
//! requests then look like those of the server's own pages, but the name in their `Host` is that
//! site's. So a page counts as the server's own only under a host that no other site can have: a
//! loopback host, or one that is listed.

use alloc::string::String;
use core::net::IpAddr;

/// Stands for every origin.
pub(crate) const ANY: &str = "*";

/// Whether a request with these `Origin` headers and this `Host` is accepted. `known` are the
/// accepted origins, `hosts` the hosts of the server itself.
pub(crate) fn lets_in(
    known: &[String],
    hosts: &[String],
    is_required: bool,
    origins: &[&str],
    host: Option<&str>,
) -> bool {
    let [origin] = origins else {
        // Browsers send one. Programs send none, and a request with two is not trusted.
        return origins.is_empty() && !is_required;
    };
    known
        .iter()
        .any(|known| known == ANY || is_same(known, origin))
        || host.is_some_and(|host| is_own(hosts, host) && is_at(origin, host))
}

/// Whether the host is loopback, or one of `hosts`, which have a port or stand for every port.
fn is_own(hosts: &[String], host: &str) -> bool {
    let name = name_of(host);
    let is_known =
        |known: &String| known.eq_ignore_ascii_case(host) || known.eq_ignore_ascii_case(name);
    is_loopback(name) || hosts.iter().any(is_known)
}

/// Whether no other site can have given the host's name the address of this machine: it is the server's own, or is
/// an address, which nobody can rebind.
pub(crate) fn is_fixed(hosts: &[String], host: &str) -> bool {
    is_own(hosts, host) || address(name_of(host)).is_some()
}

/// The host without its port.
fn name_of(host: &str) -> &str {
    let end = host.rfind(':').filter(|&at| !host[at..].contains(']'));
    &host[..end.unwrap_or(host.len())]
}

/// The address that the name is; IPv6 addresses stand in brackets.
fn address(name: &str) -> Option<IpAddr> {
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.parse().ok()
}

/// Whether only this machine can have the name.
fn is_loopback(name: &str) -> bool {
    const LOCAL: &str = ".localhost";
    let end = name.len().checked_sub(LOCAL.len());
    // RFC 6761 clause 6.3: names below `localhost` are loopback too.
    let is_below = end.and_then(|at| name.get(at..));
    name.eq_ignore_ascii_case(&LOCAL[1..])
        || is_below.is_some_and(|end| end.eq_ignore_ascii_case(LOCAL))
        || address(name).is_some_and(|address| address.to_canonical().is_loopback())
}

/// Whether the origin is that of pages under `host`. A host without a port has the default port of
/// the origin's scheme.
pub(crate) fn is_at(origin: &str, host: &str) -> bool {
    let Some((scheme, _)) = origin.split_once("://") else {
        return false;
    };
    is_same(&[scheme, "://", host].concat(), origin)
}

/// Whether two origins are the same: scheme, host and port.
pub(crate) fn is_same(known: &str, origin: &str) -> bool {
    match (parts(known), parts(origin)) {
        (Some((scheme, host, port)), Some((its_scheme, its_host, its_port))) => {
            scheme.eq_ignore_ascii_case(its_scheme)
                && host.eq_ignore_ascii_case(its_host)
                && port == its_port
        }
        // `null`, and text that is not an origin, only equals itself.
        _ => known == origin,
    }
}

/// The scheme, host and port of an origin.
fn parts(origin: &str) -> Option<(&str, &str, u16)> {
    let (scheme, authority) = origin.split_once("://")?;
    let at = authority.rfind(':').filter(|&at| {
        // The colons of `[::1]` do not separate a port.
        !authority[at..].contains(']')
    });
    let (host, port) = match at {
        Some(at) => (&authority[..at], port(&authority[at + 1..])?),
        None if scheme.eq_ignore_ascii_case("https") => (authority, 443),
        None if scheme.eq_ignore_ascii_case("http") => (authority, 80),
        // The default port of another scheme is not known; 0 is no port.
        None => (authority, 0),
    };
    let is_host = !host.is_empty() && !host.contains(['/', '?', '#', '@']);
    is_host.then_some((scheme, host, port))
}

fn port(text: &str) -> Option<u16> {
    // `parse` would accept a sign too, which no port has.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::lets_in;
    use alloc::string::String;

    // USE-35
    #[test]
    fn a_page_of_the_servers_own_is_let_in_under_hosts_that_nobody_else_has() {
        let hosts = [
            String::from("app.example"),
            String::from("api.example:8443"),
        ];
        for (host, origin, is_let_in) in [
            ("localhost", "http://localhost", true),
            ("x.LOCALHOST:1", "http://x.localhost:1", true),
            ("127.1.2.3:1", "http://127.1.2.3:1", true),
            ("[::1]", "https://[::1]", true),
            ("[::ffff:127.0.0.1]", "http://[::ffff:127.0.0.1]", true),
            ("app.example", "http://app.example", true),
            ("APP.example", "https://app.example:443", true),
            ("app.example:8080", "http://app.example:8080", true),
            ("api.example:8443", "https://api.example:8443", true),
            ("api.example", "https://api.example", false),
            ("api.example:8443", "https://api.example", false),
            ("localhost", "http://localhost:1", false),
            ("localhost:1", "http://localhost:2", false),
            ("localhost:", "http://localhost:", true),
            ("localhost:x", "http://localhost:x", true),
            ("xlocalhost", "http://xlocalhost", false),
            (".localhost.example", "http://.localhost.example", false),
            ("127.0.0.1.example", "http://127.0.0.1.example", false),
            ("10.0.0.1", "http://10.0.0.1", false),
            ("[::2]", "http://[::2]", false),
            ("\u{e4}ocalhost", "http://\u{e4}ocalhost", false),
            ("", "http://", false),
            ("localhost", "null", false),
            ("localhost", "localhost", false),
            ("localhost", "", false),
        ] {
            let judged = lets_in(&[], &hosts, false, &[origin], Some(host));
            assert_eq!(judged, is_let_in, "{host} {origin}");
            assert!(!lets_in(&[], &hosts, false, &[origin], None), "{origin}");
        }
        let twice = ["http://localhost"; 2];
        assert!(!lets_in(&[], &[], false, &twice, Some("localhost")));
        assert!(lets_in(&[], &[], false, &[], Some("evil.example")));
        assert!(!lets_in(&[], &[], true, &[], Some("localhost")));
        let any = [String::from("*")];
        assert!(lets_in(&any, &[], true, &["null"], None));
    }
}
