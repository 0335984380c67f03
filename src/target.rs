//! Whether the crate is built for speed, or for machines on which flash is scarcer than time.
//!
//! The behaviour is the same in both cases.

/// Whether to be small: on bare metal; and with `--cfg antiphon_small` on any machine, so that the
/// small form can be measured and tested there.
pub(crate) const SMALL: bool = cfg!(any(target_os = "none", antiphon_small));

/// Of how many entries a table keeps the memory for the next connection that uses it.
pub(crate) const KEPT: usize = 16;

/// Marks the branch in which it is called as rarely taken, so that the compiler moves the branch's
/// code out of the way. It does nothing.
///
/// Without these marks a small request takes 17 % more instructions
/// (`benches/instructions/run.py`: `receive 01`).
#[cold]
#[inline(always)]
pub(crate) fn rare() {}
