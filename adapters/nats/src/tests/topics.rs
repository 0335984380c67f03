//! Ephemeral topics of more than one server.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::server::{PATIENCE, Server, programs};
use crate::{NatsOptions, NatsTopics};

fn join(server: &Server) -> (NatsTopics, Receiver<String>) {
    let (sender, got) = channel();
    let topics = NatsTopics::join(&NatsOptions::new(server.url()), move |topic, data| {
        usize::from(
            sender
                .send(format!("{topic} {}", data.as_json().as_str()))
                .is_ok(),
        )
    });
    (topics.unwrap(), got)
}

// PUB-01
#[test]
fn what_is_published_at_one_server_reaches_all_once_also_after_the_connection_was_lost() {
    for program in programs() {
        let mut server = Server::start(&program);
        let ((one, at_one), (two, at_two)) = (join(&server), join(&server));
        assert_eq!(one.publish("stock.prices.ACME", &99.5).unwrap(), 1);
        two.publish("stock.é", "x").unwrap();
        let next = |got: &Receiver<String>| got.recv_timeout(PATIENCE).unwrap();
        assert_eq!(next(&at_one), "stock.prices.ACME 99.5");
        assert_eq!(next(&at_one), "stock.é \"x\"");
        let mut both = [next(&at_two), next(&at_two)];
        both.sort();
        assert_eq!(both, ["stock.prices.ACME 99.5", "stock.é \"x\""]);
        assert!(one.publish("stock.*", &1).is_err() && one.publish("", &1).is_err());
        server.kill();
        one.publish("a", &1).unwrap();
        assert_eq!(next(&at_one), "a 1", "here it is had at once");
        server.restart();
        // What was published while the server was away may have been kept here until now.
        let mut count = 1;
        let came = loop {
            count += 1;
            one.publish("b", &count).unwrap();
            if let Ok(came) = at_two.recv_timeout(Duration::from_millis(50)) {
                break came;
            }
            assert!(count < 1000, "the connection does not come back");
        };
        assert!(came == "a 1" || came.starts_with("b "), "{came}");
        assert_eq!(one.lost(), 0);
    }
}
