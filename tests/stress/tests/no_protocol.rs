//! The adapters are threads, tasks and transports; what JSON-RPC prescribes is in the core alone.

use std::path::{Path, PathBuf};

const ADAPTERS: [&str; 5] = ["websocket", "net", "tokio", "async-std", "blocking"];

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

/// Every file of an adapter's source, without its unit tests and comments.
fn code(adapter: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters");
    let mut folders = vec![root.join(adapter).join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
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
    for (path, code) in ADAPTERS.iter().flat_map(|adapter| code(adapter)) {
        files += 1;
        for rule in RULES {
            assert!(!code.contains(rule), "{} has {rule}", path.display());
        }
    }
    assert!(files >= 60, "{files}");
}

// STD-07 D-35
#[test]
fn no_file_of_an_adapter_prints() {
    for (path, code) in ADAPTERS.iter().flat_map(|adapter| code(adapter)) {
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
fn async_std_and_each_runtime_stay_in_their_own_adapter() {
    for (adapter, runtimes) in [
        ("websocket", &["tokio", "async_std", "smol", "hyper"][..]),
        ("net", &["tokio", "async_std", "smol", "hyper"]),
        ("tokio", &["async_std::", "smol::"]),
        ("blocking", &["tokio", "async_std::"]),
    ] {
        for (path, code) in code(adapter) {
            // The adapter of that name is none: its sockets and timers serve any executor.
            let code = code.replace("antiphon_async_std::", "");
            let is_http = path.components().any(|part| part.as_os_str() == "http");
            for runtime in runtimes {
                // HTTP of tasks is hyper's, on no runtime of its own.
                if *runtime == "hyper" && is_http {
                    continue;
                }
                let uses = format!("{}::", runtime.trim_end_matches("::"));
                assert!(!code.contains(&uses), "{} uses {runtime}", path.display());
            }
        }
    }
}

// ARC-16
#[test]
fn http_websocket_and_tls_are_left_out_unless_asked_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters");
    let heavy = [
        "hyper",
        "tungstenite",
        "antiphon-websocket",
        "rustls",
        "tokio-rustls",
        "futures-rustls",
        "ureq",
    ];
    // A program that depends on this crate has asked for it.
    for adapter in ADAPTERS.into_iter().filter(|name| *name != "websocket") {
        let manifest = std::fs::read_to_string(root.join(adapter).join("Cargo.toml")).unwrap();
        let default = manifest.lines().find(|line| line.starts_with("default = "));
        assert!(
            matches!(default, None | Some("default = [\"smol\"]")),
            "{adapter}: {default:?}"
        );
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
    for (path, code) in ADAPTERS.iter().flat_map(|adapter| code(adapter)) {
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
