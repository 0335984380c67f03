//! The transports of the async adapters, which have the same names in each.

/// Names an adapter's transports.
macro_rules! transports {
    ($(#[$about:meta])* $module:ident, $adapter:ident) => {
        $(#[$about])*
        pub(super) mod $module {
            use crate::caller::Caller;
            use crate::contract::Contract;
            use crate::desk::Desk;
            use crate::on_tasks::{Executor, TaskCaller, router};
            use crate::over_http::HttpTasks;
            use crate::tls::Tls;
            use crate::transports::{Place, Web, http_client};
            use antiphon::Closed;
            use antiphon_net::{Child, ChildConfig, ConnectionConfig, Router, Running, SharedRuntime};
            use std::io;
            use std::process::Command;
            use $adapter::http::{self, HttpConfig};
            use $adapter::websocket::WebSocketConfig;
            use $adapter::{Link, TcpServer, attach, connect, tls};

            pub(in crate::transports) async fn listen(
                place: &Place,
                tls: &Tls,
                options: ConnectionConfig,
                contract: Contract,
            ) -> io::Result<(String, Running)> {
                let service = router(contract, $adapter::current().into());
                match place {
                    Place::Tcp(address) => {
                        let server = TcpServer::bind(address.as_str()).await?;
                        let address = server.local_addr().to_string();
                        Ok((address, server.start(options, move |_| service.clone())))
                    }
                    #[cfg(unix)]
                    Place::Unix(path) => {
                        let server = $adapter::UnixServer::bind(path)?;
                        let running = server.start(options, move |_| service.clone());
                        Ok((path.clone(), running))
                    }
                    Place::Web(web) => listen_web(web, tls, options, service).await,
                    Place::Stdio | Place::Child(_) => Err(place.unfit()),
                }
            }

            async fn listen_web(
                web: &Web,
                tls: &Tls,
                options: ConnectionConfig,
                service: Router,
            ) -> io::Result<(String, Running)> {
                let mut server = TcpServer::bind(web.address.as_str()).await?;
                if web.is_tls {
                    server = server.with_secure(tls::Acceptor::new(tls.server()?));
                }
                let address = server.local_addr().to_string();
                if web.is_http && web.token.is_some() {
                    let one = web.one_port(options, move |_| service.clone());
                    return Ok((address, server.start_web(one)));
                }
                if web.is_http {
                    let mut options = HttpConfig::from(options);
                    options.rules.paths.push(web.path.clone());
                    options.rules.origins.clone_from(&web.origins);
                    options.rules.cors = (!web.origins.is_empty()).then(http::Cors::new);
                    return Ok((address, server.start_http(options, service)));
                }
                let mut route = WebSocketConfig::server();
                route.web.paths.push(web.path.clone());
                route.web.origins.clone_from(&web.origins);
                let options = options.with_websocket(route);
                Ok((address, server.start(options, move |_| service.clone())))
            }

            pub(in crate::transports) async fn serve_stdio(
                options: ConnectionConfig,
                contract: Contract,
            ) -> io::Result<Closed> {
                $adapter::serve_stdio(options, router(contract, $adapter::current().into())).await
            }

            pub(in crate::transports) async fn reach(
                place: &Place,
                tls: &Tls,
                options: ConnectionConfig,
                desk: Desk,
                executor: Executor,
            ) -> io::Result<Box<dyn Caller>> {
                let (link, options) = match place {
                    Place::Tcp(address) => (Link::tcp(address.as_str()).await?, options),
                    #[cfg(unix)]
                    Place::Unix(path) => (Link::unix(path).await?, options),
                    Place::Web(web) if web.is_http => {
                        let options = http_client(web, tls, &options)?;
                        return Ok(Box::new(HttpTasks {
                            client: connect(web.url(), options, ()).await?,
                            runtime: $adapter::current().into(),
                            executor,
                        }));
                    }
                    Place::Web(web) => {
                        let there = WebSocketConfig::client(&web.url())?;
                        let address = web.address.as_str();
                        let link = match web.is_tls {
                            true => tls::connect(address, web.host(), tls.client()?).await?,
                            false => Link::tcp(address).await?,
                        };
                        (link, options.with_websocket(there))
                    }
                    Place::Stdio | Place::Child(_) => return Err(place.unfit()),
                };
                let peer = attach(link, options, desk);
                peer.opened().await?;
                Ok(Box::new(TaskCaller::new(peer, $adapter::current().into(), executor)))
            }

            pub(in crate::transports) fn start(
                command: Command,
                options: ChildConfig,
                desk: Desk,
            ) -> io::Result<(Child, SharedRuntime)> {
                Ok(($adapter::spawn(command, options, desk)?, $adapter::current().into()))
            }
        }
    };
}

transports! {
    /// The transports of the tokio adapter.
    on_tokio, antiphon_tokio
}
transports! {
    /// The transports of the adapter for smol and async-std.
    on_futures, antiphon_async_std
}
