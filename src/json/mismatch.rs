//! Messages about values that do not fit a type, without the value.
//!
//! A value may be a secret, and messages go to logs. serde's own messages quote the value in a few
//! known forms; this module removes it from them. A message that a type's `Deserialize` has written
//! itself may quote the value anywhere, so all of it is replaced.

use alloc::format;
use alloc::string::{String, ToString};

/// The kinds of values that serde's messages name without quoting the value.
const KINDS: [&str; 13] = [
    "byte array",
    "enum",
    "map",
    "newtype struct",
    "newtype variant",
    "null",
    "number",
    "Option value",
    "sequence",
    "struct variant",
    "tuple variant",
    "unit value",
    "unit variant",
];

/// The beginnings of serde's messages that name parts of the program, and of a value at most its
/// length.
const OWN: [&str; 4] = [
    "missing field `",
    "duplicate field `",
    "invalid length ",
    "data did not match any variant of untagged enum ",
];

/// Returns serde_json's message without the value; replaces all of it if the value may be anywhere
/// in it.
pub(super) fn describe(error: &serde_json::Error) -> String {
    if error.classify() != serde_json::error::Category::Data {
        // These words are serde_json's own.
        return error.to_string();
    }
    without_value(&error.to_string()).unwrap_or_else(|| "refused by its type".into())
}

/// Returns serde's message without the value; `None` if the value may be anywhere in it.
pub(crate) fn without_value(message: &str) -> Option<String> {
    for what in ["invalid type: ", "invalid value: "] {
        if let Some(rest) = message.strip_prefix(what) {
            let (kind, rest) = split_kind(rest)?;
            return rest
                .starts_with(", expected ")
                .then(|| format!("{what}{kind}{rest}"));
        }
    }
    for what in ["unknown field", "unknown variant"] {
        let quoted = message.strip_prefix(what);
        if let Some(quoted) = quoted.and_then(|rest| rest.strip_prefix(" `")) {
            // The unknown name may contain this text too, but the expected names cannot.
            let known = quoted.rsplit_once("`, expected ");
            let known = known.map(|(_, known)| format!("{what}, expected {known}"));
            return Some(known.unwrap_or_else(|| what.into()));
        }
    }
    let is_own = OWN.iter().any(|own| message.starts_with(own));
    is_own.then(|| message.into())
}

/// Splits the description of a found value: returns its kind, and the text after the value.
fn split_kind(found: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = found.strip_prefix("string \"") {
        let mut is_escaped = false;
        let end = quoted.find(|letter| {
            let is_end = letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            is_end
        })?;
        return Some(("string", &quoted[end + 1..]));
    }
    for kind in ["boolean", "integer", "floating point", "character"] {
        let quoted = found.strip_prefix(kind);
        if let Some(quoted) = quoted.and_then(|rest| rest.strip_prefix(" `")) {
            return Some((kind, quoted.split_once('`')?.1));
        }
    }
    let kind = KINDS.iter().find(|kind| found.starts_with(**kind))?;
    Some((kind, &found[kind.len()..]))
}

#[cfg(test)]
mod tests {
    use super::without_value;

    // SEC-15
    #[test]
    fn what_serde_quotes_is_left_out() {
        let cases = [
            (
                r#"invalid type: string "s3c\"ret\\", expected f64"#,
                "invalid type: string, expected f64",
            ),
            (
                r#"invalid type: string "\", expected s3cret", expected a map at line 1 column 9"#,
                "invalid type: string, expected a map at line 1 column 9",
            ),
            (
                "invalid value: integer `4711`, expected u8",
                "invalid value: integer, expected u8",
            ),
            (
                "invalid type: floating point `0.4711`, expected i8",
                "invalid type: floating point, expected i8",
            ),
            (
                "invalid type: boolean `true`, expected i8",
                "invalid type: boolean, expected i8",
            ),
            (
                "invalid value: character `s`, expected a digit",
                "invalid value: character, expected a digit",
            ),
            (
                "invalid type: newtype struct, expected i8",
                "invalid type: newtype struct, expected i8",
            ),
            (
                "invalid type: null, expected i8",
                "invalid type: null, expected i8",
            ),
            (
                "unknown field `s3cret`, expected `a` or `b`",
                "unknown field, expected `a` or `b`",
            ),
            (
                "unknown field `s3cret`, there are no fields",
                "unknown field",
            ),
            (
                "unknown variant `s`, expected s3cret`, expected one of `a`, `b`, `c`",
                "unknown variant, expected one of `a`, `b`, `c`",
            ),
            (
                "missing field `a` at line 1 column 2",
                "missing field `a` at line 1 column 2",
            ),
            ("duplicate field `a`", "duplicate field `a`"),
        ];
        for (message, expected) in cases {
            assert_eq!(without_value(message).as_deref(), Some(expected));
        }
        for message in [
            "s3cret is no colour",
            "invalid type: s3cret, expected f64",
            "invalid type: string \"s3cret",
            "invalid value: string \"s\" or s3cret, expected i8",
            "invalid value: integer `4711",
            "",
        ] {
            assert_eq!(without_value(message), None, "{message}");
        }
    }
}
