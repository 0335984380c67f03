//! Checks the import rules ("floors") of the core and of its shells by reading their source.
//!
//! Every module of a crate's root is a room on a floor of the tables below, [`HOUSE`], [`SHELL`] and [`NET`].
//! It imports only from lower floors, and from a sibling, a room of its own floor, only if the table allows it.
//! Every file of `src/` belongs to a room, and no file is too long. In the core only `json/` uses serde_json, and
//! nothing needs `std` outside its feature. Unit tests are exempt.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const MAX_LINES: usize = 600;

/// A module of the crate's root.
struct Room {
    floor: u8,
    module: &'static str,
    /// The rooms of its own floor from which it may import.
    siblings: &'static [&'static str],
}

const fn room(floor: u8, module: &'static str, siblings: &'static [&'static str]) -> Room {
    Room {
        floor,
        module,
        siblings,
    }
}

/// Floor 0 knows nothing of JSON-RPC; floor 1 is one message; floor 2 the state of a connection;
/// floor 3 its rules; floor 4 is used with a connection; floor 5 is built on top of those; floor 6 is
/// the list of what is public.
const HOUSE: [Room; 45] = [
    room(0, "target", &[]),
    room(0, "shared", &[]),
    // Drawing a number is rare.
    room(0, "number", &["target"]),
    room(0, "time", &[]),
    // Code that has a smaller variant asks `target` which one is built.
    room(0, "json", &["target"]),
    room(0, "frame", &["target"]),
    room(0, "buffer", &[]),
    // Origins and hosts are text.
    room(0, "origin", &[]),
    room(1, "codes", &[]),
    room(1, "id", &[]),
    // An error object has a code, and its canonical message.
    room(1, "error_object", &["codes"]),
    // Its errors are made of codes.
    room(1, "error_profile", &["codes", "error_object"]),
    // A message on its way out has an id or an error in it.
    room(1, "encode", &["error_object", "id"]),
    // Events carry what came in: ids and errors.
    room(1, "event", &["error_object", "id"]),
    // Copies of events, to keep.
    room(1, "owned", &["error_object", "event", "id"]),
    // The members of params that carry events of streams, such as progress, in a dialect.
    room(1, "subscription", &["codes", "encode", "error_object"]),
    // The configuration chooses codes, the spelling of ids and the way of progress.
    room(
        1,
        "config",
        &["codes", "error_profile", "id", "subscription"],
    ),
    // A preset is a configuration.
    room(1, "presets", &["config", "error_profile", "subscription"]),
    // Reading a message gives parts of events, and depends on version and dialect.
    room(
        1,
        "message",
        &["config", "encode", "error_object", "event", "id"],
    ),
    // A method's name and types: the core only defines the trait, and adapters call by it.
    room(1, "method", &[]),
    room(2, "outbox", &[]),
    room(2, "input", &[]),
    room(2, "deadlines", &[]),
    // The table of calls is indexed by the tree of their deadlines.
    room(2, "calls", &["deadlines"]),
    room(2, "requests", &[]),
    // A request names its batch by the same numbers.
    room(2, "batches", &["requests"]),
    room(3, "connection", &[]),
    room(4, "admission", &[]),
    room(4, "answer", &[]),
    room(4, "collector", &[]),
    room(4, "generate", &[]),
    // A body is answered like any message.
    room(4, "http", &["answer"]),
    room(4, "keepalive", &[]),
    room(4, "lifecycle", &[]),
    room(4, "reader", &[]),
    // How often a call is sent again, and after how long.
    room(4, "retry", &[]),
    // Its delays are computed like those of calls that are sent again.
    room(4, "reconnect", &["retry"]),
    // A stream may begin like HTTP, heartbeats are what a WebSocket's rules say, and a report tells of a
    // connection that was not admitted.
    room(4, "session", &["admission", "http", "websocket"]),
    room(4, "shutdown", &[]),
    // The rules of a WebSocket have the settings of pings in them, and refuse with an answer of HTTP.
    room(4, "websocket", &["http", "keepalive"]),
    room(5, "flow", &[]),
    room(5, "service", &[]),
    // Its methods read their params as other methods do.
    room(5, "pubsub", &["service"]),
    // Its topics are checked like others.
    room(5, "durable", &["pubsub", "service"]),
    room(6, "lib", &[]),
];

/// The rooms of `adapters/shell`, floor by floor: values, what everybody uses, the session, a call on its way, the
/// other side of a connection, what it serves, the streams that it sends, durable topics, and what a program
/// holds.
const SHELL: [&[&str]; 12] = [
    &[
        "debug_fields",
        "entropy",
        "fault",
        "guard",
        "io",
        "lock",
        "scratch",
        "text",
    ],
    &["context", "runtime", "slot", "work"],
    &["http", "outgoing", "wait"],
    &["options"],
    &["session"],
    &["call"],
    &["peer"],
    &["client", "serve"],
    &["streams"],
    &["durable"],
    &["driver", "inbox", "router"],
    &["lib"],
];

/// The rooms of `adapters/net`: an open transport, the interface to sockets, the runtimes, what connects and
/// listens, servers, what is spoken over a stream, and targets.
const NET: [&[&str]; 9] = [
    &["link"],
    &["sockets"],
    &["runtime"],
    &["transport"],
    &["server"],
    &["http", "tls"],
    &["client"],
    &["connect"],
    &["lib"],
];

/// The rooms of a house in which no room imports from its own floor.
fn rooms(floors: &[&[&'static str]]) -> Vec<Room> {
    let on_floor = |(floor, modules): (u8, &&[&'static str])| {
        modules
            .iter()
            .map(move |module| room(floor, module, &[]))
            .collect::<Vec<_>>()
    };
    (0..).zip(floors).flat_map(on_floor).collect()
}

/// A file of `src/`: its path below it, and its text.
struct File {
    path: String,
    text: String,
}

impl File {
    /// The module of the crate's root that the file belongs to.
    fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    fn is_test(&self) -> bool {
        format!("/{}", self.path).contains("/tests/") || self.path.ends_with("/tests.rs")
    }
}

/// Everything that breaks a rule, one sentence each.
fn faults(house: &[Room], files: &[File]) -> Vec<String> {
    let mut faults = cycles(house);
    let exports = exports(files);
    for file in files.iter().filter(|file| !file.is_test()) {
        let Some(room) = find(house, file.module()) else {
            faults.push(format!("{} stands in no room", file.path));
            continue;
        };
        let code = without_tests(&file.text);
        let lines = code.lines().count();
        if lines > MAX_LINES {
            faults.push(format!("{} has {lines} lines", file.path));
        }
        let code = without_comments(&code);
        for target in imports(&code, &exports) {
            let Some(other) = find(house, &target) else {
                faults.push(format!(
                    "{} imports {target}, which stands in no room",
                    file.path
                ));
                continue;
            };
            let is_allowed = other.floor < room.floor
                || other.module == room.module
                || room.siblings.contains(&other.module);
            if !is_allowed {
                faults.push(format!(
                    "{} on floor {} imports {target} on floor {}",
                    file.path, room.floor, other.floor
                ));
            }
        }
    }
    let modules: BTreeSet<&str> = files.iter().map(File::module).collect();
    for room in house {
        if !modules.contains(room.module) {
            faults.push(format!("the room {} is empty", room.module));
        }
    }
    faults
}

/// What breaks a rule that only the core has.
fn core_faults(files: &[File]) -> Vec<String> {
    let mut faults = faults(&HOUSE, files);
    for file in files.iter().filter(|file| !file.is_test()) {
        let code = without_comments(&without_tests(&file.text));
        if code.contains("serde_json") && file.module() != "json" {
            faults.push(format!("{} names serde_json", file.path));
        }
        if without_items(&code, "#[cfg(feature = \"std\")]").contains("std::") {
            faults.push(format!("{} needs std", file.path));
        }
    }
    faults
}

fn find<'h>(house: &'h [Room], module: &str) -> Option<&'h Room> {
    house.iter().find(|room| room.module == module)
}

/// Faults of the table itself: siblings on different floors, or that import each other in a circle.
fn cycles(house: &[Room]) -> Vec<String> {
    let mut faults = Vec::new();
    for room in house {
        let (mut seen, mut next) = (BTreeSet::new(), room.siblings.to_vec());
        while let Some(module) = next.pop() {
            match find(house, module) {
                Some(other) if other.floor == room.floor => {
                    if seen.insert(module) {
                        next.extend(other.siblings);
                    }
                }
                _ => faults.push(format!("{module} is no sibling of {}", room.module)),
            }
        }
        if seen.contains(room.module) {
            faults.push(format!("{} imports itself in a circle", room.module));
        }
    }
    faults
}

/// The names that the crate's root gives out, and the modules that they come from.
fn exports(files: &[File]) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    let modules: BTreeSet<&str> = files.iter().map(File::module).collect();
    let roots = files.iter().filter(|file| file.path == "lib.rs");
    for statement in roots.flat_map(|file| file.text.split(';')) {
        let Some((_, path)) = statement.split_once("pub use ") else {
            continue;
        };
        let Some((module, names)) = path.split_once("::") else {
            continue;
        };
        // What comes from another crate is no room, and a room is no name in another one.
        if modules.contains(module.trim()) {
            let names = words(names).filter(|name| !modules.contains(name));
            exports.extend(names.map(|name| (name.to_string(), module.trim().to_string())));
        }
    }
    exports
}

/// The root modules that the code names by `crate::`, in a `use` or anywhere else.
fn imports(code: &str, exports: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        let names = match after.strip_prefix('{') {
            // `crate::{a::B, c::{D, E}}`: the first name of each path on the outer level.
            Some(list) => outer_names(list),
            None => words(after).take(1).collect(),
        };
        for name in names {
            let module = exports.get(name).map_or(name, String::as_str);
            found.insert(module.to_string());
        }
    }
    found
}

