//! The methods about topics as extensions of a router.

use super::request::TopicMethod;
use crate::error_object::OwnedError;
use crate::service::{Adapter, MethodInfo, ParamInfo, Routes};

/// A hub of an adapter: it answers the methods about topics.
pub trait TopicHub<K: Adapter>: Send + Sync + 'static {
    /// Answers a call of one of the methods.
    ///
    /// # Errors
    /// The error that is sent.
    fn serve(&self, call: &K::Request, method: TopicMethod) -> Result<K::Answer, OwnedError>;
}

impl<S: 'static, K: Adapter> Routes<S, K> {
    /// Serves `rpc.subscribe`, `rpc.unsubscribe` and their batch forms, so that peers can subscribe to the topics of
    /// a hub. A connection has one hub.
    #[must_use]
    pub fn hub<H: TopicHub<K> + Clone>(self, hub: &H) -> Self {
        const TOPIC: &[ParamInfo] = &[ParamInfo::of::<alloc::string::String>("topic")];
        const TOPICS: &[ParamInfo] = &[ParamInfo::of::<alloc::vec::Vec<alloc::string::String>>(
            "topics",
        )];
        TopicMethod::ALL.into_iter().fold(self, |router, method| {
            let hub = hub.clone();
            let params = match method.param() {
                "topic" => TOPIC,
                _ => TOPICS,
            };
            let info = MethodInfo::request(method.name(), params);
            router.raw_extension(info, move |call| hub.serve(call, method))
        })
    }
}
