//! Calls whose ids the program chooses, and lists of calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon::service::{AnyRequest, Cx, Decision, Interceptor};
use antiphon::{Config, FetchError, IdScheme, OwnedId, OwnedOutcome, SendError};
use antiphon_net::{
    Answer, CallError, Client, ClientConfig, ConnectionConfig, OutgoingCall, Peer, Responder,
    Router,
};
use antiphon_regressions::LONG;
use antiphon_regressions::routed::Routed;
use antiphon_regressions::served::{EVERYWHERE, On};
use antiphon_stress::choose_executor;

/// Answers `id` with the text of the request's id; holds requests of `hold`.
fn far_router() -> (Router, antiphon_blocking::Router) {
    let held = Arc::<Mutex<Vec<Responder>>>::default();
    let also = Arc::clone(&held);
    let hold = move |held: &Mutex<Vec<Responder>>, responder| {
        held.lock().expect("no panic").push(responder);
        Ok(Answer::deferred())
    };
    antiphon_regressions::routers!(router => {
        let held = Arc::clone(&also);
        router
            .raw("id", |request| Ok(Answer::new(&request.id().map(|id| id.to_string()))))
            .raw("hold", move |request| hold(&held, request.defer()))
            .method("half", ["of"], |of: u32| match of % 2 {
                0 => Ok(of / 2),
                _ => Err(antiphon::OwnedError::new(7, "Odd")),
            })
    })
}

/// Runs `test` with a peer over a connection in memory.
fn with_peer(on: On, options: impl Into<ConnectionConfig>, test: impl AsyncFnOnce(Peer)) {
    choose_executor();
    let (options, (tasks, threads)) = (options.into(), far_router());
    match on {
        On::Threads => {
            let (near, far) = antiphon_blocking::Link::pair();
            std::thread::spawn(move || antiphon_blocking::serve(far, Config::new(), threads));
            let peer = antiphon_blocking::attach(near, options, ()).expect("threads");
            antiphon_net::block_on(test(peer));
        }
        On::Tasks(rt) => rt.run(async |runtime| {
            let (near, far) = antiphon_net::duplex(4096);
            let [near, far] = [near, far].map(antiphon_net::Link::new);
            let (far, serving) = antiphon_net::drive_on(
                far,
                ConnectionConfig::from(Config::new()),
                Arc::new(tasks),
                &runtime,
            );
            let (peer, driver) = antiphon_net::drive_on(near, options, Arc::new(()), &runtime);
            runtime.spawn(Box::pin(async { drop(serving.await) }));
            runtime.spawn(Box::pin(async { drop(driver.await) }));
            test(peer).await;
            drop(far);
        }),
    }
}

/// Notes the ids that callers chose.
#[derive(Clone, Default)]
struct Ids(Arc<Mutex<Vec<Option<OwnedId>>>>);

impl Interceptor<OutgoingCall> for Ids {
    fn request(&self, _: &mut Cx, call: &OutgoingCall) -> Decision {
        self.0.lock().expect("no panic").push(call.id());
        Decision::Continue
    }
}

fn is_in_use<T: std::fmt::Debug>(ended: Result<T, CallError>) {
    assert!(
        matches!(ended, Err(CallError::Rejected(SendError::IdInUse))),
        "{ended:?}"
    );
}

// CLI-05 USE-40
#[test]
fn a_call_could_not_have_an_id_of_its_own() {
    for on in EVERYWHERE {
        let ids = Ids::default();
        let options = ConnectionConfig::new(Config::new()).intercept(ids.clone());
        with_peer(on, options, async |peer| {
            let text: String = peer.call("id", ()).id("order-17").await.expect("an answer");
            assert_eq!(text, "\"order-17\"", "{on:?}");
            let text: String = peer.call("id", ()).id(99_u64).await.expect("an answer");
            assert_eq!(text, "99", "{on:?}");
            let seen = ids.0.lock().expect("no panic").clone();
            assert_eq!(seen, [Some("order-17".into()), Some(OwnedId::from(99_u64))]);
            // A call of `start` and one of `then` keep it, too.
            let started = peer.call("id", ()).raw().id("started").start().await;
            let outcome = started.expect("it is sent").await;
            assert!(matches!(&outcome, OwnedOutcome::Ok(id) if id.as_str().contains("started")));
            let (tell, told) = std::sync::mpsc::channel();
            let then = move |outcome| drop(tell.send(outcome));
            let sent = peer.call("id", ()).raw().id("then").then(then).await;
            assert!(sent.is_ok());
            // On tasks this thread must not wait.
            if on == On::Threads {
                let outcome = told.recv_timeout(LONG);
                assert!(
                    matches!(outcome, Ok(OwnedOutcome::Ok(id)) if id.as_str().contains("then"))
                );
            }
            // An id that is no string and no number is refused.
            let null = OwnedId::from(antiphon::Id::NULL);
            let refused = peer.call::<String>("id", ()).id(null).await;
            assert!(
                matches!(refused, Err(CallError::Rejected(SendError::IdNotAllowed))),
                "{refused:?}"
            );
        });
    }
}

