//! A client that replaces lost connections, on threads.

use std::io;
use std::sync::Arc;

use antiphon_net::{ConnectionConfig, Driven, Making, ReconnectConfig, ReconnectingClient, Roster};
use blocking::unblock;

use crate::driver::drive;
use crate::link::Link;
use crate::runtime::runtime;
use crate::serve::Service;

/// Makes a client that has connections to one server, and replaces those that are lost. `connect`
/// makes a connection, on a thread of its own; every connection gets a service from `make`.
///
/// # Errors
/// The strategy in [`ReconnectConfig::reconnect`] is not valid, or the system refused the thread that reads
/// and writes.
pub fn reconnect<S: Service>(
    connect: impl Fn() -> io::Result<Link> + Send + Sync + 'static,
    client: ReconnectConfig,
    options: impl Into<ConnectionConfig>,
    make: impl Fn() -> S + Send + Sync + 'static,
) -> io::Result<ReconnectingClient> {
    let (options, connect, make) = (options.into(), Arc::new(connect), Arc::new(make));
    let runtime = runtime()?;
    let (seen, inside) = (options.clone(), Arc::clone(&runtime));
    let make = move |_: Arc<Roster>| -> Making {
        let (connect, make) = (Arc::clone(&connect), Arc::clone(&make));
        let (options, runtime) = (options.clone(), Arc::clone(&inside));
        Box::pin(async move {
            let (mut link, service) = unblock(move || io::Result::Ok((connect()?, make()))).await?;
            let options = options.with_token(&*runtime).await?;
            link.0.context.draw_number();
            let (peer, driver) = drive(link, options, service);
            let driver: Driven = Box::pin(driver);
            Ok((peer, driver))
        })
    };
    let client = ReconnectingClient::start_with(make, client, &seen, &runtime);
    client.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
