//! The C interface: its functions in any order, its header, and what is refused.

mod any_order;
mod header;
mod misuse;
mod steps;