/// The first name of each path in `list`, which is what follows the brace in `{a::B, c::{D, E}}`.
fn outer_names(list: &str) -> Vec<&str> {
    let (mut depth, mut names, mut start) = (0, Vec::new(), 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                names.extend(words(&list[start..at]).next());
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

fn without_comments(code: &str) -> String {
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn without_tests(code: &str) -> String {
    without_items(code, "#[cfg(test)]")
}

/// Leaves out every item under an attribute. The source is formatted, so an item ends at the first
/// line that closes it on its own indentation.
fn without_items(code: &str, attribute: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        if line.trim() != attribute {
            kept.push(line);
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        for line in lines.by_ref() {
            let ends = line.ends_with(';') || line.ends_with('}') || line.ends_with(',');
            if line.len() - line.trim_start().len() == indent && ends {
                break;
            }
        }
    }
    kept.join("\n")
}

fn read(folder: &Path, below: &str, files: &mut Vec<File>) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("the folder can be listed");
        let name = entry
            .file_name()
            .into_string()
            .expect("file names are text");
        let path = format!("{below}{name}");
        if entry.path().is_dir() {
            read(&entry.path(), &format!("{path}/"), files);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(entry.path()).expect("source is text");
            files.push(File { path, text });
        }
    }
}

// ARC-12 ARC-17
#[test]
fn every_file_imports_from_lower_floors_only() {
    let mut files = Vec::new();
    read(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        "",
        &mut files,
    );
    assert!(files.len() > 30, "the source was not found");
    let faults = core_faults(&files);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

// ARC-12
#[test]
fn no_import_of_a_shell_runs_up() {
    for (source, floors) in [
        ("adapters/shell/src", &SHELL[..]),
        ("adapters/net/src", &NET),
    ] {
        let mut files = Vec::new();
        read(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join(source),
            "",
            &mut files,
        );
        assert!(files.len() > 30, "{source} was not found");
        let faults = faults(&rooms(floors), &files);
        assert!(faults.is_empty(), "{source}\n{}", faults.join("\n"));
    }
    let (path, text) = (
        "session/turn.rs".to_string(),
        "use crate::peer::Peer;".to_string(),
    );
    let faults = faults(&rooms(&[&["session"], &["peer"]]), &[File { path, text }]);
    assert_eq!(
        faults[0],
        "session/turn.rs on floor 0 imports peer on floor 1"
    );
}

/// Lines by which the core could keep global state or reach the system: without `std`, foreign
/// functions and statics it has no clock, no socket, no thread and no log.
fn ways_out(code: &str) -> Vec<&str> {
    let items = [
        "static ",
        "pub static ",
        "pub(crate) static ",
        "pub(super) static ",
    ];
    let words = [
        "thread_local!",
        "extern \"",
        "println!",
        "eprintln!",
        "dbg!",
        "Atomic",
    ];
    let is_way_out = |line: &&str| {
        let line = line.trim_start();
        items.iter().any(|item| line.starts_with(item))
            || words.iter().any(|word| line.contains(word))
    };
    code.lines().filter(is_way_out).collect()
}

// ARC-01 ARC-05
#[test]
fn the_core_has_no_state_of_its_own_and_no_way_out() {
    let mut files = Vec::new();
    read(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        "",
        &mut files,
    );
    // The numbers of connections have a counter: without one, two connections of the same configuration
    // would be equal, and each would take the other's tokens. Nothing else depends on it.
    let is_counter = |file: &&File| file.path == "number.rs";
    assert_eq!(files.iter().filter(is_counter).count(), 1);
    let others = files
        .iter()
        .filter(|file| !file.is_test() && !is_counter(file));
    for file in others {
        let code = without_comments(&without_tests(&file.text));
        assert_eq!(ways_out(&code), [""; 0], "{}", file.path);
    }
    let code = "static mut COUNT: u8 = 0;\nextern \"C\" {}\nfn f(name: &'static str) {}";
    assert_eq!(
        ways_out(code),
        ["static mut COUNT: u8 = 0;", "extern \"C\" {}"]
    );
}

/// The names that a section of the manifest defines.
fn section(manifest: &str, name: &str) -> Vec<String> {
    let lines = manifest
        .lines()
        .skip_while(|line| line.trim() != format!("[{name}]"));
    let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split_once(" = ").map(|(name, _)| name.to_string()));
    names.filter(|name| !name.starts_with('#')).collect()
}

fn manifest() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    fs::read_to_string(path).expect("the package has a manifest")
}

