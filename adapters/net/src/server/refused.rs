//! The report of connections that a server has no room for.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use antiphon::LimitReached;

use crate::context::Context;

/// Tells a program of the connections that a server refuses at its limit. By default it tells
/// nobody.
#[derive(Clone, Default)]
pub struct OnRefused(Option<Arc<RefusedFn>>);

type RefusedFn = dyn Fn(&Context, LimitReached) + Send + Sync;

impl OnRefused {
    /// Tells `report`, for logs and metrics. It runs where the server accepts: briefly.
    pub fn new(report: impl Fn(&Context, LimitReached) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    /// Tells of one refused connection. A panic of the report costs nothing but that report.
    pub fn tell(&self, context: &Context, why: LimitReached) {
        if let Some(report) = &self.0 {
            // It has been printed; the server goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| report(context, why)));
        }
    }
}

impl fmt::Debug for OnRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnRefused").field(&self.0.is_some()).finish()
    }
}
