//! `antiphon call`: one method, and its result alone.

use std::io::{IsTerminal as _, Read as _};
use std::process::{Command, ExitCode};
use std::time::Instant;

use antiphon_blocking::http::HttpError;
use antiphon_blocking::{
    Answer, CallError, Client, ClientConfig, Config, ConnectError, Framing, Json, JsonKind,
    McpRevision, Notification, OwnedError, OwnedJson, Peer, Request, Service, Target as There,
    connect,
};

use crate::args::{self, Preset};
use crate::bytes::shown;
use crate::fault::{FINDINGS, Fault};
use crate::link::Place;
use crate::place;
use crate::pretty::pretty;
use crate::target::Target;

pub(crate) fn run(line: &args::Call) -> Result<ExitCode, Fault> {
    let usage = |text: &str| Fault::Usage(text.to_owned());
    let (url, words) = match line.there.command.is_empty() {
        true => line
            .words
            .split_first()
            .map(|(url, words)| (Some(url.as_str()), words)),
        false => Some((None, &line.words[..])),
    }
    .unwrap_or((None, &[]));
    let Some((method, words)) = words.split_first() else {
        return Err(usage("a method is missing; see antiphon call --help"));
    };
    let params = params(words)?;
    let answers = line
        .answer
        .iter()
        .map(|answer| match answer.split_once('=') {
            Some((method, json)) if Json::parse_str(json).is_ok() => {
                Ok((method.to_owned(), json.to_owned()))
            }
            _ => Err(usage("--answer is METHOD=JSON")),
        });
    let program = Program {
        answers: answers.collect::<Result<_, _>>()?,
        prints: line.listen.is_some(),
    };
    let place = place::find(url, &line.there)?;
    let client = open(&place, line, program)?;
    let fault = |error: CallError| Fault::of(&place.name(), &error);
    if let Some(hello) = &place.hello {
        let json = |text: &str| {
            OwnedJson::parse(text.to_owned()).map_err(|error| Fault::Usage(error.to_string()))
        };
        let (params, none, then) = (json(hello.params)?, json("{}")?, hello.then);
        let hello = client
            .call::<OwnedJson>(hello.method, &params)
            .timeout(line.there.timeout)
            .wait();
        // A server that does not know the dialect may still know the method.
        match hello {
            Err(error) if error.remote().is_none() => return Err(fault(error)),
            _ => {}
        }
        client.notify(then, &none).wait().map_err(fault)?;
    }
    let begin = Instant::now();
    let mut code = ExitCode::SUCCESS;
    if line.notify {
        match &params {
            Some(params) => client.notify(method, params).wait(),
            None => client.notify(method, ()).wait(),
        }
        .map_err(fault)?;
    } else {
        let timeout = line.there.timeout;
        let result = match &params {
            Some(params) => client
                .call::<OwnedJson>(method, params)
                .timeout(timeout)
                .raw()
                .wait(),
            None => client
                .call::<OwnedJson>(method, ())
                .timeout(timeout)
                .raw()
                .wait(),
        };
        match result {
            Ok(result) => print(result.as_json().as_str()),
            Err(error) => match error.remote() {
                Some(object) => {
                    let data = object
                        .data()
                        .map_or(String::new(), |data| format!(" {}", shown(data.as_bytes())));
                    eprintln!(
                        "antiphon: error {}: {}{data}",
                        object.code(),
                        shown(object.message().as_bytes())
                    );
                    code = ExitCode::from(FINDINGS);
                }
                None => return Err(fault(error)),
            },
        }
    }
    if let Some(listen) = line.listen {
        while begin.elapsed() < listen && !client.is_closed() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    client.close();
    Ok(code)
}

/// Connects, or starts the command.
fn open(place: &Place, line: &args::Call, program: Program) -> Result<Client, Fault> {
    let config = match line.there.preset {
        Preset::Strict => Config::new(),
        Preset::Lsp => Config::lsp(),
        Preset::Mcp => Config::mcp(McpRevision::V2025_06_18),
    };
    let framing = match place.framing {
        Framing::Messages => Framing::Newline,
        framing => framing,
    };
    let mut config = ClientConfig::new(config.framing(framing));
    config.connect_timeout = line.there.timeout;
    for (name, value) in &place.headers {
        config = config.with_header(name.clone(), value.clone());
    }
    if let Some(tls) = &place.dialler.tls {
        config = config.with_tls(antiphon_blocking::tls::Connector::from(
            std::sync::Arc::clone(tls),
        ));
    }
    let there = match &place.dialler.target {
        Target::Tcp { .. } => There::from(
            place
                .name()
                .replace("tcp+lsp:", "tcp:")
                .replace("tcp+json:", "tcp:"),
        ),
        Target::Unix(path) => There::from(format!("unix:{path}")),
        Target::Http(web) | Target::WebSocket(web) => There::from(&web.url),
        Target::Command(words) => {
            let (program, arguments) = words
                .split_first()
                .ok_or_else(|| Fault::Usage("a command is missing".to_owned()))?;
            let mut command = Command::new(program);
            command.args(arguments);
            There::from(command)
        }
    };
    connect(there, config, program).map_err(|error| {
        let text = format!("{}: {error}", place.name());
        match &error {
            error if error.is_timeout() => Fault::TimedOut(text),
            ConnectError::Io(_) => Fault::Unreachable(text),
            _ => Fault::Usage(text),
        }
    })
}

impl Fault {
    /// A call that ended without an answer.
    fn of(name: &str, error: &CallError) -> Self {
        let text = format!("{name}: {error}");
        let is_late = error.is_timeout() || matches!(error, CallError::Http(HttpError::TimedOut));
        match is_late {
            true => Self::TimedOut(text),
            false => Self::Unreachable(text),
        }
    }
}

/// Reads the params; `None` for none.
fn params(words: &[String]) -> Result<Option<OwnedJson>, Fault> {
    let usage = |text: String| Fault::Usage(text);
    let (mut members, mut elements) = (Vec::new(), Vec::new());
    let text = match words {
        [] => return Ok(None),
        [word] if word == "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| usage(format!("standard input: {error}")))?;
            Some(text)
        }
        [word] if word.starts_with('@') => {
            let text = std::fs::read_to_string(&word[1..]);
            Some(text.map_err(|error| usage(format!("{word}: {error}")))?)
        }
        _ => None,
    };
    if let Some(text) = text {
        return whole(text.trim().to_owned())
            .ok_or_else(|| usage("the params are no array or object".to_owned()))
            .map(Some);
    }
    if let [word] = words {
        if let Some(params) = whole(word.clone()) {
            return Ok(Some(params));
        }
    }
    for word in words {
        if Json::parse_str(word).is_ok() {
            elements.push(word.clone());
            continue;
        }
        let Some((key, value)) = word
            .split_once('=')
            .filter(|(key, _)| !key.trim_end_matches(':').is_empty())
        else {
            return Err(usage(format!(
                "{word} is neither JSON nor key=text; text is written as '\"{word}\"'"
            )));
        };
        let (key, value) = match key.strip_suffix(':') {
            Some(key) if Json::parse_str(value).is_ok() => (key, value.to_owned()),
            Some(_) => return Err(usage(format!("{word}: what stands behind := is no JSON"))),
            None => (key, serde_json::to_string(value).unwrap_or_default()),
        };
        members.push(format!(
            "{}:{value}",
            serde_json::to_string(key).unwrap_or_default()
        ));
    }
    let text = match (&members[..], &elements[..]) {
        ([], elements) => format!("[{}]", elements.join(",")),
        (members, []) => format!("{{{}}}", members.join(",")),
        _ => {
            return Err(usage(
                "params are either all by name or all by position".to_owned(),
            ));
        }
    };
    OwnedJson::parse(text)
        .map(Some)
        .map_err(|error| usage(error.to_string()))
}

