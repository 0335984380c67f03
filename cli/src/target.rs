//! `TARGET`: where a server is reached, and how messages are framed there.

use antiphon::Framing;

use crate::bytes::quoted;

/// Where a server is reached.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Tcp { host: String, port: u16 },
    Unix(String),
    Http(Web),
    WebSocket(Web),
    Command(Vec<String>),
}

/// A URL of HTTP or of a WebSocket.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    pub(crate) is_tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    /// As it was written, for `curl` and for clients.
    pub(crate) url: String,
}

impl Web {
    /// What stands in the field `Host`.
    pub(crate) fn authority(&self) -> String {
        let host = bracketed(&self.host);
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

/// An IPv6 address gets its brackets back.
fn bracketed(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

impl Target {
    /// Reads a URL. The framing is that of its scheme, if the scheme names one.
    pub(crate) fn read(url: &str) -> Result<(Self, Option<Framing>), String> {
        let read = Self::read_listen(url)?;
        match read.0 {
            Self::Tcp { port: 0, .. } | Self::Http(Web { port: 0, .. }) => bad(url, NO_PORT),
            Self::WebSocket(Web { port: 0, .. }) => bad(url, NO_PORT),
            _ => Ok(read),
        }
    }

    /// Reads a URL to listen at, where the port 0 stands for any that is free.
    pub(crate) fn read_listen(url: &str) -> Result<(Self, Option<Framing>), String> {
        let bad = |why| bad(url, why);
        if let Some(path) = url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                "" => bad("a path is missing"),
                path => Ok((Self::Unix(path.to_owned()), None)),
            };
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return bad(
                "a target begins with tcp://, tcp+lsp://, tcp+json://, unix:, http(s):// or ws(s)://, or is a command behind --",
            );
        };
        let cut = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        if authority.contains('@') {
            return Err(
                "the target names a user; credentials belong in --header or --token-env".to_owned(),
            );
        }
        let is_tls = matches!(scheme, "https" | "wss");
        let web = |default: u16| -> Option<Web> {
            let (host, port) = split(authority, Some(default))?;
            let path = path.split('#').next().unwrap_or_default();
            let path = match path.starts_with('/') {
                true => path.to_owned(),
                false => format!("/{path}"),
            };
            Some(Web {
                is_tls,
                host,
                port,
                path,
                url: url.to_owned(),
            })
        };
        let made = match scheme {
            "tcp" | "tcp+lsp" | "tcp+json" => split(authority, None).map(|(host, port)| {
                let framing = match scheme {
                    "tcp" => Framing::Newline,
                    "tcp+lsp" => Framing::ContentLength,
                    _ => Framing::Concatenated,
                };
                (Self::Tcp { host, port }, Some(framing))
            }),
            "http" | "https" => web(if is_tls { 443 } else { 80 })
                .map(|web| (Self::Http(web), Some(Framing::Messages))),
            "ws" | "wss" => web(if is_tls { 443 } else { 80 })
                .map(|web| (Self::WebSocket(web), Some(Framing::Messages))),
            _ => return bad("no such scheme"),
        };
        match made {
            Some(made) => Ok(made),
            None => bad(NO_PORT),
        }
    }

    /// The host and the port, of what has them.
    pub(crate) fn address(&self) -> Option<(&str, u16)> {
        match self {
            Self::Tcp { host, port } => Some((host, *port)),
            Self::Http(web) | Self::WebSocket(web) => Some((&web.host, web.port)),
            Self::Unix(_) | Self::Command(_) => None,
        }
    }

    /// The URL of what listens, with this port.
    pub(crate) fn url(&self, port: &str, framing: Framing) -> String {
        let (scheme, path) = match (self, framing) {
            (Self::Http(web), _) => ("http", &*web.path),
            (Self::WebSocket(web), _) => ("ws", &*web.path),
            (_, Framing::ContentLength) => ("tcp+lsp", ""),
            (_, Framing::Concatenated) => ("tcp+json", ""),
            _ => ("tcp", ""),
        };
        let host = self.address().map_or("", |(host, _)| host);
        format!("{scheme}://{}:{port}{path}", bracketed(host))
    }

    /// The target as it is shown. A query may be a secret, so it is left out.
    pub(crate) fn name(&self, framing: Framing) -> String {
        match self {
            Self::Tcp { port, .. } => self.url(&port.to_string(), framing),
            Self::Unix(path) => format!("unix:{path}"),
            Self::Http(web) | Self::WebSocket(web) => web
                .url
                .split(['?', '#'])
                .next()
                .unwrap_or_default()
                .to_owned(),
            Self::Command(words) => self::command(words),
        }
    }
}

const NO_PORT: &str = "a host and a port are needed, as in tcp://127.0.0.1:7777";

fn bad<T>(url: &str, why: &str) -> Result<T, String> {
    let url = quoted(&crate::bytes::shown(url.as_bytes()));
    Err(format!("{url}: {why}"))
}

/// A command as a shell reads it.
pub(crate) fn command(words: &[String]) -> String {
    words
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}

fn split(authority: &str, default: Option<u16>) -> Option<(String, u16)> {
    let (host, port) = match authority.rfind(']') {
        Some(end) => {
            let port = authority[end + 1..].strip_prefix(':');
            (authority.get(1..end)?, port)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        Some(text) => text.parse().ok()?,
        None => default?,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn targets_are_read_or_refused() {
        for (url, name) in [
            ("tcp://h:1", "tcp://h:1"),
            ("tcp+lsp://[::1]:1", "tcp+lsp://[::1]:1"),
            ("tcp+json://h:1/", "tcp+json://h:1"),
            ("unix:/a", "unix:/a"),
            ("unix:///a", "unix:/a"),
            ("http://h", "http://h"),
            ("https://h:1/p?key=secret", "https://h:1/p"),
            ("ws://h/p", "ws://h/p"),
            ("wss://h", "wss://h"),
        ] {
            let (target, framing) = Target::read(url).unwrap();
            assert_eq!(
                target.name(framing.unwrap_or(antiphon::Framing::Newline)),
                name
            );
        }
        for url in [
            "",
            "h:1",
            "tcp://h",
            "tcp://:1",
            "tcp://h:0",
            "tcp://h:70000",
            "unix:",
            "ftp://h",
            "http://u:p@h",
        ] {
            assert!(Target::read(url).is_err(), "{url}");
        }
        assert!(
            !Target::read("http://u:p4ss@h")
                .unwrap_err()
                .contains("p4ss")
        );
    }
}
