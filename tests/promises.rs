//! What the project promises as a whole: its shape, what it keeps its hands off, what README and the docs
//! say.

use std::fs;
use std::path::{Path, PathBuf};

use antiphon::{Config, Connection, Event, IdScheme, Input, Json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder, unit tests left out if `code_only`.
fn rust_files(folder: &str, code_only: bool) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("the folder is there")
            .flatten()
        {
            let path = entry.path();
            let is_tests = path.file_stem().is_some_and(|name| name == "tests");
            if path.is_dir() && !(code_only && is_tests) {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !(code_only && is_tests)
            {
                let text = fs::read_to_string(&path).expect("the file is text");
                let code = without_tests(&text).to_owned();
                found.push((path, if code_only { code } else { text }));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has Rust files");
    found
}

/// A file up to the first thing in it that is there for tests only.
fn without_tests(text: &str) -> &str {
    const MARK: &str = "#[cfg(test)]\n";
    let is_code = |at: &usize| !text[at + MARK.len()..].starts_with("mod tests;");
    let end = text.match_indices(MARK).map(|(at, _)| at).find(is_code);
    &text[..end.unwrap_or(text.len())]
}

/// The lines of code that hold one of `words`, comments left out.
fn lines_with(files: &[(PathBuf, String)], words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files {
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("//"))
        {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}: {line}", path.display()));
            }
        }
    }
    found
}

// ARC-01 ARC-12 ARC-08
#[test]
fn the_core_reads_no_clock_draws_no_randomness_and_touches_no_system() {
    let core = rust_files("src", true);
    let words = [
        "std::",
        "static ",
        "thread",
        "println!",
        "unsafe",
        "getrandom",
        "SystemTime",
        "Mutex",
        "Atomic",
    ];
    let found = lines_with(&core, &words);
    let allowed = |line: &String| {
        line.contains("&'static ")
            || line.contains("deny(unsafe_code)")
            // The vector module; the floors hold it to be the only file with the word.
            || line.contains("json/simd.rs")
            || line.contains("'static>")
    };
    let found: Vec<_> = found.into_iter().filter(|line| !allowed(line)).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(
        fs::read_to_string(root().join("src/lib.rs"))
            .unwrap()
            .contains("#![no_std]")
    );
}

// TST-21
#[test]
fn no_test_of_the_core_sleeps() {
    let mut files = rust_files("src", false);
    for name in [
        "tests/scripts.rs",
        "tests/vectors.rs",
        "tests/model.rs",
        "tests/splits.rs",
        "tests/bugs.rs",
        "tests/memory.rs",
    ] {
        files.push((
            root().join(name),
            fs::read_to_string(root().join(name)).unwrap(),
        ));
    }
    files.extend(rust_files("tests/support", false));
    files.extend(rust_files("tests/model", false));
    let found = lines_with(&files, &["sleep(", "Instant::now("]);
    assert!(found.is_empty(), "{found:#?}");
}

/// A page of the documentation, by its path from the root of the repository.
fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

// ARC-23
#[test]
fn the_docs_name_every_limit_and_the_memory_bound() {
    let config = Config::new();
    let fields = format!("{:#?}{:#?}", config.limits, config.timeouts);
    let fields = fields.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("    ")?.split_once(": ")?;
        Some(name)
    });
    let limits: Vec<_> = fields.collect();
    assert!(limits.len() >= 16, "{limits:?}");
    let pages = [page("docs/limits.md"), page("docs/guide/src/limits.md")];
    for limit in limits {
        let is_in_row = |page: &String| {
            let rows = page.lines().filter(|line| line.starts_with("| `"));
            let mut firsts = rows.filter_map(|row| row.split(" | ").next());
            firsts.any(|first| first.contains(&format!("`{limit}`")))
        };
        assert!(is_in_row(&pages[0]), "{limit} has no row in docs/limits.md");
        assert!(
            pages[1].contains(&format!("`{limit}`")),
            "the guide does not say what happens at {limit}"
        );
    }
    let bound = Config::new().max_memory_bytes().to_string();
    let mut spaced = String::new();
    for (index, digit) in bound.chars().enumerate() {
        if index > 0 && (bound.len() - index) % 3 == 0 {
            spaced.push(' ');
        }
        spaced.push(digit);
    }
    for path in ["docs/limits.md", "docs/guarantees.md"] {
        assert!(
            page(path).contains(&spaced),
            "{path} does not state {spaced} bytes"
        );
    }
}

