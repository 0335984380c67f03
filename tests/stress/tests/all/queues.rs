//! Whole messages over queues, in every adapter: a request queue and a response queue, with one
//! client, and with two that share the queues.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use antiphon::OwnedError;
use antiphon::session::Report;
use antiphon::{Config, IdScheme};
use antiphon_net::{
    Answer, ConnectionConfig, Link, Peer, Queue, QueueTransport, Request, Service, drive_on,
};
use antiphon_stress::{LONG, Rt, on_every_runtime};

on_every_runtime! {
    a_call_goes_through_two_queues;
    clients_that_share_a_queue_leave_each_others_answers_alone;
}

struct Echo;

impl Service for Echo {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        Ok(Answer::new(request.raw_params()))
    }
}

// TRN-04 TRN-02 EXA-10
fn a_call_goes_through_two_queues(rt: Rt) {
    rt.run(|runtime| async move {
        let (requests, responses) = (Queue::new(4), Queue::new(4));
        let server = QueueTransport::new(requests.clone(), responses.clone()).owning();
        let client = QueueTransport::new(responses, requests).owning();
        let options = ConnectionConfig::new(Config::new());
        let server = drive_on(
            Link::messages(server),
            options.clone(),
            Arc::new(Echo),
            &runtime,
        );
        runtime.spawn(Box::pin(async { drop(server.1.await) }));
        let (peer, client) = drive_on(Link::messages(client), options, Arc::new(()), &runtime);
        runtime.spawn(Box::pin(async { drop(client.await) }));
        let pretty = antiphon::Json::parse(b"[\n  1.0,\n  2\n]").unwrap();
        for n in 0..100 {
            assert_eq!(peer.call::<[u64; 1]>("echo", &[n]).await.unwrap(), [n]);
        }
        let back = peer.call("echo", pretty).timeout(LONG).raw().await.unwrap();
        let text: String = back.as_str().split_whitespace().collect();
        assert_eq!(text, "[1.0,2]", "numbers keep their text");
        let (one, two) = peer
            .batch(|batch| {
                Ok((
                    batch.call::<[u8; 1]>("echo", &[1])?,
                    batch.call::<[u8; 1]>("echo", &[2])?,
                ))
            })
            .await
            .map(|((one, two), mut outcomes)| (outcomes.fetch(one), outcomes.fetch(two)))
            .unwrap();
        assert_eq!((one.unwrap(), two.unwrap()), ([1], [2]));
        peer.close(antiphon::CloseReason::Done);
        assert!(peer.wait_closed(LONG).await.is_some());
        drop(server.0);
    });
}

/// Takes the reports about answers that belong to the other client.
#[derive(Default)]
struct Reports(Mutex<Vec<String>>);

impl Service for Reports {
    fn report(&self, _: &Peer, report: Report) {
        self.0.lock().unwrap().push(report.to_string());
    }
}

// TRN-04 CLI-09
fn clients_that_share_a_queue_leave_each_others_answers_alone(rt: Rt) {
    rt.run(|runtime| async move {
        let (requests, responses) = (Queue::new(64), Queue::new(64));
        let server = QueueTransport::new(requests.clone(), responses.clone());
        let options = ConnectionConfig::new(Config::new());
        let (_server, driver) = drive_on(
            Link::messages(server),
            options.clone(),
            Arc::new(Echo),
            &runtime,
        );
        runtime.spawn(Box::pin(async { drop(driver.await) }));
        let seen = [Queue::new(256), Queue::new(256)];
        let topics = seen.clone();
        // Gives every response to both clients.
        runtime.spawn(Box::pin(async move {
            while let Some(message) = responses.take().await {
                for topic in &topics {
                    topic.put(message.clone()).await.unwrap();
                }
            }
        }));
        let mut peers = Vec::new();
        for (seen, prefix) in seen.into_iter().zip(["a-", "b-"]) {
            let mut options = options.clone();
            options.config.dialect.id_scheme = IdScheme::Prefixed(prefix);
            let publish = requests.clone();
            let reports = Arc::<Reports>::default();
            let transport = QueueTransport::new(seen, publish);
            let (peer, driver) = drive_on(
                Link::messages(transport),
                options,
                Arc::clone(&reports),
                &runtime,
            );
            runtime.spawn(Box::pin(async { drop(driver.await) }));
            peers.push((peer, reports));
        }
        for n in 0..50_u64 {
            for (peer, _) in &peers {
                assert_eq!(peer.call::<[u64; 1]>("echo", &[n]).await.unwrap(), [n]);
            }
        }
        for (peer, _) in &peers {
            assert_eq!(peer.calls_open(), 0);
            assert!(peer.closed().is_none(), "what is for others breaks nothing");
        }
        // Each client has been told of every answer to the other, and of nothing else.
        for ((_, reports), other) in peers.iter().zip(["b", "a"]) {
            while reports.0.lock().unwrap().len() < 50 {
                let soon = runtime.now() + Duration::from_millis(1);
                runtime.sleep_until(soon).await;
            }
            let reports = reports.0.lock().unwrap();
            assert_eq!(reports.len(), 50);
            for (n, report) in reports.iter().enumerate() {
                let id = format!("(id \"{other}-{}\")", n + 1);
                assert!(report.contains(&id), "{report}");
            }
        }
    });
}

struct Threads;

impl antiphon_blocking::Service for Threads {
    fn request(
        &mut self,
        _: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        Ok(Answer::new(request.raw_params()))
    }
}

fn link(received: Receiver<Vec<u8>>, sent: Sender<Vec<u8>>) -> antiphon_blocking::Link {
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    antiphon_blocking::Link::messages(
        move || Ok(received.recv().ok()),
        move |message| sent.send(message.to_vec()).map_err(gone),
    )
}

// TRN-04 TRN-02
#[test]
fn blocking_calls_go_through_two_queues() {
    let (requests, received) = channel();
    let (responses, answers) = channel();
    let serving = thread::spawn(|| {
        antiphon_blocking::serve(link(received, responses), Config::new(), Threads)
    });
    let peer = antiphon_blocking::attach(link(answers, requests), Config::new(), ()).unwrap();
    for n in 0..100_u64 {
        let back: [u64; 1] = peer.call("echo", &[n]).wait().unwrap();
        assert_eq!(back, [n]);
    }
    peer.close(antiphon::CloseReason::Done);
    assert!(peer.wait_closed(LONG).wait().is_some());
    assert!(serving.join().unwrap().is_ok());
}
