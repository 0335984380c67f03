//! One connection of an HTTP server: hyper, with a deadline for everything in which a client can be
//! slow.
//!
//! A client that sends nothing, sends too slowly, floods or does not read loses its own connection.
//! Until it has sent its first byte, a connection needs hardly any memory.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use antiphon::LimitReached;
use antiphon::http::WebRules;
use antiphon::session::Report;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1::{Builder, Parts};
use hyper::service::service_fn;

use super::body::response;
use super::endpoint::Endpoint;
use super::io::{Ahead, Alarm, HyperIo};
use super::phases::{OnConnection, Phases, WatchedStream};
use super::web::Web;
use crate::link::Link;
use crate::server::{End, Ending, Protocol, Running, Server};
use antiphon_shell::{Context, Io, Lock, Service, SharedRuntime, Task, until};

/// The most bytes of a body that hyper holds at a time, unless the limit on a head is larger.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// How long a connection beyond the limit stays open at most, besides `linger`: it has to send its
/// request and to take the refusal in this time.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// After we have ended our stream: how many reads are made before other tasks may run.
const MAX_READS: u32 = 16;

impl<S: Service> Protocol for Endpoint<S> {
    fn serve(&self, link: Link, ending: Ending, _: &SharedRuntime) -> Task {
        Box::pin(serve_connection(self.clone(), link, ending, false))
    }

    fn refuse(&self, link: Link, why: LimitReached, runtime: &SharedRuntime) -> Option<Task> {
        self.report(&link.context, Report::LimitReached(why));
        let serving = serve_connection(self.clone(), link, Ending::never(), true);
        let runtime = runtime.clone();
        let due = runtime.now() + REFUSAL_TIMEOUT + self.options().connection.linger;
        Some(Box::pin(async move {
            // Whether it ends by itself or at `due` makes no difference.
            until(&*runtime, due, serving).await;
        }))
    }
}

/// Serves one connection until either side ends it: requests, and then perhaps a WebSocket.
async fn serve_connection<S: Service>(
    endpoint: Endpoint<S>,
    link: Link,
    mut ending: Ending,
    is_refused: bool,
) {
    // What the requests need is given back before the WebSocket begins.
    let requests = Box::pin(serve_requests(&endpoint, link, &mut ending, is_refused));
    if let Some((io, context)) = requests.await {
        if let Some(task) = endpoint.upgraded(io, context, ending) {
            task.await;
        }
    }
}

