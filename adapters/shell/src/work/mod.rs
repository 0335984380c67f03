//! Where work runs, and how much of it at the same time.

pub(crate) mod dispatcher;
pub(crate) mod on_pool;
pub(crate) mod pool;
pub(crate) mod seat;
