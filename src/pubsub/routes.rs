//! The methods about topics as extensions of a router.

use super::request::TopicMethod;
use crate::service::{Adapter, MethodInfo, ParamInfo, Routes, Served};

/// A hub of an adapter: it answers the methods about topics, or those of type `M` about
/// [durable subscriptions](crate::durable).
pub trait TopicHub<K: Adapter, M = TopicMethod>: Send + Sync + 'static {
    /// Serves a call of one of the methods: writes the result, or returns the future that makes it.
    fn serve(&self, call: &K::Request, method: M, text: &mut K::Text) -> Served<'static, K>;
}

impl<S: 'static, K: Adapter> Routes<S, K> {
    /// Serves `rpc.subscribe`, `rpc.unsubscribe` and their batch forms, so that peers can subscribe to the topics of
    /// a hub.
    ///
    /// # Panics
    /// The router has a hub already.
    #[must_use]
    #[track_caller]
    pub fn hub<H: TopicHub<K> + Clone>(self, hub: &H) -> Self {
        const TOPIC: &[ParamInfo] = &[ParamInfo::of::<alloc::string::String>("topic")];
        const TOPICS: &[ParamInfo] = &[ParamInfo::of::<alloc::vec::Vec<alloc::string::String>>(
            "topics",
        )];
        let methods = TopicMethod::ALL.into_iter();
        methods.fold(self.only_hub(), |routes, method| {
            let hub = hub.clone();
            let params = match method.param() {
                "topic" => TOPIC,
                _ => TOPICS,
            };
            let serve = move |call: &K::Request, text: &mut K::Text| hub.serve(call, method, text);
            routes.serve_extension(MethodInfo::request(method.name(), params), serve)
        })
    }
}
