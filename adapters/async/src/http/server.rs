//! One connection of an HTTP server: hyper, with a deadline for everything that a client can be
//! slow at.
//!
//! The rule guarded here: a client that falls silent, drips, floods or does not read costs its own
//! connection, and before it has said anything it costs next to nothing.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use antiphon::NoRoom;
use antiphon::http::HttpRules;
use antiphon_session::Report;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;

use super::endpoint::{Endpoint, response};
use super::options::HttpOptions;
use super::stream::{HyperIo, Phases};
use crate::io::Io;
use crate::link::Link;
use crate::runtime::{SharedRuntime, Task, until};
use crate::server::{End, Ending, Protocol};
use crate::service::Service;

/// The most bytes of a body that hyper holds at once, and the least it can be told.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// How long a connection beyond the limit may take to ask, to be told that it is refused.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(1);

impl<S: Service> Protocol for Endpoint<S> {
    fn serve(&self, link: Link, ending: Ending, _: &SharedRuntime) -> Task {
        Box::pin(serve_connection(self.clone(), link, ending))
    }

    fn refuse(&self, link: Link, why: NoRoom, _: &SharedRuntime) -> Option<Task> {
        self.report(&link.context, Report::NoRoom(why));
        Some(Box::pin(refuse_connection(self.clone(), link)))
    }
}

/// Answers whatever a connection beyond the limit asks that there is no room for it.
async fn refuse_connection<S: Service>(endpoint: Endpoint<S>, link: Link) {
    let runtime = endpoint.runtime().clone();
    let HttpOptions { options, rules } = endpoint.options();
    let due = runtime.now() + REFUSAL_TIME_MAX + options.linger;
    let io = HyperIo::new(
        link.io,
        None,
        None,
        options.config.write_time_max,
        options.linger,
        runtime.clone(),
    );
    let service =
        service_fn(|_: Request<Incoming>| async { Ok::<_, Infallible>(response(rules.no_room())) });
    let conn = builder(rules).serve_connection(io, service);
    // How it ends makes no difference any more.
    drop(until(&*runtime, due, conn).await);
}

/// Serves one connection, which may carry any number of requests one after the other, until either
/// side ends it.
pub(super) async fn serve_connection<S: Service>(
    endpoint: Endpoint<S>,
    link: Link,
    mut ending: Ending,
) {
    let Link { mut io, context } = link;
    let (runtime, rules) = (endpoint.runtime().clone(), &endpoint.options().rules);
    let due = runtime.now() + rules.first_byte_time_max;
    // An end without a word needs none in return.
    let Some(Some(first)) = until(&*runtime, due, first_byte(&mut *io, &mut ending)).await else {
        return;
    };
    let options = &endpoint.options().options;
    let drain_time_max = options.config.drain_time_max;
    let phases = Phases::new(rules.header_time_max, rules.idle_time_max, drain_time_max);
    let io = HyperIo::new(
        io,
        Some(first),
        Some(phases.clone()),
        options.config.write_time_max,
        options.linger,
        runtime.clone(),
    );
    let builder = builder(rules);
    let service = service_fn(|request: Request<Incoming>| {
        let lengths = phases.serving();
        let (endpoint, context, phases) = (&endpoint, &context, &phases);
        let (parts, mut body) = request.into_parts();
        async move {
            let answer = endpoint
                .serve(context, &parts, lengths, &mut body, phases)
                .await;
            phases.replying();
            Ok::<_, Infallible>(answer)
        }
    });
    let mut conn = pin!(builder.serve_connection(io, service));
    let mut end = End::No;
    poll_fn(|cx| {
        while let Poll::Ready(more) = ending.poll_beyond(end, cx) {
            end = more;
            match end {
                End::No => {}
                End::Drain => conn.as_mut().graceful_shutdown(),
                End::Now | End::Release => return Poll::Ready(()),
            }
        }
        // A client that broke the rules of HTTP has been told, as far as it can be.
        conn.as_mut().poll(cx).map(drop)
    })
    .await;
}

fn builder(rules: &HttpRules) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_headers(rules.headers_max)
        .max_header_size(rules.header_bytes_max)
        .max_buf_size(BUFFER_BYTES_MAX.max(rules.header_bytes_max))
        // The stream keeps the time.
        .header_read_timeout(None);
    builder
}

/// The first byte that comes in; none if none does, or if the server ends.
async fn first_byte(io: &mut dyn Io, ending: &mut Ending) -> Option<u8> {
    let mut first = [0];
    poll_fn(|cx| {
        if ending.poll_beyond(End::No, cx).is_ready() {
            return Poll::Ready(None);
        }
        let read = io.poll_read(cx, &mut first);
        read.map(|read| matches!(read, Ok(1..)).then_some(first[0]))
    })
    .await
}
