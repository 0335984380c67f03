//! What connecting to a target takes: links or a child process, and the options of the connections.

use std::process::Command;

use super::config::ClientConfig;
use super::connect_error::ConnectError;
use super::target::{Connect, Kind, Target};
#[cfg(feature = "http")]
use crate::http::url::HttpUrl;
use crate::options::ConnectionConfig;
use crate::runtime::SharedRuntime;
use crate::transport::link::Link;

/// How to connect to a target.
pub(crate) enum Plan {
    /// By links that can be made again and again, for connections with these options.
    Links(Box<dyn Connect>, Box<ConnectionConfig>),
    /// By a link that is open.
    Link(Link, Box<ConnectionConfig>),
    /// By a child process.
    Child(Command, Box<ConnectionConfig>),
    /// By requests over HTTP, over links that are made when they are needed.
    #[cfg(feature = "http")]
    Http(HttpUrl, Box<dyn Connect>),
}

impl Plan {
    pub(crate) fn new(
        target: Target,
        options: &ClientConfig,
        runtime: &SharedRuntime,
    ) -> Result<Self, ConnectError> {
        let connection = Box::new(options.connection.clone());
        match target.0 {
            Kind::Link(link) => Ok(Self::Link(link, connection)),
            Kind::Command(command) => Ok(Self::Child(command, connection)),
            Kind::Function(connect) => Ok(Self::Links(connect, connection)),
            #[cfg(feature = "http")]
            Kind::Http(url, connect) => Ok(Self::Http(
                url.parse().map_err(ConnectError::Http)?,
                connect,
            )),
            #[cfg(any(feature = "tokio", feature = "async-io"))]
            Kind::Url(url) => super::url::plan(&url, options, runtime),
            #[cfg(not(any(feature = "tokio", feature = "async-io")))]
            Kind::Url(url) => {
                let _ = runtime;
                let why = "no runtime that connects is compiled in";
                Err(ConnectError::target(
                    super::target::without_query(&url),
                    why,
                ))
            }
        }
    }
}
