//! Script text to cases: titles, requirement ids, settings, steps, and what each step is to show.
//!
//! Nothing here knows the connection. A line that is not understood is an error with its number,
//! never skipped: a misspelt expectation must not pass.

use std::borrow::Cow;
use std::path::Path;

/// One conversation, as written.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) line: usize,
    /// The requirement ids of the comment right above the title.
    pub(crate) ids: Vec<String>,
    /// The words of the `config` line.
    pub(crate) config: Vec<String>,
    /// Only one read an input step, because the case is about that.
    pub(crate) whole_only: bool,
    /// Never as whole messages, because the case is about the stream.
    pub(crate) stream_only: bool,
    /// How many exchanges must differ from what strict 2.0 does.
    pub(crate) differs_from_strict: Option<usize>,
    pub(crate) steps: Vec<Step>,
}

/// One thing done, and all that it is to lead to.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    /// Steps between the same two blank lines belong to one exchange.
    pub(crate) exchange: usize,
    pub(crate) action: Action,
    pub(crate) expected: Expected,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Lines that arrive; they may be cut anywhere.
    Input(Vec<Piece>),
    /// A command, in words.
    Command(Vec<String>),
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// A message, to be put into the framing.
    Body(Vec<u8>),
    /// Bytes as they are.
    Raw(Vec<u8>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) events: Vec<String>,
    pub(crate) frames: Vec<String>,
    /// The exact bytes written, framing included, instead of `frames`.
    pub(crate) raw: Option<Vec<u8>>,
    /// Getters by name, and what they are to say.
    pub(crate) states: Vec<(String, String)>,
}

/// Reads every `*.txt` of a directory, in order of name.
pub(crate) fn read_all(directory: &Path) -> Result<Vec<Case>, String> {
    let entries = std::fs::read_dir(directory).map_err(|error| error.to_string())?;
    let mut paths: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "txt"))
        .collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let file = path
            .file_stem()
            .map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
        cases.extend(read(&file, &text)?);
    }
    for (index, case) in cases.iter().enumerate() {
        let same = |other: &&Case| (&other.file, &other.title) == (&case.file, &case.title);
        if let Some(other) = cases[..index].iter().find(same) {
            return Err(format!(
                "{}.txt:{}: the title stands in line {} already",
                case.file, case.line, other.line
            ));
        }
    }
    Ok(cases)
}

/// Reads the text of one file.
pub(crate) fn read(file: &str, text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    let mut file_config = vec![String::from("strict")];
    let mut ids = Vec::new();
    let mut exchange = 0;
    let lines = text.lines().enumerate().flat_map(|(index, line)| {
        let number = index + 1;
        written_out(line)
            .into_iter()
            .map(move |line| (number, line))
    });
    for (number, line) in lines {
        let line = &*line;
        let fail = |what: &str| Err(format!("{file}.txt:{number}: {what}: {line}"));
        if line.is_empty() {
            exchange += 1;
            ids.clear();
            continue;
        }
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        if mark == "#" {
            ids = rest
                .split(' ')
                .filter(|w| is_id(w))
                .map(str::to_owned)
                .collect();
            continue;
        }
        if mark == "==" {
            cases.push(Case {
                file: file.to_owned(),
                title: rest.to_owned(),
                line: number,
                ids: std::mem::take(&mut ids),
                config: file_config.clone(),
                whole_only: false,
                stream_only: false,
                differs_from_strict: None,
                steps: Vec::new(),
            });
            continue;
        }
        let Some(case) = cases.last_mut() else {
            match mark {
                "config" => file_config = words(rest),
                _ => return fail("expected a comment, `config` or a title"),
            }
            continue;
        };
        let plain = expand(rest).into_bytes();
        match mark {
            "config" => case.config = words(rest),
            "play" if rest == "whole" => case.whole_only = true,
            "play" if rest == "stream" => case.stream_only = true,
            "differs-from-strict" => match rest.parse() {
                Ok(least) => case.differs_from_strict = Some(least),
                Err(_) => return fail("expected a number"),
            },
            "<" => push_input(case, number, exchange, Piece::Body(plain)),
            "<x" => push_input(case, number, exchange, Piece::Body(unescape(&plain))),
            "<<" => push_input(case, number, exchange, Piece::Raw(unescape(&plain))),
            "=" => case.steps.push(Step {
                line: number,
                exchange,
                action: Action::Command(words(&expand(rest))),
                expected: Expected::default(),
            }),
            "!" | ">" | ">>" | "?" => {
                let Some(step) = case.steps.last_mut() else {
                    return fail("nothing has been done yet");
                };
                let expected = &mut step.expected;
                match mark {
                    "!" => expected.events.push(expand(rest)),
                    ">" => expected.frames.push(expand(rest)),
                    ">>" => {
                        let raw = expected.raw.get_or_insert_default();
                        raw.extend_from_slice(&unescape(&plain));
                    }
                    _ => match rest.split_once(' ') {
                        Some((name, value)) => {
                            expected.states.push((name.to_owned(), value.to_owned()));
                        }
                        None => return fail("expected a getter and its value"),
                    },
                }
            }
            _ => return fail("no such line"),
        }
    }
    Ok(cases)
}