// CLI-05 USE-40
#[test]
fn an_id_of_an_open_call_is_refused_until_that_call_is_over() {
    for on in EVERYWHERE {
        with_peer(on, Config::new(), async |peer| {
            let first = peer.call("hold", ()).raw().id("a").start().await;
            let first = first.expect("it is sent");
            is_in_use(peer.call::<String>("id", ()).id("a").await);
            is_in_use(
                peer.batch(|batch| batch.call_with_id::<()>("a", "id", ()))
                    .await,
            );
            drop(first);
            let text: String = peer.call("id", ()).id("a").await.expect("an answer");
            assert_eq!(text, "\"a\"", "{on:?}");
        });
    }
}

// CLI-05 CLI-16 USE-40
#[test]
fn an_entry_of_a_batch_could_not_have_an_id_of_its_own() {
    for on in EVERYWHERE {
        let seeing = ConnectionConfig::new(Config::new()).intercept(Ids::default());
        for options in [ConnectionConfig::new(Config::new()), seeing] {
            with_peer(on, options, async |peer| {
                let built = peer.batch(|batch| {
                    let own = batch.call_with_id::<String>("x", "id", ())?;
                    batch.notify("id", ())?;
                    let next = batch.call::<String>("id", ())?;
                    let half = batch.call_with_id::<u32>(7_u64, "half", &[4])?;
                    Ok((
                        own,
                        next,
                        half,
                        batch.call_with_id::<u32>(8_u64, "half", &[5])?,
                    ))
                });
                let ((own, next, half, odd), mut outcomes) = built.await.expect("answers");
                assert_eq!(outcomes.fetch(own).ok().as_deref(), Some("\"x\""), "{on:?}");
                assert_eq!(outcomes.fetch(next).ok().as_deref(), Some("2"), "{on:?}");
                assert_eq!(outcomes.fetch(half).ok(), Some(2), "{on:?}");
                let odd = outcomes.fetch(odd);
                let is_odd = |error: &OwnedOutcome| matches!(error, OwnedOutcome::Err(error) if error.code() == 7);
                assert!(matches!(&odd, Err(FetchError::Outcome(error)) if is_odd(error)));
                is_in_use(
                    peer.batch(|batch| {
                        batch.call_with_id::<()>("y", "id", ())?;
                        batch.call_with_id::<()>("y", "id", ())
                    })
                    .await,
                );
            });
        }
    }
}

// CLI-04 USE-40
#[test]
fn ids_could_not_come_from_a_generator_of_its_own() {
    for on in EVERYWHERE {
        let web =
            Config::new().id_scheme(IdScheme::Custom(|number| format!("web/{number}").into()));
        with_peer(on, web, async |peer| {
            let text: String = peer.call("id", ()).await.expect("an answer");
            assert_eq!(text, "\"web/1\"", "{on:?}");
            let built = peer.batch(|batch| {
                let one = batch.call::<String>("id", ())?;
                Ok((one, batch.call::<String>("id", ())?))
            });
            let ((one, two), mut outcomes) = built.await.expect("answers");
            assert_eq!(
                outcomes.fetch(one).ok().as_deref(),
                Some("\"web/2\""),
                "{on:?}"
            );
            assert_eq!(
                outcomes.fetch(two).ok().as_deref(),
                Some("\"web/3\""),
                "{on:?}"
            );
            let text: String = peer.call("id", ()).id("own").await.expect("an answer");
            assert_eq!(text, "\"own\"", "{on:?}");
        });
        // An id that is open is passed over; when there is no other, the call is refused.
        let two = Config::new().id_scheme(IdScheme::Custom(|number| (number % 2).into()));
        with_peer(on, two, async |peer| {
            let hold = || peer.call("hold", ()).raw().start();
            let first = hold().await.expect("it is sent");
            for _ in 0..3 {
                let text: String = peer.call("id", ()).await.expect("an answer");
                assert_eq!(text, "0", "{on:?}");
            }
            let _second = hold().await.expect("it is sent");
            is_in_use(peer.call::<String>("id", ()).await);
            drop(first);
            let text: String = peer.call("id", ()).await.expect("an answer");
            assert_eq!(text, "1", "{on:?}");
        });
    }
}

