//! Handlers that run to their end although nobody waits for the answer, and handlers that are
//! dropped then.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use ::smol::channel::{Receiver, Sender, unbounded};
use antiphon::session::Report;
use antiphon_net::{
    ConnectionConfig, Dispatcher, Io, Link, Peer, RequestContext, Router, RunToEnd, drive_on,
    duplex,
};
use antiphon_stress::{Rt, on_every_runtime};
use antiphon_tokio::{CloseReason, Config, Method, OwnedError, State, service};

on_every_runtime! {
    a_handler_is_dropped_unless_it_is_to_finish;
    what_goes_on_counts_as_running;
}

/// What a handler waits for, and where it reports how far it has come.
#[derive(Clone)]
struct Desk {
    gate: Receiver<()>,
    told: Sender<&'static str>,
}

/// Reports that its handler was dropped, unless the handler has finished.
struct Dropped(Option<Sender<&'static str>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(told) = self.0.take() {
            let _ = told.try_send("dropped");
        }
    }
}

impl Desk {
    async fn work(self) -> Result<u8, OwnedError> {
        self.told.try_send("began").unwrap();
        let mut dropped = Dropped(Some(self.told.clone()));
        self.gate.recv().await.unwrap();
        dropped.0 = None;
        self.told.try_send("finished").unwrap();
        Ok(1)
    }
}

#[service(prefix = "few")]
trait Few {
    #[rpc(run_to_end)]
    async fn finish(&self) -> Result<u8, OwnedError>;
    async fn drop(&self) -> Result<u8, OwnedError>;
}

#[service(prefix = "all", run_to_end)]
trait All {
    async fn one(&self) -> Result<u8, OwnedError>;
    fn at_once(&self) -> Result<u8, OwnedError>;
}

impl Few for Desk {
    async fn finish(&self) -> Result<u8, OwnedError> {
        self.clone().work().await
    }

    async fn drop(&self) -> Result<u8, OwnedError> {
        self.clone().work().await
    }
}

impl All for Desk {
    async fn one(&self) -> Result<u8, OwnedError> {
        self.clone().work().await
    }

    fn at_once(&self) -> Result<u8, OwnedError> {
        Ok(2)
    }
}

enum Typed {}

impl Method for Typed {
    const NAME: &str = "typed";
    type Params = ();
    type Result = u8;
    type Error = OwnedError;
}

fn router(desk: &Desk) -> Router<Desk> {
    let reports = desk.told.clone();
    Router::with_state(desk.clone())
        .method("ping", [], || Ok::<_, OwnedError>(0))
        .method("finish", [], |State(desk): State<Desk>| {
            RunToEnd(desk.work())
        })
        .method("drop", [], |State(desk): State<Desk>| desk.work())
        .method("panic", [], |State(desk): State<Desk>| {
            RunToEnd(async move {
                match desk.work().await {
                    Ok(_) => panic!("as asked"),
                    failed => failed,
                }
            })
        })
        .on::<Typed>(|_, about: RequestContext<Desk>| {
            about.run_to_end(about.state().clone().work())
        })
        .notification("tell", [], |State(desk): State<Desk>| {
            RunToEnd(async move { drop(desk.work().await) })
        })
        .on_report(move |_, report| {
            if matches!(report, Report::Panicked(_)) {
                reports.try_send("panicked").unwrap();
            }
        })
        .service(Few::into_service(desk.clone()))
}

/// A server of one connection, and the bytes of its client.
struct Sides {
    server: Peer,
    client: Box<dyn Io>,
    dispatcher: Dispatcher,
    gate: Sender<()>,
    heard: Receiver<&'static str>,
}

impl Sides {
    /// `max_running` is the limit of running handlers for the server, and for the connection.
    fn new(rt: &antiphon_net::SharedRuntime, max_running: [usize; 2]) -> Self {
        let (gate, opened) = unbounded();
        let (told, heard) = unbounded();
        let desk = Desk { gate: opened, told };
        let router = router(&desk).service(All::into_service(desk));
        let (near, far) = duplex(4096);
        let mut options = ConnectionConfig::new(Config::new());
        options.linger = Duration::ZERO;
        options.dispatcher = Dispatcher::new(max_running[0], 10);
        options.max_running_requests = max_running[1];
        let dispatcher = options.dispatcher.clone();
        let mut link = Link::new(far);
        link.context.is_accepted = true;
        let (server, driver) = drive_on(link, options, Arc::new(router), rt);
        rt.spawn(Box::pin(async { drop(driver.await) }));
        Self {
            server,
            client: near,
            dispatcher,
            gate,
            heard,
        }
    }

    async fn say(&mut self, line: &str) {
        let line = format!("{line}\n");
        // The pipe holds all of it.
        let written = poll_fn(|cx| self.client.poll_write(cx, line.as_bytes())).await;
        assert_eq!(written.unwrap(), line.len());
    }

