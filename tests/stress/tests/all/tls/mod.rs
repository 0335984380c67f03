//! TLS on every adapter, and between them: conversations, certificates, refusals, deadlines.

mod raw;
mod sides;

use std::io;
use std::thread;
use std::time::Duration;

use antiphon_net::tls::TlsFault;
use antiphon_stress::LONG;
use antiphon_stress::certificates::{
    ANY, Authority, Identity, NAME, TLS12, TLS13, Validity, server,
};
use sides::{ALL, Caller, Kind, Serving};

/// An authority, and a server's certificate that it has signed.
fn good() -> (Authority, Identity) {
    let authority = Authority::new("a root");
    let identity = authority.sign(&[NAME, "127.0.0.1"], Validity::Now);
    (authority, identity)
}

/// Why a client was refused, or refused its server.
fn fault(refused: io::Result<Caller>) -> TlsFault {
    let error = refused.err().expect("a refusal");
    TlsFault::of(&error).unwrap_or_else(|| panic!("{error:?}"))
}

// SEC-01
#[test]
fn every_client_talks_to_every_server() {
    let (authority, identity) = good();
    for kind in ALL {
        for versions in [ANY, TLS12, TLS13] {
            let serving = Serving::new(kind, server(identity.clone(), versions));
            for client in ALL {
                // By name, and by address.
                for name in [NAME, "127.0.0.1"] {
                    let config = authority.client(None);
                    let caller = Caller::new(client, serving.address, name, config).unwrap();
                    assert_eq!(caller.echo("hello").unwrap(), "hello");
                    assert_eq!(caller.who().unwrap(), None);
                    caller.end();
                    assert!(caller.broken_by().is_none(), "{kind:?} {client:?}");
                }
            }
        }
    }
}

// SEC-01 SEC-02
#[test]
fn a_websocket_goes_over_tls() {
    let (authority, identity) = good();
    let own = authority.sign(&["a client"], Validity::Now);
    let text = "text ".repeat(50_000);
    for kind in ALL {
        let serving = Serving::of_websocket(kind, authority.strict_server(identity.clone(), ANY));
        let url = format!("wss://{NAME}:{}/", serving.address.port());
        for client in ALL {
            let config = authority.client(Some(own.clone()));
            let caller = Caller::of_websocket(client, &url, Some(config)).unwrap();
            assert_eq!(caller.echo(&text).unwrap(), text);
            assert_eq!(caller.who().unwrap().as_deref(), Some(&*own.certificate));
            caller.end();
            assert!(caller.broken_by().is_none(), "{kind:?} {client:?}");

            // It refuses `wss:` without roots, and a certificate that nobody trusted has signed.
            let refused = Caller::of_websocket(client, &url, None).err().unwrap();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
            let stranger = Authority::new("a stranger").client(None);
            let refused = Caller::of_websocket(client, &url, Some(stranger));
            assert_eq!(fault(refused), TlsFault::UnknownIssuer);
            serving.failure();
        }
    }
}

#[test]
fn a_mebibyte_goes_both_ways_at_once() {
    let (authority, identity) = good();
    let text: String = ('a'..='z').cycle().take(1 << 20).collect();
    for kind in ALL {
        let serving = Serving::new(kind, server(identity.clone(), ANY));
        for client in ALL {
            let config = authority.client(None);
            let caller = Caller::new(client, serving.address, NAME, config).unwrap();
            thread::scope(|scope| {
                for _ in 0..6 {
                    scope.spawn(|| assert_eq!(caller.echo(&text).unwrap(), text));
                }
            });
            caller.end();
        }
    }
}

// SEC-02
#[test]
fn the_certificate_of_a_client_reaches_the_handler() {
    let (authority, identity) = good();
    let own = authority.sign(&["a client"], Validity::Now);
    for kind in ALL {
        for versions in [TLS12, TLS13] {
            let serving = Serving::new(kind, authority.strict_server(identity.clone(), versions));
            for client in ALL {
                let config = authority.client(Some(own.clone()));
                let caller = Caller::new(client, serving.address, NAME, config).unwrap();
                let seen = caller.who().unwrap();
                assert_eq!(
                    seen.as_deref(),
                    Some(&*own.certificate),
                    "{kind:?} {client:?}"
                );
                caller.end();
            }
        }
    }
}

