//! What a connection serves: requests and notifications, their answers, and the handlers that run.

pub(crate) mod answer;
pub(crate) mod cancellation;
pub(crate) mod exchange;
pub(crate) mod finish;
pub(crate) mod handlers;
pub(crate) mod later_answer;
pub(crate) mod notification;
pub(crate) mod progress;
pub(crate) mod request;
pub(crate) mod responder;
pub(crate) mod service;
pub(crate) mod spawned;
