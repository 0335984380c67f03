//! Decides whether a server may accept another connection: counts connections in all and per
//! address. The caller passes the addresses; nothing is accepted or closed here.
//!
//! A refused connection is not counted, and a permit cannot be returned twice. If the caller
//! returns each one, the counts match the open connections.

use alloc::collections::BTreeMap;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// How many connections a server holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionLimits {
    /// The most connections in all. Each needs up to
    /// [`Config::max_memory_bytes`](crate::Config::max_memory_bytes). Default 10 240.
    pub max_connections: usize,
    /// The most connections with one key, so that one address cannot use all of them. Default
    /// `usize::MAX`: no limit, because behind a proxy all connections come from one address.
    pub max_per_key: usize,
}

impl ConnectionLimits {
    /// Returns the default limits.
    pub const fn new() -> Self {
        Self {
            max_connections: 10_240,
            max_per_key: usize::MAX,
        }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a connection was refused, before anything of it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitReached {
    /// `max_connections` connections are open.
    Connections,
    /// `max_per_key` connections with the same key are open.
    Key,
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connections => "too many connections are open",
            Self::Key => "too many connections from this address are open",
        })
    }
}

impl core::error::Error for LimitReached {}

/// The right to be connected: [`ConnectionLimiter::enter`] returns it, and
/// [`ConnectionLimiter::leave`] takes it when the connection has ended. If it is dropped instead,
/// the connection stays counted.
#[derive(Debug)]
#[must_use = "it is counted until it is given back"]
pub struct Permit<K>(Option<K>);

/// Counts the connections of a server. `K` is the key by which they are counted, usually
/// [`address_key`]. It stores at most one entry per key with an open connection.
///
/// ```
/// use antiphon::{ConnectionLimiter, ConnectionLimits, LimitReached};
/// let mut limits = ConnectionLimits::new();
/// limits.max_per_key = 1;
/// let mut admission = ConnectionLimiter::new(limits);
/// let first = admission.enter(Some("10.0.0.1")).unwrap();
/// assert_eq!(admission.enter(Some("10.0.0.1")).unwrap_err(), LimitReached::Key);
/// admission.leave(first);
/// assert!(admission.enter(Some("10.0.0.1")).is_ok());
/// ```
#[derive(Debug)]
pub struct ConnectionLimiter<K> {
    limits: ConnectionLimits,
    open: usize,
    by_key: BTreeMap<K, usize>,
}

impl<K: Ord + Clone> ConnectionLimiter<K> {
    /// Makes a limiter that counts no connections yet.
    pub const fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            open: 0,
            by_key: BTreeMap::new(),
        }
    }

    /// Adds a connection. A connection without a key, as over a Unix socket, only counts against
    /// `max_connections`.
    ///
    /// # Errors
    /// The limit that is reached; nothing is counted then.
    pub fn enter(&mut self, key: Option<K>) -> Result<Permit<K>, LimitReached> {
        if self.open >= self.limits.max_connections {
            return Err(LimitReached::Connections);
        }
        if let Some(key) = &key {
            let open = self.by_key.get(key).copied().unwrap_or(0);
            if open >= self.limits.max_per_key {
                return Err(LimitReached::Key);
            }
            self.by_key.insert(key.clone(), open + 1);
        }
        self.open += 1;
        Ok(Permit(key))
    }

    /// Removes a connection. (A permit of another `ConnectionLimiter` cannot be recognised: it
    /// removes a connection too, if there is one.)
    pub fn leave(&mut self, place: Permit<K>) {
        self.open = self.open.saturating_sub(1);
        let Some(key) = place.0 else {
            return;
        };
        match self.by_key.get_mut(&key) {
            Some(open) if *open > 1 => *open -= 1,
            // The last connection of a key removes its entry.
            _ => drop(self.by_key.remove(&key)),
        }
    }

    /// The number of connections.
    pub const fn open(&self) -> usize {
        self.open
    }

    /// The number of connections with this key.
    pub fn open_with(&self, key: &K) -> usize {
        self.by_key.get(key).copied().unwrap_or(0)
    }
}

