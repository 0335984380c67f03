//! Where a connection has its configuration: in itself, or in its type.

use core::ops::Deref;

use super::Config;
use crate::frame::Framing;

/// The settings of a [`Connection`](crate::Connection): a [`Config`] that it stores, or a type that
/// implements [`FixedConfig`]. The trait is sealed: other types cannot implement it, so that no
/// connection's configuration ever changes.
pub trait Settings: sealed::Sealed {
    /// The framing, if it is known at compile time.
    const FRAMING: Option<Framing>;

    /// Whether there may be batches; false if it is known at compile time that they are switched
    /// off.
    const BATCHES: bool;

    /// The configuration, which never changes.
    fn config(&self) -> &Config;
}

/// No other crate can implement [`Settings`]:
///
/// ```compile_fail
/// struct Changing(std::cell::Cell<bool>, [antiphon::Config; 2]);
///
/// impl antiphon::Settings for Changing {
///     const FRAMING: Option<antiphon::Framing> = None;
///     const BATCHES: bool = true;
///
///     fn config(&self) -> &antiphon::Config {
///         self.0.set(!self.0.get());
///         &self.1[usize::from(self.0.get())]
///     }
/// }
/// ```
mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Config {}

    impl<F: super::FixedConfig> Sealed for F {}
}

impl Settings for Config {
    const FRAMING: Option<Framing> = None;
    const BATCHES: bool = true;

    #[inline]
    fn config(&self) -> &Config {
        self
    }
}

/// A configuration that is known at compile time, for small devices: a connection does not store
/// it, and code for what it switches off is left out of the program.
///
/// ```
/// use antiphon::{CancelStyle, Config, Connection, FixedConfig};
///
/// struct Thermostat;
///
/// impl FixedConfig for Thermostat {
///     const CONFIG: Config = Config::new()
///         .max_message_bytes(1024)
///         .batches(false)
///         .cancel_receive(CancelStyle::None);
/// }
///
/// let conn: Connection<(), Thermostat> = Connection::fixed(Thermostat);
/// assert_eq!(conn.config().limits.max_message_bytes, 1024);
/// assert!(size_of_val(&conn) <= size_of::<Connection>() - size_of::<Config>());
/// ```
pub trait FixedConfig {
    /// The configuration.
    const CONFIG: Config;
}

impl<F: FixedConfig> Settings for F {
    const FRAMING: Option<Framing> = Some(F::CONFIG.framing);
    const BATCHES: bool = F::CONFIG.dialect.batches;

    #[inline]
    fn config(&self) -> &Config {
        const { &F::CONFIG }
    }
}

/// Wraps settings, so that the fields of their configuration can be read from the wrapper.
pub(crate) struct Settled<S>(pub(crate) S);

impl<S: Settings> Deref for Settled<S> {
    type Target = Config;

    #[inline]
    fn deref(&self) -> &Config {
        self.0.config()
    }
}
