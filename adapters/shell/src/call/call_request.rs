//! The content of a call, before it is sent.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use antiphon::{OwnedId, SendError};

use crate::call::passed::PassedFlows;
use crate::call::route::CallEvents;
use crate::http::reply::Advice;
use crate::lock::Lock;
use crate::text::Text;

/// The content of a call.
pub(crate) struct CallRequest<'c> {
    pub(crate) method: Cow<'c, str>,
    pub(crate) params: Result<Text, SendError>,
    /// The id, if the caller chose one.
    pub(crate) id: Option<OwnedId>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) is_idempotent: bool,
    /// Whether it was sent before.
    pub(crate) is_again: bool,
    /// The events of the call, if they are read.
    pub(crate) events: Option<Arc<CallEvents>>,
    /// The flows in the params.
    pub(crate) flows: PassedFlows,
    /// Gets what the reply says about sending the call again, over HTTP.
    pub(crate) advice: Option<Arc<Lock<Advice>>>,
    /// Headers for the call's request, over HTTP.
    pub(crate) headers: Vec<(String, String)>,
}

impl<'c> CallRequest<'c> {
    pub(crate) fn new(
        method: impl Into<Cow<'c, str>>,
        params: Result<Text, SendError>,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            method: method.into(),
            params,
            id: None,
            timeout,
            is_idempotent: false,
            is_again: false,
            events: None,
            flows: PassedFlows::default(),
            advice: None,
            headers: Vec::new(),
        }
    }
}

/// Adds headers, and replaces those of the same names. The case of names does not matter.
pub(crate) fn put_headers(all: &mut Vec<(String, String)>, headers: &[(String, String)]) {
    let is_put = |name: &str| {
        let mut names = headers.iter().map(|(put, _)| put);
        names.any(|put| put.eq_ignore_ascii_case(name))
    };
    all.retain(|(name, _)| !is_put(name));
    all.extend_from_slice(headers);
}
