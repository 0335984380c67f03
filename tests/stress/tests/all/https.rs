//! HTTP over TLS on threads and on every async runtime: the certificate of a client reaches the
//! handler, and a server without a trusted certificate is refused.

use std::sync::Arc;

use antiphon::{Config, OwnedError};
use antiphon_net::http::{Endpoint, HttpError};
use antiphon_net::tls::rustls::ServerConfig;
use antiphon_net::tls::{Connector, TlsFault};
use antiphon_net::{
    Answer, CallError, ClientConfig, Context, Peer, Request, Service, TcpServer, connect,
};
use antiphon_stress::certificates::{ANY, Authority, NAME, TLS12, TLS13, Validity};
use antiphon_stress::{Rt, choose_executor, on_every_runtime};

/// Answers with the certificate that the client has shown, or `null`.
struct Who;

fn answer(context: &Context) -> Answer {
    context.client_certificate.as_deref().into()
}

impl Service for Who {
    async fn request(&self, peer: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(answer(peer.context()))
    }
}

impl antiphon_blocking::Service for Who {
    fn request(
        &mut self,
        peer: &antiphon_blocking::Peer,
        _: &Request,
    ) -> Result<Answer, OwnedError> {
        Ok(answer(peer.context()))
    }
}

/// The fault of TLS because of which a connection could not be made.
fn fault(error: CallError) -> Option<TlsFault> {
    match error {
        CallError::Http(HttpError::Connect(error)) => TlsFault::of(&error),
        other => panic!("{other:?}"),
    }
}

fn a_client_certificate_reaches_the_handlers_of_a_request(rt: Rt) {
    let authority = Authority::new("a");
    for versions in [ANY, TLS12, TLS13] {
        let own = authority.sign(&["client"], Validity::Now);
        let shown = own.certificate.to_vec();
        let identity = authority.sign(&[NAME], Validity::Now);
        let server = authority.strict_server(identity, versions);
        let trusting = authority.client(Some(own));
        let strange = Authority::new("b").client(None);
        rt.run(|runtime| async move {
            let endpoint = Endpoint::new(Config::new(), Who, runtime);
            let (url, running) = start(server, endpoint).await;
            let options =
                |config| ClientConfig::from(Config::new()).with_tls(Connector::from(config));
            let client = connect(&url, options(trusting), ()).await;
            let client = client.expect("a client");
            let seen: Vec<u8> = client.call("who", ()).await.expect("an answer");
            assert_eq!(seen, shown, "{rt:?}");
            let strange = connect(&url, options(strange), ()).await;
            let error = strange.expect("a client").call::<()>("who", ()).await;
            let fault = fault(error.expect_err("nobody vouches for it"));
            assert_eq!(fault, Some(TlsFault::UnknownIssuer), "{rt:?}");
            running.stop();
        });
    }
}

on_every_runtime! {
    // SEC-01 SEC-02 SRV-33 HTP-05
    a_client_certificate_reaches_the_handlers_of_a_request;
}

/// Starts a server with TLS on the runtime of the test. Returns its URL, and the server.
async fn start(
    config: Arc<ServerConfig>,
    endpoint: Endpoint<Who>,
) -> (String, antiphon_net::Running) {
    let server = TcpServer::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{NAME}:{}/", server.local_addr().port());
    let secure = antiphon_net::tls::Acceptor::new(config);
    (url, server.with_secure(secure).start_protocol(endpoint))
}

// SEC-01 SEC-02 SRV-33 HTP-05
#[test]
fn the_same_on_threads() {
    choose_executor();
    let authority = Authority::new("a");
    let own = authority.sign(&["client"], Validity::Now);
    let shown = own.certificate.to_vec();
    let identity = authority.sign(&[NAME], Validity::Now);
    let config = authority.strict_server(identity, ANY);
    let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "https://{NAME}:{}/",
        server.local_addr().expect("an address").port()
    );
    let running = server
        .with_tls(config)
        .start_http(Config::new(), |_| Who)
        .expect("a thread");
    let connect = |config: Arc<_>| {
        let options = ClientConfig::from(Config::new()).with_tls(Connector::from(config));
        antiphon_blocking::connect(&url, options, ())
    };
    let client = connect(authority.client(Some(own))).expect("a client");
    for _ in 0..3 {
        let seen: Vec<u8> = client.call("who", ()).wait().expect("an answer");
        assert_eq!(seen, shown);
    }
    // All calls went over one connection.
    assert_eq!(running.connections(), 1);
    let strange = connect(Authority::new("b").client(None)).expect("a client");
    let error = strange
        .call::<()>("who", ())
        .wait()
        .expect_err("nobody vouches for it");
    assert_eq!(fault(error), Some(TlsFault::UnknownIssuer));
    running.stop();
}
