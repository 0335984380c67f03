//! Declarations that do not compile, each with the words that say what to write instead.

use std::fs;

/// The least number of declarations in the folder.
const LEAST: usize = 46;

// GEN-13 ERR-03 USE-36
#[test]
fn wrong_declarations_are_refused_with_words_that_help() {
    let cases = fs::read_dir("tests/refused").unwrap();
    let paths = cases.map(|case| case.unwrap().path());
    let count = paths
        .filter(|path| path.extension().is_some_and(|ext| ext == "rs"))
        .count();
    assert!(
        count >= LEAST,
        "{count} refused declarations, there were {LEAST}"
    );
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
    println!("{count} refused declarations");
}