// ARC-23
#[test]
fn the_docs_have_the_loop_the_adapters_limits_guarantees_and_design_notes() {
    let readme = page("README.md");
    assert!(readme.len() <= 8192, "README has {} bytes", readme.len());
    for (path, sections) in [
        ("docs/architecture.md", &["## One lock", "## Floors"][..]),
        ("docs/design.md", &["# Design notes", "## Deviations"]),
        ("docs/dialects.md", &["# Dialects"]),
        ("docs/guarantees.md", &["# Guarantees", "## Delivery"]),
        (
            "docs/guide/src/embedding.md",
            &["# Embedding", "## The drive loop"],
        ),
        ("docs/guide/src/serving.md", &["# Serving", "## Adapters"]),
        ("docs/limits.md", &["# Limits", "## The adapters"]),
        ("docs/performance.md", &["# Performance"]),
        ("docs/requirements.md", &["# Requirements"]),
    ] {
        let text = page(path);
        for section in sections {
            let mut lines = text.lines();
            assert!(
                lines.any(|line| line.starts_with(section)),
                "{path} has no section {section}"
            );
        }
        let linked = if path.starts_with("docs/guide") {
            "docs/guide/src/SUMMARY.md"
        } else {
            path
        };
        assert!(
            readme.contains(&format!("]({linked})")),
            "README does not link to {linked}"
        );
    }
    let serving = page("docs/guide/src/serving.md");
    for adapter in fs::read_dir(root().join("adapters")).unwrap().flatten() {
        let crate_name = format!("`antiphon-{}`", adapter.file_name().to_string_lossy());
        assert!(
            serving.contains(&crate_name),
            "the guide does not tell of {crate_name}"
        );
    }
}

// ARC-23
#[test]
fn every_preset_is_in_the_table_of_dialects() {
    let (presets, dialects) = (page("src/presets.rs"), page("docs/dialects.md"));
    let names = presets.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix("pub const fn ")?;
        rest.split_once('(').map(|(name, _)| name)
    });
    let names: Vec<_> = names.collect();
    assert!(names.len() >= 11, "{names:?}");
    for name in names {
        assert!(
            dialects.contains(&format!("| `Config::{name}(")),
            "{name} has no row in docs/dialects.md"
        );
    }
}

/// Plays one message to a connection that answers every request with its params.
fn answer(conn: &mut Connection, message: &str) -> String {
    let mut input = Input::text(message);
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Request(request) = event {
            conn.respond(request.token, request.params).unwrap();
        }
    }
    let mut out = Vec::new();
    conn.take_transmit(&mut out);
    String::from_utf8(out).unwrap()
}

// ARC-25
#[test]
fn a_request_means_the_same_whatever_came_before_it() {
    let request = r#"{"jsonrpc":"2.0","method":"m","params":[1],"id":7}"#;
    let alone = answer(&mut Connection::new(Config::new()), request);
    let mut conn = Connection::new(Config::new());
    let before = [
        "garbage",
        "[]",
        r#"{"jsonrpc":"2.0","method":"initialize","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"shutdown","id":2}"#,
        r#"[{"jsonrpc":"2.0","method":"m","id":7},1]"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":""},"id":null}"#,
    ];
    for message in before {
        answer(&mut conn, message);
        assert_eq!(answer(&mut conn, request), alone, "after {message}");
    }
}

