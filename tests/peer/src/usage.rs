//! The command line: what was asked for, or one sentence saying why it was not understood.
//!
//! The rule guarded: whatever stands there, the answer is one line on stderr and exit code 2.

use std::fmt;
use std::time::Duration;

use antiphon::{AcpVersion, Config, Framing, McpRevision, NullParams};

use crate::proxy;
use crate::target::Target;

const USAGE: &str = "usage: antiphon-peer [--preset NAME] [--lenient] [--trace] [--grace-ms N] \
    server TARGET | client TARGET | proxy COMMAND ARGUMENTS…";

/// The names that `--preset` takes.
const PRESETS: [(&str, Config); 17] = [
    ("strict", Config::strict()),
    ("v1", Config::v1()),
    ("mixed", Config::mixed()),
    ("lsp", Config::lsp()),
    ("mcp", Config::mcp(McpRevision::V2025_11_25)),
    ("mcp-2024-11-05", Config::mcp(McpRevision::V2024_11_05)),
    ("mcp-2025-03-26", Config::mcp(McpRevision::V2025_03_26)),
    ("mcp-2025-06-18", Config::mcp(McpRevision::V2025_06_18)),
    ("mcp-2025-11-25", Config::mcp(McpRevision::V2025_11_25)),
    ("mcp-2026-07-28", Config::mcp(McpRevision::V2026_07_28)),
    ("acp", Config::acp(AcpVersion::V1)),
    ("acp-v2", Config::acp(AcpVersion::V2)),
    ("ethereum", Config::ethereum()),
    ("bitcoin", Config::bitcoin()),
    ("bitcoin-legacy", Config::bitcoin_legacy()),
    ("electrum", Config::electrum()),
    ("kodi", Config::kodi()),
];

/// The largest message the contract asks for, in bytes.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The longest batch the contract asks for, in items.
const BATCH_ITEMS_MAX: usize = 2000;

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
    /// Print the usage and leave in peace.
    Help,
    /// Serve at the target.
    Serve(Endpoint),
    /// Drive the peer at the target.
    Drive(Endpoint),
    /// Stand between.
    Relay(proxy::Options),
}

/// Where to talk, and how.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) target: Target,
    pub(crate) config: Config,
}

/// Reads the command line, without the program's name.
///
/// # Errors
/// The sentence to print.
pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Task, Failure> {
    let mut arguments = arguments.peekable();
    let mut preset = None;
    let mut trace = false;
    let mut lenient = false;
    let mut grace = Duration::from_secs(10);
    loop {
        let Some(word) = arguments.next() else {
            return Err(Failure::usage());
        };
        match word.as_str() {
            "--help" | "-h" => return Ok(Task::Help),
            "--trace" => trace = true,
            "--lenient" => lenient = true,
            "--preset" => preset = Some(read_preset(arguments.next())?),
            "--grace-ms" => grace = read_millis(arguments.next())?,
            "server" => {
                return Ok(Task::Serve(read_endpoint(
                    arguments,
                    (preset, lenient),
                    false,
                )?));
            }
            "client" => {
                return Ok(Task::Drive(read_endpoint(
                    arguments,
                    (preset, lenient),
                    true,
                )?));
            }
            "proxy" => {
                let command: Vec<String> = arguments.collect();
                if command.is_empty() {
                    return Err(Failure::new("proxy needs a command; see --help"));
                }
                let framing = read_framing()?;
                let mut config = preset.unwrap_or_else(|| proxy::dialect(framing));
                config.framing = framing;
                config.lenient_responses |= lenient;
                return Ok(Task::Relay(proxy::Options {
                    command,
                    config,
                    grace,
                    trace,
                }));
            }
            _ => return Err(Failure::new(format!("{word}: not understood; see --help"))),
        }
    }
}

/// The usage, and the presets by name.
pub(crate) fn help() -> String {
    let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    format!("{USAGE}\npresets: {}", names.join(", "))
}

/// Reads `TARGET`, and the options that may also stand behind it.
fn read_endpoint(
    mut arguments: impl Iterator<Item = String>,
    (mut preset, mut lenient): (Option<Config>, bool),
    is_client: bool,
) -> Result<Endpoint, Failure> {
    let mut words: Vec<String> = Vec::new();
    while let Some(word) = arguments.next() {
        match word.as_str() {
            _ if words.first().is_some_and(|target| takes_a_command(target)) => words.push(word),
            "--preset" => preset = Some(read_preset(arguments.next())?),
            "--lenient" => lenient = true,
            _ => words.push(word),
        }
    }
    let target = Target::read(&words, is_client)?;
    let mut config = preset.unwrap_or_else(default_config);
    config.framing = target.framing();
    config.lenient_responses |= lenient;
    raise_limits(&mut config);
    Ok(Endpoint { target, config })
}

/// Whether the words behind a target belong to its command.
fn takes_a_command(target: &str) -> bool {
    target.starts_with("stdio:") && target.matches(':').count() >= 2
}

/// What the contract asks for unless told otherwise.
fn default_config() -> Config {
    let mut config = Config::strict();
    config.null_params = NullParams::TreatAsAbsent;
    config
}

/// Gives a preset the limits of the contract; a preset's own are kept where they are higher.
fn raise_limits(config: &mut Config) {
    config.message_bytes_max = config.message_bytes_max.max(MESSAGE_BYTES_MAX);
    config.batch_items_max = config.batch_items_max.max(BATCH_ITEMS_MAX);
    config.batch_calls_max = config.batch_calls_max.max(BATCH_ITEMS_MAX + 1);
    // A whole batch may be open at once, and another one behind it.
    config.requests_max = config.requests_max.max(2 * BATCH_ITEMS_MAX + 1088);
    // `fail` sends any data that came in one message back.
    config.error_data_bytes_max = config.error_data_bytes_max.max(MESSAGE_BYTES_MAX);
    config.batch_reply_bytes_max = config.batch_reply_bytes_max.max(4 * MESSAGE_BYTES_MAX);
    config.outbox_bytes_soft = config.outbox_bytes_soft.max(2 * MESSAGE_BYTES_MAX);
    config.outbox_bytes_max = config.outbox_bytes_max.max(64 << 20);
}

fn read_preset(name: Option<String>) -> Result<Config, Failure> {
    let name = name.ok_or(Failure::new("--preset needs a name; see --help"))?;
    let found = PRESETS.iter().find(|(preset, _)| *preset == name);
    match found {
        Some((_, config)) => Ok(*config),
        None => Err(Failure::new(format!("{name}: no such preset; see --help"))),
    }
}

fn read_millis(text: Option<String>) -> Result<Duration, Failure> {
    let millis = text.as_deref().and_then(|text| text.parse().ok());
    millis
        .map(Duration::from_millis)
        .ok_or(Failure::new("--grace-ms needs a number of milliseconds"))
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
