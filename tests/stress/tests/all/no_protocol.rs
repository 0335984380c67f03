//! The adapters only have threads, tasks and transports; the rules of JSON-RPC are in the core
//! alone.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters")
}

/// The folder of each adapter.
fn adapters() -> Vec<String> {
    let entries = std::fs::read_dir(root()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let adapters: Vec<_> = names
        .filter(|name| root().join(name).join("Cargo.toml").is_file())
        .collect();
    assert!(adapters.len() >= 8, "{adapters:?}");
    adapters
}

/// What would be a protocol rule: codes, members of messages, reading or writing JSON.
const RULES: [&str; 12] = [
    "-32",
    "−32",
    "codes::",
    "\"jsonrpc",
    "\"id\"",
    "\"method\"",
    "\"params",
    "\"result",
    "\"error\"",
    "serde_json",
    "Json::parse",
    "Content-Length",
];

/// Every file of an adapter's source, without its unit tests and without lines of comment.
fn code(adapter: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![root().join(adapter).join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("src/tests") {
                    folders.push(path);
                }
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text
                .split("#[cfg(test)]\nmod tests")
                .next()
                .unwrap_or_default();
            let lines = text.lines();
            let code = lines.filter(|line| !line.trim_start().starts_with("//"));
            files.push((path, code.collect::<Vec<_>>().join("\n")));
        }
    }
    files
}

// ARC-15 TRN-01
#[test]
fn no_file_of_an_adapter_holds_a_rule_of_the_protocol() {
    let mut files = 0;
    for (path, code) in adapters().iter().flat_map(|adapter| code(adapter)) {
        files += 1;
        // What a program in C passes as JSON is checked, with the core's own reader.
        let is_texts_of_c = path.ends_with("c/src/memory.rs");
        for rule in RULES {
            let may = is_texts_of_c && rule == "Json::parse";
            assert!(may || !code.contains(rule), "{} has {rule}", path.display());
        }
    }
    assert!(files >= 60, "{files}");
}

// STD-07 D-35
#[test]
fn no_file_of_an_adapter_prints() {
    for (path, code) in adapters().iter().flat_map(|adapter| code(adapter)) {
        for printing in ["print!(", "println!(", "dbg!("] {
            assert!(
                !code.contains(printing),
                "{} has {printing}",
                path.display()
            );
        }
    }
}

// ARC-15
#[test]
fn async_std_and_each_runtime_stay_in_one_place() {
    // Where a runtime may be named: the rest works with any.
    let places: [(&str, &[&str]); 6] = [
        (
            "tokio",
            &[
                "net/src/runtime/",
                "net/src/link/tokio.rs",
                "net/src/link/child_tokio.rs",
            ],
        ),
        ("async_std", &["net/src/runtime/"]),
        ("smol", &["net/src/runtime/"]),
        // On threads one thread runs the futures of all connections.
        ("async_io", &["net/src/runtime/", "blocking/src/"]),
        ("hyper", &["net/src/http/"]),
        ("hyper_util", &["net/src/http/"]),
    ];
    for adapter in ["websocket", "shell", "net", "lsp", "otel", "blocking"] {
        for (path, code) in code(adapter) {
            // A module of `net` is called `tokio`, too.
            let code = code.replace("runtime::tokio::", "");
            let path = path.to_str().unwrap().replace('\\', "/");
            for (runtime, places) in places {
                let is_there = places.iter().any(|place| path.contains(place));
                let uses = code.contains(&format!("{runtime}::"));
                assert!(is_there || !uses, "{path} uses {runtime}");
            }
        }
    }
}

// ARC-15
#[test]
fn a_facade_only_shows_again_what_is_elsewhere() {
    for facade in ["tokio", "smol", "async-std"] {
        let files = code(facade);
        let [(path, code)] = &files[..] else {
            panic!("{facade} has {} files", files.len());
        };
        let lines = std::fs::read_to_string(path).unwrap().lines().count();
        assert!(lines <= 60, "{} has {lines} lines", path.display());
        for item in ["fn ", "struct ", "enum ", "trait ", "impl ", "macro_rules"] {
            assert!(!code.contains(item), "{} has a {item}", path.display());
        }
    }
}

// ARC-16
#[test]
fn http_websocket_and_tls_are_left_out_unless_asked_for() {
    let heavy = [
        "hyper",
        "tungstenite",
        "antiphon-websocket",
        "rustls",
        "tokio-rustls",
        "futures-rustls",
        "ureq",
    ];
    // A program that depends on `antiphon-websocket` has asked for WebSocket.
    for adapter in adapters().iter().filter(|name| *name != "websocket") {
        let manifest = std::fs::read_to_string(root().join(adapter).join("Cargo.toml")).unwrap();
        let default = manifest.lines().find(|line| line.starts_with("default = "));
        // The macros bring nothing into a program that does not use them.
        let is_light = default.is_none_or(|default| default == "default = [\"macros\"]");
        assert!(is_light, "{adapter}: {default:?}");
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap();
        let dependencies = dependencies.split("\n[").next().unwrap();
        for line in dependencies.lines() {
            let name = line.split(" = ").next().unwrap_or_default();
            assert!(
                !heavy.contains(&name) || line.contains("optional = true"),
                "{adapter}: {line}"
            );
        }
    }
}

// ARC-21
#[test]
fn what_is_only_on_unix_says_so() {
    let mut files = 0;
    for (path, code) in adapters().iter().flat_map(|adapter| code(adapter)) {
        let is_unix_module = path.ends_with("net/src/transport/unix.rs");
        if code.contains("os::unix") && !is_unix_module {
            files += 1;
            assert!(
                code.contains("cfg(unix)"),
                "{} is for Unix alone",
                path.display()
            );
        }
    }
    assert!(files >= 2, "{files}");
}
