//! The report of connections that a server has refused.

use std::fmt;
use std::sync::Arc;

use antiphon::LimitReached;

use antiphon_shell::{Context, caught};

/// A function that is called for the connections that a server refuses at a limit. The default is
/// none.
#[derive(Clone, Default)]
pub(super) struct OnRefused(Option<Arc<RefusedFn>>);

type RefusedFn = dyn Fn(&Context, LimitReached) + Send + Sync;

impl OnRefused {
    /// Sets the function, for logs and metrics. It runs in the task that accepts, so it must be
    /// quick.
    pub(super) fn new(report: impl Fn(&Context, LimitReached) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    /// Reports one refused connection. If the function panics, the server goes on.
    pub(super) fn tell(&self, context: &Context, why: LimitReached) {
        if let Some(report) = &self.0 {
            caught(|| report(context, why));
        }
    }
}

impl fmt::Debug for OnRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnRefused").field(&self.0.is_some()).finish()
    }
}
