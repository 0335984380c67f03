//! Script text to conversations.
//!
//! The rule guarded here: a line that is not understood is an error with its number, never
//! skipped: a misspelt expectation must not pass.

use std::path::Path;

use crate::cell::Transport;

/// Which side of the conversation is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The contract's server; a plain peer calls it.
    Server,
    /// The contract's client, told what to do; a plain peer answers it.
    Client,
}

/// One conversation.
#[derive(Clone, Debug)]
pub struct Script {
    /// The file it stands in, without its suffix.
    pub file: String,
    /// What it shows.
    pub title: String,
    /// Which side is ours.
    pub role: Role,
    /// `preset=NAME` and `LIMIT=NUMBER`.
    pub config: Vec<String>,
    /// The transports that it cannot be played over, and why.
    pub excluded: Vec<(Vec<Transport>, String)>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One line of a script.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it stands.
    pub line: usize,
    /// The transports it is for; all if there are none.
    pub only: Vec<Transport>,
    /// What it says.
    pub what: What,
}

/// What a line says.
#[derive(Clone, Debug)]
pub enum What {
    /// The plain peer sends a message.
    Send(Vec<u8>),
    /// The plain peer sends bytes without any framing.
    SendRaw(Vec<u8>),
    /// Our side sends this message next.
    Receive(String),
    /// Our side sends these messages next, in any order.
    ReceiveAll(Vec<String>),
    /// Our client is told to do something.
    Operate(String),
    /// What our client answers next. With `…` at its end only its beginning.
    Answered(String),
    /// The plain peer does something else.
    Act(Act),
}

/// What a plain peer does besides talking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Ends its direction; our side may go on.
    End,
    /// Lets the connection go without a word.
    Cut,
    /// Sees our side end the stream, and nothing before that.
    Ended,
    /// Waits until every exchange under way has ended; nothing to wait for on a stream.
    Settle,
    /// Stops reading.
    Hold,
    /// Reads again.
    Release,
    /// Connects once more to the same server, and talks there from now on.
    Again,
}

impl Script {
    /// The name in reports.
    pub fn name(&self) -> String {
        format!("{}: {}", self.file, self.title)
    }

    /// Why it cannot be played over a transport, if so.
    pub fn excludes(&self, transport: Transport) -> Option<&str> {
        let mut reasons = self.excluded.iter();
        let (_, why) = reasons.find(|(transports, _)| transports.contains(&transport))?;
        Some(why)
    }
}

/// Reads every `*.txt` of a directory, in order of name.
///
/// # Errors
/// Names the line that makes no sense.
pub fn read_all(directory: &Path) -> Result<Vec<Script>, String> {
    let entries = std::fs::read_dir(directory).map_err(|error| error.to_string())?;
    let mut paths: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "txt"))
        .collect();
    paths.sort();
    let mut scripts: Vec<Script> = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let stem = path.file_stem().unwrap_or_default();
        scripts.extend(read(&stem.to_string_lossy(), &text)?);
    }
    for (index, script) in scripts.iter().enumerate() {
        let name = script.name();
        if scripts[..index].iter().any(|other| other.name() == name) {
            return Err(format!("{name} stands there twice"));
        }
        let expects = |step: &Step| match step.what {
            What::Receive(_) | What::ReceiveAll(_) | What::Answered(_) => true,
            What::Act(act) => act == Act::Ended,
            What::Send(_) | What::SendRaw(_) | What::Operate(_) => false,
        };
        if !script.steps.iter().any(expects) {
            return Err(format!("{name} expects nothing"));
        }
    }
    Ok(scripts)
}

/// Reads one file.
///
/// # Errors
/// Names the line that makes no sense.
pub fn read(file: &str, text: &str) -> Result<Vec<Script>, String> {
    let mut scripts: Vec<Script> = Vec::new();
    let mut role = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let fail = |what: &str| format!("{file}.txt:{number}: {what}: {line}");
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        if let Some(title) = line.strip_prefix("== ") {
            scripts.push(Script {
                file: file.to_owned(),
                title: title.to_owned(),
                role: role.ok_or_else(|| fail("the file says no role"))?,
                config: Vec::new(),
                excluded: Vec::new(),
                steps: Vec::new(),
            });
            continue;
        }
        let Some(script) = scripts.last_mut() else {
            role = Some(match line {
                "role server" => Role::Server,
                "role client" => Role::Client,
                _ => return Err(fail("expected a comment, a role or a title")),
            });
            continue;
        };
        if let Some(rest) = line.strip_prefix("config ") {
            script.config = rest.split(' ').map(str::to_owned).collect();
        } else if let Some((words, why)) =
            line.strip_prefix("not ").and_then(|r| r.split_once(": "))
        {
            let excluded = transports(words).map_err(|e| fail(&e))?;
            script.excluded.push((excluded, why.to_owned()));
        } else if let Some((words, why)) =
            line.strip_prefix("only ").and_then(|r| r.split_once(": "))
        {
            let only = transports(words).map_err(|e| fail(&e))?;
            let others = Transport::ALL.into_iter().filter(|t| !only.contains(t));
            script.excluded.push((others.collect(), why.to_owned()));
        } else {
            add_steps(&mut script.steps, number, line).map_err(|what| fail(&what))?;
        }
    }
    Ok(scripts)
}

