//! Durable topics on every runtime.

use antiphon::Config;
use antiphon_net::{DeliveryError, Durable, DurableStream, Router, StreamEnd, TcpServer, connect};
use antiphon_stress::{LONG, Rt, on_every_runtime};

on_every_runtime! {
    a_consumer_goes_on_behind_what_was_acknowledged;
}

/// The next message, which must be this one, is acknowledged.
async fn take(stream: &mut DurableStream<u64>, wanted: u64) {
    let message = stream.next().await.unwrap().unwrap();
    assert_eq!((message.data, message.sequence), (wanted, wanted));
    message.ack().await.unwrap();
}

// PER-09 PER-12 PER-14 ARC-15
fn a_consumer_goes_on_behind_what_was_acknowledged(rt: Rt) {
    rt.run(|_| async move {
        let orders = Durable::in_memory(1 << 20);
        let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
        let url = format!("tcp://{}", server.local_addr());
        let router = Router::new().durable(&orders);
        let running = server.start(Config::new(), router.into_make_service());
        let first = connect(&url, Config::new(), ()).await.unwrap();
        let mut old = first.durable("a", "orders").await.unwrap();
        for i in 1..=3 {
            assert_eq!(orders.publish("orders", &i).await.unwrap(), i);
        }
        take(&mut old, 1).await;
        take(&mut old, 2).await;
        let three = old.next().await.unwrap().unwrap();
        let second = connect(&url, Config::new(), ()).await.unwrap();
        let mut new = second.durable("a", "orders").await.unwrap();
        take(&mut new, 3).await;
        three.ack().await.unwrap_err();
        let end = old.next().await.unwrap().unwrap_err();
        assert!(
            matches!(end, DeliveryError::Ended(StreamEnd::TakenOver)),
            "{end}"
        );
        // A reader that waits is woken.
        let publish = async { orders.publish("orders", &4).await.unwrap() };
        futures_util::future::join(take(&mut new, 4), publish).await;
        drop((second, new));
        let third = connect(&url, Config::new(), ()).await.unwrap();
        orders.publish("orders", &5).await.unwrap();
        take(&mut third.durable("a", "orders").await.unwrap(), 5).await;
        assert!(running.shutdown(LONG).await);
    });
}
