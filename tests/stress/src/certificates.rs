//! Certificates that are made for one test, and configurations that use them. The cryptography of
//! these tests is chosen here alone: ring's.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ALL_VERSIONS, ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

/// The host name in the certificates of servers.
pub const NAME: &str = "localhost";

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Now, and for years.
    Now,
    /// Until the year 2020.
    Past,
    /// From the year 3000.
    Future,
}

/// An authority that signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

/// A certificate and its key.
#[derive(Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self {
            certificate: self.certificate.clone(),
            key: self.key.clone_key(),
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn named(name: &str) -> DistinguishedName {
    let mut whole = DistinguishedName::new();
    whole.push(DnType::CommonName, name);
    whole
}

impl Authority {
    /// A new authority with that name.
    ///
    /// # Panics
    /// The system gives no random numbers.
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).expect("a root");
        Self {
            root: root.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Signs a certificate for `names`.
    ///
    /// # Panics
    /// One of `names` is not a valid name.
    pub fn sign(&self, names: &[&str], validity: Validity) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name = named("a test");
        match validity {
            Validity::Now => {}
            Validity::Past => params.not_after = date_time_ymd(2020, 1, 1),
            Validity::Future => params.not_before = date_time_ymd(3000, 1, 1),
        }
        let signed = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity {
            certificate: signed.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).expect("a root");
        Arc::new(roots)
    }

    /// A client that trusts this authority.
    ///
    /// # Panics
    /// The key of `identity` does not fit its certificate.
    pub fn client(&self, identity: Option<Identity>) -> Arc<ClientConfig> {
        let trusting = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(self.roots());
        Arc::new(match identity {
            None => trusting.with_no_client_auth(),
            Some(own) => trusting
                .with_client_auth_cert(vec![own.certificate], own.key)
                .expect("an identity"),
        })
    }

    /// A server that asks its clients for no certificate, and offers the protocols `offered` (ALPN).
    ///
    /// # Panics
    /// The key of `identity` does not fit its certificate.
    pub fn open_server(&self, identity: Identity, offered: &[&[u8]]) -> Arc<ServerConfig> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![identity.certificate], identity.key);
        let mut config = config.expect("an identity");
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    /// A client that trusts this authority, and offers the protocols `offered` (ALPN).
    ///
    /// # Panics
    /// Never.
    pub fn offering_client(&self, offered: &[&[u8]]) -> Arc<ClientConfig> {
        let mut config = (*self.client(None)).clone();
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    /// A server that requires a certificate which this authority has signed.
    ///
    /// # Panics
    /// The key of `identity` does not fit its certificate.
    pub fn strict_server(&self, identity: Identity, versions: Versions) -> Arc<ServerConfig> {
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots(), provider())
            .build()
            .expect("a verifier");
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .expect("versions")
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![identity.certificate], identity.key);
        Arc::new(config.expect("an identity"))
    }
}

/// The versions of TLS to speak.
pub type Versions = &'static [&'static SupportedProtocolVersion];

/// Every version that rustls speaks: 1.2 and 1.3.
pub const ANY: Versions = ALL_VERSIONS;

/// TLS 1.2 alone.
pub const TLS12: Versions = &[&rustls::version::TLS12];

/// TLS 1.3 alone.
pub const TLS13: Versions = &[&rustls::version::TLS13];

/// A server that asks for no certificate.
///
/// # Panics
/// The key of `identity` does not fit its certificate.
pub fn server(identity: Identity, versions: Versions) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate], identity.key);
    Arc::new(config.expect("an identity"))
}