// ARC-13
#[test]
fn the_core_depends_on_three_packages() {
    let mut names = section(&manifest(), "dependencies");
    // Two more only by a feature: `arbitrary` for users who fuzz, `schemars` for schemas of types.
    for optional in ["arbitrary", "schemars"] {
        names.retain(|name| name != optional);
        let manifest = manifest();
        let mut lines = manifest.lines();
        let start = format!("{optional} = {{ version");
        let line = lines.find(|line| line.starts_with(&start));
        assert!(
            line.is_some_and(|line| line.contains("optional = true")),
            "{optional} is optional"
        );
    }
    assert_eq!(names, ["serde", "serde_json", "smallvec"]);
}

/// What is at the top of the repository. Hidden files that are not here may be there as well, and so
/// may what building leaves behind.
const TOP: [&str; 25] = [
    ".ci",
    ".github",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "adapters",
    "benches",
    "clippy.toml",
    "deny.toml",
    "docs",
    "examples",
    "fuzz",
    "macros",
    "proptest-regressions",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "src",
    "tests",
    "tools",
];

/// What is missing at the top of a repository with these entries, and what should not be there.
fn top_faults(entries: &BTreeSet<String>) -> Vec<String> {
    let missing = TOP.iter().filter(|name| !entries.contains(**name));
    let missing = missing.map(|name| format!("{name} is missing"));
    let is_known = |name: &str| {
        TOP.contains(&name) || name.starts_with('.') || name == "target" || name == "cli"
    };
    let strange = entries.iter().filter(|name| !is_known(name));
    let strange = strange.map(|name| format!("{name} has no place at the top"));
    missing.chain(strange).collect()
}

