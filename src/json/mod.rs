//! JSON text: checked once, sliced, never reprinted.
//!
//! Here: the validating scanner (`scan` over `cursor` and `plain`, whose blocks are judged by the
//! vector code of `simd` or its twins `swar` and `bytes`), [`Json`] and what can be read from it
//! (`text`, `string`, `walk`), the way into a caller's types (`decode`) and the way out of them
//! (`encode`, `serializer`, `number`), raw JSON as a part of those types (`embed`), the exact value
//! of a number (`decimal`), and text that outlives its input (`owned`, `kept`). Not here: what a
//! JSON-RPC message means. The scanner knows the six member names of an envelope and nothing else
//! of the protocol.
//!
//! Untrusted text is validated before anything else looks at it, and is never parsed into a tree.
//! What is passed on is passed on byte for byte. No input nests calls more than four deep. This
//! folder is the only place that names `serde_json`.
//!
//! ```text
//!   bytes ── scan ──▶ spans ──▶ Json<'a> ── decode ──▶ the caller's type
//!   bytes ◀─────────── encode ◀── Json<'a> or the caller's value
//! ```

#[cfg(any(antiphon_small, target_os = "none"))]
mod bytes;
mod cursor;
mod decimal;
mod decode;
mod embed;
mod encode;
mod envelope;
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

pub(crate) use decode::decode_seed;
pub use decode::{DecodeError, DecodeErrorKind};
pub use encode::{EncodeError, EncodeErrorKind};
pub use owned::OwnedJson;
pub use string::{CodePoints, JsonString};
pub use syntax::{JsonKind, SyntaxError, SyntaxErrorKind};
pub use text::Json;
pub use walk::{Elements, Members};

pub(crate) use decimal::Decimal;
pub(crate) use encode::{write_inside, write_json, write_str};
pub(crate) use envelope::{Envelope, Member, Names, Span, Version};
pub(crate) use flags::TextFlags;
pub(crate) use kept::Kept;
pub(crate) use number::{NINE_DIGITS, short_digits, write_i64, write_u64};
pub(crate) use plain::{inside_of, text_of, value_of};
pub(crate) use scan::{Scanned, Shape, scan};
pub(crate) use serializer::write_value;
