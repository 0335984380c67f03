//! JSON text: validated once, sliced, never reprinted.
//!
//! Text is validated by `scan`, which reads the members of a message's envelope, on top of `cursor`
//! and `tokens`, which read single tokens. (The *envelope* is an object's members that JSON-RPC
//! defines: `jsonrpc`, `method`, `params`, `id`, `result`, `error`.)
//!
//! * `plain`, `grid`: skip long stretches of text without quotes or escapes, block by block
//! * `simd`, `swar`, `bytes`, `stops`, `judge`, `utf8`: examine blocks, by vector code, by machine
//!   words, or byte by byte
//! * `envelope`, `syntax`, `flags`: what a scan returns: positions, errors, and facts about the
//!   text
//! * `text`, `string`, `walk`: [`Json`] and the ways to read it
//! * `decode`, `encode`, `serializer`, `serializer_parts`, `writer`, `number`: conversion to and
//!   from the caller's types, with `mismatch` for error messages and `reserved` for keys that are
//!   refused
//! * `embed`: raw JSON as a part of these types
//! * `decimal`: the exact value of a number; `by_value`: integers in another spelling
//! * `owned`, `kept`: text that outlives its input
//!
//! What a JSON-RPC message means is decided elsewhere.
//!
//! Untrusted text is validated before anything else reads it, and is never parsed into a tree. Text
//! that is passed on keeps its bytes, but raw line breaks become blanks. The parser recurses at
//! most four deep, however deep the input is nested. Outside tests only this folder uses
//! `serde_json`.
//!
//! ```text
//!   bytes ── scan ──▶ spans ──▶ Json<'a> ── decode ──▶ the caller's type
//!   bytes ◀── encode, serializer ◀── Json<'a> or the caller's value
//! ```

mod by_value;
#[cfg(any(antiphon_small, target_os = "none"))]
mod bytes;
mod cursor;
mod decimal;
mod decode;
mod embed;
mod encode;
mod envelope;
mod fault;
mod flags;
mod grid;
mod judge;
mod kept;
mod mismatch;
mod number;
mod owned;
mod plain;
mod reserved;
mod scan;
mod serializer;
mod serializer_parts;
#[cfg(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    not(any(antiphon_small, target_os = "none"))
))]
mod simd;
#[cfg(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    not(any(antiphon_small, target_os = "none"))
))]
mod stops;
mod string;
#[cfg(any(
    test,
    antiphon_portable,
    not(any(
        all(target_arch = "x86_64", target_feature = "sse2"),
        antiphon_small,
        target_os = "none"
    ))
))]
mod swar;
mod syntax;
mod text;
mod tokens;
#[cfg(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    not(any(antiphon_small, target_os = "none"))
))]
mod utf8;
mod walk;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use by_value::has_whole_float;
pub use decode::{DecodeError, DecodeErrorKind};
pub(crate) use decode::{Reason, decode_seed};
pub use encode::{EncodeError, EncodeErrorKind};
pub use owned::OwnedJson;
pub use string::{CodePoints, JsonString};
pub use syntax::{JsonKind, SyntaxError, SyntaxErrorKind};
pub use text::Json;
pub use walk::{Elements, Members};

pub(crate) use decimal::{Decimal, to_u64, whole_number};
pub(crate) use encode::{write_inside, write_json, write_str};
pub(crate) use envelope::{Envelope, Member, Names, Span, Version};
pub(crate) use flags::TextFlags;
pub(crate) use kept::Kept;
pub(crate) use number::{NINE_DIGITS, short_digits, write_i64, write_u64};
pub(crate) use plain::{inside_of, text_of, value_of};
pub(crate) use scan::{Scanned, Shape, scan};
pub(crate) use serializer::write_value;
pub(crate) use serializer_parts::is_none;