    /// Reads the next answer, which must be exactly `answer`.
    async fn expect(&mut self, answer: &str) {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while byte != *b"\n" {
            let read = poll_fn(|cx| self.client.poll_read(cx, &mut byte)).await;
            assert_eq!(read.unwrap(), 1, "the stream has ended");
            line.extend(byte);
        }
        assert_eq!(String::from_utf8(line).unwrap(), format!("{answer}\n"));
    }

    /// Sends a request, and waits until its handler has begun.
    async fn begin(&mut self, method: &str, id: u8) {
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","id":{id}}}"#
        ))
        .await;
        self.told("began").await;
    }

    /// Cancels a request, and reads the error that answers it.
    async fn cancel(&mut self, id: u8) {
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#
        ))
        .await;
        self.expect(&format!(
            r#"{{"jsonrpc":"2.0","error":{{"code":-32001,"message":"Request cancelled"}},"id":{id}}}"#
        ))
        .await;
    }

    /// Ends the connection, and waits for its end.
    async fn close(&self) {
        self.server.close(CloseReason::GoingAway);
        let closed = self.server.wait_closed(Duration::from_secs(20));
        closed.await.unwrap();
    }

    /// Waits for the next report of a handler, which must be `what`.
    async fn told(&self, what: &str) {
        assert_eq!(self.heard.recv().await.unwrap(), what);
    }
}

// USE-22 CAN-10
fn a_handler_is_dropped_unless_it_is_to_finish(rt: Rt) {
    rt.run(|runtime| async move {
        for (method, end) in [
            ("finish", "finished"),
            ("drop", "dropped"),
            ("typed", "finished"),
            ("few.finish", "finished"),
            ("few.drop", "dropped"),
            ("all.one", "finished"),
        ] {
            let mut sides = Sides::new(&runtime, [64, 64]);
            // A caller that waits gets the result.
            sides.begin(method, 1).await;
            sides.gate.send(()).await.unwrap();
            sides.told("finished").await;
            sides.expect(r#"{"jsonrpc":"2.0","result":1,"id":1}"#).await;
            // A cancelled request is answered once: the next answer is that of another request.
            sides.begin(method, 2).await;
            sides.cancel(2).await;
            if end == "finished" {
                sides.gate.send(()).await.unwrap();
            }
            sides.told(end).await;
            sides
                .say(r#"{"jsonrpc":"2.0","method":"all.at_once","id":3}"#)
                .await;
            sides.expect(r#"{"jsonrpc":"2.0","result":2,"id":3}"#).await;
            // The connection ends while the handler runs.
            sides.begin(method, 4).await;
            sides.close().await;
            if end == "finished" {
                assert!(sides.heard.is_empty(), "{method}");
                sides.gate.send(()).await.unwrap();
            }
            sides.told(end).await;
        }
        // The handler of a notification, which has no answer.
        let mut sides = Sides::new(&runtime, [64, 64]);
        sides.say(r#"{"jsonrpc":"2.0","method":"tell"}"#).await;
        sides.told("began").await;
        sides.close().await;
        sides.gate.send(()).await.unwrap();
        sides.told("finished").await;
    });
}

// USE-22 SRV-22 SEC-14
fn what_goes_on_counts_as_running(rt: Rt) {
    rt.run(|runtime| async move {
        for (method, max_running) in [
            ("finish", [1, 64]),
            ("few.finish", [64, 1]),
            ("panic", [1, 64]),
        ] {
            let mut sides = Sides::new(&runtime, max_running);
            sides.begin(method, 1).await;
            sides.cancel(1).await;
            // The cancelled handler still runs.
            assert!(sides.dispatcher.running() >= 1);
            // The next handler begins when the first has ended.
            sides
                .say(r#"{"jsonrpc":"2.0","method":"drop","id":2}"#)
                .await;
            while sides.dispatcher.waiting() == 0 {
                ::smol::future::yield_now().await;
            }
            assert!(sides.heard.is_empty());
            sides.gate.send(()).await.unwrap();
            sides.told("finished").await;
            sides.told("began").await;
            if method == "panic" {
                sides.told("panicked").await;
            }
            sides.gate.send(()).await.unwrap();
            sides.told("finished").await;
            sides.expect(r#"{"jsonrpc":"2.0","result":1,"id":2}"#).await;
        }
        // Two cancelled handlers still count as running after their connection has ended.
        let mut sides = Sides::new(&runtime, [2, 64]);
        sides.begin("finish", 1).await;
        sides.begin("finish", 2).await;
        sides.cancel(1).await;
        sides.cancel(2).await;
        sides.close().await;
        assert!(sides.dispatcher.running() >= 2);
        for _ in 0..2 {
            sides.gate.send(()).await.unwrap();
            sides.told("finished").await;
        }
        while sides.dispatcher.running() > 0 {
            ::smol::future::yield_now().await;
        }
    });
}