/// The error of a client that the server refuses. In TLS 1.3 the client is through with its
/// handshake before the server refuses it, so only its first call fails.
fn refusal(made: io::Result<Caller>) -> io::Error {
    match made {
        Err(error) => error,
        Ok(caller) => {
            assert!(caller.echo("hello").is_err());
            caller.broken_by().expect("a reason")
        }
    }
}

// SEC-01 SEC-02
#[test]
fn a_client_without_a_certificate_is_refused_where_one_is_required() {
    let (authority, identity) = good();
    let stranger = Authority::new("a stranger").sign(&["a client"], Validity::Now);
    let stale = authority.sign(&["a client"], Validity::Past);
    for kind in ALL {
        for versions in [TLS12, TLS13] {
            let serving = Serving::new(kind, authority.strict_server(identity.clone(), versions));
            for client in ALL {
                let call = |own| Caller::new(client, serving.address, NAME, authority.client(own));
                let error = refusal(call(None));
                // TLS 1.2 has no alert of its own for a missing certificate.
                let known = [TlsFault::ClientCertificateMissing, TlsFault::Refused];
                let named = TlsFault::of(&error).unwrap_or_else(|| panic!("{error:?}"));
                let wanted = if versions == TLS13 {
                    &known[..1]
                } else {
                    &known[..]
                };
                assert!(wanted.contains(&named), "{kind:?} {client:?} {error:?}");
                let told = serving.failure().to_string();
                assert_eq!(told, TlsFault::ClientCertificateMissing.to_string());

                for (own, why) in [
                    (&stranger, TlsFault::UnknownIssuer),
                    (&stale, TlsFault::Expired),
                ] {
                    let error = refusal(call(Some(own.clone())));
                    assert_eq!(TlsFault::of(&error), Some(TlsFault::Refused), "{error:?}");
                    assert_eq!(serving.failure().to_string(), why.to_string());
                }
            }
        }
    }
}

