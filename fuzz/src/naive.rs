//! A simple JSON reader: the reference for the scanner, its spans and its ids.
//!
//! Rule: it shares no code with the core, and has no optimisations. It follows RFC 8259 clause by
//! clause, one function each; its recursion is limited by the depth.

/// One value of a text, and where it stands.
pub(crate) struct Node {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    /// The code points that it denotes; a lone surrogate is one of them.
    Text(Vec<u32>),
    Array(Vec<Node>),
    /// Names and values, in the order of the text.
    Object(Vec<(Node, Node)>),
}

impl Node {
    pub(crate) fn bytes<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start..self.end]
    }

    pub(crate) fn points(&self) -> &[u32] {
        match &self.kind {
            Kind::Text(points) => points,
            _ => &[],
        }
    }

    /// The first member of this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Node> {
        let Kind::Object(members) = &self.kind else {
            return None;
        };
        let is_it =
            |(key, _): &&(Node, Node)| key.points().iter().copied().eq(name.chars().map(u32::from));
        members.iter().find(is_it).map(|(_, value)| value)
    }
}

/// The one value of a text; none if it is not JSON, or opens more than `max_depth` brackets.
pub(crate) fn parse(text: &[u8], max_depth: usize) -> Option<Node> {
    std::str::from_utf8(text).ok()?;
    let mut reader = Reader {
        text,
        at: 0,
        max_depth,
    };
    if text.starts_with(&[0xEF, 0xBB, 0xBF]) {
        reader.at = 3;
    }
    reader.blanks();
    let node = reader.value(0)?;
    reader.blanks();
    (reader.at == text.len()).then_some(node)
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    max_depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn take(&mut self, wanted: &[u8]) -> Option<()> {
        let found = self.text[self.at..].starts_with(wanted);
        found.then(|| self.at += wanted.len())
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Option<Node> {
        let start = self.at;
        let kind = match self.peek() {
            b'n' => self.take(b"null").map(|()| Kind::Null)?,
            b't' => self.take(b"true").map(|()| Kind::Bool)?,
            b'f' => self.take(b"false").map(|()| Kind::Bool)?,
            b'"' => Kind::Text(self.string()?),
            b'[' => Kind::Array(self.array(depth + 1)?),
            b'{' => Kind::Object(self.object(depth + 1)?),
            _ => self.number().map(|()| Kind::Number)?,
        };
        Some(Node {
            start,
            end: self.at,
            kind,
        })
    }

    fn array(&mut self, depth: usize) -> Option<Vec<Node>> {
        let mut elements = Vec::new();
        if depth > self.max_depth {
            return None;
        }
        self.at += 1;
        self.blanks();
        if self.take(b"]").is_some() {
            return Some(elements);
        }
        loop {
            self.blanks();
            elements.push(self.value(depth)?);
            self.blanks();
            if self.take(b"]").is_some() {
                return Some(elements);
            }
            self.take(b",")?;
        }
    }

    fn object(&mut self, depth: usize) -> Option<Vec<(Node, Node)>> {
        let mut members = Vec::new();
        if depth > self.max_depth {
            return None;
        }
        self.at += 1;
        self.blanks();
        if self.take(b"}").is_some() {
            return Some(members);
        }
        loop {
            self.blanks();
            if self.peek() != b'"' {
                return None;
            }
            let name = self.value(depth)?;
            self.blanks();
            self.take(b":")?;
            self.blanks();
            members.push((name, self.value(depth)?));
            self.blanks();
            if self.take(b"}").is_some() {
                return Some(members);
            }
            self.take(b",")?;
        }
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.take(b"-"); // A sign need not be there.
        if self.take(b"0").is_none() {
            self.digits()?;
        }
        if self.take(b".").is_some() {
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn string(&mut self) -> Option<Vec<u32>> {
        self.at += 1;
        let mut units: Vec<u32> = Vec::new();
        loop {
            let rest = std::str::from_utf8(&self.text[self.at..]).ok()?;
            let letter = rest.chars().next()?;
            self.at += letter.len_utf8();
            match letter {
                '"' => return Some(join_surrogates(&units)),
                '\0'..='\x1f' => return None,
                '\\' => units.push(self.escape()?),
                // Raw characters never join with an escaped half, so they pass as they are.
                letter => units.push(u32::from(letter)),
            }
        }
    }

    fn escape(&mut self) -> Option<u32> {
        let letter = self.peek();
        self.at += 1;
        Some(match letter {
            b'"' | b'\\' | b'/' => u32::from(letter),
            b'b' => 8,
            b'f' => 12,
            b'n' => 10,
            b'r' => 13,
            b't' => 9,
            b'u' => {
                let digits = self.text.get(self.at..self.at + 4)?;
                self.at += 4;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
            }
            _ => return None,
        })
    }
}

fn join_surrogates(units: &[u32]) -> Vec<u32> {
    let mut points = Vec::new();
    let mut rest = units;
    while let [first, more @ ..] = rest {
        rest = more;
        match (first, more) {
            (0xD800..=0xDBFF, [second @ 0xDC00..=0xDFFF, more @ ..]) => {
                points.push(0x10000 + (first - 0xD800) * 0x400 + (second - 0xDC00));
                rest = more;
            }
            _ => points.push(*first),
        }
    }
    points
}

/// A number's value in a form in which equal numbers are equal: sign, digits without zeros at
/// either end, exponent of ten. None if its exponent has more than eighteen digits.
pub(crate) fn number(text: &str) -> Option<(bool, String, i128)> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    if mantissa.chars().all(|digit| matches!(digit, '0' | '.')) {
        return Some((false, String::new(), 0));
    }
    let exponent = exponent.trim_start_matches('+');
    let (minus, exponent) = (exponent.starts_with('-'), exponent.trim_start_matches('-'));
    if exponent.trim_start_matches('0').len() > 18 {
        return None;
    }
    let mut exponent: i128 = exponent.parse().ok()?;
    if minus {
        exponent = -exponent;
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    exponent -= fraction.len() as i128;
    let digits = format!("{whole}{fraction}");
    let kept = digits.trim_end_matches('0');
    exponent += (digits.len() - kept.len()) as i128;
    let kept = kept.trim_start_matches('0');
    Some((sign, kept.to_string(), exponent))
}
