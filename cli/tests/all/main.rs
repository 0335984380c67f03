//! The command as a program: its help pages, its exit codes and its messages.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn antiphon(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
    command.args(words).stdin(Stdio::null());
    command.output().expect("it can be started")
}

/// What a command prints, and its exit code, as one text.
fn shown(words: &[&str]) -> String {
    let done = antiphon(words);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it prints text");
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(
        !(out.clone() + &err).contains('\u{1b}'),
        "an escape byte in a pipe"
    );
    let code = done.status.code().expect("it ends by itself");
    // On Windows the program has another name.
    let lines = format!("{out}{err}").replace("antiphon.exe", "antiphon");
    let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
    format!(
        "$ antiphon {}\n{}\nexit code {code}\n",
        words.join(" "),
        lines.join("\n")
    )
}

/// Compares with the file in `shown`. With `ANTIPHON_WRITE=1` it is written.
fn is_as_written(name: &str, commands: &[&[&str]]) {
    let text: Vec<String> = commands.iter().map(|words| shown(words)).collect();
    let text = text.join("\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/all/shown")
        .join(name);
    if std::env::var_os("ANTIPHON_WRITE").is_some() {
        std::fs::write(&path, &text).expect("it can be written");
    }
    let known = std::fs::read_to_string(&path).expect("there is such a file");
    assert_eq!(text, known.replace("\r\n", "\n"), "{}", path.display());
}

#[test]
fn the_help_pages_are_as_written() {
    is_as_written(
        "help.txt",
        &[&["--help"], &["call", "--help"], &["conform", "--help"]],
    );
}

#[test]
fn the_checks_are_as_written() {
    is_as_written("list.txt", &[&["conform", "--list"]]);
}

#[test]
fn the_messages_of_wrong_usage_are_as_written() {
    is_as_written(
        "usage.txt",
        &[
            &[],
            &["nope"],
            &["call"],
            &["call", "tcp://127.0.0.1:1"],
            &["call", "tcp://127.0.0.1:1", "m", "word"],
            &["call", "tcp://127.0.0.1:1", "m", "a=1", "2"],
            &["call", "tcp://127.0.0.1:1", "m", "--answer", "x"],
            &["call", "http://user:secret@127.0.0.1/", "m"],
            &["conform"],
            &["conform", "ftp://127.0.0.1"],
            &["conform", "tcp://127.0.0.1:1", "--", "cat"],
            &["conform", "tcp://127.0.0.1:1", "--only", "nope"],
            &["conform", "tcp://127.0.0.1:1", "--framing", "lsp"],
            &["conform", "tcp://127.0.0.1:1", "--header", "a: b"],
            &["conform", "tcp://127.0.0.1:1", "--timeout", "soon"],
            &["conform", "http://127.0.0.1:1/", "--preset", "mcp"],
            &["conform", "--client", "tcp://127.0.0.1:0"],
            &["conform", "--client", "wss://127.0.0.1:0/", "--", "cat"],
            &["conform", "--client", "unix:/a", "--", "cat"],
            &[
                "conform", "--client", "stdio", "--preset", "lsp", "--", "cat",
            ],
            &[
                "conform",
                "--client",
                "tcp://127.0.0.1:0",
                "--framing",
                "lsp",
                "--",
                "cat",
            ],
            &["conform", "--client", "stdio", "tcp://127.0.0.1:1"],
            &["conform", "--client", "stdio", "--fuzz", "1s", "--", "cat"],
            &[
                "conform",
                "http://127.0.0.1:1/",
                "--token-env",
                "ANTIPHON_NO_SUCH_VARIABLE",
            ],
        ],
    );
}

#[test]
fn what_cannot_be_reached_or_started_has_exit_code_3() {
    for words in [
        &["conform", "tcp://127.0.0.1:1"][..],
        &["conform", "--", "/no/such/program"],
        &["conform", "--client", "stdio", "--", "/no/such/program"],
        &["conform", "--client", "tcp://127.0.0.1:0", "--", "true"],
        &["call", "http://127.0.0.1:1/", "m"],
        &["call", "m", "--", "/no/such/program"],
    ] {
        assert_eq!(antiphon(words).status.code(), Some(3), "{words:?}");
    }
}

/// The members of an object, from its line of JSON.
fn members(line: &str) -> Vec<String> {
    let json = antiphon::Json::parse_str(line).expect("a line is JSON");
    json.members()
        .map(|(name, _)| name.raw().to_owned())
        .collect()
}

#[test]
fn every_case_has_the_members_of_its_schema_and_all_are_small() {
    let out = antiphon(&["conform", "--cases"]).stdout;
    assert!(out.len() < 2_000_000);
    let text = String::from_utf8(out).expect("it prints text");
    assert!(text.lines().count() > 90);
    let schema = include_str!("../../schema/case.json");
    let schema = antiphon::Json::parse_str(schema).expect("the schema is JSON");
    let required = schema.get("required").expect("it lists them");
    let required: Vec<String> = required
        .elements()
        .filter_map(|name| Some(name.as_string()?.raw().to_owned()))
        .collect();
    for line in text.lines() {
        assert_eq!(members(line), required, "{line}");
    }
}