// ARC-14
#[test]
fn the_top_of_the_repository_has_what_it_should_and_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(root).expect("it can be listed");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("it can be listed").file_name();
        name.into_string().expect("file names are text")
    };
    let entries: BTreeSet<String> = entries.map(name).collect();
    assert_eq!(top_faults(&entries), [""; 0]);
    for (folder, file) in [
        ("fuzz", "Cargo.toml"),
        ("docs", "guide/book.toml"),
        ("macros", "src/lib.rs"),
        ("src", "lib.rs"),
        ("adapters", "net/src/lib.rs"),
    ] {
        assert!(root.join(folder).join(file).is_file(), "{folder}/{file}");
    }
    for empty in ["benches", "examples", "proptest-regressions", "tests"] {
        let mut files = fs::read_dir(root.join(empty)).expect("it can be listed");
        assert!(files.next().is_some(), "{empty} is empty");
    }
    // The check finds what is missing and what is too much.
    let mut other = entries;
    other.remove("benches");
    other.insert("scratch.txt".into());
    let faults = ["benches is missing", "scratch.txt has no place at the top"];
    assert_eq!(top_faults(&other), faults);
}

// ARC-24 TST-06
#[test]
fn every_cost_that_is_watched_has_its_bench() {
    let manifest = manifest();
    for bench in [
        "classify",
        "feed",
        "encode",
        "round_trip",
        "calls",
        "batch_100",
    ] {
        let entry = format!("[[bench]]\nname = \"{bench}\"\nharness = false\n");
        assert!(manifest.contains(&entry), "{bench} is not in the manifest");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("benches/{bench}.rs"));
        let text = fs::read_to_string(path).expect("the bench has a file");
        assert!(
            text.contains("criterion_main!") && text.contains(".iter("),
            "{bench} measures nothing"
        );
    }
}

