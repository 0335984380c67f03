//! The streams of events to which the client has subscribed, by their ids.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use antiphon::{Json, OwnedJson, Style};
use antiphon_net::{Subscription, SubscriptionError, block_on, threads, until};

/// The styles that the client knows, by the methods that subscribe.
const STYLES: [Style; 6] = [
    Style::ETHEREUM,
    Style::SUBSTRATE_NEW_HEADS,
    Style::SUBSTRATE_FINALIZED_HEADS,
    Style::SOLANA_ACCOUNT,
    Style::SOLANA_LOGS,
    Style::SOLANA_SLOT,
];

/// The style with this method; `None` if there is none.
pub(crate) fn style_of(method: &str) -> Option<Style> {
    let mut styles = STYLES.into_iter();
    styles.find(|style| style.subscribe_method() == Some(method))
}

/// The open streams.
#[derive(Default)]
pub struct Streams(RefCell<HashMap<String, Subscription<OwnedJson>>>);

/// What a stream has next.
#[derive(Debug)]
pub(crate) enum Next {
    Event(OwnedJson),
    /// So many events were dropped here.
    Lagged(u64),
    /// It has ended: why.
    Ended(String),
    TimedOut,
    /// There is no stream with this id.
    Unknown,
}

impl Streams {
    /// Keeps a stream, and gives its id as JSON.
    pub(crate) fn keep(&self, stream: Subscription<OwnedJson>) -> String {
        let id = stream.id().as_str().to_owned();
        self.0.borrow_mut().insert(id.clone(), stream);
        id
    }

    /// Waits for what a stream has next. A stream that has ended is forgotten.
    pub(crate) fn next(&self, id: Json<'_>, timeout: Duration) -> Next {
        let mut streams = self.0.borrow_mut();
        let Some(stream) = streams.get_mut(id.as_str()) else {
            return Next::Unknown;
        };
        let timers = threads();
        let at = timers.now() + timeout;
        match block_on(until(&*timers, at, stream.next())) {
            None => Next::TimedOut,
            Some(Some(Ok(event))) => Next::Event(event),
            Some(Some(Err(SubscriptionError::Lagged(events)))) => Next::Lagged(events),
            Some(Some(Err(why))) => {
                streams.remove(id.as_str());
                Next::Ended(why.to_string())
            }
            Some(None) => {
                streams.remove(id.as_str());
                Next::Ended("there are no more events".to_owned())
            }
        }
    }

    /// Unsubscribes. False if there is no stream with this id.
    pub(crate) fn drop(&self, id: Json<'_>) -> bool {
        let stream = self.0.borrow_mut().remove(id.as_str());
        stream.is_some()
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.borrow().keys()).finish()
    }
}
