//! The methods about durable subscriptions as extensions of a router.

use super::request::DurableMethod;
use crate::pubsub::TopicHub;
use crate::service::{Adapter, MethodInfo, ParamInfo, Routes};

impl<S: 'static, K: Adapter> Routes<S, K> {
    /// Serves `rpc.subscribe.persistent`, `rpc.acknowledge.persistent`, `rpc.unsubscribe.persistent` and two batch forms,
    /// so that peers can consume the durable topics of `topics`.
    ///
    /// # Panics
    /// The router has durable topics already.
    #[must_use]
    #[track_caller]
    pub fn durable<H: TopicHub<K, DurableMethod> + Clone>(self, topics: &H) -> Self {
        const NAME: ParamInfo = ParamInfo::of::<alloc::string::String>("subscription_id");
        const PARAMS: [&[ParamInfo]; 5] = [
            &[NAME, ParamInfo::of::<alloc::string::String>("topic")],
            &[NAME, ParamInfo::of::<u64>("sequence_id")],
            &[NAME],
            &[ParamInfo::of::<alloc::vec::Vec<()>>("subscriptions")],
            &[ParamInfo::of::<alloc::vec::Vec<()>>("acknowledgments")],
        ];
        let methods = DurableMethod::ALL.into_iter().zip(PARAMS);
        methods.fold(self, |routes, (method, params)| {
            let topics = topics.clone();
            let serve =
                move |call: &K::Request, text: &mut K::Text| topics.serve(call, method, text);
            routes.serve_extension(MethodInfo::request(method.name(), params), serve)
        })
    }
}
