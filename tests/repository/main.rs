//! The repository itself: what its source imports and uses, and what its pages say. Nothing here runs a connection.

mod docs;
mod floors;
mod source;