/// Writes a line `*n LINE` out n times, a `#` in it being the count from 1.
fn written_out(line: &str) -> Vec<Cow<'_, str>> {
    let repeated = line.strip_prefix('*').and_then(|rest| {
        let (count, line) = rest.split_once(' ')?;
        Some((count.parse::<usize>().ok()?, line))
    });
    match repeated {
        Some((count, line)) => (1..=count)
            .map(|number| Cow::Owned(line.replace('#', &number.to_string())))
            .collect(),
        None => vec![Cow::Borrowed(line)],
    }
}

/// Adds a piece to the input that is being collected; anything but another piece ends it.
fn push_input(case: &mut Case, line: usize, exchange: usize, piece: Piece) {
    if let Some(Step {
        action: Action::Input(pieces),
        expected,
        exchange: last,
        ..
    }) = case.steps.last_mut()
    {
        let is_bare = expected.events.is_empty()
            && expected.frames.is_empty()
            && expected.raw.is_none()
            && expected.states.is_empty();
        if is_bare && *last == exchange {
            pieces.push(piece);
            return;
        }
    }
    case.steps.push(Step {
        line,
        exchange,
        action: Action::Input(vec![piece]),
        expected: Expected::default(),
    });
}

fn is_id(word: &str) -> bool {
    let Some((letters, number)) = word.split_once('-') else {
        return false;
    };
    letters.chars().all(|c| c.is_ascii_uppercase())
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
}

/// Splits a line into words; a JSON string, array or object is one word, blanks and all.
pub(crate) fn words(line: &str) -> Vec<String> {
    let bytes = line.as_bytes();
    let mut words = Vec::new();
    let (mut start, mut depth, mut inside, mut escaped) = (0, 0usize, false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        if inside {
            inside = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => inside = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => {
                if start < at {
                    words.push(line[start..at].to_owned());
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < line.len() {
        words.push(line[start..].to_owned());
    }
    words
}

/// Writes short forms out; they nest, innermost last for repetition and first for the rest.
///
/// `$(text*n)` is the text n times, a `#` in it the count from 1. `$q(id)` is a request of method
/// `m`, `$n()` a notification of method `n`, `$r(id result)` a response, `$e(code id)` an error
/// with the message that the catalogue gives the code.
pub(crate) fn expand(line: &str) -> String {
    let Some((before, name, inside, after)) = short_form(line) else {
        return line.to_owned();
    };
    let text = match name {
        "" => repeat(inside),
        _ => {
            let inside = expand(inside);
            let (first, rest) = inside.split_once(' ').unwrap_or((&inside, ""));
            match name {
                "q" => format!(r#"{{"jsonrpc":"2.0","method":"m","id":{inside}}}"#),
                "n" => String::from(r#"{"jsonrpc":"2.0","method":"n"}"#),
                "r" => format!(r#"{{"jsonrpc":"2.0","result":{rest},"id":{first}}}"#),
                "e" => format!(
                    r#"{{"jsonrpc":"2.0","error":{{"code":{first},"message":"{}"}},"id":{rest}}}"#,
                    canonical_message(first)
                ),
                _ => panic!("no such short form: ${name}(…)"),
            }
        }
    };
    format!("{before}{text}{}", expand(after))
}

/// Splits a line at its first short form: what is before, its name, what is inside, what is after.
fn short_form(line: &str) -> Option<(&str, &str, &str, &str)> {
    for (at, _) in line.match_indices('$') {
        let rest = &line[at + 1..];
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        if rest.as_bytes().get(letters) != Some(&b'(') || letters > 1 {
            continue;
        }
        let mut depth = 0;
        for (index, byte) in rest.bytes().enumerate().skip(letters) {
            match byte {
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let inside = &rest[letters + 1..index];
                return Some((&line[..at], &rest[..letters], inside, &rest[index + 1..]));
            }
        }
    }
    None
}

fn repeat(inside: &str) -> String {
    let (text, count) = inside.rsplit_once('*').expect("$(text*n)");
    let count: usize = count.parse().expect("$(text*n) with a number");
    if !text.contains(['#', '$']) {
        return text.repeat(count);
    }
    (1..=count)
        .map(|number| expand(&text.replace('#', &number.to_string())))
        .collect()
}

/// The messages of registries A and B.
fn canonical_message(code: &str) -> &'static str {
    match code {
        "-32700" => "Parse error",
        "-32600" => "Invalid Request",
        "-32601" => "Method not found",
        "-32602" => "Invalid params",
        "-32603" => "Internal error",
        "-32001" | "-32800" => "Request cancelled",
        "-32002" => "Server busy",
        "-32005" => "Request timeout",
        _ => panic!("no canonical message: {code}"),
    }
}

/// Reads `\n`, `\r`, `\t`, `\0`, `\\` and `\xNN`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(b'0') => out.push(0),
            Some(b'\\') => out.push(b'\\'),
            Some(b'x') => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
                match (digit(), digit()) {
                    (Some(high), Some(low)) => out.push((high * 16 + low) as u8),
                    _ => panic!("\\x wants two digits"),
                }
            }
            other => panic!("no such escape: {other:?}"),
        }
    }
    out
}
