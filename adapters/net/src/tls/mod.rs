//! The common parts of TLS streams on tasks and on threads: names, errors, and the certificate of
//! the other side.
//!
//! No configuration is made here, so this crate chooses no cryptography, root certificate or
//! protocol version. [`TlsFault::of`] names the reason of a failed handshake, even if the error was
//! wrapped.
//!
//! rustls supports TLS 1.2 and 1.3 and nothing older, whatever its configuration is.

// Without a runtime there are no handshakes.
#![cfg_attr(not(any(feature = "tokio", feature = "async-io")), expect(dead_code))]

#[cfg(any(feature = "tokio", feature = "async-io"))]
mod handshake;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use handshake::{Acceptor, Connector, client, connect};
pub use rustls;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, CommonState, Error};
use rustls::{PeerIncompatible, ServerConfig};

use antiphon_shell::{Context, caught, permanent};

/// Why a TLS connection was not made, or broke.
///
/// In TLS 1.3 the client's handshake ends before the server has checked the client's certificate:
/// if the certificate is refused, the client learns that at its first read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsFault {
    /// The other side does not support TLS 1.2 or later.
    Version,
    /// The server's certificate is for other names than the requested one.
    WrongName,
    /// The other side's certificate has expired.
    Expired,
    /// The other side's certificate is not valid yet.
    NotYetValid,
    /// No trusted issuer has signed the other side's certificate.
    UnknownIssuer,
    /// The other side's certificate is malformed, revoked or not for this use.
    BadCertificate,
    /// A client certificate is required and the client has none. Both sides get this fault.
    ClientCertificateMissing,
    /// The other side refused our certificate or something else, or gave up.
    Refused,
    /// The other side does not speak TLS, or breaks its rules.
    Protocol,
}

impl TlsFault {
    /// Returns the meaning of `error`, if it came from TLS, however deeply it is wrapped.
    ///
    /// ```
    /// use antiphon_net::tls::{TlsFault, rustls};
    /// use std::io;
    /// let error = rustls::Error::NoCertificatesPresented;
    /// let error = io::Error::new(io::ErrorKind::InvalidData, error);
    /// assert_eq!(TlsFault::of(&error), Some(TlsFault::ClientCertificateMissing));
    /// assert_eq!(TlsFault::of(&io::ErrorKind::TimedOut.into()), None);
    /// ```
    pub fn of(error: &io::Error) -> Option<Self> {
        let mut inner: Option<&(dyn StdError + 'static)> = Some(error.get_ref()?);
        while let Some(error) = inner {
            if let Some(error) = error.downcast_ref::<TlsError>() {
                return Some(error.fault);
            }
            if let Some(error) = error.downcast_ref::<Error>() {
                return Some(Self::of_rustls(error));
            }
            let nested = error.downcast_ref::<io::Error>().and_then(Self::of);
            if nested.is_some() {
                return nested;
            }
            inner = error.source();
        }
        None
    }

    /// Whether another attempt ends in the same way until somebody changes a certificate or a
    /// configuration. Clients do not make another attempt then. Two faults may pass: a certificate that is
    /// not valid yet becomes valid by itself, and what does not speak TLS may be a proxy whose server is
    /// away for a moment.
    pub fn is_permanent(self) -> bool {
        match self {
            Self::Version
            | Self::WrongName
            | Self::Expired
            | Self::UnknownIssuer
            | Self::BadCertificate
            | Self::ClientCertificateMissing
            | Self::Refused => true,
            Self::NotYetValid | Self::Protocol => false,
        }
    }

    fn of_rustls(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(error) => Self::of_certificate(error),
            Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
                | PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                // rustls finds first that this extension is missing, in the hello of a client older
                // than TLS 1.2.
                | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
            )
            | Error::AlertReceived(AlertDescription::ProtocolVersion) => Self::Version,
            Error::NoCertificatesPresented
            | Error::AlertReceived(AlertDescription::CertificateRequired) => {
                Self::ClientCertificateMissing
            }
            Error::AlertReceived(_) => Self::Refused,
            _ => Self::Protocol,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::WrongName
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid
            }
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            _ => Self::BadCertificate,
        }
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "the other side speaks no TLS of version 1.2 or later",
            Self::WrongName => "the certificate is for another name",
            Self::Expired => "the certificate has expired",
            Self::NotYetValid => "the certificate is not valid yet",
            Self::UnknownIssuer => "the certificate is signed by nobody who is trusted",
            Self::BadCertificate => "the certificate cannot be accepted",
            Self::ClientCertificateMissing => "a client certificate is required and none was shown",
            Self::Refused => "the other side refused the connection",
            Self::Protocol => "the other side does not keep to TLS",
        })
    }
}

/// An error of TLS, as the source of an [`io::Error`] of kind
/// [`InvalidData`](io::ErrorKind::InvalidData). Among its own sources is rustls's error.
#[derive(Debug)]
pub struct TlsError {
    fault: TlsFault,
    /// What rustls says.
    text: String,
    source: Box<dyn StdError + Send + Sync>,
}

impl TlsError {
    /// The meaning of the error.
    pub fn fault(&self) -> TlsFault {
        self.fault
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS: {} ({})", self.fault, self.text)
    }
}

impl StdError for TlsError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