// SEC-01
#[test]
fn a_certificate_that_is_no_good_is_refused_for_what_is_wrong_with_it() {
    let (authority, identity) = good();
    let stranger = Authority::new("a stranger");
    let cases = [
        (&authority, Validity::Now, "elsewhere", TlsFault::WrongName),
        (&authority, Validity::Past, NAME, TlsFault::Expired),
        (&authority, Validity::Future, NAME, TlsFault::NotYetValid),
        (&stranger, Validity::Now, NAME, TlsFault::UnknownIssuer),
    ];
    let mut texts = Vec::new();
    for (signed_by, validity, name, wanted) in cases {
        let shown = signed_by.sign(&[NAME], validity);
        for kind in ALL {
            let serving = Serving::new(kind, server(shown.clone(), ANY));
            for client in ALL {
                let made = Caller::new(client, serving.address, name, authority.client(None));
                assert_eq!(fault(made), wanted, "{kind:?} {client:?}");
                // The server sees an alert, or that the connection was cut: either is a failure.
                serving.failure();
            }
        }
        texts.push(wanted.to_string());
    }
    // Each fault has a text of its own.
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 4);
    for client in ALL {
        let serving = Serving::new(Kind::Tokio, server(identity.clone(), ANY));
        let made = Caller::new(client, serving.address, "no name", authority.client(None));
        let error = made.err().expect("no name");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

// SEC-01
#[test]
fn nothing_older_than_tls_1_2_is_spoken() {
    let (authority, identity) = good();
    for kind in ALL {
        let serving = Serving::new(kind, server(identity.clone(), ANY));
        // Alert 70 is protocol_version, 40 is handshake_failure.
        for (names_signatures, alert) in [(true, 70), (false, 40)] {
            raw::refused_client_of_tls_1_1(serving.address, names_signatures, alert);
            assert_eq!(serving.failure().to_string(), TlsFault::Version.to_string());
        }
    }
    for client in ALL {
        let (address, old) = raw::server_of_tls_1_1();
        let made = Caller::new(client, address, NAME, authority.client(None));
        assert_eq!(fault(made), TlsFault::Version, "{client:?}");
        old.join().unwrap();
    }
}

// SEC-01
#[test]
fn a_peer_that_speaks_no_tls_is_told_apart() {
    let (authority, identity) = good();
    for kind in ALL {
        let serving = Serving::new(kind, server(identity.clone(), ANY));
        raw::plain_client(serving.address);
        let told = serving.failure().to_string();
        assert_eq!(told, TlsFault::Protocol.to_string());
    }
    for client in ALL {
        let (address, plain) = raw::plain_server();
        let made = Caller::new(client, address, NAME, authority.client(None));
        assert_eq!(fault(made), TlsFault::Protocol, "{client:?}");
        plain.join().unwrap();
    }
}

#[test]
fn a_client_that_has_ended_its_half_still_gets_its_answers() {
    let (authority, identity) = good();
    for kind in ALL {
        for versions in [TLS12, TLS13] {
            let serving = Serving::new(kind, server(identity.clone(), versions));
            raw::half_closed_client(serving.address, authority.client(None));
        }
    }
}

#[test]
fn an_end_is_announced_and_a_cut_is_an_error() {
    let (authority, identity) = good();
    for client in ALL {
        for versions in [TLS12, TLS13] {
            let config = server(identity.clone(), versions);
            let (address, raw) = raw::server_that_reads_to_the_end(config.clone());
            let caller = Caller::new(client, address, NAME, authority.client(None)).unwrap();
            caller.end();
            raw.join().unwrap();
            assert!(caller.broken_by().is_none());

            let (address, raw) = raw::server_that_is_cut(config);
            let caller = Caller::new(client, address, NAME, authority.client(None)).unwrap();
            assert!(caller.echo("hello").unwrap_err().is_closed());
            let error = caller.broken_by().expect("a cut");
            assert_eq!(
                error.kind(),
                io::ErrorKind::UnexpectedEof,
                "{client:?} {error}"
            );
            raw.join().unwrap();
        }
    }
}

#[test]
fn new_keys_in_mid_conversation_are_taken_and_given() {
    let (authority, identity) = good();
    for kind in ALL {
        let serving = Serving::new(kind, server(identity.clone(), TLS13));
        raw::client_with_new_keys(serving.address, authority.client(None));
    }
}

#[test]
fn a_handshake_that_is_never_finished_ends_at_its_deadline() {
    let (_, identity) = good();
    for kind in ALL {
        let config = server(identity.clone(), ANY);
        let serving = Serving::with_timeout(kind, config, Duration::from_millis(50));
        for first in [&b""[..], b"\x16\x03\x01\x02"] {
            raw::waits_for_the_end(serving.address, first);
            assert_eq!(
                serving.failure().kind(),
                io::ErrorKind::TimedOut,
                "{kind:?}"
            );
        }
        raw::drips_until_the_end(serving.address);
        assert_eq!(
            serving.failure().kind(),
            io::ErrorKind::TimedOut,
            "{kind:?}"
        );
    }
}

#[test]
fn silent_clients_hold_up_neither_others_nor_the_end() {
    let (authority, identity) = good();
    for kind in ALL {
        // No handshake reaches its deadline during this test.
        let config = server(identity.clone(), ANY);
        let mut serving = Serving::with_timeout(kind, config, 20 * LONG);
        let silent: Vec<_> = (0..3).map(|_| raw::silent(serving.address)).collect();
        let config = authority.client(None);
        let caller = Caller::new(Kind::Tokio, serving.address, NAME, config).unwrap();
        assert_eq!(caller.echo("hello").unwrap(), "hello");
        serving.stop();
        for stream in silent {
            raw::has_ended(stream);
        }
    }
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let (authority, _) = good();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (near, _far) = antiphon_tokio::Link::pair();
        let made = antiphon_tokio::tls::client(near, NAME, authority.client(None)).await;
        assert_eq!(made.unwrap_err().kind(), io::ErrorKind::TimedOut);
    });
}