/// Returns the key of an address: an IPv4 address itself, also if it is written as IPv6; of an IPv6
/// address the first 64 bits, because a host that has one address of such a network has them all.
///
/// ```
/// use antiphon::address_key;
/// let key = |address: &str| address_key(address.parse().unwrap());
/// assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
/// assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
/// assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
/// ```
pub const fn address_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionLimiter, ConnectionLimits, LimitReached, Permit, address_key};
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    fn admission(max_connections: usize, max_per_key: usize) -> ConnectionLimiter<u8> {
        ConnectionLimiter::new(ConnectionLimits {
            max_connections,
            max_per_key,
        })
    }

    // CON-12 SEC-10
    #[test]
    fn one_too_many_is_refused_and_leaves_no_trace() {
        let mut admission = admission(2, usize::MAX);
        let first = admission.enter(Some(1)).unwrap();
        let second = admission.enter(None).unwrap();
        for key in [None, Some(1), Some(2)] {
            assert_eq!(admission.enter(key).unwrap_err(), LimitReached::Connections);
        }
        assert_eq!((admission.open(), admission.open_with(&2)), (2, 0));
        admission.leave(second);
        assert_eq!((admission.open(), admission.open_with(&1)), (1, 1));
        let third = admission.enter(Some(1)).unwrap();
        admission.leave(first);
        admission.leave(third);
        assert_eq!(admission.open(), 0);
        assert!(admission.by_key.is_empty());
    }

    // CON-12 SEC-10
    #[test]
    fn one_address_does_not_take_every_place() {
        let mut admission = admission(10, 2);
        let places: Vec<_> = (0..2).map(|_| admission.enter(Some(1)).unwrap()).collect();
        assert_eq!(admission.enter(Some(1)).unwrap_err(), LimitReached::Key);
        assert_eq!(admission.open(), 2);
        let other = admission.enter(Some(2)).unwrap();
        // Connections without an address have no limit per address.
        let nameless: Vec<_> = (0..7).map(|_| admission.enter(None).unwrap()).collect();
        assert_eq!(
            admission.enter(None).unwrap_err(),
            LimitReached::Connections
        );
        for place in places.into_iter().chain(nameless).chain([other]) {
            admission.leave(place);
        }
        assert_eq!((admission.open(), admission.open_with(&1)), (0, 0));
    }

    // CON-12
    #[test]
    fn a_limit_of_nothing_lets_nobody_in() {
        assert_eq!(
            admission(0, 9).enter(None).unwrap_err(),
            LimitReached::Connections
        );
        let mut admission = admission(9, 0);
        assert_eq!(admission.enter(Some(1)).unwrap_err(), LimitReached::Key);
        assert!(admission.enter(None).is_ok());
    }

    // CON-12
    #[test]
    fn a_place_of_another_count_does_no_harm() {
        let mut elsewhere = admission(9, 9);
        let mut admission = admission(1, 1);
        admission.leave(elsewhere.enter(Some(1)).unwrap());
        assert_eq!(admission.open(), 0);
        let _place = admission.enter(Some(1)).unwrap();
        assert_eq!(
            admission.enter(Some(2)).unwrap_err(),
            LimitReached::Connections
        );
    }

    // CON-12 SEC-10
    #[test]
    fn the_counts_are_what_is_open_whatever_comes_and_goes() {
        let mut admission = admission(20, 6);
        let mut open: Vec<(Option<u8>, Permit<u8>)> = Vec::new();
        let (mut random, mut refused) = (antiphon_test_support::random::Random::new(99), 0);
        for _ in 0..5000 {
            let seed = random.next();
            let key = (seed % 5 != 0).then_some((seed >> 8) as u8 % 4);
            let mut counts = BTreeMap::new();
            for (key, _) in &open {
                *counts.entry(*key).or_insert(0) += 1;
            }
            let with_key = counts.get(&key).copied().unwrap_or(0);
            let wanted = match key {
                _ if open.len() == 20 => Err(LimitReached::Connections),
                Some(_) if with_key == 6 => Err(LimitReached::Key),
                _ => Ok(()),
            };
            if seed >> 32 & 3 == 0 && !open.is_empty() {
                let at = (seed >> 40) as usize % open.len();
                admission.leave(open.swap_remove(at).1);
            } else {
                let entered = admission.enter(key).map(|place| open.push((key, place)));
                assert_eq!(entered, wanted);
                refused += usize::from(wanted.is_err());
            }
            assert_eq!(admission.open(), open.len());
        }
        assert!(refused > 100, "{refused}");
        open.drain(..).for_each(|(_, place)| admission.leave(place));
        assert_eq!(admission.open(), 0);
        assert!(admission.by_key.is_empty());
    }

    // CON-12 SEC-10
    #[test]
    fn who_has_one_address_of_a_network_has_them_all() {
        let key = |text: &str| address_key(text.parse().unwrap());
        for (one, other, is_same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", false),
            ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true),
            ("2001:db8:0:1::", "2001:db8::", false),
            ("::1", "127.0.0.1", false),
        ] {
            assert_eq!(key(one) == key(other), is_same, "{one} {other}");
        }
    }
}
