//! The naive scanner: a direct translation of RFC 8259, one byte at a time, by recursive descent
//! into a tree.
//!
//! It shares no code with the scanner but the types of the answer, so that the two are unlikely
//! to be wrong in the same way. It is slow, it recurses, and it is only ever run in tests.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::json::JsonKind;
use crate::json::envelope::{ESCAPED_METHOD, Envelope, ErrorParts, Names, Span, Version};
use crate::json::flags::TextFlags;
use crate::json::scan::{Scanned, Shape};
use crate::target::SMALL;

/// The text is refused, for any reason.
pub(super) struct Wrong;

struct Node {
    start: usize,
    end: usize,
    kind: JsonKind,
    escaped: bool,
    /// The code points of a string.
    code_points: Vec<u32>,
    /// The values in an array or object, each with its key in an object.
    children: Vec<(Vec<u32>, Node)>,
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    max_depth: usize,
    flags: TextFlags,
}

pub(super) fn scan(
    text: &[u8],
    max_depth: u8,
    max_envelopes: usize,
) -> Result<(Scanned<'_>, Vec<Envelope>), Wrong> {
    if core::str::from_utf8(text).is_err() {
        return Err(Wrong);
    }
    let mut reader = Reader {
        text,
        at: 0,
        max_depth: usize::from(max_depth).clamp(1, 128),
        flags: TextFlags::NONE,
    };
    if text.len() >= 3 && text[0] == 0xef && text[1] == 0xbb && text[2] == 0xbf {
        reader.at = 3;
    }
    reader.blanks();
    let top = reader.value(0)?;
    reader.blanks();
    if reader.at != text.len() {
        return Err(Wrong);
    }
    let mut envelopes = Vec::new();
    let shape = if top.kind == JsonKind::Array {
        for (_, element) in top.children.iter().take(max_envelopes) {
            envelopes.push(envelope_of(text, element));
        }
        Shape::Batch {
            items: top.children.len(),
        }
    } else {
        if max_envelopes > 0 {
            envelopes.push(envelope_of(text, &top));
        }
        Shape::Single
    };
    Ok((
        Scanned {
            text: core::str::from_utf8(text).map_err(|_| Wrong)?,
            shape,
            flags: reader.flags,
        },
        envelopes,
    ))
}

fn envelope_of(text: &[u8], node: &Node) -> Envelope {
    let mut envelope = Envelope::new(node.kind);
    envelope.span = span_of(node);
    if node.kind != JsonKind::Object {
        return envelope;
    }
    let first = |name: &str| {
        let mut found = node.children.iter().filter(|(key, _)| spells(key, name));
        (found.next().map(|(_, value)| value), found.next().is_some())
    };
    let names = [
        ("jsonrpc", Names::JSONRPC),
        ("id", Names::ID),
        ("method", Names::METHOD),
        ("params", Names::PARAMS),
        ("result", Names::RESULT),
        ("error", Names::ERROR),
    ];
    for (name, bit) in names {
        if first(name).1 {
            envelope.note(bit);
        }
    }
    let members = ["id", "method", "params", "result", "error"].map(|name| first(name).0);
    envelope.spans = members.map(|member| member.map(span_of).unwrap_or_default());
    envelope.kinds = members.map(|member| member.map(|member| member.kind));
    if first("method").0.is_some_and(|node| node.escaped) {
        envelope.note(ESCAPED_METHOD);
    }
    if let Some(error) = first("error").0 {
        envelope.error_parts = error_parts(text, error).unwrap_or_default();
    }
    envelope.version = match first("jsonrpc").0 {
        None => Version::Absent,
        Some(node) if node.kind != JsonKind::String => Version::Other,
        Some(node) if spells(&node.code_points, "2.0") => Version::V2,
        Some(node) if spells(&node.code_points, "1.0") => Version::V1,
        Some(_) => Version::Other,
    };
    envelope
}

