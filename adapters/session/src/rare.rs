//! Where code lies that rarely runs: out of the way of what does.

/// Says that the branch in which it stands is rarely taken. It does nothing.
///
/// A connection that wakes up for one message finds its code in no near cache, so that what costs time is how many
/// lines of it there are, and what rarely runs is not to lie among them.
#[cold]
#[inline(always)]
pub(crate) fn rare() {}
