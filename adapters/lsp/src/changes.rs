//! The changes of documents: which are valid, and how they are applied.

use antiphon::{ErrorObject, OwnedError};
use antiphon_net::Notification;
use gen_lsp_types::{
    DidChangeNotebookDocumentNotification, DidChangeTextDocumentNotification, Notification as _,
    Position, PositionEncodingKind, Range, TextDocumentContentChangeEvent,
};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// Applies the changes of `textDocument/didChange` to a text, in their order. `encoding` is the
/// `positionEncoding` that the result of `initialize` has set, UTF-16 if it has set none.
///
/// A line beyond the last one means the end of the text, and a character beyond the end of its line the
/// end of that line. A position inside a character means its beginning. Lines end with `\n`, `\r\n` or
/// `\r`.
///
/// ```
/// use antiphon_lsp::apply_changes;
/// use antiphon_lsp::types::{
///     Position, PositionEncodingKind, Range, TextDocumentContentChangePartial,
/// };
///
/// let mut text = String::from("one\ntwo\n");
/// let range = Range::new(Position::new(1, 0), Position::new(1, 3));
/// let change = TextDocumentContentChangePartial { range, range_length: None, text: "2".into() };
/// apply_changes(&mut text, &[change.into()], &PositionEncodingKind::UTF16)?;
/// assert_eq!(text, "one\n2\n");
/// # Ok::<(), antiphon::OwnedError>(())
/// ```
///
/// # Errors
/// *Invalid params* if a range ends before it begins. The text is then unchanged.
pub fn apply_changes(
    text: &mut String,
    changes: &[TextDocumentContentChangeEvent],
    encoding: &PositionEncodingKind,
) -> Result<(), OwnedError> {
    use TextDocumentContentChangeEvent::{
        TextDocumentContentChangePartial as Partial,
        TextDocumentContentChangeWholeDocument as Whole,
    };
    let is_valid = |change: &TextDocumentContentChangeEvent| match change {
        Partial(change) => change.range.start <= change.range.end,
        Whole(_) => true,
    };
    if !changes.iter().all(is_valid) {
        return Err(ErrorObject::invalid_params().into());
    }
    for change in changes {
        match change {
            Partial(change) => {
                let start = offset(text, change.range.start, encoding);
                let end = offset(text, change.range.end, encoding);
                text.replace_range(start..end, &change.text);
            }
            Whole(change) => text.clone_from(&change.text),
        }
    }
    Ok(())
}

/// Returns the byte offset of a position in a text, as [`apply_changes`] finds it.
pub fn offset(text: &str, position: Position, encoding: &PositionEncodingKind) -> usize {
    let mut start = 0;
    for _ in 0..position.line {
        let Some(end) = text[start..].find(['\n', '\r']) else {
            return text.len();
        };
        let is_pair = text[start + end..].starts_with("\r\n");
        start += end + if is_pair { 2 } else { 1 };
    }
    let line = text[start..].split(['\n', '\r']).next().unwrap_or("");
    let mut left = position.character as usize;
    for (at, c) in line.char_indices() {
        let units = match encoding {
            PositionEncodingKind::UTF8 => c.len_utf8(),
            PositionEncodingKind::UTF32 => 1,
            _ => c.len_utf16(),
        };
        if left < units {
            return start + at;
        }
        left -= units;
    }
    start + line.len()
}

/// Whether a notification of changes has only valid ranges; another one is valid. An invalid one is
/// reported: by the types of the protocol, a change with an invalid range is one without a range,
/// which replaces the whole text.
pub(crate) fn are_valid(notification: &Notification) -> bool {
    const TEXT: &str = DidChangeTextDocumentNotification::METHOD.as_str();
    const NOTEBOOK: &str = DidChangeNotebookDocumentNotification::METHOD.as_str();
    match notification.method() {
        TEXT => notification.params::<TextChanges>().is_ok(),
        NOTEBOOK => notification.params::<NotebookChange>().is_ok(),
        _ => true,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextChanges {
    #[serde(rename = "contentChanges")]
    _changes: Vec<Change>,
}

#[derive(Deserialize)]
struct NotebookChange {
    #[serde(rename = "change")]
    _change: Cells,
}

#[derive(Deserialize)]
struct Cells {
    #[serde(rename = "cells")]
    _cells: Option<TextContent>,
}

#[derive(Deserialize)]
struct TextContent {
    #[serde(rename = "textContent")]
    _text: Option<Vec<CellChanges>>,
}

#[derive(Deserialize)]
struct CellChanges {
    #[serde(rename = "changes")]
    _changes: Vec<Change>,
}

#[derive(Deserialize)]
struct Change {
    #[serde(rename = "range", default, deserialize_with = "ordered")]
    _range: Option<Range>,
}

/// Reads a range that does not end before it begins.
fn ordered<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Range>, D::Error> {
    let range = Option::<Range>::deserialize(deserializer)?;
    match range.is_some_and(|range| range.end < range.start) {
        true => Err(D::Error::custom("the range ends before it begins")),
        false => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use super::{apply_changes, offset};
    use gen_lsp_types::{
        Position, PositionEncodingKind, Range, TextDocumentContentChangePartial,
        TextDocumentContentChangeWholeDocument,
    };

    #[test]
    fn positions_are_counted_in_the_units_of_the_encoding() {
        let text = "a\u{e4}\u{1d11e}b\r\nc\rd\n";
        for (line, character, utf8, utf16, utf32) in [
            (0, 0, 0, 0, 0),
            (0, 2, 1, 3, 3),
            (0, 3, 3, 3, 7),
            (0, 4, 3, 7, 8),
            (0, 99, 8, 8, 8),
            (1, 0, 10, 10, 10),
            (1, 5, 11, 11, 11),
            (2, 1, 13, 13, 13),
            (3, 0, 14, 14, 14),
            (4, 0, 14, 14, 14),
            (u32::MAX, 7, 14, 14, 14),
        ] {
            let at = Position::new(line, character);
            assert_eq!(
                offset(text, at, &PositionEncodingKind::UTF8),
                utf8,
                "{at:?}"
            );
            assert_eq!(
                offset(text, at, &PositionEncodingKind::UTF16),
                utf16,
                "{at:?}"
            );
            assert_eq!(
                offset(text, at, &PositionEncodingKind::UTF32),
                utf32,
                "{at:?}"
            );
        }
    }

    // The library's own constructor sets the deprecated field, too.
    #[allow(deprecated)]
    #[test]
    fn changes_are_applied_in_order_or_not_at_all() {
        let change = |start: (u32, u32), end: (u32, u32), text: &str| {
            let (start, end) = (Position::new(start.0, start.1), Position::new(end.0, end.1));
            let range = Range::new(start, end);
            let text = text.into();
            TextDocumentContentChangePartial {
                range,
                range_length: None,
                text,
            }
            .into()
        };
        let utf16 = &PositionEncodingKind::UTF16;
        let mut text = String::from("one\ntwo");
        let changes = [change((0, 0), (0, 3), "1\n"), change((2, 3), (9, 0), "!")];
        apply_changes(&mut text, &changes, utf16).unwrap();
        assert_eq!(text, "1\n\ntwo!");
        let changes = [change((0, 0), (0, 1), ""), change((1, 0), (0, 1), "x")];
        apply_changes(&mut text, &changes, utf16).unwrap_err();
        assert_eq!(text, "1\n\ntwo!");
        let whole = TextDocumentContentChangeWholeDocument { text: "new".into() };
        apply_changes(&mut text, &[whole.into()], utf16).unwrap();
        assert_eq!(text, "new");
    }
}
