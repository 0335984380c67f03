//! The command line: the parsed options, or one sentence with the reason why they are not valid.
//!
//! Rule: whatever the arguments are, an error is one line on stderr and exit code 2.

use std::fmt;
use std::time::Duration;

use antiphon::{Config, Framing};

use crate::dialect;
use crate::proxy;
use crate::runtime::Runtime;
use crate::target::{Target, shown};
use crate::tls::Tls;

const USAGE: &str = "usage: antiphon-peer [--preset NAME] [--lenient] [--runtime NAME] \
    [--limit NAME=NUMBER] [--origin ORIGIN] [--token TOKEN] [--extensions] [--layers] [--store memory|redb:FILE|nats://…] [--ca FILE] [--cert FILE --key FILE] [--trace] [--grace-ms N] server TARGET | client TARGET | proxy COMMAND ARGUMENTS…";

/// Why a program ends with exit code 2, in one line.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }

    pub(crate) fn usage() -> Self {
        Self::new(USAGE)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line, whatever an operating system's message holds.
        f.write_str(&self.0.replace(['\n', '\r'], " "))
    }
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Task {
    /// Print the usage and exit with code 0.
    Help,
    /// Serve at the target.
    Serve(Endpoint),
    /// Drive the peer at the target.
    Drive(Endpoint),
    /// Relay between an editor or agent and a server.
    Relay(proxy::ConnectionConfig),
}

/// Where to talk, and how.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) target: Target,
    pub(crate) config: Config,
    pub(crate) runtime: Runtime,
    pub(crate) tls: Tls,
    /// Whether a server serves `rpc.*`.
    pub(crate) has_extensions: bool,
    /// Whether a server serves topics and a chain of blocks.
    pub(crate) has_layers: bool,
    /// The file of the durable topics; `None` for memory.
    pub(crate) store: Store,
}

/// Reads the command line, without the program's name.
///
/// # Errors
/// The sentence to print.
pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Task, Failure> {
    let mut arguments = arguments.peekable();
    let mut wanted = Wanted::default();
    let mut trace = false;
    let mut grace = Duration::from_secs(10);
    loop {
        let Some(word) = arguments.next() else {
            return Err(Failure::usage());
        };
        match word.as_str() {
            "--help" | "-h" => return Ok(Task::Help),
            "--trace" => trace = true,
            "--grace-ms" => grace = read_millis(arguments.next())?,
            "server" => return Ok(Task::Serve(read_endpoint(arguments, wanted, false)?)),
            "client" => return Ok(Task::Drive(read_endpoint(arguments, wanted, true)?)),
            "proxy" => {
                let command: Vec<String> = arguments.collect();
                if command.is_empty() {
                    return Err(Failure::new("proxy needs a command; see --help"));
                }
                if wanted.runtime != Runtime::Blocking {
                    return Err(Failure::new("the proxy runs on threads only; see --help"));
                }
                let framing = read_framing()?;
                let mut config = wanted.preset.unwrap_or_else(|| proxy::dialect(framing));
                config.framing = framing;
                config.dialect.lenient_responses |= wanted.lenient;
                return Ok(Task::Relay(proxy::ConnectionConfig {
                    command,
                    config,
                    grace,
                    trace,
                }));
            }
            _ if wanted.take(&word, &mut arguments)? => {}
            _ => {
                let word = shown(&word);
                return Err(Failure::new(format!("{word}: not understood; see --help")));
            }
        }
    }
}