// CLI-17 CLI-16 USE-40
#[test]
fn a_prepared_list_of_calls_could_not_be_sent() {
    for on in EVERYWHERE {
        with_peer(on, Config::new(), async |peer| {
            let list = [("half", [4]), ("half", [5]), ("half", [8])];
            let built = peer.batch(|batch| batch.call_all::<u32, _>(&list));
            let (handles, mut outcomes) = built.await.expect("answers");
            let halves: Vec<_> = handles
                .into_iter()
                .map(|half| outcomes.fetch(half))
                .collect();
            assert!(
                matches!(&halves[..], [Ok(2), Err(FetchError::Outcome(_)), Ok(4)]),
                "{on:?}"
            );
            let empty: [(&str, [u32; 1]); 0] = [];
            let built = peer.batch(|batch| batch.call_all::<u32, _>(&empty));
            let refused = built.await.map(drop);
            assert!(matches!(
                refused,
                Err(CallError::Rejected(SendError::BatchEmpty))
            ));
        });
    }
}

// CLI-02 ERR-08
#[test]
fn a_call_is_typed_by_its_result_and_each_failure_is_a_value() {
    for on in EVERYWHERE {
        with_peer(on, Config::new(), async |peer| {
            let half: u32 = peer.call("half", &[4]).await.expect("an answer");
            assert_eq!(half, 2, "{on:?}");
            let wide: Option<u64> = peer.call("half", &[4]).await.expect("an answer");
            assert_eq!(wide, Some(2), "{on:?}");
            let other = peer.call::<String>("half", &[4]).await;
            assert!(
                matches!(other, Err(CallError::Decode(_))),
                "{on:?} {other:?}"
            );
            let odd = peer.call::<u32>("half", &[5]).await;
            assert!(
                matches!(&odd, Err(CallError::Remote(error)) if error.code() == 7),
                "{odd:?}"
            );
            let unwritable = std::collections::BTreeMap::from([((1, 2), 3)]);
            let refused = peer.call::<u32>("half", &unwritable).await;
            assert!(matches!(
                refused,
                Err(CallError::Rejected(SendError::Encode(_)))
            ));
            let late = peer
                .call::<u32>("hold", ())
                .timeout(Duration::from_millis(20))
                .await;
            assert!(matches!(late, Err(CallError::TimedOut)), "{on:?} {late:?}");
            peer.close(antiphon::CloseReason::Done);
            let closed = peer.call::<u32>("half", &[4]).await;
            assert!(
                matches!(closed, Err(CallError::Rejected(SendError::Closed))),
                "{closed:?}"
            );
        });
    }
}

// CLI-05 USE-40
#[test]
fn http_and_reconnecting_clients_send_the_chosen_id() {
    let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    let (_, threads) = far_router();
    let running = server.start_http(Config::new(), move |_: &antiphon_net::Context| {
        threads.clone()
    });
    let _running = running.expect("threads");
    for on in EVERYWHERE {
        let test = async |client: Client| {
            let text: String = client.call("id", ()).id("h").await.expect("an answer");
            assert_eq!(text, "\"h\"", "{on:?}");
            let built = client.batch(|batch| batch.call_with_id::<String>("b", "id", ()));
            let (own, mut outcomes) = built.await.expect("answers");
            assert_eq!(outcomes.fetch(own).ok().as_deref(), Some("\"b\""), "{on:?}");
        };
        choose_executor();
        match on {
            On::Threads => {
                let client = antiphon_blocking::connect(&url, Config::new(), ());
                antiphon_net::block_on(test(client.expect("a client")));
            }
            On::Tasks(rt) => rt.run(async |_| {
                let client = match rt {
                    antiphon_stress::Rt::Tokio | antiphon_stress::Rt::TokioLocal => {
                        antiphon_tokio::connect(&url, Config::new(), ()).await
                    }
                    _ => antiphon_async_std::connect(&url, Config::new(), ()).await,
                };
                test(client.expect("a client")).await;
            }),
        }
    }
    let server = Routed::start(On::Threads, Config::new(), far_router());
    let url = format!("tcp://{}", server.address());
    let mut options = ClientConfig::from(Config::new());
    options.reconnect = antiphon::ReconnectStrategy::Fixed {
        delay: Duration::from_millis(1),
        max_attempts: 3,
    };
    let client = antiphon_blocking::reconnect(url, options, || ());
    let client = client.expect("a client");
    let text: String = client.call("id", ()).id("r").wait().expect("an answer");
    assert_eq!(text, "\"r\"");
}
