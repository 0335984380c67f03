//! Durable topics on threads: what waits blocks a thread, and the messages are an iterator.

use std::thread;

use antiphon_blocking::{Config, Durable, Router, TcpServer, connect};

use crate::support::{LONG, within};

// PER-03 PER-09 PER-14
#[test]
fn a_thread_consumes_what_others_publish_and_goes_on_over_another_connection() {
    within(LONG, || {
        let orders = Durable::in_memory(1 << 20);
        let server = TcpServer::bind("127.0.0.1:0").unwrap();
        let url = format!("tcp://{}", server.local_addr().unwrap());
        let router = Router::new().durable(&orders);
        let running = server.start(Config::new(), router.into_make_service());
        let running = running.unwrap();
        let consumer = thread::spawn(move || {
            let mut sum = 0;
            for round in 0..2 {
                let client = connect(&url, Config::new(), ()).unwrap();
                let inbox = client.durable::<u64>("a", "orders").wait().unwrap();
                for message in inbox.into_iter().take(10 + round) {
                    let message = message.unwrap();
                    sum += message.data;
                    // The last one of the first round comes again.
                    if message.sequence != 10 || round > 0 {
                        message.ack().wait().unwrap();
                    }
                }
            }
            sum
        });
        // A subscription that is new begins at the end of the topic.
        while orders.lag("a").is_none() {
            thread::yield_now();
        }
        for i in 1..=20 {
            assert_eq!(orders.publish("orders", &i).wait().unwrap(), i);
        }
        assert_eq!(consumer.join().unwrap(), (1..=20).sum::<u64>() + 10);
        running.stop();
    });
}
