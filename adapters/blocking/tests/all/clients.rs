//! What happens when a reconnecting client is closed.

use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use antiphon::{Config, SendError};
use antiphon_blocking::{CallError, reconnect};

const LONG: Duration = Duration::from_secs(10);

// CON-02 CON-06
#[test]
fn a_call_after_the_close_fails_at_once_though_another_is_still_awaited() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = reconnect(format!("tcp://{address}"), Config::new(), || ()).unwrap();
    // The server accepts the connection, and never answers.
    let _silent = listener.accept().unwrap();
    let peer = client.peer().unwrap();
    let _awaited = peer.call("m", ()).no_timeout().start().wait().unwrap();
    client.close();
    let (told, tell) = mpsc::channel();
    thread::spawn(move || {
        let hour = Duration::from_secs(3600);
        // If this test has failed by then, the receiver is gone.
        let _ = told.send(client.call("late", ()).timeout(hour).raw().wait().map(drop));
    });
    let ended = tell.recv_timeout(LONG).expect("the call fails at once");
    assert!(
        matches!(
            ended,
            Err(CallError::Unsent | CallError::Rejected(SendError::Closed))
        ),
        "{ended:?}"
    );
}