impl TlsError {
    fn of(source: Error) -> Self {
        let (fault, text) = (TlsFault::of_rustls(&source), source.to_string());
        let source: Box<dyn StdError + Send + Sync> = match fault.is_permanent() {
            true => permanent(source).into(),
            false => source.into(),
        };
        Self {
            fault,
            text,
            source,
        }
    }
}

/// Adds an explanation to an error, if it came from TLS.
pub(crate) fn explain(error: io::Error) -> io::Error {
    let kind = error.kind();
    match error.downcast::<Error>() {
        Ok(error) => io::Error::new(kind, TlsError::of(error)),
        Err(error) => error,
    }
}

/// Converts a name or address with which a server's certificate is compared.
///
/// # Errors
/// [`InvalidInput`](io::ErrorKind::InvalidInput): it is neither a host name nor an address.
pub(crate) fn server_name(name: &str) -> io::Result<ServerName<'static>> {
    let parsed = ServerName::try_from(name).map(|name| name.to_owned());
    parsed.map_err(|_| {
        let text = format!("{name:?} is no name of a server");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// Returns the certificate with which the other side has authenticated itself, in DER.
pub(crate) fn certificate_of(state: &CommonState) -> Option<Vec<u8>> {
    let chain = state.peer_certificates()?;
    chain.first().map(|certificate| certificate.to_vec())
}

/// Returns the protocol on which both sides have agreed (ALPN, RFC 7301).
pub(crate) fn alpn_of(state: &CommonState) -> Option<Vec<u8>> {
    state.alpn_protocol().map(<[u8]>::to_vec)
}

/// Returns what to offer (ALPN) instead of `offered`; `None` if that can stay. HTTP/2 and HTTP/3 are not
/// spoken here. A client or server that is offered them speaks them then, so HTTP/1.1 is offered in their
/// place.
fn only_http1(offered: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    const HTTP1: &[u8] = b"http/1.1";
    let is_spoken = |name: &&Vec<u8>| !matches!(name.as_slice(), b"h2" | b"h2c" | b"h3");
    let mut spoken: Vec<_> = offered.iter().filter(is_spoken).cloned().collect();
    if spoken.len() == offered.len() {
        return None;
    }
    if !spoken.iter().any(|name| name == HTTP1) {
        spoken.push(HTTP1.to_vec());
    }
    Some(spoken)
}

/// Makes a client offer HTTP/1.1 in the place of HTTP/2 and HTTP/3, which are not spoken here (ALPN).
pub(crate) fn spoken_by_client(mut config: Arc<ClientConfig>) -> Arc<ClientConfig> {
    if let Some(spoken) = only_http1(&config.alpn_protocols) {
        Arc::make_mut(&mut config).alpn_protocols = spoken;
    }
    config
}

/// Makes a server offer HTTP/1.1 in the place of HTTP/2 and HTTP/3, which are not spoken here (ALPN).
pub(crate) fn spoken_by_server(mut config: Arc<ServerConfig>) -> Arc<ServerConfig> {
    if let Some(spoken) = only_http1(&config.alpn_protocols) {
        Arc::make_mut(&mut config).alpn_protocols = spoken;
    }
    config
}

/// A function that is called for the connections whose handshake failed. The default is none.
#[derive(Clone, Default)]
pub(crate) struct OnFailure(Option<Arc<FailureFn>>);

type FailureFn = dyn Fn(&Context, &io::Error) + Send + Sync;

impl OnFailure {
    /// Sets the function, for logs and metrics. It runs on the task of the connection, so it must
    /// be quick.
    pub(crate) fn new(report: impl Fn(&Context, &io::Error) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    /// Reports a connection whose handshake failed.
    pub(crate) fn tell(&self, context: &Context, error: &io::Error) {
        if let Some(report) = &self.0 {
            report(context, error);
        }
    }
}

impl fmt::Debug for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnFailure").field(&self.0.is_some()).finish()
    }
}

/// Observes a running handshake. If it is dropped before it is [`done`](Self::done), the deadline has
/// passed or the server has stopped, and [`TimedOut`](io::ErrorKind::TimedOut) is reported.
#[derive(Debug)]
pub(crate) struct WatchedHandshake {
    on_failure: OnFailure,
    /// `None` after the handshake's end was reported.
    context: Option<Context>,
}

impl WatchedHandshake {
    /// Begins to observe a handshake.
    pub(crate) fn new(on_failure: OnFailure, context: Context) -> Self {
        Self {
            on_failure,
            context: Some(context),
        }
    }

    /// Notes how the handshake ended, and returns the context of the connection.
    ///
    /// # Errors
    /// The given error, which has been reported.
    pub(crate) fn done<T>(mut self, outcome: io::Result<T>) -> io::Result<(T, Context)> {
        // Only this method takes it, and it takes `self`.
        let context = self.context.take().unwrap_or_default();
        match outcome.map_err(explain) {
            Ok(stream) => Ok((stream, context)),
            Err(error) => {
                self.on_failure.tell(&context, &error);
                Err(error)
            }
        }
    }
}

impl Drop for WatchedHandshake {
    fn drop(&mut self) {
        if let Some(context) = self.context.take() {
            let text = "the TLS handshake was not finished in time";
            let error = io::Error::new(io::ErrorKind::TimedOut, text);
            caught(|| self.on_failure.tell(&context, &error));
        }
    }
}
