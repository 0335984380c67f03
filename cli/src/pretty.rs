//! JSON for a person at a terminal.

use crate::bytes::for_terminal;

const RESET: &str = "\u{1b}[0m";
const KEY: &str = "\u{1b}[34m";
const TEXT: &str = "\u{1b}[32m";
const VALUE: &str = "\u{1b}[33m";

/// JSON text, indented. The only control characters are line feeds and, if wanted, our colours.
pub(crate) fn pretty(json: &str, has_colour: bool) -> String {
    let safe = for_terminal(json);
    let mut out = String::new();
    let mut depth = 0;
    let mut rest = safe.as_str();
    let paint = |out: &mut String, colour: &str, token: &str| match has_colour {
        true => out.extend([colour, token, RESET]),
        false => out.push_str(token),
    };
    while let Some(c) = rest.chars().next() {
        let length = token_length(rest);
        let (token, after) = rest.split_at(length);
        rest = after.trim_start();
        match c {
            '{' | '[' if rest.starts_with(['}', ']']) => {
                out.push(c);
                out.push_str(&rest[..1]);
                rest = rest[1..].trim_start();
            }
            '{' | '[' => {
                depth += 1;
                out.push(c);
                new_line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            '"' if rest.starts_with(':') => paint(&mut out, KEY, token),
            '"' => paint(&mut out, TEXT, token),
            c if c.is_whitespace() => {}
            _ => paint(&mut out, VALUE, token),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// How long the token is that a text begins with.
fn token_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    match bytes[0] {
        b'"' => {
            let mut at = 1;
            while at < bytes.len() && bytes[at] != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            (at + 1).min(bytes.len())
        }
        b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
        byte if byte.is_ascii_whitespace() => 1,
        _ => text
            .find(|c: char| "{}[],:\" \n\r\t".contains(c))
            .unwrap_or(text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn json_is_indented_and_nothing_of_a_peer_controls_the_terminal() {
        let json = "{\"a\" : [1, -2.50,\"x\\\"]\", {}, []],\"\u{9b}31m\":null}";
        let text = "{\n  \"a\": [\n    1,\n    -2.50,\n    \"x\\\"]\",\n    {},\n    []\n  ],\n  \"\\u009b31m\": null\n}";
        assert_eq!(pretty(json, false), text);
        let coloured = pretty(json, true);
        assert!(coloured.contains("\u{1b}[34m\"a\"\u{1b}[0m: [") && !coloured.contains('\u{9b}'));
    }
}
