//! The sockets of async-io, which smol and async-std share: their options and addresses, and that a
//! server removes the path of its Unix socket.

use antiphon::Config;
use antiphon_async_std::{Answer, Link, OwnedError, Peer, Request, Service, TcpServer, attach};

/// Answers each request with the address that it came from; `null` on a Unix socket.
struct Who;

impl Service for Who {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        crate::executor::assert_here();
        let reply = request.defer();
        let address = peer.context().peer_addr;
        let answered = reply.ok(&address.map(|address| address.to_string()));
        answered.expect("the other side waits");
        Ok(Answer::deferred())
    }
}

// TRN-09
#[test]
fn small_messages_are_not_delayed_on_either_side() {
    crate::executor::block_on(async {
        let listener = smol::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = smol::net::TcpStream::connect(address).await.unwrap();
        let observer = stream.clone();
        assert!(!observer.nodelay().unwrap());
        let _link = Link::from_tcp(stream).unwrap();
        assert!(observer.nodelay().unwrap());

        // Both a socket that connects and one that is accepted know the address of the other side.
        let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr();
        let _running = server.start(Config::new(), |_| Who);
        let peer = attach(Link::tcp(address).await.unwrap(), Config::new(), ());
        assert_eq!(peer.context().peer_addr, Some(address));
        let seen: Option<String> = peer.call("who", ()).await.unwrap();
        assert!(seen.is_some_and(|seen| seen.starts_with("127.0.0.1:")));
    });
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_removed_when_its_server_stops() {
    use antiphon_async_std::UnixServer;
    use std::time::Duration;

    let name = format!("antiphon-async-std-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    crate::executor::block_on(async {
        let server = UnixServer::bind(path.clone()).unwrap();
        let running = server.start(Config::new(), |_| Who);
        let peer = attach(Link::unix(&path).await.unwrap(), Config::new(), ());
        assert_eq!(peer.call::<Option<String>>("who", ()).await.unwrap(), None);
        assert!(path.exists());
        assert!(running.shutdown(Duration::from_secs(10)).await);
        assert!(!path.exists());
    });
}