// ARC-22 MSG-17
#[test]
fn nothing_is_written_that_the_specification_does_not_name() {
    let mut conn: Connection = Connection::new(Config::lsp().framing(antiphon::Framing::Newline));
    let call = conn.call("m", &[1], None, ()).unwrap();
    conn.ask_cancel(call).unwrap();
    conn.notify("n", ()).unwrap();
    let mut written = answer(&mut conn, r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    written += &answer(&mut conn, "garbage");
    written += &answer(&mut conn, r#"{"jsonrpc":"2.0","method":1,"id":2}"#);
    written += &answer(&mut conn, "[1]");
    let mut lines = 0;
    for line in written.lines() {
        for (name, value) in Json::parse_str(line).unwrap().members() {
            assert!(
                ["jsonrpc", "method", "params", "result", "error", "id"]
                    .iter()
                    .any(|known| name.eq_str(known)),
                "{line}"
            );
            if name.eq_str("error") {
                let known = |name: &antiphon::JsonString<'_>| {
                    ["code", "message", "data"]
                        .iter()
                        .any(|known| name.eq_str(known))
                };
                assert!(value.members().all(|(name, _)| known(&name)), "{line}");
            }
        }
        lines += 1;
    }
    assert_eq!(lines, 7);
}

// ARC-03
#[test]
fn frames_and_events_come_in_the_order_in_which_they_were_caused() {
    let mut conn: Connection<u8> = Connection::new(Config::new());
    conn.notify("a", ()).unwrap();
    conn.call("b", (), None, 1).unwrap();
    conn.notify("c", ()).unwrap();
    let mut out = Vec::new();
    conn.take_transmit(&mut out);
    let text = String::from_utf8(out).unwrap();
    let methods: Vec<_> = text
        .lines()
        .map(|line| {
            Json::parse_str(line)
                .unwrap()
                .get("method")
                .unwrap()
                .as_str()
        })
        .collect();
    assert_eq!(methods, ["\"a\"", "\"b\"", "\"c\""]);
    let received = concat!(
        "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n",
        "{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":1}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"y\",\"id\":9}\n",
    );
    let mut input = Input::stream(received.as_bytes());
    let mut seen = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        seen.push(match event {
            Event::Notification(notification) => notification.method.into_owned(),
            Event::Response(response) => format!("call {}", response.call.number()),
            Event::Request(request) => request.method.into_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["x", "call 1", "y"]);
    assert_eq!(conn.poll_timeout(), None);
}

// ARC-05 ARC-06
#[test]
fn randomness_comes_from_the_driver_and_from_nowhere_else() {
    let sent = |random: u8| {
        let mut config = Config::new();
        config.dialect.id_scheme = IdScheme::Uuid([random; 10]);
        let mut conn: Connection = Connection::new(config);
        conn.call("m", (), None, ()).unwrap();
        conn.poll_transmit().unwrap().to_vec()
    };
    assert_eq!(sent(1), sent(1));
    assert_ne!(sent(1), sent(2));
}

// SEC-15
#[test]
fn what_is_said_is_not_in_what_debug_prints() {
    let messages = [
        r#"{"jsonrpc":"2.0","method":"login","params":{"token":"hunter2"},"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"login","params":["hunter2"]}"#,
        r#"{"jsonrpc":"2.0","result":"hunter2","id":99}"#,
        r#"{"jsonrpc":"2.0","method":1,"params":["hunter2"],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":"hunter2","error":1,"id":1}"#,
        r#"{"hunter2"#,
    ];
    let bytes_of_it = format!("{:?}", "hunter2".as_bytes());
    let bytes_of_it = bytes_of_it.trim_matches(['[', ']']);
    for message in messages {
        let mut conn: Connection<u8> = Connection::new(Config::new());
        let _ = conn.call("m", &["hunter2"], None, 1);
        let mut input = Input::text(message);
        let event = conn.poll_event(&mut input).unwrap();
        let shown = format!("{event:?} {conn:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains(bytes_of_it),
            "{shown}"
        );
    }
}

// SEC-12
#[test]
fn the_docs_tell_authors_of_handlers_to_sanitise_what_arrives() {
    for path in ["README.md", "docs/guide/src/serving.md"] {
        let text = page(path).replace('\n', " ");
        let sentence = text
            .split(". ")
            .find(|sentence| sentence.contains("Sanitise"))
            .unwrap_or_else(|| panic!("{path} has no sentence about it"));
        for place in ["query", "path", "command", "page"] {
            assert!(sentence.contains(place), "{place} is not in: {sentence}");
        }
    }
}
