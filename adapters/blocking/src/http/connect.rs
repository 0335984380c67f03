//! Clients with a sender of the program.

use antiphon_net::{Client, ClientConfig, ConnectError};

use super::send::{AtOnce, HttpSend};
use crate::runtime::clock;

/// Makes a client of the server at `url` that sends with `send`, and not over connections of its
/// own. [`close`](Client::close) only drops the sender.
///
/// # Errors
/// [`ConnectError::Http`] for a URL that is not valid.
pub fn with_send(
    url: &str,
    options: impl Into<ClientConfig>,
    send: impl HttpSend,
) -> Result<Client, ConnectError> {
    // Only its clock and timers are used: nothing is spawned on it.
    Client::with_send_on(url, &options.into(), AtOnce(send), &clock())
}
