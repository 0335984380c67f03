//! Why a message was not published.

use std::fmt;

use antiphon::durable::StoreError;
use antiphon::pubsub::PublishError;

/// Why a message was not published, or may not have been.
#[derive(Debug)]
#[non_exhaustive]
pub enum DurablePublishError {
    /// The topic or the value. Nothing was stored.
    Invalid(PublishError),
    /// The store. After [`StoreError::Failed`] the message may have been stored.
    Store(StoreError),
}

impl fmt::Display for DurablePublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DurablePublishError {}
