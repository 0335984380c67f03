//! The script player: conversations as text, played against the public API in every way the input
//! can be cut.
//!
//! `script` reads the text, `knobs` turns its `config` lines into a `Config`, `player` runs one
//! case in one mode, `command` carries out its `=` lines, `render` writes events as the lines that
//! scripts expect, `modes` plays a case in all modes. The format is described in
//! `tests/scripts/README.md`; `vector` reads the other form, of `tests/vectors/README.md`, and
//! `harness` reports.
//!
//! The rule guarded here: nothing that the connection says may go unmentioned. Every event and
//! every frame has its line in the script, in order, or the case fails.

pub(crate) mod command;
pub(crate) mod harness;
pub(crate) mod knobs;
pub(crate) mod modes;
pub(crate) mod player;
pub(crate) mod render;
pub(crate) mod script;
