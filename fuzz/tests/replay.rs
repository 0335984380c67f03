//! Plays every committed case, and [`MADE_UP`] cases that are made up, through each target.
//!
//! Rule: a corpus never shrinks below the number that is committed with it.

use std::panic::catch_unwind;

use antiphon_fuzz::{TARGETS, Target, corpus};

/// Cases made up for each target, from one seed, so that they are the same every time.
const MADE_UP: usize = 2000;

const WORDS: [&str; 27] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"id\"",
    "\"method\"",
    "\"jsonrpc\":\"2.0\"",
    "1",
    "2",
    "null",
    "\"result\"",
    "\"error\"",
    "\"params\"",
    "\n",
    "Content-Length: ",
    "\r\n\r\n",
    "\"m\"",
    "-32600",
    "\"code\"",
    "\"message\"",
    "$/cancelRequest",
    "\u{e9}",
    "\\ud800",
    "1.0",
    "true",
];

fn made_up() -> impl Iterator<Item = Vec<u8>> {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize % below
    };
    (0..MADE_UP).map(move |_| {
        let mut data = Vec::new();
        for _ in 0..next(60) {
            match next(3) {
                0 => data.extend_from_slice(WORDS[next(WORDS.len())].as_bytes()),
                _ => data.push(next(256) as u8),
            }
        }
        data
    })
}

fn play(target: &Target, kind: &str, cases: impl Iterator<Item = Vec<u8>>) -> usize {
    let mut played = 0;
    for case in cases {
        if catch_unwind(|| (target.run)(&case)).is_err() {
            let hex: String = case.iter().map(|byte| format!("{byte:02x}")).collect();
            panic!("{}: {kind} case {hex}", target.name);
        }
        played += 1;
    }
    played
}

fn find(name: &str) -> &'static Target {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.expect("it is a target")
}

fn replay(name: &str) {
    let target = find(name);
    let cases = corpus::read(name).unwrap_or_else(|why| panic!("{why}"));
    let played = play(target, "committed", cases.into_iter());
    println!("{name}: {played} committed cases");
    let least = target.cases_min;
    assert!(
        played >= least.max(1),
        "{name}: {played} cases, of {least} at least"
    );
}

macro_rules! targets {
    ($($name:ident)*) => {
        mod committed {
            $(#[test] fn $name() { super::replay(stringify!($name)); })*
        }

        mod made_up {
            $(#[test] fn $name() {
                let target = super::find(stringify!($name));
                let played = super::play(target, "made-up", super::made_up());
                assert_eq!(played, super::MADE_UP);
            })*
        }

        // TST-04
        #[test]
        fn every_target_is_replayed_and_handed_to_the_engine() {
            let here = [$(stringify!($name)),*];
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(here.to_vec(), names);
            for name in here {
                let path = format!("{}/fuzz_targets/{name}.rs", env!("CARGO_MANIFEST_DIR"));
                let text = std::fs::read_to_string(&path);
                let text = text.unwrap_or_else(|why| panic!("{path}: {why}"));
                assert!(text.contains(&format!("antiphon_fuzz::{name}::run")), "{path}");
                assert!(text.starts_with("//! Invariant: "), "{path}");
            }
        }
    };
}

targets! { json frames client server encode operations peers drivers conversations values sessions sse_reader c_functions }