/// The options that may stand before or after a target.
#[derive(Default)]
struct Wanted {
    preset: Option<Config>,
    lenient: bool,
    extensions: bool,
    layers: bool,
    store: Store,
    runtime: Runtime,
    limits: Vec<String>,
    origins: Vec<String>,
    token: Option<String>,
    /// Files, for TLS.
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

impl Wanted {
    /// Takes an option, with the value that follows it. False if the word is no such option.
    fn take(
        &mut self,
        word: &str,
        arguments: &mut impl Iterator<Item = String>,
    ) -> Result<bool, Failure> {
        match word {
            "--lenient" => self.lenient = true,
            "--extensions" => self.extensions = true,
            "--layers" => self.layers = true,
            "--store" => self.store = read_store(arguments.next())?,
            "--preset" => self.preset = Some(read_preset(arguments.next())?),
            "--ca" => self.ca = Some(read_file_name(word, arguments)?),
            "--cert" => self.cert = Some(read_file_name(word, arguments)?),
            "--key" => self.key = Some(read_file_name(word, arguments)?),
            "--limit" => self.limits.push(read_limit(arguments.next())?),
            "--origin" => self.origins.push(read_origin(arguments.next())?),
            "--token" => self.token = Some(read_token(arguments.next())?),
            "--runtime" => self.runtime = read_runtime(arguments.next())?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What a target over TLS needs: for a client whom to trust; for a server a certificate, which
    /// is made if it is not given.
    fn tls(&self, is_client: bool) -> Result<Tls, Failure> {
        if is_client {
            let ca = self
                .ca
                .as_ref()
                .ok_or(Failure::new("TLS needs --ca FILE"))?;
            let tls = Tls {
                roots: Some(read_file(ca)?),
                ..Tls::default()
            };
            let usable = tls.client();
            return usable.map(|_| tls).map_err(|error| told(ca, &error));
        }
        let tls = match (&self.cert, &self.key, &self.ca) {
            (Some(cert), Some(key), _) => Tls {
                identity: Some((read_file(cert)?, read_file(key)?)),
                ..Tls::default()
            },
            (None, None, Some(ca)) => {
                let made = Tls::self_made().map_err(|error| told("--ca", &error))?;
                let certificate = made.roots.as_deref().unwrap_or_default();
                std::fs::write(ca, certificate).map_err(|error| told(ca, &error))?;
                made
            }
            _ => {
                let why = "TLS needs --cert and --key, or --ca FILE to write a new certificate to";
                return Err(Failure::new(why));
            }
        };
        let usable = tls.server();
        usable
            .map(|_| tls)
            .map_err(|error| told("--cert, --key", &error))
    }
}

fn read_file_name(
    option: &str,
    arguments: &mut impl Iterator<Item = String>,
) -> Result<String, Failure> {
    let name = arguments.next();
    name.ok_or_else(|| Failure::new(format!("{option} needs a file; see --help")))
}

fn read_file(name: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(name).map_err(|error| told(name, &error))
}

fn told(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("{what}: {error}"))
}

/// The usage, and the presets by name.
pub(crate) fn help() -> String {
    let names: Vec<&str> = dialect::names().collect();
    let runtimes = Runtime::ALL.map(Runtime::name);
    format!(
        "{USAGE}\npresets: {}\nruntimes: {} (the proxy: only the first)",
        names.join(", "),
        runtimes.join(", ")
    )
}

/// Reads `TARGET`, and the options that may also stand after it.
fn read_endpoint(
    mut arguments: impl Iterator<Item = String>,
    mut wanted: Wanted,
    is_client: bool,
) -> Result<Endpoint, Failure> {
    let mut words: Vec<String> = Vec::new();
    while let Some(word) = arguments.next() {
        let is_ours = !words.first().is_some_and(|target| takes_a_command(target));
        if !(is_ours && wanted.take(&word, &mut arguments)?) {
            words.push(word);
        }
    }
    let mut target = Target::read(&words, is_client)?;
    target.let_in(std::mem::take(&mut wanted.origins))?;
    target.ask_for(wanted.token.take())?;
    let mut config = wanted.preset.unwrap_or_else(dialect::of_contract);
    config.framing = target.framing();
    config.dialect.lenient_responses |= wanted.lenient;
    dialect::raise_limits(&mut config);
    for limit in &wanted.limits {
        // `read_limit` has checked it already.
        dialect::set_limit(&mut config, limit).map_err(Failure::new)?;
    }
    let tls = match target.is_tls() {
        true => wanted.tls(is_client)?,
        false => Tls::default(),
    };
    Ok(Endpoint {
        target,
        config,
        runtime: wanted.runtime,
        tls,
        has_extensions: wanted.extensions,
        has_layers: wanted.layers,
        store: wanted.store,
    })
}

/// Whether the words after a target belong to its command.
fn takes_a_command(target: &str) -> bool {
    target.starts_with("stdio:") && target.matches(':').count() >= 2
}

/// Where durable topics are stored.
#[derive(Debug, Default)]
pub(crate) enum Store {
    #[default]
    Memory,
    Redb(String),
    /// Servers of NATS, through which all topics are those of other servers, too.
    Nats(String),
}

fn read_store(store: Option<String>) -> Result<Store, Failure> {
    match store.as_deref().map(|store| store.split_once(':')) {
        Some(None) if store.as_deref() == Some("memory") => Ok(Store::Memory),
        Some(Some(("redb", file))) if !file.is_empty() => Ok(Store::Redb(file.into())),
        Some(Some(("nats", _))) => Ok(Store::Nats(store.unwrap_or_default())),
        _ => Err(Failure::new(
            "--store needs `memory`, `redb:FILE` or `nats://HOST:PORT`; see --help",
        )),
    }
}

fn read_preset(name: Option<String>) -> Result<Config, Failure> {
    let name = name.ok_or(Failure::new("--preset needs a name; see --help"))?;
    dialect::named(&name).ok_or(Failure::new(format!("{name}: no such preset; see --help")))
}

fn read_limit(text: Option<String>) -> Result<String, Failure> {
    let text = text.ok_or(Failure::new("--limit needs NAME=NUMBER; see --help"))?;
    match dialect::set_limit(&mut Config::new(), &text) {
        Ok(()) => Ok(text),
        Err(why) => Err(Failure::new(format!("{text}: {why}"))),
    }
}

fn read_origin(text: Option<String>) -> Result<String, Failure> {
    text.ok_or(Failure::new("--origin needs an origin; see --help"))
}

fn read_token(text: Option<String>) -> Result<String, Failure> {
    text.filter(|token| !token.is_empty())
        .ok_or(Failure::new("--token needs a token; see --help"))
}

fn read_runtime(name: Option<String>) -> Result<Runtime, Failure> {
    let name = name.ok_or(Failure::new("--runtime needs a name; see --help"))?;
    Runtime::named(&name).ok_or(Failure::new(format!("{name}: no such runtime; see --help")))
}

fn read_millis(text: Option<String>) -> Result<Duration, Failure> {
    let text = text.ok_or(Failure::new("--grace-ms needs a number; see --help"))?;
    let millis = text.parse().map(Duration::from_millis);
    millis.map_err(|_| {
        let text = shown(&text);
        Failure::new(format!("--grace-ms {text}: not a number of milliseconds"))
    })
}

/// The framing of both sides of the proxy, by the environment: the editor that starts us decides.
fn read_framing() -> Result<Framing, Failure> {
    match std::env::var("ANTIPHON_FRAMING").as_deref() {
        Err(_) | Ok("" | "content-length") => Ok(Framing::ContentLength),
        Ok("newline") => Ok(Framing::Newline),
        Ok(other) => Err(Failure::new(format!(
            "ANTIPHON_FRAMING={other}: must be newline or content-length"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Task, parse};
    use crate::runtime::Runtime;

    fn read(line: &str) -> Result<Task, String> {
        let words = line.split_whitespace().map(str::to_owned);
        parse(words).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_runtime_is_chosen_before_or_behind_the_target() {
        for runtime in Runtime::ALL {
            for line in [
                format!("--runtime {runtime} server tcp://h:1"),
                format!("client tcp://h:1 --runtime {runtime}"),
            ] {
                let endpoint = match read(&line).unwrap() {
                    Task::Serve(endpoint) | Task::Drive(endpoint) => endpoint,
                    other => panic!("{other:?}"),
                };
                assert_eq!(endpoint.runtime, runtime, "{line}");
            }
        }
    }

    #[test]
    fn layers_are_served_only_if_asked_for() {
        for (line, wanted) in [
            ("server tcp://h:1", false),
            ("--layers server tcp://h:1", true),
            ("server tcp://h:1 --layers", true),
        ] {
            let Task::Serve(endpoint) = read(line).unwrap() else {
                panic!("{line}");
            };
            assert_eq!(endpoint.has_layers, wanted, "{line}");
        }
    }

    #[test]
    fn what_is_behind_a_command_is_its_own() {
        let task = read("client stdio:lsp:run server stdio:lsp --runtime smol").unwrap();
        let Task::Drive(endpoint) = task else {
            panic!("{task:?}");
        };
        assert_eq!(endpoint.runtime, Runtime::Blocking);
        assert!(endpoint.target.to_string().ends_with("--runtime smol"));
    }

    #[test]
    fn a_wrong_command_line_is_told_in_one_line() {
        let bad = [
            "",
            "serve",
            "--runtime",
            "--runtime go server tcp://h:1",
            "--runtime tokio proxy run",
            "--preset none server tcp://h:1",
            "server",
            "server tcp://h:1 --runtime",
            "server tcp://h:1 --limit max_open_calls",
            "server https://h:1/",
            "server http://h:1/ --origin",
            "server http://h:1/ --token",
            "--token t server ws://h:1/",
            "--origin http://a server tcp://h:1",
            "server https://h:1/ --cert only",
            "client wss://h:1/ --ca /dev/null",
            "--limit max_open_calls=-1 server tcp://h:1",
            "--limit nothing=1 server tcp://h:1",
        ];
        for line in bad {
            let told = read(line).unwrap_err();
            assert!(!told.contains('\n') && !told.is_empty(), "{line}");
        }
    }
}
