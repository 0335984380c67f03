//! Reads conversations over a transport from the notation.
//!
//! A line that is not understood is an error with its number, never skipped: a misspelt expectation must not pass.

use std::path::Path;

use antiphon_test_support::notation::{self, File, Line, fault};

use crate::cell::Transport;

/// Which side of the conversation is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The contract's server; a plain peer calls it.
    Server,
    /// The contract's client, which the script's operations drive; a plain peer answers it.
    Client,
}

/// One conversation.
#[derive(Clone, Debug)]
pub struct Script {
    /// The name of its file, without `.txt`.
    pub file: String,
    /// What it shows, as the line `==` has it.
    pub title: String,
    /// Which side is ours.
    pub role: Role,
    /// `PRESET` and `LIMIT=NUMBER`.
    pub config: Vec<String>,
    /// The transports that it cannot be played over, and why.
    pub excluded: Vec<(Vec<Transport>, String)>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One line of a script.
#[derive(Clone, Debug)]
pub struct Step {
    /// The number of the line.
    pub line: usize,
    /// The transports it is for; all if there are none.
    pub only: Vec<Transport>,
    /// What happens.
    pub what: What,
}

/// What happens in a step.
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
    /// Cuts the connection, without a close frame or the like.
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
    let mut scripts: Vec<Script> = Vec::new();
    for file in notation::read_all(directory)? {
        scripts.extend(read(&file)?);
    }
    for script in &scripts {
        let expects = |step: &Step| match step.what {
            What::Receive(_) | What::ReceiveAll(_) | What::Answered(_) => true,
            What::Act(act) => act == Act::Ended,
            What::Send(_) | What::SendRaw(_) | What::Operate(_) => false,
        };
        if !script.steps.iter().any(expects) {
            return Err(format!("{} expects nothing", script.name()));
        }
    }
    Ok(scripts)
}

/// Reads the conversations of one file.
///
/// # Errors
/// Names the line that makes no sense.
pub fn read(file: &File) -> Result<Vec<Script>, String> {
    let mut role = None;
    for line in &file.header {
        role = Some(match (line.mark.as_str(), line.rest.as_str()) {
            ("role", "server") => Role::Server,
            ("role", "client") => Role::Client,
            _ => return Err(fault(&file.name, line, "expected a role or a title")),
        });
    }
    let role = role.ok_or_else(|| format!("{}.txt says no role", file.name))?;
    let mut scripts = Vec::new();
    for case in &file.cases {
        let mut script = Script {
            file: file.name.clone(),
            title: case.title.clone(),
            role,
            config: Vec::new(),
            excluded: Vec::new(),
            steps: Vec::new(),
        };
        for line in &case.lines {
            add(&mut script, line).map_err(|what| fault(&file.name, line, &what))?;
        }
        scripts.push(script);
    }
    Ok(scripts)
}

fn transports(words: &str) -> Result<Vec<Transport>, String> {
    let named = |word| Transport::named(word).ok_or_else(|| format!("no transport {word}"));
    words.split(' ').map(named).collect()
}

/// Adds the setting or the step of one line.
fn add(script: &mut Script, line: &Line) -> Result<(), String> {
    let rest = line.rest.as_str();
    let reason = || rest.split_once(": ").ok_or("expected `TRANSPORTS: reason`");
    let what = match line.mark.as_str() {
        "config" => {
            script.config = rest.split(' ').map(str::to_owned).collect();
            return Ok(());
        }
        "not" => {
            let (words, why) = reason()?;
            script.excluded.push((transports(words)?, why.to_owned()));
            return Ok(());
        }
        "only" => {
            let (words, why) = reason()?;
            let only = transports(words)?;
            let others = Transport::ALL.into_iter().filter(|t| !only.contains(t));
            script.excluded.push((others.collect(), why.to_owned()));
            return Ok(());
        }
        "<" => What::Send(line.text()?.into_bytes()),
        "<x" => What::Send(line.bytes()?),
        "<<" => What::SendRaw(line.bytes()?),
        ">" => What::Receive(line.text()?),
        ">~" => What::ReceiveAll(vec![line.text()?]),
        "=" => What::Operate(line.text()?),
        "!" => What::Answered(line.text()?),
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
    let only = match &line.only {
        Some(words) => transports(words)?,
        None => Vec::new(),
    };
    // Neighbours that may come in any order are one step.
    if let (
        What::ReceiveAll(more),
        Some(Step {
            what: What::ReceiveAll(all),
            only: known,
            ..
        }),
    ) = (&what, script.steps.last_mut())
    {
        if *known == only {
            all.extend_from_slice(more);
            return Ok(());
        }
    }
    script.steps.push(Step {
        line: line.number,
        only,
        what,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use antiphon_test_support::notation;

    use super::{What, read};

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
            let error = read(&notation::read("file", &text).unwrap()).unwrap_err();
            assert!(error.starts_with("file.txt:3: "), "{error}");
        }
        assert!(read(&notation::read("file", "== title\n").unwrap()).is_err());
    }

    #[test]
    fn neighbours_in_any_order_are_one_step() {
        let text = "role client\n== t\n*2 >~ [#,@]\n>~ c\n> d\n";
        let scripts = read(&notation::read("f", text).unwrap()).unwrap();
        let What::ReceiveAll(all) = &scripts[0].steps[0].what else {
            panic!("{scripts:?}");
        };
        assert_eq!(all, &["[1,2]", "[2,1]", "c"]);
        assert_eq!(scripts[0].steps.len(), 2);
    }
}
