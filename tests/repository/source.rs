//! The core must not use clocks, randomness, threads or global state, and its tests must not sleep.

use std::fs;
use std::path::{Path, PathBuf};

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

/// A file up to the first item that is compiled for tests only, not counting `mod tests;`.
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
            // The lifetime is no `static`.
            let said = line.replace("'static", "");
            if words.iter().any(|word| said.contains(word)) {
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
        line.contains("deny(unsafe_code)")
            // The vector module; `floors.rs` checks that no other file has `unsafe`.
            || line.contains("json/simd.rs")
            // The counter from which connections take their numbers; see `floors.rs`.
            || line.contains("src/number.rs")
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
    for folder in ["api", "conformance", "memory", "model", "support"] {
        files.extend(rust_files(&format!("tests/{folder}"), false));
    }
    let found = lines_with(&files, &["sleep(", "Instant::now("]);
    assert!(found.is_empty(), "{found:#?}");
}
