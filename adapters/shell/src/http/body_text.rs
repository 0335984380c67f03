//! Text of the other side, for logs.

/// How many bytes of a body are kept for an error.
pub(crate) const MAX_TEXT_BYTES: usize = 512;

/// Returns the beginning of a body, as text for a log.
pub(crate) fn first_bytes(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_TEXT_BYTES)]);
    let shown = text.trim().chars().flat_map(|letter| {
        let escaped = letter.is_control().then(|| letter.escape_debug());
        let plain = (!letter.is_control()).then_some(letter);
        escaped.into_iter().flatten().chain(plain)
    });
    shown.collect()
}
