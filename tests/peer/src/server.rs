//! The server of the contract: where it listens, and when it ends.

use std::sync::Arc;
use std::{fmt, io};

use crate::contract::{Contract, with_room};
use crate::layers::Layers;
use crate::log::{say, write_line};
use crate::transports::{Place, listen, serve_stdio};
use antiphon::durable::MessageData;
use antiphon::flow::FlowConfig;
use antiphon::{CloseReason, Closed};
use antiphon_nats::{NatsOptions, NatsStore, NatsTopics};
use antiphon_net::Durable;
use antiphon_redb::RedbStore;

use crate::usage::{Endpoint, Failure, Store};

/// Serves until the input ends, or for ever where connections come and go.
///
/// # Errors
/// The target cannot be served.
pub(crate) fn run(endpoint: &Endpoint) -> Result<u8, Failure> {
    std::panic::set_hook(Box::new(|panic| say(format_args!("{panic}"))));
    let target = &endpoint.target;
    let cannot = |error: io::Error| Failure::new(format!("cannot serve {target}: {error}"));
    let executor = endpoint.runtime.start().map_err(cannot)?;
    let mut options = with_room(endpoint.config);
    options.flows = endpoint.has_layers.then(FlowConfig::new);
    let mut contract = Contract::default();
    contract.has_extensions = endpoint.has_extensions;
    if endpoint.has_layers {
        contract.layers = Some(layers(&endpoint.store)?);
    }
    if *target.place() == Place::Stdio {
        let served = serve_stdio(executor.as_ref(), options, contract);
        return served.map(code_of).or_else(|error| {
            let broken = error.get_ref().and_then(|inner| inner.downcast_ref());
            match broken {
                Some(&broken) => Ok(code_of(Closed::Failed(broken))),
                None => Err(cannot(error)),
            }
        });
    }
    let serving = listen(
        executor.as_ref(),
        target.place(),
        &endpoint.tls,
        options,
        contract,
    );
    let serving = serving.map_err(cannot)?;
    let listening = target.at(&serving.address);
    write_line(format_args!("listening {listening}"));
    serving.wait();
    Ok(0)
}

fn layers(store: &Store) -> Result<Layers, Failure> {
    let cannot = |error: &dyn fmt::Display| Failure::new(error.to_string());
    Ok(match store {
        Store::Memory => Layers::default(),
        Store::Redb(file) => {
            let store = RedbStore::open(file).map_err(|error| cannot(&error))?;
            Layers::over(Durable::new(store))
        }
        Store::Nats(servers) => {
            let mut options = NatsOptions::new(servers);
            // A cluster keeps each message three times.
            options.replicas = if servers.split(',').count() < 3 { 1 } else { 3 };
            let store = NatsStore::connect(&options).map_err(|error| cannot(&error))?;
            let mut layers = Layers::over(Durable::new(store));
            let hub = layers.hub.clone();
            let deliver = move |topic: &str, data: &MessageData| {
                hub.publish(topic, data.as_json()).unwrap_or(0)
            };
            let topics = NatsTopics::join(&options, deliver).map_err(|error| cannot(&error))?;
            layers.everywhere = Some(Arc::new(topics));
            layers
        }
    })
}

/// The code to exit with after the only connection has ended.
fn code_of(why: Closed) -> u8 {
    match why {
        Closed::EndOfInput | Closed::Drained | Closed::Local(CloseReason::Done) => 0,
        Closed::Failed(error) => {
            say(format_args!("{error}"));
            1
        }
        other => {
            say(format_args!("{other}"));
            1
        }
    }
}
