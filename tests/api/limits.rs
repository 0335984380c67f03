//! Every limit of `Config` is in `tests/api/limits.txt` with the case that tests it at its value
//! and one beyond.
//!
//! The cases themselves are in `tests/conformance`, and run there. This test fails if a new limit
//! has no case, if a limit that counts bytes has no case with text beyond ASCII, or if a case in
//! the table does not exist or does not run with its limit.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use antiphon::Config;

/// The cases about limits, by title, each with all its text.
fn cases() -> BTreeMap<String, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/limits.txt");
    let text = fs::read_to_string(file).expect("a file of this repository");
    let mut cases = BTreeMap::new();
    for block in text.split("\n== ").skip(1) {
        let (title, body) = block.split_once('\n').expect("a title and its lines");
        cases.insert(title.to_owned(), body.to_owned());
    }
    cases
}

/// The fields of `Limits` and `Timeouts`, as their debug text names them.
fn limits() -> Vec<String> {
    let config = Config::strict();
    let fields = format!("{:#?}{:#?}", config.limits, config.timeouts);
    let names = fields.lines().filter_map(|line| {
        let field = line.strip_prefix("    ")?;
        field.split_once(": ").map(|(name, _)| name.to_owned())
    });
    names.collect()
}

/// Whether a case runs with a value of its own, or says that it is about the default.
fn sets(case: &str, title: &str, limit: &str) -> bool {
    let names_it = case.contains(&format!("{limit}="));
    title.starts_with(&format!("{limit} = ")) && (names_it || title.contains("(default)"))
}

// TST-12
#[test]
fn every_limit_has_a_case_at_it_and_one_beyond_in_bytes_and_in_text_beyond_ascii() {
    let cases = cases();
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/limits.txt");
    let table = fs::read_to_string(table).expect("the table");
    let mut listed = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split(" | ").collect();
        let [limit, unit, title, beyond_ascii] = columns[..] else {
            panic!("not four columns: {line}");
        };
        listed.push(limit.to_owned());
        let case = cases
            .get(title)
            .unwrap_or_else(|| panic!("there is no case {title}"));
        assert!(sets(case, title, limit), "{title} does not set {limit}");
        assert_eq!(unit == "bytes", limit.contains("bytes"), "{limit}");
        if unit != "bytes" {
            assert_eq!(beyond_ascii, "-", "{limit} counts no bytes");
            continue;
        }
        let (title, case) = match beyond_ascii {
            "as above" => (title, case),
            other => (
                other,
                cases
                    .get(other)
                    .unwrap_or_else(|| panic!("there is no case {other}")),
            ),
        };
        assert!(sets(case, title, limit), "{title} does not set {limit}");
        assert!(!case.is_ascii(), "{title} has no text beyond ASCII");
    }
    assert_eq!(
        listed,
        limits(),
        "a limit is not in tests/api/limits.txt, or not in its order"
    );
    println!("{} limits, each at its value and one beyond", listed.len());
}

/// What `text` says a default is, in the unit of its field: `8 KiB`, `65 536`, `60 s`, `u64::MAX`, never, no limit.
fn documented(text: &str) -> u64 {
    let words: Vec<&str> = text.split([' ', ',', ':', ';']).collect();
    let number = |word: &str| word.parse::<u64>().ok();
    let mut value = match words[0].trim_matches('`') {
        "u64" | "never" | "no" => return u64::MAX,
        word => number(word.trim_end_matches('.')).unwrap_or_else(|| panic!("no number: {text}")),
    };
    match words.get(1).map(|word| word.trim_end_matches('.')) {
        Some("KiB") => value <<= 10,
        Some("MiB") => value <<= 20,
        // A number in groups of three.
        Some(word) if word.len() == 3 => {
            value = number(word).map_or(value, |low| value * 1000 + low)
        }
        _ => {}
    }
    value
}

/// The default of each limit that the first table of `docs/limits.md` states.
fn tabled() -> BTreeMap<String, u64> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/limits.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, table) = page.split_once("\n## The connection\n").expect("a table");
    let (table, _) = table.split_once("\n## ").expect("an end of it");
    let mut found = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = row.split(" | ").collect();
        for limit in columns[0].split('`').skip(1).step_by(2) {
            found.insert(limit.to_owned(), documented(columns[1]));
        }
    }
    found
}

#[test]
fn every_limit_is_by_default_what_its_documentation_says() {
    let tabled = tabled();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config.rs");
    let source = fs::read_to_string(source).expect("the source");
    let shown = format!("{:?}", Config::new());
    for limit in limits() {
        let (before, _) = source
            .split_once(&format!("\n        {limit}: "))
            .expect("it is a field");
        let above = before.lines().rev();
        let docs = above.map_while(|line| line.trim().strip_prefix("///"));
        let mut docs: Vec<&str> = docs.collect();
        docs.reverse();
        let docs = docs.concat();
        let (_, default) = docs
            .split_once("Default ")
            .unwrap_or_else(|| panic!("{limit}: no default"));
        let (_, value) = shown
            .split_once(&format!(" {limit}: "))
            .expect("it is shown");
        let value = value.trim_start_matches("Some(");
        let digits = value
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(value.len());
        let value = value[..digits].parse().expect("a number");
        assert_eq!(value, documented(default), "{limit}: {default}");
        assert_eq!(
            Some(&value),
            tabled.get(&limit),
            "{limit} in docs/limits.md"
        );
    }
}

// ARC-11 ARC-23
#[test]
#[cfg(target_pointer_width = "64")]
fn the_bound_of_memory_is_the_one_that_the_pages_name() {
    assert_eq!(Config::new().max_memory_bytes(), 71_783_312);
    let mut config = Config::new();
    let mut bound = |change: &dyn Fn(&mut Config)| {
        change(&mut config);
        config.max_memory_bytes()
    };
    // For the bound, a limit of 0 items counts as one of 1.
    let none = bound(&|config| config.limits.max_batch_items = 0);
    assert_eq!(bound(&|config| config.limits.max_batch_items = 1), none);
    // Joining calls to batches needs memory.
    assert!(bound(&|config| config.limits.max_joined_calls = 2) > none);
}