/// Returns the parts of an error object, if the same text can be made of them, with or without a
/// blank after each comma and colon.
fn error_parts(text: &[u8], error: &Node) -> Option<ErrorParts> {
    let raw = |node: &Node| core::str::from_utf8(&text[node.start..node.end]).ok();
    let (code, message, data) = match error.children.as_slice() {
        [(_, code), (_, message)] => (code, message, None),
        [(_, code), (_, message), (_, data)] => (code, message, Some(data)),
        _ => return None,
    };
    let digits = raw(code)?.trim_start_matches('-').len();
    if SMALL || message.kind != JsonKind::String || message.escaped || digits > 9 {
        return None;
    }
    let is_written_so = (0_u8..32).any(|blanks| {
        let blank = |n: u8| if blanks >> n & 1 == 1 { " " } else { "" };
        let head = format!(
            "{{\"code\":{}{},{}",
            blank(0),
            raw(code).unwrap_or_default(),
            blank(1)
        );
        let middle = format!(
            "\"message\":{}{}",
            blank(2),
            raw(message).unwrap_or_default()
        );
        let tail = data.map_or(String::new(), |data| {
            let data = raw(data).unwrap_or_default();
            format!(",{}\"data\":{}{data}", blank(3), blank(4))
        });
        raw(error) == Some(&format!("{head}{middle}{tail}}}"))
    });
    let parts = ErrorParts {
        code: raw(code)?.parse().ok()?,
        message: span_of(message),
        data: data.map_or(0, |data| data.start as u32),
    };
    is_written_so.then_some(parts)
}

fn spells(code_points: &[u32], word: &str) -> bool {
    code_points.iter().copied().eq(word.chars().map(u32::from))
}

fn span_of(node: &Node) -> Span {
    Span {
        start: node.start as u32,
        end: node.end as u32,
    }
}

