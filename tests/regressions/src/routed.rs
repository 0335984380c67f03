//! A router that is served on every runtime.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon_net::{ConnectionConfig, Context};
use antiphon_stress::{LONG, Rt, choose_executor};

use crate::raw::Raw;
use crate::served::On;

/// Makes a router for tasks and the same for threads, to be served by [`Routed::start`]. The expression
/// is evaluated twice.
#[macro_export]
macro_rules! routers {
    ($router:ident => $made:expr) => {
        (
            {
                let $router = ::antiphon_net::Router::new();
                $made
            },
            {
                let $router = ::antiphon_blocking::Router::new();
                $made
            },
        )
    };
}

/// A server with a router, which runs until it is dropped.
#[derive(Debug)]
pub struct Routed {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Routed {
    /// Serves the first router on tasks, or the second one on threads, on a port of its own.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start(
        on: On,
        options: impl Into<ConnectionConfig>,
        routers: (antiphon_net::Router, antiphon_blocking::Router),
    ) -> Self {
        Self::listen(on, options.into(), routers, false)
    }

    /// Serves it over HTTP, as [`start`](Self::start).
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start_http(
        on: On,
        options: impl Into<ConnectionConfig>,
        routers: (antiphon_net::Router, antiphon_blocking::Router),
    ) -> Self {
        Self::listen(on, options.into(), routers, true)
    }

    fn listen(
        on: On,
        options: ConnectionConfig,
        (tasks, threads): (antiphon_net::Router, antiphon_blocking::Router),
        is_http: bool,
    ) -> Self {
        choose_executor();
        let stop = Arc::<AtomicBool>::default();
        let (inside, (told, address)) = (Arc::clone(&stop), mpsc::channel());
        let is_over = move || inside.load(Ordering::SeqCst);
        let step = Duration::from_millis(2);
        let thread = thread::spawn(move || match on {
            On::Threads => {
                let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
                let address = server.local_addr().expect("an address");
                let running = match is_http {
                    true => server.start_http(options, move |_: &Context| threads.clone()),
                    false => server.start(options, threads.into_make_service()),
                };
                let _running = running.expect("a thread");
                told.send(address).expect("somebody waits");
                while !is_over() {
                    thread::sleep(step);
                }
            }
            On::Tasks(rt) => rt.run_for(4 * LONG, |runtime| async move {
                let running = match rt {
                    Rt::Tokio | Rt::TokioLocal => {
                        let server = antiphon_tokio::TcpServer::bind("127.0.0.1:0").await;
                        let server = server.expect("a port");
                        told.send(server.local_addr()).expect("somebody waits");
                        match is_http {
                            true => server.start_http(options, tasks),
                            false => server.start(options, tasks.into_make_service()),
                        }
                    }
                    Rt::Smol | Rt::AsyncStd => {
                        let server = antiphon_async_std::TcpServer::bind("127.0.0.1:0").await;
                        let server = server.expect("a port");
                        told.send(server.local_addr()).expect("somebody waits");
                        match is_http {
                            true => server.start_http(options, tasks),
                            false => server.start(options, tasks.into_make_service()),
                        }
                    }
                };
                while !is_over() {
                    runtime.sleep_until(runtime.now() + step).await;
                }
                running.shutdown(Duration::ZERO).await;
            }),
        });
        Self {
            address: address.recv_timeout(LONG).expect("it listens"),
            stop,
            thread: Some(thread),
        }
    }

    /// Opens a connection.
    ///
    /// # Panics
    /// Nobody listens.
    pub fn connect(&self) -> Raw {
        Raw::connect(self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Routed {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed.
            let _ = thread.join();
        }
    }
}
