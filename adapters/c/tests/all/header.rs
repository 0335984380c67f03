//! The header declares what the sources define, name by name and type by type.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// A text without its comments, and with one blank between words.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

/// The parts of `text` between each `begin` and the next `end`.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> Vec<&'t str> {
    let parts = text.split(begin).skip(1);
    parts
        .filter_map(|part| Some(part.split_once(end)?.0))
        .collect()
}

/// The C type for one of Rust, without blanks.
fn in_c(rust: &str) -> String {
    if let Some(of) = rust.strip_prefix("*mut ") {
        return in_c(of) + "*";
    }
    if let Some(of) = rust.strip_prefix("*const ") {
        return format!("const{}*", in_c(of));
    }
    let known = [
        ("u64", "uint64_t"),
        ("i64", "int64_t"),
        ("u32", "uint32_t"),
        ("i32", "int32_t"),
        ("usize", "size_t"),
        ("c_char", "char"),
        ("c_void", "void"),
    ];
    let found = known.iter().find(|(name, _)| *name == rust);
    found.map_or(rust, |(_, c)| c).to_owned()
}

/// A declaration in C without blanks, and without the word `struct`.
fn bare(c: &str) -> String {
    c.replace("struct ", "").replace(' ', "")
}

/// The names and types of a list in Rust, as C declares them.
fn declared(list: &str) -> Vec<String> {
    let fields = list
        .split(',')
        .filter_map(|field| field.trim().trim_start_matches("pub ").split_once(": "));
    fields.map(|(name, kind)| in_c(kind) + name).collect()
}

// USE-48
#[test]
fn the_header_declares_every_function_as_it_is() {
    let (header, rust) = (
        code(&file("include/antiphon.h")),
        code(&file("src/functions.rs")),
    );
    let mut defined = BTreeMap::new();
    for function in between(&rust, "extern \"C\" fn ", " {") {
        let (name, rest) = function.split_once('(').unwrap();
        let (arguments, result) = rest.split_once(") -> ").unwrap();
        defined.insert(
            name.to_owned(),
            format!("{}{name}({})", in_c(result), declared(arguments).join(",")),
        );
    }
    let said: Vec<String> = header
        .split(';')
        .filter(|part| part.contains('('))
        .map(bare)
        .collect();
    let said: Vec<&String> = said
        .iter()
        .filter(|part| part.contains("antiphon_") && part.ends_with(')'))
        .collect();
    assert!(defined.len() >= 30, "{}", defined.len());
    for (name, declaration) in &defined {
        let found = said.iter().any(|part| part.ends_with(declaration));
        assert!(found, "{name}: the header does not say {declaration}");
    }
    assert_eq!(said.len(), defined.len(), "{said:#?}");
}

// USE-48
#[test]
fn the_header_has_every_field_and_number() {
    let header = code(&file("include/antiphon.h"));
    let rust =
        ["code", "config", "connection", "events"].map(|name| file(&format!("src/{name}.rs")));
    let rust = code(&rust.join("\n"));
    let mut fields = 0;
    for list in between(&rust, "#[repr(C)] pub struct ", " }") {
        let (name, list) = list.split_once(" {").unwrap();
        let wanted = declared(list);
        let said = between(&header, &format!("typedef struct {name} {{"), "}")[0].to_owned();
        let said: Vec<String> = said
            .split(';')
            .map(bare)
            .filter(|field| !field.is_empty())
            .collect();
        assert_eq!(said, wanted, "{name}");
        fields += said.len();
    }
    let mut numbers = 0;
    for list in between(&rust, " pub enum ", " }") {
        let name = list.split(' ').next().unwrap();
        for entry in list.split(',').filter(|entry| entry.contains(" = ")) {
            let entry = entry.rsplit("{ ").next().unwrap().trim();
            assert!(header.contains(&format!("{entry},")), "{name}: {entry}");
            numbers += 1;
        }
    }
    for constant in between(&rust, "pub const ", ";")
        .iter()
        .filter(|one| one.starts_with("ANTIPHON"))
    {
        let (name, value) = constant.split_once(": u64 = ").unwrap();
        let value = value.replace("u64::MAX", "UINT64_MAX");
        assert!(
            header.contains(&format!("#define {name} {value}")),
            "{name}"
        );
        numbers += 1;
    }
    assert!(fields >= 17 && numbers >= 40, "{fields} {numbers}");
}
