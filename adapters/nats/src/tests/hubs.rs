//! Two whole hubs over one server, with consumers on connections.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon::durable::{Detached, DurableEvent};
use antiphon_tokio::{Client, Config, Durable, DurableConfig, Router, TcpServer, connect};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::server::{PATIENCE, Server, programs};

type Events = Arc<Mutex<Vec<DurableEvent>>>;

/// A hub that is served, and a client of it.
async fn hub(server: &Server) -> (Durable, Client, Events) {
    let events = Events::default();
    let told = Arc::clone(&events);
    let config = DurableConfig::new().on_event(move |event| told.lock().unwrap().push(event));
    let store = server.store();
    let hub = Durable::with(store, config);
    let served = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp://{}", served.local_addr());
    let router = Router::new().durable(&hub);
    std::mem::forget(served.start(Config::new(), router.into_make_service()));
    let client = connect(&address, Config::new(), ()).await.unwrap();
    (hub, client, events)
}

// PER-04 PER-14
#[test]
fn two_hubs_on_one_subscription_have_one_consumer_and_the_second_goes_on_at_once_in_order() {
    for program in programs() {
        let server = Server::start(&program);
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (one, at_one, events) = hub(&server).await;
            let (two, at_two, _) = hub(&server).await;
            let mut first = at_one.durable::<u32>("s", "orders").await.unwrap();
            for number in 1..=20_u32 {
                let hub = if number % 2 == 0 { &one } else { &two };
                let sequence = hub.publish("orders", &number).await.unwrap();
                assert_eq!(sequence, u64::from(number));
            }
            let mut held = Vec::new();
            for number in 1..=20 {
                let message = timeout(PATIENCE, first.next())
                    .await
                    .unwrap()
                    .unwrap()
                    .unwrap();
                assert_eq!((message.sequence, message.data), (number, number as u32));
                held.push(message);
            }
            let late = held.pop().unwrap();
            for message in held.drain(..5) {
                message.ack().await.unwrap();
            }
            // At the other hub.
            let mut second = at_two.durable::<u32>("s", "orders").await.unwrap();
            let told: Vec<_> = events.lock().unwrap().clone();
            let is_taken = |event: &DurableEvent| {
                matches!(
                    event,
                    DurableEvent::Detached {
                        why: Detached::TakenOver,
                        ..
                    }
                )
            };
            assert!(told.iter().any(is_taken), "{told:?}");
            let soon = Duration::from_secs(5);
            for number in 6..=20 {
                let message = timeout(soon, second.next())
                    .await
                    .unwrap()
                    .unwrap()
                    .unwrap();
                assert_eq!(message.sequence, number);
                message.ack().await.unwrap();
            }
            late.ack().await.unwrap_err();
            one.publish("orders", &21).await.unwrap();
            let message = timeout(soon, second.next())
                .await
                .unwrap()
                .unwrap()
                .unwrap();
            assert_eq!(message.sequence, 21);
            let more = timeout(Duration::from_millis(300), first.next()).await;
            assert!(
                !matches!(more, Ok(Some(Ok(_)))),
                "the first one has nothing more"
            );
        });
    }
}