impl Reader<'_> {
    fn look(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Result<(), Wrong> {
        if self.look() != Some(byte) {
            return Err(Wrong);
        }
        self.at += 1;
        Ok(())
    }

    fn blanks(&mut self) {
        while let Some(byte) = self.look() {
            if byte == b'\n' || byte == b'\r' {
                self.flags.note_line_break();
            } else if byte != b' ' && byte != b'\t' {
                break;
            }
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Wrong> {
        let start = self.at;
        let mut node = Node {
            start,
            end: start,
            kind: JsonKind::Null,
            escaped: false,
            code_points: Vec::new(),
            children: Vec::new(),
        };
        match self.look().ok_or(Wrong)? {
            b'{' | b'[' if depth == self.max_depth => return Err(Wrong),
            b'{' => {
                node.kind = JsonKind::Object;
                node.children = self.object(depth + 1)?;
            }
            b'[' => {
                node.kind = JsonKind::Array;
                node.children = self.array(depth + 1)?;
            }
            b'"' => {
                node.kind = JsonKind::String;
                (node.code_points, node.escaped) = self.string()?;
            }
            b't' => {
                node.kind = JsonKind::Bool;
                self.word("true")?;
            }
            b'f' => {
                node.kind = JsonKind::Bool;
                self.word("false")?;
            }
            b'n' => self.word("null")?,
            _ => {
                node.kind = JsonKind::Number;
                self.number()?;
                let number = &self.text[start..self.at];
                let has_exponent = number.iter().any(|byte| b"eE".contains(byte));
                if has_exponent || number.windows(2).any(|pair| pair == b".0") {
                    self.flags.note_whole_float();
                }
            }
        }
        node.end = self.at;
        Ok(node)
    }

    fn object(&mut self, depth: usize) -> Result<Vec<(Vec<u32>, Node)>, Wrong> {
        let mut members = Vec::new();
        self.eat(b'{')?;
        self.blanks();
        if self.eat(b'}').is_ok() {
            return Ok(members);
        }
        loop {
            let (key, _) = self.string()?;
            let reserved = "$serde_json::private::";
            if key.len() >= reserved.len() && spells(&key[..reserved.len()], reserved) {
                self.flags.note_reserved_key();
            }
            self.blanks();
            self.eat(b':')?;
            self.blanks();
            members.push((key, self.value(depth)?));
            self.blanks();
            if self.eat(b'}').is_ok() {
                return Ok(members);
            }
            self.eat(b',')?;
            self.blanks();
        }
    }

    fn array(&mut self, depth: usize) -> Result<Vec<(Vec<u32>, Node)>, Wrong> {
        let mut elements = Vec::new();
        self.eat(b'[')?;
        self.blanks();
        if self.eat(b']').is_ok() {
            return Ok(elements);
        }
        loop {
            elements.push((Vec::new(), self.value(depth)?));
            self.blanks();
            if self.eat(b']').is_ok() {
                return Ok(elements);
            }
            self.eat(b',')?;
            self.blanks();
        }
    }

    fn string(&mut self) -> Result<(Vec<u32>, bool), Wrong> {
        let mut units = Vec::new();
        let mut escaped = false;
        self.eat(b'"')?;
        loop {
            let rest = core::str::from_utf8(&self.text[self.at..]).map_err(|_| Wrong)?;
            let next = rest.chars().next().ok_or(Wrong)?;
            self.at += next.len_utf8();
            match next {
                '"' => return Ok((join_surrogates(&units), escaped)),
                '\\' => {
                    escaped = true;
                    units.push((true, self.escape()?));
                }
                '\0'..='\x1f' => return Err(Wrong),
                _ => units.push((false, u32::from(next))),
            }
        }
    }

    fn escape(&mut self) -> Result<u32, Wrong> {
        let letter = self.look().ok_or(Wrong)?;
        self.at += 1;
        Ok(match letter {
            b'"' => 0x22,
            b'\\' => 0x5c,
            b'/' => 0x2f,
            b'b' => 8,
            b'f' => 12,
            b'n' => 10,
            b'r' => 13,
            b't' => 9,
            b'u' => {
                let mut unit = 0;
                for _ in 0..4 {
                    let digit = char::from(self.look().ok_or(Wrong)?)
                        .to_digit(16)
                        .ok_or(Wrong)?;
                    unit = unit * 16 + digit;
                    self.at += 1;
                }
                unit
            }
            _ => return Err(Wrong),
        })
    }

    fn number(&mut self) -> Result<(), Wrong> {
        let _ = self.eat(b'-');
        if self.eat(b'0').is_err() {
            self.some_digits()?;
        }
        if self.eat(b'.').is_ok() {
            self.some_digits()?;
        }
        if self.eat(b'e').is_ok() || self.eat(b'E').is_ok() {
            if self.eat(b'+').is_err() {
                let _ = self.eat(b'-');
            }
            self.some_digits()?;
        }
        Ok(())
    }

    fn some_digits(&mut self) -> Result<(), Wrong> {
        let start = self.at;
        while matches!(self.look(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(Wrong) } else { Ok(()) }
    }

    fn word(&mut self, word: &str) -> Result<(), Wrong> {
        for byte in word.bytes() {
            self.eat(byte)?;
        }
        Ok(())
    }
}

/// Joins escaped surrogate pairs; the flag says whether a unit was escaped.
fn join_surrogates(units: &[(bool, u32)]) -> Vec<u32> {
    let mut joined = Vec::new();
    let mut at = 0;
    while at < units.len() {
        let (escaped, unit) = units[at];
        let partner = units
            .get(at + 1)
            .filter(|(partner_escaped, _)| escaped && *partner_escaped);
        at += 1;
        match partner {
            Some(&(_, low)) if unit & 0xfc00 == 0xd800 && low & 0xfc00 == 0xdc00 => {
                joined.push(0x10000 + (unit - 0xd800) * 0x400 + (low - 0xdc00));
                at += 1;
            }
            _ => joined.push(unit),
        }
    }
    joined
}
