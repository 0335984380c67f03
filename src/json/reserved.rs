//! Private names of serde_json, which give a text another meaning.

use super::string::JsonString;

/// The prefix of all private keys of serde_json. An object with such a key may be read as another
/// document.
pub(super) const RESERVED: &str = "$serde_json::private::";

/// The name by which serde_json's serializer recognises text to be inserted verbatim.
pub(super) const RAW_VALUE_TOKEN: &str = "$serde_json::private::RawValue";

/// The name by which serde_json's serializer recognises the digits of a number.
pub(super) const NUMBER_TOKEN: &str = "$serde_json::private::Number";

/// Whether a key begins with [`RESERVED`], after unescaping.
pub(super) fn is_reserved(key: JsonString<'_>) -> bool {
    let mut code_points = key.code_points();
    RESERVED
        .chars()
        .all(|wanted| code_points.next() == Some(u32::from(wanted)))
}
