//! The notation of protocol cases: lines that arrive, lines that are written, and what the program is told.
//!
//! `tests/conformance/README.md` describes it. A file has a header and cases; what a line means is up to the player that is
//! given it. A line that its player does not understand is an error with its number, never skipped: a misspelt
//! expectation must not pass.

use std::borrow::Cow;
use std::path::Path;

/// One file of cases.
#[derive(Clone, Debug)]
pub struct File {
    /// Its name without the suffix.
    pub name: String,
    /// What stands above the first title: defaults for all its cases.
    pub header: Vec<Line>,
    /// Its cases, in order.
    pub cases: Vec<Case>,
}

/// One case, as written.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it shows.
    pub title: String,
    /// Where the title stands.
    pub number: usize,
    /// The requirement ids of the comment right above the title.
    pub ids: Vec<String>,
    /// What stands below the title.
    pub lines: Vec<Line>,
}

/// One line, repetitions written out.
#[derive(Clone, Debug)]
pub struct Line {
    /// Where it stands.
    pub number: usize,
    /// How many blank lines the file has above it.
    pub block: usize,
    /// What stands in brackets in front of it: in the suite, the transports for which it is.
    pub only: Option<String>,
    /// Its first word.
    pub mark: String,
    /// What stands after the mark.
    pub rest: String,
}

impl Line {
    /// What stands after the mark, with short forms written out.
    ///
    /// # Errors
    /// Names the short form that there is not.
    pub fn text(&self) -> Result<String, String> {
        expand(&self.rest)
    }

    /// What stands after the mark, as bytes, with short forms written out and escapes read.
    ///
    /// # Errors
    /// Names the short form or the escape that there is not.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        unescape(&self.text()?)
    }
}

/// Says what is wrong with a line of a file, and where it stands.
pub fn fault(file: &str, line: &Line, what: &str) -> String {
    let (number, mark, rest) = (line.number, &line.mark, &line.rest);
    format!("{file}.txt:{number}: {what}: {mark} {rest}")
}

/// Reads every `*.txt` of a directory, in order of name.
///
/// # Errors
/// A directory or file that cannot be read, or a title that stands twice in a file.
pub fn read_all(directory: &Path) -> Result<Vec<File>, String> {
    let entries = std::fs::read_dir(directory).map_err(|error| error.to_string())?;
    let mut paths: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "txt"))
        .collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let stem = path.file_stem().unwrap_or_default();
        files.push(read(&stem.to_string_lossy(), &text)?);
    }
    Ok(files)
}

/// Reads the text of one file.
///
/// # Errors
/// Names the title that stands twice.
pub fn read(name: &str, text: &str) -> Result<File, String> {
    let mut file = File {
        name: name.to_owned(),
        header: Vec::new(),
        cases: Vec::new(),
    };
    let (mut ids, mut block) = (Vec::new(), 0);
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.is_empty() {
            block += 1;
            ids.clear();
            continue;
        }
        if line == "#" || line.starts_with("# ") {
            let mut words = line.split(' ').skip(1).peekable();
            if words.peek().is_some_and(|word| is_id(word)) {
                ids.extend(words.filter(|word| is_id(word)).map(str::to_owned));
            }
            continue;
        }
        if let Some(title) = line.strip_prefix("== ") {
            if let Some(other) = file.cases.iter().find(|case| case.title == title) {
                let other = other.number;
                return Err(format!(
                    "{name}.txt:{number}: the title stands in line {other} already"
                ));
            }
            file.cases.push(Case {
                title: title.to_owned(),
                number,
                ids: std::mem::take(&mut ids),
                lines: Vec::new(),
            });
            continue;
        }
        let lines = match file.cases.last_mut() {
            Some(case) => &mut case.lines,
            None => &mut file.header,
        };
        let (only, line) = match line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("] "))
        {
            Some((only, line)) => (Some(only.to_owned()), line),
            None => (None, line),
        };
        lines.extend(written_out(line).into_iter().map(|line| {
            let (mark, rest) = line.split_once(' ').unwrap_or((&line, ""));
            Line {
                number,
                block,
                only: only.clone(),
                mark: mark.to_owned(),
                rest: rest.to_owned(),
            }
        }));
    }
    Ok(file)
}

fn is_id(word: &str) -> bool {
    let Some((letters, number)) = word.split_once('-') else {
        return false;
    };
    !letters.is_empty()
        && letters.chars().all(|c| c.is_ascii_uppercase())
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
}

/// Writes a line `*n LINE` out n times, a `#` in it being the count from 1, an `@` the count down to 1.
fn written_out(line: &str) -> Vec<Cow<'_, str>> {
    let repeated = line.strip_prefix('*').and_then(|rest| {
        let (count, line) = rest.split_once(' ')?;
        Some((count.parse::<usize>().ok()?, line))
    });
    let Some((count, line)) = repeated else {
        return vec![Cow::Borrowed(line)];
    };
    let one = |n: usize| {
        let counted = line.replace('#', &n.to_string());
        Cow::Owned(counted.replace('@', &(count + 1 - n).to_string()))
    };
    (1..=count).map(one).collect()
}

