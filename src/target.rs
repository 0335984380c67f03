//! Whether the crate is built for speed, or for machines where flash is dearer than time.
//!
//! Nothing that can be seen from outside depends on it.

/// Whether to be small: on bare metal, and anywhere with `--cfg antiphon_small`, by which that is
/// measured and tested.
pub(crate) const SMALL: bool = cfg!(any(target_os = "none", antiphon_small));

/// Marks the branch in which it is called as rarely taken, so that its code is put out of the way
/// of the usual one. It does nothing.
///
/// Without it a small request takes 17 % more instructions (`benches/instructions/run.py`: `receive 01`).
#[cold]
#[inline(always)]
pub(crate) fn rare() {}
