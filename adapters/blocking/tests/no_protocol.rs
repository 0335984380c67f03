//! The adapter is threads and transports; what JSON-RPC prescribes is in the core alone.

use std::path::Path;

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

#[test]
fn no_file_of_the_adapter_holds_a_rule_of_the_protocol() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut waiting = vec![here.join("src"), here.join("../session/src")];
    let mut files = 0;
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let inside = std::fs::read_dir(&path).unwrap();
            waiting.extend(inside.map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        files += 1;
        for rule in RULES {
            assert!(!text.contains(rule), "{} has {rule}", path.display());
        }
    }
    assert!(files >= 30);
}

// STD-07 D-35
#[test]
fn no_file_of_the_adapter_prints() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            assert!(
                !line.contains("print!(") && !line.contains("println!("),
                "{line}"
            );
            assert!(!line.contains("dbg!("), "{line}");
        }
    }
}
