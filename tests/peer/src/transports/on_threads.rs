//! The transports of the blocking adapter.

use std::io;

use antiphon_blocking::http::{self, HttpConfig};
use antiphon_blocking::websocket::WebSocketConfig;
use antiphon_blocking::{Link, Router, TcpServer, attach, connect, tls};

use super::{ConnectionConfig, Contract, Desk, Place, Running, Tls, Web, http_client, router};
use crate::caller::Caller;
use crate::over_http::HttpThreads;

pub(super) fn listen(
    place: &Place,
    tls: &Tls,
    options: ConnectionConfig,
    contract: Contract,
) -> io::Result<(String, Running)> {
    let service = router(contract);
    match place {
        Place::Tcp(address) => {
            let server = TcpServer::bind(address.as_str())?;
            let address = server.local_addr()?.to_string();
            let running = server.start(options, move |_| service.clone())?;
            Ok((address, Running::Threads(running)))
        }
        #[cfg(unix)]
        Place::Unix(path) => {
            let server = antiphon_blocking::UnixServer::bind(path)?;
            let running = server.start(options, move || service.clone())?;
            Ok((path.clone(), Running::Threads(running)))
        }
        Place::Web(web) => listen_web(web, tls, options, service),
        Place::Stdio | Place::Child(_) => Err(place.unfit()),
    }
}

fn listen_web(
    web: &Web,
    tls: &Tls,
    options: ConnectionConfig,
    service: Router,
) -> io::Result<(String, Running)> {
    let mut server = TcpServer::bind(web.address.as_str())?;
    if web.is_tls {
        server = server.with_tls(tls.server()?);
    }
    let address = server.local_addr()?.to_string();
    if web.is_http && web.token.is_some() {
        let running = server.start_web(web.one_port(options, move |_| service.clone()))?;
        return Ok((address, Running::Threads(running)));
    }
    if web.is_http {
        let mut options = HttpConfig::from(options);
        options.rules.paths.push(web.path.clone());
        options.rules.origins.clone_from(&web.origins);
        options.rules.cors = (!web.origins.is_empty()).then(http::Cors::new);
        let running = server.start_http(options, move |_| service.clone())?;
        return Ok((address, Running::Threads(running)));
    }
    let mut route = WebSocketConfig::server();
    route.web.paths.push(web.path.clone());
    route.web.origins.clone_from(&web.origins);
    let running = server.start(options.with_websocket(route), move |_| service.clone())?;
    Ok((address, Running::Threads(running)))
}

pub(super) fn reach(
    place: &Place,
    tls: &Tls,
    options: ConnectionConfig,
    desk: Desk,
) -> io::Result<Box<dyn Caller>> {
    let (link, options) = match place {
        Place::Tcp(address) => (Link::tcp(address.as_str())?, options),
        #[cfg(unix)]
        Place::Unix(path) => (Link::unix(path)?, options),
        Place::Web(web) if web.is_http => {
            let options = http_client(web, tls, &options)?;
            return Ok(Box::new(HttpThreads(connect(web.url(), options, ())?)));
        }
        Place::Web(web) => {
            let there = WebSocketConfig::client(&web.url())?;
            let link = match web.is_tls {
                true => tls::connect(web.address.as_str(), web.host(), tls.client()?)?,
                false => Link::tcp(web.address.as_str())?,
            };
            (link, options.with_websocket(there))
        }
        Place::Stdio | Place::Child(_) => return Err(place.unfit()),
    };
    let peer = attach(link, options, desk)?;
    peer.opened().wait()?;
    Ok(Box::new(peer))
}