/// Splits a line into words; a JSON string, array or object is one word, blanks and all.
pub fn words(line: &str) -> Vec<String> {
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

/// Writes short forms out. They nest: a repetition is written out before what is inside it, every other
/// form after.
///
/// `$(text*n)` is the text n times, a `#` in it the count from 1, a `%` the count from 2. `$q(id)` is a request of method
/// `m`, `$n()` a notification of method `n`, `$r(id result)` a response, `$e(code id)` an error with the message that the
/// core sends with the code.
///
/// # Errors
/// Names the short form that there is not.
pub fn expand(line: &str) -> Result<String, String> {
    let Some((before, name, inside, after)) = short_form(line) else {
        return Ok(line.to_owned());
    };
    let text = match name {
        "" => repeat(inside)?,
        _ => {
            let inside = expand(inside)?;
            let (first, rest) = inside.split_once(' ').unwrap_or((&inside, ""));
            match name {
                "q" => format!(r#"{{"jsonrpc":"2.0","method":"m","id":{inside}}}"#),
                "n" => String::from(r#"{"jsonrpc":"2.0","method":"n"}"#),
                "r" => format!(r#"{{"jsonrpc":"2.0","result":{rest},"id":{first}}}"#),
                "e" => format!(
                    r#"{{"jsonrpc":"2.0","error":{{"code":{first},"message":"{}"}},"id":{rest}}}"#,
                    canonical_message(first)?
                ),
                _ => return Err(format!("no such short form: ${name}(…)")),
            }
        }
    };
    Ok(format!("{before}{text}{}", expand(after)?))
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

fn repeat(inside: &str) -> Result<String, String> {
    let counted = inside.rsplit_once('*');
    let (text, count) = counted
        .and_then(|(text, count)| Some((text, count.parse::<usize>().ok()?)))
        .ok_or_else(|| format!("expected $(text*n): $({inside})"))?;
    if !text.contains(['#', '%', '$']) {
        return Ok(text.repeat(count));
    }
    let one = |n: usize| {
        let counted = text.replace('#', &n.to_string());
        expand(&counted.replace('%', &(n + 1).to_string()))
    };
    (1..=count).map(one).collect()
}

/// The messages that the core sends with its own codes.
fn canonical_message(code: &str) -> Result<&'static str, String> {
    Ok(match code {
        "-32700" => "Parse error",
        "-32600" => "Invalid Request",
        "-32601" => "Method not found",
        "-32602" => "Invalid params",
        "-32603" => "Internal error",
        "-32001" | "-32800" => "Request cancelled",
        "-32002" => "Server busy",
        "-32005" => "Request timeout",
        _ => return Err(format!("no canonical message: {code}")),
    })
}

/// Reads `\n`, `\r`, `\t`, `\0`, `\\` and `\xNN`.
///
/// # Errors
/// Names the escape that there is not.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next() {
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
                match (digit(), digit()) {
                    (Some(high), Some(low)) => (high * 16 + low) as u8,
                    _ => return Err("expected \\xNN".to_owned()),
                }
            }
            _ => return Err("no such escape".to_owned()),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{expand, read, unescape, words};

    #[test]
    fn a_file_has_a_header_and_cases_with_ids_and_lines() {
        let text = "# What it is.\nconfig strict\n\n# MSG-07 D-04\n== first\n< a\n\n[tcp unix] > b\n*2 ! [#,@]\n";
        let file = read("file", text).unwrap();
        assert_eq!(file.header[0].mark, "config");
        let [case] = &file.cases[..] else {
            panic!("{file:?}");
        };
        assert_eq!((case.title.as_str(), case.number), ("first", 5));
        assert_eq!(case.ids, ["MSG-07", "D-04"]);
        let shown: Vec<_> = case
            .lines
            .iter()
            .map(|line| (line.number, line.only.as_deref(), line.rest.as_str()))
            .collect();
        let wanted = [
            (6, None, "a"),
            (8, Some("tcp unix"), "b"),
            (9, None, "[1,2]"),
            (9, None, "[2,1]"),
        ];
        assert_eq!(shown, wanted);
        assert_ne!(case.lines[0].block, case.lines[1].block);
        let twice = read("file", "== a\n== a\n").unwrap_err();
        assert!(twice.starts_with("file.txt:2: "), "{twice}");
    }

    #[test]
    fn ids_stand_right_above_their_title() {
        let far = read("file", "# MSG-07\n\n== a\n").unwrap();
        assert!(far.cases[0].ids.is_empty());
        let prose = read("file", "# About MSG-07.\n== a\n").unwrap();
        assert!(prose.cases[0].ids.is_empty());
    }

    #[test]
    fn short_forms_are_written_out() {
        assert_eq!(expand("a$(#,*3)b$(%*2)").unwrap(), "a1,2,3,b23");
        assert_eq!(expand("$($q(#)*2)").unwrap(), expand("$q(1)$q(2)").unwrap());
        assert_eq!(expand("$(no").unwrap(), "$(no");
        assert!(expand("$(no)").is_err() && expand("$z(1)").is_err() && expand("$e(5 1)").is_err());
    }

    #[test]
    fn escapes_are_read_and_others_refused() {
        assert_eq!(unescape("\\x41\\r\\n\\t\\0\\\\").unwrap(), b"A\r\n\t\0\\");
        assert!(unescape("\\q").is_err() && unescape("\\x4").is_err() && unescape("\\").is_err());
    }

    #[test]
    fn a_json_value_is_one_word() {
        assert_eq!(
            words("a [1, 2] \"b \\\" c\" d"),
            ["a", "[1, 2]", "\"b \\\" c\"", "d"]
        );
    }
}
