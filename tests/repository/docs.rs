//! What README and the pages in `docs/` must contain.

use std::fs;
use std::path::Path;

use antiphon::Config;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
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
    let adapters = fs::read_dir(root().join("adapters")).unwrap().flatten();
    for adapter in adapters.filter(|one| one.path().is_dir()) {
        let crate_name = format!("`antiphon-{}`", adapter.file_name().to_string_lossy());
        assert!(
            serving.contains(&crate_name),
            "the guide does not tell of {crate_name}"
        );
    }
}

// ARC-23
#[test]
fn the_guide_of_drivers_did_not_say_what_a_driver_needs() {
    for (path, words) in [
        (
            "docs/guide/src/embedding.md",
            &[
                "`antiphon::session::Session`",
                "`shutdown(Write)`",
                "then read and drop",
                "Read a limited amount in a turn",
                "Over a serial line",
                "half a message comes and then silence",
                "`Json::get`",
                "max_memory_bytes",
                "const _: () = assert!(",
            ][..],
        ),
        (
            "docs/guide/src/adapter.md",
            &[
                "`antiphon::session::Session`",
                "WebSocket::session(",
                "`shutdown(Write)`",
                "`linger()`",
                "How much to read",
                "`wants_input`",
            ],
        ),
    ] {
        let text = page(path);
        for words in words {
            assert!(text.contains(words), "{path} does not say: {words}");
        }
    }
}

// ARC-23
#[test]
fn every_preset_is_in_the_table_of_dialects() {
    let (presets, dialects) = (page("src/presets.rs"), page("docs/dialects.md"));
    // Before them are the functions of the revisions of MCP.
    let (_, presets) = presets.split_once("\nimpl Config {\n").unwrap();
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
