//! The echo service as a trait of methods, with its router and its typed client.

use antiphon_tokio::OwnedError;

use crate::service::Echo;

/// How the service is written, and how it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As one function of a request; called by `call` with the name of the method.
    Plain,
    /// As a trait of methods behind a router; called by the trait's typed client.
    Typed,
}

/// The service for tasks.
#[antiphon_tokio::service]
pub(crate) trait Words {
    async fn echo(&self, word: String) -> Result<String, OwnedError>;
}

impl Words for Echo {
    async fn echo(&self, word: String) -> Result<String, OwnedError> {
        Ok(word)
    }
}

/// The service for threads.
#[antiphon_blocking::service]
pub(crate) trait WordsOnThreads {
    fn echo(&self, word: String) -> Result<String, OwnedError>;
}

impl WordsOnThreads for Echo {
    fn echo(&self, word: String) -> Result<String, OwnedError> {
        Ok(word)
    }
}

/// A router of it, for tasks.
pub(crate) fn router() -> antiphon_tokio::Router {
    antiphon_tokio::Router::new().service(Words::into_service(Echo))
}

/// A router of it, for threads.
pub(crate) fn router_on_threads() -> antiphon_blocking::Router {
    antiphon_blocking::Router::new().service(WordsOnThreads::into_service(Echo))
}
