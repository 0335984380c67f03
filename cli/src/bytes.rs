//! Bytes of a peer, and what is sent to it, as text that is safe to print and as shell commands.

use std::fmt::Write as _;

/// As many equal bytes in a row, or more, are shown by their number.
const LONG_RUN: usize = 64;
/// The most characters of one message that are shown to a person.
const SHOWN_MAX: usize = 1200;

/// Pieces of a text: bytes as they are, or one byte many times.
enum Piece<'a> {
    Bytes(&'a [u8]),
    Run(u8, usize),
}

fn pieces(bytes: &[u8]) -> Vec<Piece<'_>> {
    let (mut found, mut from, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let byte = bytes[at];
        let run = bytes[at..].iter().take_while(|next| **next == byte).count();
        if run >= LONG_RUN {
            if from < at {
                found.push(Piece::Bytes(&bytes[from..at]));
            }
            found.push(Piece::Run(byte, run));
            from = at + run;
        }
        at += run;
    }
    if from < bytes.len() {
        found.push(Piece::Bytes(&bytes[from..]));
    }
    found
}

/// Whether a character may go to a terminal: no control character, and none that changes the direction
/// of the text or cannot be seen.
fn is_plain(c: char) -> bool {
    let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' | '\u{ad}' | '\u{61c}');
    !c.is_control() && !hidden
}

/// Bytes as text for a person: line ends and what cannot be seen are escaped, long runs are counted, long texts are cut.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let out = shown_whole(bytes);
    if out.chars().count() <= SHOWN_MAX {
        return out;
    }
    let cut: String = out.chars().take(SHOWN_MAX).collect();
    format!("{cut}… ({} bytes in all)", bytes.len())
}

/// As [`shown`], but whole.
pub(crate) fn shown_whole(bytes: &[u8]) -> String {
    let mut out = String::new();
    for piece in pieces(bytes) {
        match piece {
            Piece::Run(byte, n) => {
                escape(&[byte], &mut out);
                let _ = write!(out, "{{{n} times}}");
            }
            Piece::Bytes(some) => escape(some, &mut out),
        }
    }
    out
}

fn escape(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if is_plain(c) => out.push(c),
                c => {
                    let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
                }
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

/// Text of JSON for a terminal: characters that [`shown`] would escape are written as JSON escapes.
pub(crate) fn for_terminal(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_plain(c) || c == '\n' {
            out.push(c);
        } else if c.is_whitespace() && c.is_ascii() {
            out.push(' ');
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

/// A shell command that prints exactly these bytes.
pub(crate) fn printing(bytes: &[u8]) -> String {
    let commands = pieces(bytes).into_iter().map(|piece| match piece {
        Piece::Bytes(some) => format!("printf '{}'", octal(some)),
        Piece::Run(byte, n) => {
            format!("head -c {n} /dev/zero | tr '\\000' '{}'", in_tr(byte))
        }
    });
    commands.collect::<Vec<_>>().join("; ")
}

fn octal(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'%' => out.push_str("%%"),
            b' '..=b'~' if !b"'\\".contains(byte) => out.push(char::from(*byte)),
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out
}

fn in_tr(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'{' | b'}' | b',' | b':' | b' ' => {
            char::from(byte).to_string()
        }
        _ => format!("\\{byte:03o}"),
    }
}

/// A word of a shell command.
pub(crate) fn quoted(word: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@+".contains(c);
    if !word.is_empty() && word.chars().all(is_safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{for_terminal, printing, quoted, shown};

    #[test]
    fn no_byte_of_a_peer_controls_the_terminal() {
        let all: Vec<u8> = (0..=255).collect();
        let text = shown(&all) + &shown("\u{9b}31m\u{202e}\u{e0041}".as_bytes());
        assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}') && !text.contains('\u{e0041}'));
        assert_eq!(shown(b"{\"a\":1}\n"), "{\"a\":1}\\n");
        assert_eq!(shown(&[b'['; 1000]), "[{1000 times}");
        assert_eq!(
            for_terminal("\"\u{7f}\u{202e}\u{9b}\""),
            "\"\\u007f\\u202e\\u009b\""
        );
    }

    #[test]
    fn the_shell_prints_exactly_the_bytes() {
        let mut bytes: Vec<u8> = (0..=255).collect();
        bytes.extend(vec![b'['; 70_000]);
        bytes.extend(b"'quoted' %d \\n");
        let out = std::process::Command::new("sh")
            .arg("-c")
            .arg(printing(&bytes))
            .output();
        assert!(out.unwrap().stdout == bytes);
        let words = ["", "a b", "it's", "$(x)", "plain-1"];
        let command = format!("printf '%s|' {}", words.map(quoted).join(" "));
        let out = std::process::Command::new("sh")
            .arg("-c")
            .arg(command)
            .output();
        assert_eq!(out.unwrap().stdout, b"|a b|it's|$(x)|plain-1|");
    }
}
