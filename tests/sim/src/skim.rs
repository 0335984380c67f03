//! A second reader of JSON text, so that the oracle does not trust the scanner under test.
//!
//! It finds the ends of values, the members of objects and the elements of arrays, without changing a
//! byte. It does not validate: it refuses only text in which it cannot find them.

/// Where the white space from `at` on ends.
pub fn blanks(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Where the value that begins at `at` ends; `None` if it does not end.
pub fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0usize, at);
            loop {
                match text.get(at)? {
                    b'"' => {
                        at = string_end(text, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => {
            let rest = &text[at..];
            let len = rest
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'));
            Some(at + len.unwrap_or(rest.len()))
        }
    }
}

fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The members of an object, names with their quotes; `None` if the text is no object.
pub fn members(text: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    walk(text, b'{', b'}', |text, at| {
        let name = text.get(at..string_end(text, at)?)?;
        let at = blanks(text, at + name.len());
        let at = blanks(text, at + usize::from(text.get(at) == Some(&b':')));
        let end = value_end(text, at)?;
        found.push((name, text.get(at..end)?));
        Some(end)
    })?;
    Some(found)
}

/// The elements of an array; `None` if the text is no array.
pub fn elements(text: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    walk(text, b'[', b']', |text, at| {
        let end = value_end(text, at)?;
        found.push(text.get(at..end)?);
        Some(end)
    })?;
    Some(found)
}

/// Calls `one` where each member or element between `open` and `close` begins; `one` returns where it
/// ends.
fn walk<'a>(
    text: &'a [u8],
    open: u8,
    close: u8,
    mut one: impl FnMut(&'a [u8], usize) -> Option<usize>,
) -> Option<()> {
    let mut at = blanks(text, 0);
    if text.get(at) != Some(&open) {
        return None;
    }
    at = blanks(text, at + 1);
    if text.get(at) == Some(&close) {
        return Some(());
    }
    loop {
        at = blanks(text, one(text, at)?);
        match text.get(at)? {
            b',' => at = blanks(text, at + 1),
            byte if *byte == close => return Some(()),
            _ => return None,
        }
    }
}

/// The first whole number in a text, by which the simulation tells messages apart.
pub fn mark(text: &[u8]) -> Option<u64> {
    let start = text.iter().position(u8::is_ascii_digit)?;
    let digits = text[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    digits.take(18).try_fold(0u64, |mark, digit| {
        mark.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::{elements, mark, members, value_end};

    #[test]
    fn values_end_where_they_end() {
        for text in ["1", "\"a\\\"]\"", "[1,{\"]\":[]}]", "{\"a\":\"}\"}", "null"] {
            assert_eq!(value_end(text.as_bytes(), 0), Some(text.len()), "{text}");
            let behind = format!("{text},7");
            assert_eq!(value_end(behind.as_bytes(), 0), Some(text.len()), "{text}");
        }
        assert_eq!(value_end(b"[1", 0), None);
        assert_eq!(value_end(b"\"a", 0), None);
    }

    #[test]
    fn members_and_elements_keep_their_bytes() {
        let found = members(b" {\"id\" : 1.0 ,\"a\":[1,2]}").unwrap();
        assert_eq!(found, [(&b"\"id\""[..], &b"1.0"[..]), (b"\"a\"", b"[1,2]")]);
        assert_eq!(elements(b"[1, {} ]").unwrap(), [&b"1"[..], b"{}"]);
        assert_eq!(elements(b"[]").unwrap(), Vec::<&[u8]>::new());
        assert!(members(b"[]").is_none() && elements(b"[1 2]").is_none());
        assert_eq!(mark(b"[\"x\",42]"), Some(42));
        assert_eq!(mark(b"[]"), None);
    }
}
