//! A client that replaces lost connections, on threads.

use std::io;
use std::sync::Arc;

use antiphon_net::{
    ConnectionConfig, Driven, Making, ReconnectConfig, ReconnectingClient, Roster, Threads,
};

use crate::driver::drive;
use crate::serve::Service;
use crate::transport::link::Link;

/// Makes a client that has connections to one server, and replaces those that are lost. `connect`
/// makes a connection, on a thread of its own; every connection gets a service from `make`.
///
/// # Errors
/// The strategy in [`ReconnectConfig::reconnect`] is not valid.
pub fn reconnect<S: Service>(
    connect: impl Fn() -> io::Result<Link> + Send + Sync + 'static,
    client: ReconnectConfig,
    options: impl Into<ConnectionConfig>,
    make: impl Fn() -> S + Send + Sync + 'static,
) -> io::Result<ReconnectingClient> {
    let (options, parts) = (options.into(), Arc::new((connect, make)));
    let seen = options.clone();
    let make = move |_: Arc<Roster>| -> Making {
        let (parts, options) = (Arc::clone(&parts), options.clone());
        Box::pin(async move {
            let (connect, make) = &*parts;
            let mut link = connect()?;
            let options = options.with_token(&*Threads::shared()).await?;
            link.context.draw_number();
            let (peer, driver) = drive(link, options, make());
            let driver: Driven = Box::pin(driver);
            Ok((peer, driver))
        })
    };
    let client = ReconnectingClient::start_with(make, client, &seen, &Threads::shared());
    client.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