/// Serves any number of requests one after the other. If it `is_refused`, the connection is beyond the limit: every
/// request gets the answer of [`WebRules::too_many_connections`]. Returns the stream if a WebSocket follows.
async fn serve_requests<S: Service>(
    endpoint: &Endpoint<S>,
    link: Link,
    ending: &mut Ending,
    is_refused: bool,
) -> Option<(Box<dyn Io>, Context)> {
    let Link {
        mut io,
        mut context,
    } = link;
    context.share_connection();
    if let Err(error) = context.check_http1() {
        endpoint.report(&context, Report::Transport(error.into()));
        return None;
    }
    let (runtime, options) = (endpoint.runtime(), endpoint.options());
    let due = runtime.now() + options.rules.first_byte_timeout;
    let first = ending.unless(End::No, first_byte(&mut *io));
    // A connection that ends without a request needs no answer.
    let first = until(&**runtime, due, first).await???;
    let phases = Phases::new(options, runtime);
    let watched = WatchedStream::new(&phases, first);
    let (upgraded, told) = (Lock::new(None), ending.another());
    let service = service_fn(|request: Request<Incoming>| {
        let lengths = phases.serving();
        let (context, phases, upgraded, told) = (&context, &phases, &upgraded, &told);
        Box::pin(async move {
            let answer = match is_refused {
                true => response(endpoint.options().rules.too_many_connections()),
                false => {
                    let carrier = OnConnection::of(phases, told);
                    let (mut parts, body) = request.into_parts();
                    let (context, headers) = endpoint.complete(context, &mut parts);
                    let request = (&parts, &headers);
                    let served = endpoint.serve(context, request, body, lengths, carrier);
                    let (answer, opened) = served.await;
                    *upgraded.lock() = opened;
                    answer
                }
            };
            match answer.body().is_stream() {
                true => phases.streaming(),
                false => phases.replying(),
            }
            Ok::<_, Infallible>(answer)
        })
    });
    let io = HyperIo::new(io, watched);
    let mut conn = builder(&options.rules).serve_connection(io, service);
    let (mut alarm, mut end) = (Alarm::new(runtime), End::No);
    let ended = poll_fn(|cx| {
        while let Poll::Ready(more) = ending.poll_beyond(end, cx) {
            end = more;
            match end {
                End::No => {}
                End::Drain => Pin::new(&mut conn).graceful_shutdown(),
                End::Now | End::Release => return Poll::Ready(None),
            }
        }
        loop {
            // A client that broke the rules of HTTP has been sent an error, if that was possible.
            if let Poll::Ready(ended) = conn.poll_without_shutdown(cx) {
                return Poll::Ready(Some(ended));
            }
            if !phases.show_end_if_done() {
                ready!(alarm.poll_over(phases.due(), cx));
                return Poll::Ready(None);
            }
        }
    })
    .await?;
    let Parts { io, read_buf, .. } = conn.into_parts();
    let HyperIo { io, watch } = io;
    if let Some(context) = upgraded.lock().take().filter(|_| ended.is_ok()) {
        let ahead = [&*read_buf, &*watch.into_ahead()].concat();
        return Some((Ahead::of(io, ahead), context));
    }
    let due = runtime.now() + options.connection.linger;
    let lingering = until(&**runtime, due, linger(io));
    ending.unless(End::Drain, lingering).await;
    None
}

fn builder(rules: &WebRules) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_headers(rules.max_headers)
        .max_header_size(rules.max_header_bytes)
        .max_buf_size(MAX_BUFFER_BYTES.max(rules.max_header_bytes))
        // `Phases` enforces this time limit.
        .header_read_timeout(None);
    builder
}

/// Waits for the first byte; returns `None` if there is none.
async fn first_byte(io: &mut dyn Io) -> Option<u8> {
    let mut first = [0];
    let read = poll_fn(|cx| io.poll_read(cx, &mut first)).await;
    matches!(read, Ok(1..)).then_some(first[0])
}

/// Ends our stream, and reads to the end of the other side's; the caller limits the time. If a client is
/// still sending when its connection is closed, the reset makes it lose the reply.
async fn linger(mut io: Box<dyn Io>) {
    if poll_fn(|cx| io.poll_close(cx)).await.is_err() {
        return;
    }
    let mut ignored = [0; 1024];
    poll_fn(|cx| {
        for _ in 0..MAX_READS {
            if !matches!(ready!(io.poll_read(cx, &mut ignored)), Ok(1..)) {
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Server {
    /// Serves a web endpoint: HTTP and WebSocket, judged for each request. See [`Web`].
    pub fn start_web<S: Service>(self, web: Web<S>) -> Running {
        let endpoint = Endpoint::of(web, Arc::clone(self.runtime()));
        self.start_protocol(endpoint)
    }
}

#[cfg(any(feature = "tokio", feature = "async-io"))]
impl crate::TcpServer {
    /// Serves a web endpoint: HTTP and WebSocket, judged for each request. See [`Web`].
    pub fn start_web<S: Service>(self, web: Web<S>) -> Running {
        let endpoint = Endpoint::of(web, Arc::clone(self.runtime()));
        self.start_protocol(endpoint)
    }

    /// Serves over HTTP: every POST is a message. One service answers all of them.
    pub fn start_http(
        self,
        options: impl Into<super::HttpConfig>,
        service: impl Service,
    ) -> Running {
        self.start_protocol(super::endpoint(options, service))
    }
}