fn transports(words: &str) -> Result<Vec<Transport>, String> {
    let named = |word| Transport::named(word).ok_or_else(|| format!("no transport {word}"));
    words.split(' ').map(named).collect()
}

fn add_steps(steps: &mut Vec<Step>, number: usize, line: &str) -> Result<(), String> {
    let (only, line) = match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((words, line)) => (transports(words)?, line),
        None => (Vec::new(), line),
    };
    for line in written_out(line) {
        let (mark, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let text = expand(rest);
        let what = match mark {
            "<" => What::Send(text.into_bytes()),
            "<x" => What::Send(unescape(&text)?),
            "<<" => What::SendRaw(unescape(&text)?),
            ">" => What::Receive(text),
            ">~" => match steps.last_mut() {
                Some(Step {
                    what: What::ReceiveAll(all),
                    only: known,
                    ..
                }) if *known == only => {
                    all.push(text);
                    continue;
                }
                _ => What::ReceiveAll(vec![text]),
            },
            "=" => What::Operate(text),
            "!" => What::Answered(text),
            "|" => What::Act(match rest {
                "end" => Act::End,
                "cut" => Act::Cut,
                "ended" => Act::Ended,
                "settle" => Act::Settle,
                "hold" => Act::Hold,
                "release" => Act::Release,
                "again" => Act::Again,
                _ => return Err("the peer cannot do that".to_owned()),
            }),
            _ => return Err("no such line".to_owned()),
        };
        let only = only.clone();
        steps.push(Step {
            line: number,
            only,
            what,
        });
    }
    Ok(())
}

/// Writes a line `*n LINE` out n times, a `#` in it being the count from 1, an `@` the count down
/// to 1.
fn written_out(line: &str) -> Vec<String> {
    let repeated = line.strip_prefix('*').and_then(|rest| {
        let (count, line) = rest.split_once(' ')?;
        Some((count.parse::<usize>().ok()?, line))
    });
    let Some((count, line)) = repeated else {
        return vec![line.to_owned()];
    };
    let one = |n: usize| {
        let counted = line.replace('#', &n.to_string());
        counted.replace('@', &(count + 1 - n).to_string())
    };
    (1..=count).map(one).collect()
}

/// Writes `$(TEXT*n)` out: the text n times, a `#` in it being the count from 1, a `%` the count
/// from 2.
fn expand(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$(") {
        let inside = after.split_once(')').and_then(|(inside, after)| {
            let (text, count) = inside.rsplit_once('*')?;
            Some((text, count.parse::<usize>().ok()?, after))
        });
        out.push_str(before);
        let Some((repeated, count, after)) = inside else {
            out.push_str("$(");
            rest = after;
            continue;
        };
        for n in 1..=count {
            let counted = repeated.replace('#', &n.to_string());
            out.push_str(&counted.replace('%', &(n + 1).to_string()));
        }
        rest = after;
    }
    out + rest
}

/// Reads `\n \r \t \\ \xNN`.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        out.push(match chars.next() {
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('t') => b'\t',
            Some('\\') => b'\\',
            Some('x') => {
                let digits: String = chars.by_ref().take(2).collect();
                u8::from_str_radix(&digits, 16).map_err(|_| "expected \\xNN".to_owned())?
            }
            _ => return Err("no such escape".to_owned()),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{What, expand, read, unescape};

    #[test]
    fn a_line_that_is_not_understood_is_an_error_with_its_number() {
        for line in [
            ">> x",
            "| nothing",
            "not tcp",
            "[nowhere] > x",
            "x",
            "<< \\q",
        ] {
            let text = format!("role server\n== title\n{line}\n");
            let error = read("file", &text).unwrap_err();
            assert!(error.starts_with("file.txt:3: "), "{error}");
        }
        assert!(read("file", "== title\n").is_err());
    }

    #[test]
    fn short_forms_are_written_out() {
        assert_eq!(expand("a$(#,*3)b$(%*2)"), "a1,2,3,b23");
        assert_eq!(expand("$(no"), "$(no");
        assert_eq!(unescape("\\x41\\r\\n\\\\").unwrap(), b"A\r\n\\");
        let scripts = read("f", "role client\n== t\n*2 >~ [#,@]\n>~ c\n> d\n").unwrap();
        let What::ReceiveAll(all) = &scripts[0].steps[0].what else {
            panic!("{scripts:?}");
        };
        assert_eq!(all, &["[1,2]", "[2,1]", "c"]);
        assert_eq!(scripts[0].steps.len(), 2);
    }
}
