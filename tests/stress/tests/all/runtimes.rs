//! What an adapter's functions spawn runs on the runtime that a test names. smol and async-std have
//! the same functions, and all of them are compiled in here.

use std::sync::Arc;

use antiphon::{Config, OwnedError};
use antiphon_net::{Answer, Link, Peer, Request, Service, TcpServer, UnixServer, attach, connect};
use antiphon_stress::{LONG, Rt, on_every_runtime};

on_every_runtime! {
    handlers_run_on_the_runtime_that_is_named;
    handlers_of_http_run_on_the_runtime_that_is_named;
    handlers_on_a_unix_socket_run_on_the_runtime_that_is_named;
}

/// `here` answers with the runtime of the handler, `there` with that of the caller's handler.
struct Where;

impl Service for Where {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        match request.method() {
            "here" => Ok(format!("{:?}", Rt::here()).into()),
            "there" => {
                let there: String = peer.call("here", ()).await.unwrap();
                Ok(there.into())
            }
            _ => Err(request.unknown_method()),
        }
    }
}

async fn check(rt: Rt, peer: Peer) {
    let named = format!("{:?}", Some(rt));
    for method in ["here", "there"] {
        let seen: String = peer.call(method, ()).await.unwrap();
        assert_eq!(seen, named, "{method}");
    }
}

// ARC-15
fn handlers_run_on_the_runtime_that_is_named(rt: Rt) {
    rt.run(|_| async move {
        let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr();
        let running = server.start(Config::new(), |_| Where);
        let link = Link::tcp(address).await.unwrap();
        let peer = attach(link, Config::new(), Where);
        check(rt, peer).await;
        assert!(running.shutdown(LONG).await);
    });
}

// ARC-15
fn handlers_of_http_run_on_the_runtime_that_is_named(rt: Rt) {
    rt.run(|_| async move {
        let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", server.local_addr());
        let running = server.start_http(Config::new(), Arc::new(Where));
        let client = connect(&url, Config::new(), ()).await.unwrap();
        let seen: String = client.call("here", ()).await.unwrap();
        assert_eq!(seen, format!("{:?}", Some(rt)));
        running.stop();
    });
}

// ARC-15
fn handlers_on_a_unix_socket_run_on_the_runtime_that_is_named(rt: Rt) {
    let name = format!("antiphon-where-{}-{rt:?}", std::process::id());
    let path = std::env::temp_dir().join(name);
    rt.run(|_| async move {
        let server = UnixServer::bind(&path).unwrap();
        let running = server.start(Config::new(), |_| Where);
        let link = Link::unix(&path).await.unwrap();
        let peer = attach(link, Config::new(), Where);
        check(rt, peer).await;
        assert!(running.shutdown(LONG).await);
    });
}
