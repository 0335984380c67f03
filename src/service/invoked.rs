//! A call on its way into a handler, and what comes out.

use crate::shared::Arc;
use core::fmt;

use super::args::GivenParams;
use super::errors::Failure;
use super::shell::{Later, Shell};

/// What a handler has done: it has written its result, or it needs more time.
pub enum Served<'c, K: Shell> {
    /// The result is written, or there is none.
    Done(Result<(), Failure>),
    /// The future makes the result.
    Later(Later<'c, K::Text>),
    /// The handler has taken the call, and answers it itself.
    Deferred,
}

impl<K: Shell> fmt::Debug for Served<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Served")
    }
}

/// A call, as a handler is given it.
#[derive(Debug)]
pub struct Invoked<'c, S, K: Shell> {
    pub(super) given: GivenParams<'c>,
    pub(super) call: &'c K::Call,
    pub(super) state: &'c Arc<S>,
}
