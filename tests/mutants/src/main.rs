//! Writes a copy of the core in which every mutant is built in and sleeps.
//!
//! A mutant is one small fault: an operator changed, a body replaced, an arm of a `match` left out.
//! Rebuilding for each of thousands takes hours, so the copy holds all of them: where the source says
//! `a == b` the copy says `if on(17) { a != b } else { a == b }`, and an environment variable chooses
//! the one that is awake. Here: which files, and what is printed. `sites` finds the places, `values`
//! what a function could return instead, `awake` goes into the copy.
//!
//! Rule: the copy without a mutant awake does what the source does, line for line.
//!
//! ```text
//! antiphon-mutants SOURCE                 prints the list of all mutants
//! antiphon-mutants SOURCE COPY DROPPED    also writes COPY/src from SOURCE/src, without the mutants
//!                                         whose numbers stand in the file DROPPED
//! ```

mod sites;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// The last floor that is mutated as a whole.
const MAX_FLOOR: u8 = 3;

/// The modules above it that are mutated, too.
const ABOVE: [&str; 5] = ["session", "service", "pubsub", "flow", "durable"];

/// Files of these modules that only an adapter's router runs: their tests are those of the adapters, and do not
/// run here.
const IN_ADAPTERS: [&str; 6] = [
    "src/durable/routes.rs",
    "src/pubsub/routes.rs",
    "src/service/router/adapter.rs",
    "src/service/router/run.rs",
    "src/service/router/subscriptions.rs",
    "src/service/subscriptions.rs",
];

/// The module in which statements are left out, and values of arms exchanged, too: in it a forgotten call
/// or a wrong row is the likely mistake.
const WITH_ROWS: &str = "service";

/// The module of the copy that says whether a mutant is awake.
const AWAKE: &str = include_str!("awake.rs.in");

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match &arguments[..] {
        [source] => mutate(Path::new(source), &BTreeSet::new(), |_, _| Ok(())),
        [source, copy, dropped] => read(Path::new(dropped)).and_then(|text| {
            let write = |name: &str, text: &str| write(&Path::new(copy).join(name), text);
            mutate(Path::new(source), &numbers(&text)?, write)
        }),
        _ => Err("antiphon-mutants SOURCE [COPY DROPPED]".to_string()),
    };
    match done {
        Ok(list) => {
            print!("{list}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Gives every file of the copy to `write`, by its name in the source, and returns the list of all
/// mutants, one a line: number, floor, file, line, column, function, what is changed.
fn mutate(
    source: &Path,
    dropped: &BTreeSet<u32>,
    write: impl Fn(&str, &str) -> Result<(), String>,
) -> Result<String, String> {
    let floors = floors(&read(&source.join("tests/repository/floors.rs"))?)?;
    let mut next = 0;
    let mut list = String::new();
    for path in sources(&source.join("src"))? {
        let name = path.strip_prefix(source).unwrap_or(&path);
        let name = name.to_string_lossy().into_owned();
        let text = read(&path)?;
        let is_mutated = |floor: &&u8| **floor <= MAX_FLOOR || ABOVE.contains(&module(&name));
        let floor = floors.get(module(&name)).filter(is_mutated);
        let Some(floor) = floor.filter(|_| !is_test(&name) && !IN_ADAPTERS.contains(&&*name))
        else {
            let is_root = name == "src/lib.rs";
            write(&name, &if is_root { crate_root(&text)? } else { text })?;
            continue;
        };
        let has_rows = module(&name) == WITH_ROWS;
        let mutated = sites::mutate(&text, next, dropped, has_rows);
        let mutated = mutated.map_err(|why| format!("{name}: {why}"))?;
        for mutant in &mutated.mutants {
            let sites::Mutant {
                number,
                line,
                column,
                function,
                what,
            } = mutant;
            list += &format!("{number}\t{floor}\t{name}\t{line}\t{column}\t{function}\t{what}\n");
        }
        next += mutated.mutants.len() as u32;
        write(&name, &mutated.text)?;
    }
    write("src/mutants.rs", &AWAKE.replace("COUNT", &next.to_string()))?;
    Ok(list)
}

/// The root of the copy, which also declares the module that says whether a mutant is awake.
fn crate_root(text: &str) -> Result<String, String> {
    let marker = "#![no_std]\n#![deny(unsafe_code)]\n";
    if !text.contains(marker) {
        return Err("src/lib.rs: it does not begin as expected".to_string());
    }
    let ours = "#![no_std]\n#![feature(core_intrinsics, const_eval_select)]\n\
        #![allow(warnings, unconditional_panic, arithmetic_overflow, overflowing_literals)]\n";
    Ok(text.replacen(marker, ours, 1) + "\n#[doc(hidden)]\nmod mutants;\n")
}

/// The floor of each module, from the text of `tests/repository/floors.rs`.
fn floors(table: &str) -> Result<BTreeMap<String, u8>, String> {
    let mut floors = BTreeMap::new();
    for call in table.split("room(").skip(1) {
        let mut words = call.split(',').map(str::trim);
        let (Some(floor), Some(module)) = (words.next(), words.next()) else {
            continue;
        };
        if let Ok(floor) = floor.parse() {
            floors.insert(module.trim_matches('"').to_string(), floor);
        }
    }
    match floors.len() {
        0 => Err("tests/repository/floors.rs: there is no room in it".to_string()),
        _ => Ok(floors),
    }
}

/// The module of the crate's root that a file belongs to.
fn module(name: &str) -> &str {
    let first = name.split('/').nth(1).unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first)
}

fn is_test(name: &str) -> bool {
    name.split('/')
        .any(|part| part == "tests" || part == "tests.rs")
}

/// Every source file below a folder, by name.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let why = |error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(why)? {
        let path = entry.map_err(why)?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn numbers(text: &str) -> Result<BTreeSet<u32>, String> {
    let number = |word: &str| {
        word.parse()
            .map_err(|_| format!("{word} is no number of a mutant"))
    };
    text.split_whitespace().map(number).collect()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file, unless it says the same already: what is not written is not built again.
fn write(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|written| written == text) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
