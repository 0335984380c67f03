//! Iterates over the members and elements of a text that is known to be valid.
//!
//! There is no recursion and no allocation. Since the text is valid, the end of a value is found by
//! counting brackets outside strings. If the text were invalid, the iteration would end early or
//! return wrong slices, but neither panic nor loop.

use core::fmt;

use super::flags::TextFlags;
use super::plain::skip_plain;
use super::string::JsonString;
use super::text::Json;

impl<'a> Json<'a> {
    /// The members of an object, in order; no members for any other kind.
    #[must_use]
    pub fn members(self) -> Members<'a> {
        Members::of(self)
    }

    /// The elements of an array, in order; no elements for any other kind.
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        Elements::of(self)
    }

    /// The first member of an object whose name, after unescaping, is `name`.
    ///
    /// Each call reads from the beginning up to that member.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Json<'a>> {
        self.members()
            .find(|(key, _)| key.eq_str(name))
            .map(|(_, value)| value)
    }
}

/// Iterates over the members of an object, in the order of the text, including repeated names.
///
/// Made by [`Json::members`].
#[derive(Clone)]
pub struct Members<'a> {
    steps: Steps<'a>,
}

impl<'a> Members<'a> {
    pub(super) fn of(json: Json<'a>) -> Self {
        Self {
            steps: Steps::inside(json, b'{'),
        }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (JsonString<'a>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.steps.next_value()?;
        let value = self.steps.next_value()?;
        Some((
            JsonString::of_token(key),
            Json::from_scanned(value, self.steps.flags),
        ))
    }
}

impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Members")
    }
}

/// Iterates over the elements of an array.
///
/// Made by [`Json::elements`].
#[derive(Clone)]
pub struct Elements<'a> {
    steps: Steps<'a>,
}

impl<'a> Elements<'a> {
    pub(super) fn of(json: Json<'a>) -> Self {
        Self {
            steps: Steps::inside(json, b'['),
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        let value = self.steps.next_value()?;
        Some(Json::from_scanned(value, self.steps.flags))
    }
}

impl fmt::Debug for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elements")
    }
}

/// Iterates over the keys and values of one container: what is between its blanks, commas and
/// colons.
#[derive(Clone)]
struct Steps<'a> {
    text: &'a str,
    pos: usize,
    flags: TextFlags,
}

impl<'a> Steps<'a> {
    fn inside(json: Json<'a>, bracket: u8) -> Self {
        let text = json.as_str();
        // Another kind of value has nothing to return, so it starts at its end.
        let pos = if text.as_bytes().first() == Some(&bracket) {
            1
        } else {
            text.len()
        };
        Self {
            text,
            pos,
            flags: json.flags(),
        }
    }

    /// Returns the next key or value.
    fn next_value(&mut self) -> Option<&'a str> {
        let text = self.text.as_bytes();
        let start = skip_separators(text, self.pos);
        if matches!(text.get(start), None | Some(b']' | b'}')) {
            self.pos = text.len();
            return None;
        }
        self.pos = value_end(text, start);
        self.text.get(start..self.pos)
    }
}

/// Returns the position of the next key or value, or of the bracket that ends the container.
pub(super) fn skip_separators(text: &[u8], mut pos: usize) -> usize {
    while matches!(
        text.get(pos),
        Some(b' ' | b'\t' | b'\n' | b'\r' | b',' | b':')
    ) {
        pos += 1;
    }
    pos
}

/// Returns the end of the value that begins at `start`; always larger than `start`.
pub(super) fn value_end(text: &[u8], start: usize) -> usize {
    match text.get(start) {
        Some(b'"') => string_end(text, start),
        Some(b'{' | b'[') => container_end(text, start),
        _ => scalar_end(text, start),
    }
}

/// Returns the end of the string whose opening quote is at `start`.
pub(super) fn string_end(text: &[u8], start: usize) -> usize {
    let mut pos = start + 1;
    loop {
        pos = skip_plain(text, pos);
        match text.get(pos) {
            Some(b'"') => return pos + 1,
            // The byte after a backslash never ends a string; the digits after `\u` need no care.
            Some(b'\\') => pos += 2,
            Some(_) => pos += 1,
            None => return text.len(),
        }
    }
}

fn container_end(text: &[u8], start: usize) -> usize {
    let mut depth = 0usize;
    let mut pos = start;
    while let Some(byte) = text.get(pos) {
        match byte {
            b'"' => {
                pos = string_end(text, pos);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return pos + 1;
                }
            }
            _ => {}
        }
        pos += 1;
    }
    text.len()
}

fn scalar_end(text: &[u8], start: usize) -> usize {
    let mut pos = start + 1;
    while let Some(byte) = text.get(pos) {
        if matches!(
            byte,
            b',' | b':' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r'
        ) {
            break;
        }
        pos += 1;
    }
    pos
}
