//! `TARGET`: where a peer listens or is reached, and the framing there.

use std::fmt;

use crate::transports::{Place, Web};
use antiphon::Framing;

use crate::usage::Failure;

/// A place to talk. Printed as it was written, but without its query, and with the path `/` if it needs
/// one and has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    place: Place,
    framing: Framing,
    /// The target as it was written, up to the address: `tcp+lsp://`.
    scheme: String,
}

impl Target {
    /// Reads a target; the words after `stdio:lsp:COMMAND` are the command's arguments.
    pub(crate) fn read(words: &[String], is_client: bool) -> Result<Self, Failure> {
        let Some((first, rest)) = words.split_first() else {
            return Err(Failure::new("a TARGET is missing; see --help"));
        };
        if names_a_user(first) {
            // The message does not show the target: what stands before the `@` is a secret.
            return Err(Failure::new(
                "the target names a user; credentials belong in a header",
            ));
        }
        let bad = |why: &str| Err(Failure::new(format!("{first}: {why}")));
        let target = if let Some(stdio) = first.strip_prefix("stdio:") {
            return Self::read_stdio(stdio, rest, is_client).or_else(bad);
        } else if let Some(path) = first.strip_prefix("unix:") {
            if path.is_empty() {
                return bad("a path is missing");
            }
            Self {
                place: Place::Unix(path.to_owned()),
                framing: Framing::Newline,
                scheme: "unix:".to_owned(),
            }
        } else if let Some((scheme, rest)) = first.split_once("://") {
            Self::read_address(scheme, rest).or_else(bad)?
        } else {
            return bad("is no target");
        };
        match rest.first() {
            None => Ok(target),
            Some(word) => Err(Failure::new(format!("{}: too many words", shown(word)))),
        }
    }

    fn read_address(scheme: &str, rest: &str) -> Result<Self, &'static str> {
        let web = |is_http, is_tls, rest: &str| {
            let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            Place::Web(Web {
                is_http,
                is_tls,
                address: address.to_owned(),
                path: if path.is_empty() { "/" } else { path }.to_owned(),
                origins: Vec::new(),
                token: None,
            })
        };
        let tcp = |rest: &str| Place::Tcp(rest.to_owned());
        // Over HTTP and WebSocket each body or frame is a message, so there is no framing to choose.
        let (place, framing) = match scheme {
            "tcp" => (tcp(rest), Framing::Newline),
            "tcp+lsp" => (tcp(rest), Framing::ContentLength),
            "tcp+json" => (tcp(rest), Framing::Concatenated),
            "http" => (web(true, false, rest), Framing::Messages),
            "https" => (web(true, true, rest), Framing::Messages),
            "ws" => (web(false, false, rest), Framing::Messages),
            "wss" => (web(false, true, rest), Framing::Messages),
            _ => return Err("no such transport"),
        };
        let (Place::Tcp(address) | Place::Web(Web { address, .. })) = &place else {
            return Err("no such transport");
        };
        let port = address.rsplit_once(':').map(|(_, port)| port);
        if port.and_then(|port| port.parse::<u16>().ok()).is_none() {
            return Err("must have HOST:PORT");
        }
        Ok(Self {
            place,
            framing,
            scheme: format!("{scheme}://"),
        })
    }

    fn read_stdio(stdio: &str, rest: &[String], is_client: bool) -> Result<Self, &'static str> {
        let (kind, command) = match stdio.split_once(':') {
            Some((kind, command)) => (kind, Some(command)),
            None => (stdio, None),
        };
        let framing = match kind {
            "lsp" => Framing::ContentLength,
            "ndjson" => Framing::Newline,
            "json" => Framing::Concatenated,
            _ => return Err("must be stdio:lsp, stdio:ndjson or stdio:json"),
        };
        let place = match (is_client, command) {
            (false, Some(_)) => return Err("a server starts no command"),
            (true, None) => return Err("stdin carries the operations: a client needs :COMMAND"),
            (false, None) if !rest.is_empty() => return Err("too many words behind it"),
            (false, None) => Place::Stdio,
            (true, Some(command)) => {
                let first = command.split_whitespace().map(str::to_owned);
                let words: Vec<String> = first.chain(rest.iter().cloned()).collect();
                if words.is_empty() {
                    return Err("a command is missing");
                }
                Place::Child(words)
            }
        };
        Ok(Self {
            place,
            framing,
            scheme: format!("stdio:{kind}"),
        })
    }

    /// Lets in only these origins, if there are any.
    pub(crate) fn let_in(&mut self, origins: Vec<String>) -> Result<(), Failure> {
        match &mut self.place {
            Place::Web(web) => web.origins = origins,
            _ if origins.is_empty() => {}
            _ => {
                return Err(Failure::new(
                    "--origin needs a target over HTTP or WebSocket",
                ));
            }
        }
        Ok(())
    }

    /// Lets in only who shows this token, over HTTP and WebSocket on one port.
    pub(crate) fn ask_for(&mut self, token: Option<String>) -> Result<(), Failure> {
        match &mut self.place {
            Place::Web(web) if web.is_http => web.token = token,
            _ if token.is_none() => {}
            _ => return Err(Failure::new("--token needs a target over HTTP")),
        }
        Ok(())
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// The target with the address that it really has, for a port that was 0, and with its query.
    pub(crate) fn at(&self, address: &str) -> String {
        let path = match &self.place {
            Place::Web(web) => web.path.as_str(),
            _ => "",
        };
        format!("{}{address}{path}", self.scheme)
    }

    /// Whether it is spoken to over TLS.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(&self.place, Place::Web(web) if web.is_tls)
    }
}

