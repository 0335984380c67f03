//! Certificates and trusted roots, which a program with TLS has to choose.

use std::fmt;
use std::io;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The names that a certificate made here is for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What to show, and whom to trust, each in PEM.
#[derive(Clone, Default)]
pub struct Tls {
    /// The certificate chain that a server shows, and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The certificates that a client trusts.
    pub roots: Option<Vec<u8>>,
}

impl Tls {
    /// Makes a certificate for this machine, signed by itself, and trusts it.
    ///
    /// # Errors
    /// It could not be made.
    pub fn self_made() -> io::Result<Self> {
        let made = generate_simple_self_signed(NAMES.map(str::to_owned));
        let CertifiedKey { cert, signing_key } = made.map_err(io::Error::other)?;
        let certificate = cert.pem().into_bytes();
        Ok(Self {
            identity: Some((
                certificate.clone(),
                signing_key.serialize_pem().into_bytes(),
            )),
            roots: Some(certificate),
        })
    }

    /// A server's configuration.
    ///
    /// # Errors
    /// There is no certificate or no key, or it cannot be used.
    pub fn server(&self) -> io::Result<Arc<ServerConfig>> {
        let missing = || invalid("a certificate and its key are missing");
        let (chain, key) = self.identity.as_ref().ok_or_else(missing)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(invalid)?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_no_client_auth()
            .with_single_cert(certificates(chain)?, key)
            .map_err(invalid)?;
        Ok(Arc::new(config))
    }

    /// A client's configuration.
    ///
    /// # Errors
    /// No certificate is trusted, or one cannot be used.
    pub fn client(&self) -> io::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(self.roots()?)? {
            roots.add(certificate).map_err(invalid)?;
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }

    fn roots(&self) -> io::Result<&[u8]> {
        let roots = self.roots.as_deref();
        roots.ok_or_else(|| invalid("a client needs a certificate to trust"))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("has_identity", &self.identity.is_some())
            .field("has_roots", &self.roots.is_some())
            .finish()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(pem: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(read) if !read.is_empty() => Ok(read),
        Ok(_) => Err(invalid("there is no certificate in it")),
        Err(error) => Err(invalid(error)),
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::Tls;

    #[test]
    fn what_is_made_is_of_use_to_both_sides_and_what_is_missing_is_told() {
        let made = Tls::self_made().unwrap();
        made.server().unwrap();
        made.client().unwrap();
        let none = Tls::default();
        assert!(none.server().is_err() && none.client().is_err());
        let empty = Tls {
            roots: Some(b"nothing".to_vec()),
            ..none
        };
        assert!(empty.client().is_err());
    }
}
