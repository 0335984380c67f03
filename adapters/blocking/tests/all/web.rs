//! A web endpoint on threads: what the program does when a client comes may block.
#![cfg(all(feature = "http", feature = "websocket"))]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use antiphon::{Config, OwnedError};
use antiphon_blocking::http::{Refusal, Web};
use antiphon_blocking::{
    Answer, ClientConfig, Context, Peer, Request, Service, TcpServer, connect,
};

const LONG: Duration = Duration::from_secs(30);

struct Who;

impl Service for Who {
    fn request(&mut self, peer: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(peer.context().extension::<String>().into())
    }
}

// web.md §2
// USE-12 USE-13
#[test]
fn a_check_and_what_makes_a_service_may_block_and_nobody_else_waits() {
    let (hold, held) = mpsc::channel::<()>();
    let (enter, entered) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let waits = move |context: &Context, place: &str| {
        if context.header("x-slow") == Some(place) {
            enter.send(()).unwrap();
            // Goes on when the other clients have been served.
            let _ = held.lock().unwrap().recv_timeout(LONG);
        }
    };
    let waits = std::sync::Arc::new(waits);
    let make = std::sync::Arc::clone(&waits);
    let web = Web::new(Config::new(), move |context: &Context| {
        make(context, "make");
        Who
    });
    let web = web.authorize(move |context| {
        waits(context, "check");
        let name = context.header("x-name").map(String::from);
        name.ok_or_else(|| Refusal::unauthorized("Name"))
    });
    let server = TcpServer::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    let running = server.start_web(web).unwrap();
    let ask = move |scheme: &str, name: &str, slow: &str| {
        let config = ClientConfig::new(Config::new()).with_header("x-name", name);
        let config = config.with_header("x-slow", slow);
        let client = connect(format!("{scheme}://{at}/"), config, ()).unwrap();
        client
            .call::<String>("who", ())
            .timeout(LONG)
            .wait()
            .unwrap()
    };
    for (scheme, slow) in [("http", "check"), ("ws", "check"), ("ws", "make")] {
        let waiting = thread::spawn(move || ask(scheme, "slow", slow));
        entered.recv_timeout(LONG).unwrap();
        for scheme in ["http", "ws"] {
            assert_eq!(ask(scheme, "quick", "no"), "quick", "{slow}");
        }
        hold.send(()).unwrap();
        assert_eq!(waiting.join().unwrap(), "slow", "{scheme} {slow}");
    }
    running.stop();
}
