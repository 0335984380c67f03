//! The requests that wait for the store, and their answers.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use super::commands::Waiter;
use super::request::{DurableEntry, DurableMethod, DurableRequest, invalid};
use super::store::StoreError;
use crate::error_object::{ErrorObject, OwnedError};
use crate::error_profile::ErrorProfile;
use crate::json::OwnedJson;

/// Why a request of a consumer has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurableError {
    /// The connection is not attached to the subscription: there is none of this name, or another connection has it.
    NotAttached,
    /// The subscription never got the message that is acknowledged.
    NeverDelivered,
    /// The subscription has another topic.
    OtherTopic,
    /// Another connection is attached, and [`Reject`](super::SecondConsumer::Reject) is set.
    InUse,
    /// A limit on subscriptions would be passed.
    TooMany,
    /// The connection has ended, or was not added.
    NotConnected,
    /// The store has failed.
    Store(StoreError),
}

impl DurableError {
    /// The error that the peer gets: −32602 with the reason as data for its own faults; −32002, or the code that
    /// stands for a busy server in its dialect, if a limit is reached or the store is busy or full; otherwise −32603.
    pub fn error(self, profile: ErrorProfile) -> OwnedError {
        let message = match self {
            Self::TooMany => "Too many subscriptions",
            Self::Store(StoreError::Busy) => "Server busy",
            Self::Store(StoreError::Full) => "Storage full",
            Self::NotConnected | Self::Store(_) => {
                return ErrorObject::internal_error().into_owned();
            }
            fault => return invalid(fault.as_str()),
        };
        ErrorObject::fixed(profile.busy().code(), message).into_owned()
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::NotAttached => "this connection is not attached to the subscription",
            Self::NeverDelivered => "the message was never delivered",
            Self::OtherTopic => "the subscription has another topic",
            Self::InUse => "another connection is attached to the subscription",
            Self::TooMany => "there are too many subscriptions",
            Self::NotConnected => "the connection has ended",
            Self::Store(_) => "the store has failed",
        }
    }
}

impl From<StoreError> for DurableError {
    /// What the store says about a subscription is about the request, not about the store.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced | StoreError::Unknown => Self::NotAttached,
            StoreError::OtherTopic => Self::OtherTopic,
            StoreError::Held => Self::InUse,
            other => Self::Store(other),
        }
    }
}

impl fmt::Display for DurableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::error::Error for DurableError {}

/// The answer to a request.
#[derive(Debug)]
pub struct DurableAnswer<R> {
    /// What the request was given with: the right to answer it.
    pub to: R,
    /// The result, or why there is none.
    pub reply: Result<OwnedJson, DurableError>,
    /// If it has subscribed: what [`release`](super::DurableTopics::release) is to be called with when the answer
    /// is in the connection's output. Nothing is delivered before.
    pub opens: Option<Opening>,
}

/// The subscriptions of one request, which open when its answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    pub(super) connection: u64,
    pub(super) request: u64,
}

/// A request, and what has come of its entries.
#[derive(Debug)]
pub(super) struct Pending<R> {
    pub(super) to: R,
    pub(super) connection: u64,
    pub(super) method: DurableMethod,
    pub(super) entries: Vec<(DurableEntry, Option<Result<u64, DurableError>>)>,
}

impl<R> Pending<R> {
    /// Why the request fails as a whole: in a batch of acknowledgements each entry has a result of its own.
    pub(super) fn failure(&self) -> Option<DurableError> {
        let mut results = self.entries.iter().filter_map(|(_, result)| *result);
        let failure = results.find_map(|result| result.err());
        failure.filter(|_| self.method != DurableMethod::AcknowledgeBatch)
    }

    /// The answer, when every entry has its result.
    pub(super) fn answer(self, request: u64) -> DurableAnswer<R> {
        let failure = self.failure();
        let opens = (self.method.subscribes() && failure.is_none()).then_some(Opening {
            connection: self.connection,
            request,
        });
        let number = |result: Option<Result<u64, _>>| result.and_then(Result::ok).unwrap_or(0);
        let entries = self.entries.into_iter();
        let entries = entries.map(|(entry, result)| (entry, number(result)));
        let entries: Vec<(DurableEntry, u64)> = entries.collect();
        DurableAnswer {
            to: self.to,
            reply: match failure {
                None => Ok(DurableRequest::result(self.method, &entries)),
                Some(failure) => Err(failure),
            },
            opens,
        }
    }
}

#[derive(Debug)]
pub(super) struct Requests<R> {
    last: u64,
    pending: BTreeMap<u64, Pending<R>>,
    pub(super) answers: VecDeque<DurableAnswer<R>>,
}

impl<R> Requests<R> {
    pub(super) const fn new() -> Self {
        Self {
            last: 0,
            pending: BTreeMap::new(),
            answers: VecDeque::new(),
        }
    }

    pub(super) fn add(&mut self, pending: Pending<R>) -> u64 {
        self.last += 1;
        self.pending.insert(self.last, pending);
        self.last
    }

    /// The connection that a request came from.
    pub(super) fn connection(&self, request: u64) -> Option<u64> {
        Some(self.pending.get(&request)?.connection)
    }

    /// Notes what has come of an entry. Returns the request if that was its last.
    pub(super) fn settle(
        &mut self,
        (request, index): Waiter,
        result: Result<u64, DurableError>,
    ) -> Option<Pending<R>> {
        let entries = &mut self.pending.get_mut(&request)?.entries;
        if let Some((_, slot)) = entries.get_mut(index) {
            *slot = Some(result);
        }
        let is_done = entries.iter().all(|(_, result)| result.is_some());
        is_done.then(|| self.pending.remove(&request))?
    }
}
