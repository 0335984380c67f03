//! The committed cases: one file for each target, one case a line, in hexadecimal.
//!
//! Rule: a corpus that cannot be read, or has shrunk, is a failure and never a
//! corpus without cases.

use std::path::PathBuf;

/// Reads the cases of a target.
///
/// # Errors
/// The file is not there, or a line of it is not hexadecimal.
pub fn read(name: &str) -> Result<Vec<Vec<u8>>, String> {
    let path = path(name);
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let cases = text.lines().enumerate().map(|(at, line)| {
        decode(line).ok_or_else(|| format!("{}:{}: not hexadecimal", path.display(), at + 1))
    });
    cases.collect()
}

/// Where the cases of a target stand.
pub fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("corpus/{name}.hex"))
}

fn decode(line: &str) -> Option<Vec<u8>> {
    let digits = line.as_bytes();
    if digits.len() % 2 == 1 || !line.is_ascii() {
        return None;
    }
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs
        .map(|pair| u8::from_str_radix(pair?, 16).ok())
        .collect()
}
