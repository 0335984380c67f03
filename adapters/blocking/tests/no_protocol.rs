//! The adapter is threads and transports; what JSON-RPC prescribes is in the core alone.

use std::path::{Path, PathBuf};

/// What would be a protocol rule: codes, members of messages, reading or writing JSON.
const RULES: [&str; 10] = [
    "-32",
    "−32",
    "\"jsonrpc",
    "\"id\"",
    "\"method\"",
    "\"params",
    "\"result",
    "\"error\"",
    "serde_json",
    "Content-Length",
];

/// The code of every file in and below some folders of the adapters, without its comments, whose
/// examples may show messages.
fn code(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut waiting: Vec<PathBuf> = folders.iter().map(|folder| here.join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let inside = std::fs::read_dir(&path).unwrap();
            waiting.extend(inside.map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code: Vec<&str> = text.lines().filter(is_code).collect();
        files.push((path, code.join("\n")));
    }
    files
}

#[test]
fn no_file_of_the_adapter_holds_a_rule_of_the_protocol() {
    let files = code(&["src", "../session/src"]);
    assert!(files.len() >= 30);
    for (path, code) in files {
        for rule in RULES {
            assert!(!code.contains(rule), "{} has {rule}", path.display());
        }
    }
}

// STD-07 D-35
#[test]
fn no_file_of_the_adapter_prints() {
    for (path, code) in code(&["src", "../session/src"]) {
        for prints in ["print!(", "println!(", "dbg!("] {
            assert!(!code.contains(prints), "{} prints", path.display());
        }
    }
}
