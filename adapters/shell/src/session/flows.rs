//! The flows of a connection: the two machines of the core, the open calls for pulls, and who waits for something.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use antiphon::flow::{ConsumerId, Consumers, FlowId, FlowMethod, Producers};
use antiphon::session::Ticket;
use antiphon::{CallId, VersionPolicy};

use crate::options::ConnectionConfig;

/// What a connection has if flows are on.
pub(crate) struct Flows {
    pub(super) producers: Producers<Ticket>,
    pub(super) consumers: Consumers,
    /// The flows that are produced, each with the task that waits for a pull.
    pub(super) producing: BTreeMap<FlowId, Option<Waker>>,
    /// Tasks and threads that wait for an item.
    pub(super) readers: BTreeMap<ConsumerId, Waker>,
    /// The open calls for pulls of this end.
    pub(super) pulls: BTreeSet<CallId>,
    /// Whether a producer waits for space in the output.
    pub(super) is_held: bool,
}

impl Flows {
    /// `None` if flows are off, or the connection cannot carry them: over HTTP, and in version 1.0.
    pub(super) fn of(options: &ConnectionConfig) -> Option<Box<Self>> {
        let config = options.flows?;
        let is_old = options.config.dialect.version == VersionPolicy::V1Only;
        let is_carried = options.config.can_call() && !is_old;
        is_carried.then(|| {
            Box::new(Self {
                producers: Producers::new(config),
                consumers: Consumers::new(config),
                producing: BTreeMap::new(),
                readers: BTreeMap::new(),
                pulls: BTreeSet::new(),
                is_held: false,
            })
        })
    }

    /// The methods of flows.
    pub(super) fn methods(&self) -> Vec<String> {
        let methods = [FlowMethod::Next, FlowMethod::Cancel];
        methods
            .map(|method| self.consumers.name(method).to_owned())
            .into()
    }

    /// Takes the wakers of all whose flows have become readable.
    pub(super) fn take_readers(&mut self, wakes: &mut impl Extend<Waker>) {
        while let Some(consumer) = self.consumers.poll_ready() {
            wakes.extend(self.readers.remove(&consumer));
        }
    }
}