/// Text that is all of the params.
fn whole(text: String) -> Option<OwnedJson> {
    let json = OwnedJson::parse(text).ok()?;
    matches!(json.kind(), JsonKind::Array | JsonKind::Object).then_some(json)
}

/// Prints JSON: indented and safe on a terminal, otherwise its bytes; and a line feed.
fn print(json: &str) {
    let out = std::io::stdout();
    let text = match out.is_terminal() {
        true => pretty(json, std::env::var_os("NO_COLOR").is_none()),
        false => json.to_owned(),
    };
    crate::conform::put(&(text + "\n"));
}

/// What answers the server, and prints what it sends.
struct Program {
    answers: Vec<(String, String)>,
    prints: bool,
}

impl Program {
    fn show(&self, method: &str, params: Option<Json<'_>>) {
        if self.prints {
            let method = serde_json::to_string(method).unwrap_or_default();
            let params = params.map_or(String::new(), |params| {
                format!(",\"params\":{}", params.as_str())
            });
            print(&format!("{{\"method\":{method}{params}}}"));
        }
    }
}

impl Service for Program {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        self.show(request.method(), request.raw_params());
        match self
            .answers
            .iter()
            .find(|(method, _)| method == request.method())
        {
            Some((_, json)) => match OwnedJson::parse(json.clone()) {
                Ok(json) => Ok(Answer::new(&json)),
                Err(_) => Err(request.unknown_method()),
            },
            None => Err(request.unknown_method()),
        }
    }

    fn notification(&mut self, _: &Peer, notification: Notification) {
        self.show(notification.method(), notification.raw_params());
    }
}

#[cfg(test)]
mod tests {
    use super::params;

    #[test]
    fn params_are_read_or_refused() {
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        for (given, text) in [
            (&["a=1"][..], r#"{"a":"1"}"#),
            (
                &["a:=1.0", "b=x=y", "c:=[1]"],
                r#"{"a":1.0,"b":"x=y","c":[1]}"#,
            ),
            (&["1", "\"a=b\"", "null"], r#"[1,"a=b",null]"#),
            (&["[1,2]"], "[1,2]"),
            (&["[1,2]", "3"], "[[1,2],3]"),
            (&[r#"{"a":1}"#], r#"{"a":1}"#),
            (&["-5"], "[-5]"),
        ] {
            assert_eq!(
                params(&words(given)).unwrap().unwrap().as_json().as_str(),
                text
            );
        }
        assert!(params(&[]).unwrap().is_none());
        for bad in [
            &["word"][..],
            &["a=1", "2"],
            &["a:=x"],
            &["=x"],
            &["@/no/such/file"],
        ] {
            assert!(params(&words(bad)).is_err(), "{bad:?}");
        }
    }
}
