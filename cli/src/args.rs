//! The grammar of the command line.

use std::path::PathBuf;
use std::time::Duration;

use antiphon::Framing;
use clap::{Args, Parser, Subcommand, ValueEnum};

const TARGETS: &str = "TARGET is where the server is:
  tcp://HOST:PORT         one message a line
  tcp+lsp://HOST:PORT     messages behind Content-Length, as in LSP
  tcp+json://HOST:PORT    JSON values back to back
  unix:PATH               a Unix socket, one message a line unless --framing says otherwise
  http(s)://HOST/PATH     each message is a POST
  ws(s)://HOST/PATH       a WebSocket
  -- CMD ARGS...          a command that is started, and speaks on its standard input and output";

const CODES: &str = "Exit codes: 0 fine, 1 findings or an error of the server, 2 usage, 3 cannot connect or start, 4 timed out, 130 interrupted.";

/// Calls JSON-RPC servers, and tests them.
#[derive(Parser)]
#[command(name = "antiphon", version, after_help = CODES, disable_help_subcommand = true)]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) command: Action,
}

#[derive(Subcommand)]
pub(crate) enum Action {
    Call(Call),
    Conform(Conform),
}

/// Calls one method, and prints its result alone
#[derive(Args)]
#[command(after_help = format!("{TARGETS}\n
ARGS are the params:
  key=text     a member of an object, as a string
  key:=json    a member of an object, as JSON
  JSON         an element of an array; or all of the params, if it is the only one and an array or object
  @FILE        all of the params, from a file
  -            all of the params, from standard input\n\n{CODES}"))]
pub(crate) struct Call {
    /// The target, unless a command is given; the method; its params
    #[arg(
        value_name = "[TARGET] METHOD [ARGS...]",
        required = true,
        allow_negative_numbers = true
    )]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) there: There,
    /// Send a notification, which has no answer
    #[arg(long)]
    pub(crate) notify: bool,
    /// Go on for so long, and print what the server sends, one message a line
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) listen: Option<Duration>,
    /// Answer the server's requests for METHOD with this result
    #[arg(long, value_name = "METHOD=JSON")]
    pub(crate) answer: Vec<String>,
}

/// Tests whether a server keeps to JSON-RPC 2.0
#[derive(Args)]
#[command(after_help = format!("{TARGETS}\n
Only methods that cannot exist are called, so a server in use takes no harm; --method adds real ones.

With --client, {{}} in CMD is replaced by the address; without it the address is the last word. CMD makes one call after another, of
any method, and goes on after a call that failed. If the params of each call have the result of the one before in them, what it
takes for a result is judged too.\n\n{CODES}"))]
pub(crate) struct Conform {
    /// Where the server is, unless a command is given
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) there: There,
    /// A method that exists: it is called without params, and with wrong ones
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Vec<String>,
    /// Run this check, or those that begin so, alone
    #[arg(long, value_name = "CHECK")]
    pub(crate) only: Vec<String>,
    /// Test the client that the command starts: play the server at LISTEN, tcp://127.0.0.1:0 or stdio for example
    #[arg(long, value_name = "LISTEN", conflicts_with_all = ["target", "method", "fuzz", "stress", "header", "token_env", "ca"])]
    pub(crate) client: Option<String>,
    /// How the findings are printed
    #[arg(long, value_enum, default_value = "human")]
    pub(crate) format: Format,
    /// A file that --format json has printed: what it has is known, and passes
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Print the checks, and test nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Print the cases as JSON, one a line, and test nothing
    #[arg(long)]
    pub(crate) cases: bool,
    /// After the checks, send made-up messages and conversations for so long, and compare with what antiphon answers
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) fuzz: Option<Duration>,
    /// After the checks, send many requests at once over many connections for so long, 10 s if it is not said; a --method that gives
    /// back its params is called with some
    #[arg(long, value_name = "TIME", value_parser = duration, num_args = 0..=1, require_equals = true, default_missing_value = "10s")]
    pub(crate) stress: Option<Duration>,
    /// The seed of --fuzz: equal seeds make equal messages
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Where a server is, and how to speak to it.
#[derive(Args)]
pub(crate) struct There {
    /// The dialect: what is said first, and which checks apply
    #[arg(long, value_enum, default_value = "strict")]
    pub(crate) preset: Preset,
    /// How messages are separated, where the target does not say it
    #[arg(long, value_enum)]
    pub(crate) framing: Option<Frames>,
    /// A header of HTTP requests and WebSocket handshakes
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// The variable with the token that is sent as Authorization: Bearer
    #[arg(long, value_name = "NAME")]
    pub(crate) token_env: Option<String>,
    /// Certificates to trust beside the system's, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) timeout: Duration,
    /// A command instead of a target
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// JSON-RPC 2.0 alone
    Strict,
    /// The Language Server Protocol
    Lsp,
    /// The Model Context Protocol, 2025-06-18; not over HTTP
    Mcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Frames {
    /// One message a line
    Newline,
    /// Messages behind Content-Length
    Lsp,
    /// JSON values back to back
    Json,
}

impl Frames {
    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::Newline => Framing::Newline,
            Self::Lsp => Framing::ContentLength,
            Self::Json => Framing::Concatenated,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Human,
    Json,
    Junit,
}

/// Reads `10s`, `500ms`, `2m`, or seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" | "" => 1000,
        "m" => 60_000,
        _ => return Err("a time is a whole number of ms, s or m, as in 10s".to_owned()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "a time begins with a whole number".to_owned())?;
    match number.checked_mul(millis) {
        // A day is enough for anybody, and can be added to the clock.
        Some(millis @ 1..=86_400_000) => Ok(Duration::from_millis(millis)),
        _ => Err("a time is between 1 ms and a day".to_owned()),
    }
}
