//! A call while its interceptors are asked.

use alloc::vec::Vec;
use core::borrow::Borrow;

use super::Listed;
use crate::service::cx::{AnyRequest, Cx};
use crate::service::decision::{Asked, Decision};
use crate::service::describe::MethodInfo;
use crate::service::intercept::{Chain, left_group};
use crate::service::routing_table::{Found, Route};

/// A call while its interceptors are asked.
pub(super) struct Asking<'c, R, T> {
    pub(super) chain: Chain<R>,
    pub(super) request: &'c R,
    /// How many interceptors have returned a decision.
    pub(super) asked: usize,
    pub(super) cx: Cx,
    /// What serves the call.
    pub(super) found: Found<T>,
}

impl<'c, R: AnyRequest + 'static, T> Asking<'c, R, T> {
    pub(super) fn new(request: &'c R, chain: Chain<R>, found: Found<T>) -> Self {
        let cx = Cx::new(request.now(), found.is_some());
        Self {
            chain,
            request,
            asked: 0,
            cx,
            found,
        }
    }

    /// Takes a decision, and asks the interceptors of the router that have not been asked, then those of the group
    /// of the method. An interceptor may replace the method, so `find` finds it again.
    pub(super) fn ask<H>(&mut self, decision: Decision, find: impl Fn(&str) -> Found<T>) -> Asked
    where
        T: Borrow<Route<H, R>>,
    {
        let mut decision = decision;
        loop {
            let (asked, cx) = (&mut self.asked, &mut self.cx);
            let asked = self.chain.decide(decision, asked, cx, self.request);
            if !matches!(asked, Asked::Passed) {
                return asked;
            }
            if let Some(method) = self.cx.method() {
                self.found = find(method);
            }
            let was_in_group = self.chain.is_in_group();
            let method = self.found.method.as_ref().map(Borrow::borrow);
            if !self.chain.enter(method.and_then(Route::group)) {
                return Asked::Answered(Err(left_group()));
            }
            if was_in_group || !self.chain.is_in_group() {
                return Asked::Passed;
            }
            decision = Decision::Continue;
        }
    }

    /// Returns the methods that the interceptors show to the caller, if they let a call pass that asks for a
    /// description of the methods.
    pub(super) fn shown(
        &mut self,
        asked: &Asked,
        listed: impl FnOnce() -> Vec<Listed<R>>,
    ) -> Option<Vec<MethodInfo>> {
        if !matches!(asked, Asked::Passed) || !self.found.is_built_in {
            return None;
        }
        let (chain, request, cx) = (&self.chain, self.request, &mut self.cx);
        let shown = listed().into_iter().filter_map(|(info, group)| {
            let is_shown = chain.shows(cx, request, &info, group.as_ref());
            is_shown.then_some(info)
        });
        Some(shown.collect())
    }
}
