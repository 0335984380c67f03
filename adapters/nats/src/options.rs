//! What a program says about the servers, and why they cannot be used.

use std::fmt;
use std::time::Duration;

/// Which servers, and what is kept there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NatsOptions {
    /// The addresses of one or more servers of a cluster, with commas in between: `nats://HOST:PORT`, `tls://…`, with
    /// `USER:PASSWORD@` or `TOKEN@` before the host.
    pub servers: String,
    /// What all names at the server begin with: letters, digits, `-` and `_`. Hubs with the same prefix share their
    /// topics. Default `antiphon`.
    pub prefix: String,
    /// How many servers keep each message and position. Default 1; 3 or 5 in a cluster.
    pub replicas: usize,
    /// How long a command may take, and the first connection. Default 5 s.
    pub timeout: Duration,
}

impl NatsOptions {
    /// The defaults.
    pub fn new(servers: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            prefix: "antiphon".into(),
            replicas: 1,
            timeout: Duration::from_secs(5),
        }
    }

    pub(crate) fn error(&self, reason: impl fmt::Display) -> ConnectError {
        let servers = self.servers.split(',').map(|server| {
            // Not what stands before the host.
            let (scheme, rest) = server.split_once("://").unwrap_or(("nats", server));
            let host = rest.rsplit('@').next().unwrap_or(rest);
            format!("{scheme}://{host}")
        });
        ConnectError {
            servers: servers.collect::<Vec<_>>().join(","),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        let is_valid = |letter: u8| letter.is_ascii_alphanumeric() || b"-_".contains(&letter);
        match (1..=32).contains(&self.prefix.len()) && self.prefix.bytes().all(is_valid) {
            true => Ok(()),
            false => Err(self.error("the prefix needs 1 to 32 letters, digits, `-` or `_`")),
        }
    }
}

/// Why there is no connection, or the server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    /// The servers, without passwords.
    pub servers: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.servers, self.reason)
    }
}

impl std::error::Error for ConnectError {}