/// The files that may have `unsafe` in them: the one vector module.
const UNSAFE: [&str; 1] = ["json/simd.rs"];

// ARC-19
#[test]
fn unsafe_code_is_denied_everywhere_but_in_the_vector_module() {
    let mut files = Vec::new();
    read(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        "",
        &mut files,
    );
    let root = files.iter().find(|file| file.path == "lib.rs");
    let root = &root.expect("the crate has a root").text;
    assert!(root.contains("#![deny(unsafe_code)]"));
    assert!(root.contains("no_std"));
    // The lint could be switched off again anywhere, so the word itself is looked for.
    let has_unsafe = |file: &&File| {
        let code = without_comments(&file.text).replace("#![deny(unsafe_code)]", "");
        code.contains("unsafe")
    };
    let found: Vec<&str> = files
        .iter()
        .filter(has_unsafe)
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(found, UNSAFE);
    // It stays small: what is in it has to be read by everybody who trusts the crate.
    let module = files.iter().find(|file| file.path == UNSAFE[0]);
    let lines = module.map_or(0, |file| file.text.lines().count());
    assert!(lines < 200, "the vector module has {lines} lines");
}

/// The faults of a source in which every room is one empty file, except for the given file, and for
/// `lib.rs`, which exports three names.
fn house_with(path: &str, text: &str) -> Vec<String> {
    let mut files: Vec<File> = HOUSE
        .iter()
        .map(|room| File {
            path: format!("{}.rs", room.module),
            text: String::new(),
        })
        .collect();
    files.retain(|file| file.path != path);
    files.push(File {
        path: path.to_string(),
        text: text.to_string(),
    });
    if path != "lib.rs" {
        let root = files
            .iter_mut()
            .find(|file| file.path == "lib.rs")
            .expect("there is a root");
        root.text =
            "pub use event::{Event, Outcome};\npub use connection::SendError;\n".to_string();
    }
    core_faults(&files)
}

#[test]
fn an_empty_house_has_no_faults() {
    assert_eq!(house_with("time.rs", ""), [""; 0]);
}

#[test]
fn an_import_from_a_higher_floor_is_caught() {
    let wanted = ["id.rs on floor 1 imports calls on floor 2"];
    assert_eq!(house_with("id.rs", "use crate::calls::Calls;"), wanted);
    assert_eq!(
        house_with(
            "id.rs",
            "use crate::{\n    json::{Json, Kind},\n    calls::Calls,\n};"
        ),
        wanted
    );
    assert_eq!(
        house_with("id.rs", "fn f() -> crate::calls::Calls {}"),
        wanted
    );
}

#[test]
fn an_import_by_way_of_the_root_is_caught() {
    let wanted = ["calls.rs on floor 2 imports connection on floor 3"];
    assert_eq!(house_with("calls.rs", "use crate::SendError;"), wanted);
}

#[test]
fn a_sibling_that_is_not_listed_is_caught() {
    assert_eq!(
        house_with("calls.rs", "use crate::deadlines::NEVER;"),
        [""; 0]
    );
    let wanted = ["requests.rs on floor 2 imports deadlines on floor 2"];
    assert_eq!(
        house_with("requests.rs", "use crate::deadlines::NEVER;"),
        wanted
    );
}

#[test]
fn files_outside_the_table_serde_json_std_and_length_are_caught() {
    assert_eq!(house_with("util.rs", ""), ["util.rs stands in no room"]);
    assert_eq!(
        house_with("event.rs", "use serde_json::Value;"),
        ["event.rs names serde_json"]
    );
    assert_eq!(
        house_with("event.rs", "use std::vec::Vec;"),
        ["event.rs needs std"]
    );
    let long = "fn f() {}\n".repeat(MAX_LINES + 1);
    assert_eq!(house_with("event.rs", &long), ["event.rs has 601 lines"]);
}

#[test]
fn unit_tests_and_the_std_feature_are_exempt() {
    let tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::calls::Calls;\n    use std::vec;\n}\n";
    assert_eq!(house_with("id.rs", tests), [""; 0]);
    assert_eq!(
        house_with("id.rs", &format!("{tests}use crate::calls::Calls;")).len(),
        1
    );
    let feature = "#[cfg(feature = \"std\")]\nimpl std::io::Read for X {\n    fn f() {}\n}\n";
    assert_eq!(house_with("buffer.rs", feature), [""; 0]);
    assert_eq!(
        house_with("json/tests/twin.rs", "use crate::calls::Calls;"),
        [""; 0]
    );
}
