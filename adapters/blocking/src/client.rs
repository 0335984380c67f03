//! Clients on threads: made by [`connect`] and [`reconnect`].

use std::sync::Arc;

use antiphon_net::{Client, ClientConfig, ConnectError, Target};
use async_io::block_on;

use crate::driver::in_turn;
use crate::in_turn::InTurn;
use crate::runtime::runtime;
use crate::serve::Service;

/// Connects to a server, and returns once messages can be exchanged. `target` is a URL, or anything else that
/// is a [`Target`]; `options` may be a [`Config`](antiphon::Config). `service` answers the server's requests;
/// `()` has no methods.
///
/// ```no_run
/// use antiphon_blocking::{Config, connect};
///
/// let client = connect("ws://127.0.0.1:8545", Config::ethereum(), ())?;
/// let block: String = client.call("eth_blockNumber", ()).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`ConnectError`]; or the system refused the thread that reads and writes. Over HTTP connections are made
/// for calls, so that their errors are those of calls.
pub fn connect(
    target: impl Into<Target>,
    options: impl Into<ClientConfig>,
    service: impl Service,
) -> Result<Client, ConnectError> {
    let (runtime, (service, _)) = (runtime()?, InTurn::new(service));
    let (target, options) = (target.into(), client_in_turn(options));
    block_on(antiphon_net::connect_on(
        target,
        options,
        Arc::new(service),
        &runtime,
    ))
}

/// Makes a client that has connections to one server, and replaces those that are lost, as
/// [`ClientConfig::reconnect`] says. Every connection gets a service from `make`. Over HTTP, where each call has
/// a connection, it makes a client that sends calls again as [`with_retry`](ClientConfig::with_retry) says.
///
/// Returns once the first connection is open. If that takes longer than the
/// [`connect_timeout`](ClientConfig::connect_timeout), the client is returned nevertheless, and goes on trying.
///
/// # Errors
/// A [`ConnectError`], if there will be no connection: the target or the options are not valid, or the last
/// attempt that is allowed has failed. A [`Link`](crate::Link) cannot be made again. Or the system refused the
/// thread that reads and writes.
pub fn reconnect<S: Service>(
    target: impl Into<Target>,
    options: impl Into<ClientConfig>,
    make: impl Fn() -> S + Send + Sync + 'static,
) -> Result<Client, ConnectError> {
    let runtime = runtime()?;
    let make = move || Arc::new(InTurn::new(make()).0);
    let (target, options) = (target.into(), client_in_turn(options));
    block_on(antiphon_net::reconnect_on(target, options, make, &runtime))
}

fn client_in_turn(options: impl Into<ClientConfig>) -> ClientConfig {
    let mut options = options.into();
    options.connection = in_turn(options.connection);
    options
}