/// Whether a word is a URL, or nearly one, with a user in it. A path or a command may have an `@`.
fn names_a_user(word: &str) -> bool {
    let is_address = !word.starts_with("stdio:") && !word.starts_with("unix:");
    let (_, rest) = word.split_once("://").unwrap_or(("", word));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A backslash ends the host for some readers of URLs, and not for others.
    is_address && authority.contains(['@', '\\'])
}

/// A word of the command line, for a message: without the credentials that may be in it.
pub(crate) fn shown(word: &str) -> &str {
    match names_a_user(word) {
        true => "a URL with a user in it",
        false => word,
    }
}

/// Without the query, which may have a key in it.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match &self.place {
            Place::Stdio => "",
            Place::Child(words) => return write!(f, "{}:{}", self.scheme, words.join(" ")),
            Place::Tcp(address) => address,
            Place::Unix(path) => path,
            Place::Web(web) => {
                let whole = self.at(&web.address);
                return f.write_str(whole.split('?').next().unwrap_or_default());
            }
        };
        write!(f, "{}{address}", self.scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Target};
    use antiphon::Framing;

    /// Reads a target from words with `|` between them.
    fn read(text: &str, is_client: bool) -> Result<Target, String> {
        let words: Vec<String> = text.split('|').map(str::to_owned).collect();
        Target::read(&words, is_client).map_err(|failure| failure.to_string())
    }

    #[test]
    fn every_form_of_target_is_read() {
        let tcp = read("tcp://127.0.0.1:0", false).unwrap();
        assert_eq!(tcp.framing(), Framing::Newline);
        assert_eq!(tcp.at("127.0.0.1:9"), "tcp://127.0.0.1:9");
        let lsp = read("tcp+lsp://[::1]:9", true).unwrap();
        assert_eq!(lsp.framing(), Framing::ContentLength);
        assert_eq!(lsp.place(), &Place::Tcp("[::1]:9".to_owned()));
        assert_eq!(
            read("tcp+json://h:1", true).unwrap().framing(),
            Framing::Concatenated
        );
        let web = read("https://h:1/rpc?v=2", true).unwrap();
        assert_eq!(web.framing(), Framing::Messages);
        assert_eq!(web.at("h:2"), "https://h:2/rpc?v=2");
        assert!(web.is_tls() && !read("ws://h:1", true).unwrap().is_tls());
        assert_eq!(
            read("ws://[::1]:0", false).unwrap().to_string(),
            "ws://[::1]:0/"
        );
        let unix = read("unix:/a b/c", false).unwrap();
        assert_eq!(unix.place(), &Place::Unix("/a b/c".to_owned()));
        let child = read("stdio:ndjson:run it|--with this", true).unwrap();
        let words = ["run", "it", "--with this"].map(str::to_owned);
        assert_eq!(child.place(), &Place::Child(words.to_vec()));
        assert_eq!(child.framing(), Framing::Newline);
    }

    #[test]
    fn what_is_no_target_is_told_in_one_line() {
        let bad = [
            ("stdio:lsp", true),
            ("stdio:lsp:run", false),
            ("stdio:xml", false),
            ("stdio:lsp:", true),
            ("tcp://nowhere", false),
            ("tcp://h:70000", false),
            ("http://h/rpc", true),
            ("ftp://h:1/", true),
            ("unix:", true),
            ("somewhere", true),
            ("tcp://h:1|more", true),
            ("http://user:secret@h:1/", true),
            ("tcp://user:secret@h:1", false),
            ("ftp://user:secret@h", true),
            ("user:secret@h", true),
            ("http://secret\\@h:1", true),
            ("tcp://h:1|http://user:secret@h", true),
        ];
        for (text, is_client) in bad {
            let line = read(text, is_client).unwrap_err();
            assert!(!line.contains('\n') && !line.is_empty(), "{text}");
            assert!(!line.contains("secret"), "{text}");
        }
    }
}
