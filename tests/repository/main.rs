//! Checks the repository itself: what its source imports and uses, and what its pages contain. No
//! connection runs here.

mod docs;
mod firmware;
mod floors;
mod source;
