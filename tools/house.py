#!/usr/bin/env python3
"""Measures the source: how much code each area has, how often it is tuned, and which files use each other in a circle.

    tools/house.py [CHECKOUT]     prints `name value` lines
    tools/house.py --check        compares the figures with the bounds in tools/house.txt
    tools/house.py --cycles       prints the circles of imports, and each import that closes one
    tools/house.py --self-test    tries all of this on small made-up crates

A line of code is neither blank nor a comment, and is neither in a folder `tests`, a file
`tests.rs` nor a module under `#[cfg(test)]`. A circle is a group of files of one crate in which each
file uses every other, directly or through others; `imports.py` says how names are followed. A module
and the modules below it are files like any others.

--check exits 1 if a figure is above its bound, and ends with `N passed, M failed`. A crate that has no
bound for its circles may have no circle.
"""

import contextlib
import io
import os
import re
import sys
import tempfile

import imports

HERE = os.path.dirname(os.path.abspath(__file__))
SHIPPED = ["src", "adapters", "macros", "cli"]
AREAS = {"core": "src", "adapters": "adapters", "macros": "macros", "cli": "cli"}
NOT_SHIPPED = {"tests", "target", "examples", "benches"}
# Files of these crates that are not part of their engines: transports, and what is built on the engines.
NO_ENGINE = re.compile(r"/src/(.*/)?(link|transport|tls|http|server|client|router|websocket)(/|\.rs)")
MARKS = [r"inline\(always\)", r"\brare\(\)", r"#\[cold\]"]
LONG_LINES = 600
LONG_FILES = f"files over {LONG_LINES}"


def main(words):
    if words == ["--self-test"]:
        return self_test()
    house = House(os.path.dirname(HERE) if not words or words[0].startswith("--") else words[0])
    if words == ["--check"]:
        with open(os.path.join(HERE, "house.txt"), encoding="utf-8") as file:
            return check(house.figures(), file.read())
    if words == ["--cycles"]:
        return print_circles(house)
    if len(words) > 1 or any(word.startswith("--") for word in words):
        print(__doc__)
        return 2
    for name, value in house.figures().items():
        which = [f"{path}:{lines}" for path, lines in house.long_files()] if name == LONG_FILES else []
        print(name, value, *which)
    return 0


class House:
    """A checkout and its figures."""

    def __init__(self, root):
        self.root = root

    def path(self, *names):
        return os.path.join(self.root, *names)

    def files(self, *areas):
        """The shipped source files of these areas."""
        for area in areas:
            for folder, folders, names in os.walk(self.path(area)):
                folders[:] = sorted(set(folders) - NOT_SHIPPED)
                for name in sorted(names):
                    if name.endswith(".rs") and name != "tests.rs":
                        yield os.path.join(folder, name)

    def code(self, *areas):
        return sum(map(code_lines, self.files(*areas)))

    def adapters(self):
        folder = self.path("adapters")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return ["adapters/" + name for name in names if os.path.isdir(os.path.join(folder, name))]

    def crates(self):
        """The folder of each shipped crate, by the name it has in the figures."""
        named = {"core": ""} | {name: name for name in self.adapters() + ["macros", "cli"]}
        return {name: folder for name, folder in named.items() if os.path.isdir(self.path(folder, "src"))}

    def engines(self):
        files = self.files("src/session", "adapters/shell", "adapters/net", "adapters/blocking")
        return sum(code_lines(file) for file in files if not NO_ENGINE.search(file))

    def long_files(self):
        lengths = [(os.path.relpath(file, self.root), read(file).count("\n")) for file in self.files(*SHIPPED)]
        return [(path, lines) for path, lines in lengths if lines > LONG_LINES]

    def uses(self, crate):
        return imports.Crate(self.path(self.crates()[crate], "src")).all_uses()

    def figures(self):
        """All that is counted, by name."""
        found = {f"code {name}": self.code(area) for name, area in AREAS.items()}
        found |= {f"code {name}": self.code(name) for name in self.adapters()}
        found["code engines"] = self.engines()
        # A program has a bound of its own: nobody links it.
        found["code all shipped"] = self.code(*SHIPPED) - found["code cli"]
        found["code core without session"] = self.code("src") - self.code("src/session", "src/service")
        for mark in MARKS:
            for area in ("src", "adapters"):
                found[f"mark {mark} {area}".replace("\\", "")] = sum(
                    len(re.findall(mark, read(file))) for file in self.files(area))
        found[LONG_FILES] = len(self.long_files())
        for crate in self.crates():
            uses = self.uses(crate)
            groups = imports.circles(uses)
            found[f"cycles {crate}"] = len(groups)
            found[f"imports in cycles {crate}"] = len(closing(uses, groups))
        found["cycles"] = sum(value for name, value in found.items() if name.startswith("cycles "))
        return found


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def code_lines(path):
    """How many lines of a file are code. Braces tell where a module of tests ends."""
    count, depth, tests_depth = 0, 0, None
    is_in_comment = is_test_next = False
    for line in read(path).split("\n"):
        line = line.strip()
        if is_in_comment or line.startswith("/*"):
            is_in_comment = "*/" not in line
            continue
        if not line or line.startswith("//"):
            continue
        if tests_depth is None and line.startswith("#[cfg(test)]"):
            is_test_next = True
            continue
        if tests_depth is None and is_test_next:
            is_test_next = False
            module = re.match(r"(?:pub(?:\([a-z ]+\))? )?mod \w+(;| *\{)", line)
            if module and module.group(1) == ";":
                continue
            if module:
                tests_depth = depth
        depth += line.count("{") - line.count("}")
        if tests_depth is None:
            count += 1
        elif depth <= tests_depth:
            tests_depth = None
    return count


def closing(uses, groups):
    """The imports, as pairs of files, whose two files are in one circle."""
    group_of = {file: number for number, group in enumerate(groups) for file in group}
    pairs = {(use.source, use.target) for use in uses}
    return {pair for pair in pairs if pair[0] in group_of and group_of[pair[0]] == group_of.get(pair[1])}


def print_circles(house):
    for crate, folder in house.crates().items():
        uses = house.uses(crate)
        short = lambda file: os.path.relpath(file, house.path(folder, "src"))
        for group in imports.circles(uses):
            print(f"cycle {crate}:", " ".join(map(short, group)))
            for source, target in sorted(closing(uses, [group])):
                places = sorted((use.line, use.name) for use in uses if (use.source, use.target) == (source, target))
                names = sorted({name for _, name in places})
                print(f"    {short(source)}:{places[0][0]} uses {', '.join(names)} of {short(target)}")
    return 0


def read_bounds(text):
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {name: int(bound) for name, bound in (line.rsplit(None, 1) for line in lines)}


def check(figures, text):
    bounds = read_bounds(text)
    # A crate without circles need not be listed.
    bounds |= {name: 0 for name in figures if name.startswith("cycles ") and name not in bounds}
    passed = failed = 0
    for name, bound in bounds.items():
        value = figures.get(name)
        if value is None:
            print(f"FAILED: there is a bound for {name}, and no such figure")
        elif value > bound:
            print(f"FAILED: {name}: {value}, and the bound is {bound}")
        else:
            passed += 1
            if value < bound:
                print(f"{name}: {value}, and the bound can fall from {bound}")
            continue
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


# The crates of the self-test, file by file.

# One way leads through the root and an alias, and the way back is a path in an expression.
HIDDEN = {
    "lib.rs": "mod a;\nmod b;\nmod index;\npub use index::Thing;\n",
    "a.rs": "use crate::Thing as Other;\npub fn f(_: &Other) {}\n",
    "b.rs": "pub struct Thing;\nimpl Thing {\n    fn g(&self) { crate::a::f(self) }\n}\n",
    "index.rs": "pub use super::b::*;\n",
}
# One way leads through an imported module, the other through `self` in a group.
BY_MODULE = {
    "lib.rs": "mod a;\nmod b;\n",
    "a/mod.rs": "use super::b;\npub(crate) mod inner;\npub fn f() -> b::B { b::B }\n",
    "a/inner.rs": "pub struct Deep;\n",
    "b.rs": "use crate::a::{self, inner::{Deep}};\npub struct B;\n#[inline]\npub fn g(_: Deep) { let _ = a::f(); }\n",
}
BY_PARENT = {
    "lib.rs": "mod a;\n",
    "a/mod.rs": "mod below;\npub struct Limit;\npub struct Whole(self::below::Part);\n",
    "a/below.rs": "use super::Limit;\npub struct Part(Limit);\n",
}
BY_GLOB = {
    "lib.rs": "mod a;\nmod b;\n",
    "a.rs": "use super::b::*;\npub struct A(B);\n",
    "b.rs": "pub struct B;\nfn f(_: super::a::A) {}\n",
}
BY_MACRO = {
    "lib.rs": "mod a;\nmod b;\n",
    "a.rs": "macro_rules! made { () => { $crate::b::B } }\nfn f() {}\n",
    "b.rs": "pub struct B;\nfn f() { made!(); }\n",
}
# Re-exports, tests, comments, strings and another crate's names are no uses.
INNOCENT = {
    "lib.rs": "mod a;\nmod b;\npub use a::A;\npub use b::B;\n",
    "a.rs": "use crate::B;\npub struct A(B);\n",
    "b.rs": ('//! See [`A`](crate::a::A).\n/* use crate::A; /* crate::a::A */ */\n'
             'pub struct B;\nconst S: &str = "crate::a::A";\nconst R: &str = r#"" crate::a::A"#;\n'
             "fn f<'a>(_: &'a str) -> char { '\"' }\nfn g() { ::a::A; other::a::A; }\n"
             "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n#[cfg(test)]\nfn h<A, B>(_: crate::a::A) {}\n"
             "#[cfg(all(test, unix))]\nuse crate::a::A;\nfn i() {\n    #[cfg(test)]\n    crate::a::A.f();\n}\n"),
}
# Six lines are code.
COUNTED = """//! What it is.

/* One
   comment. */
use core::fmt;
#[cfg(test)]
mod tests;
fn f() {
    // Why.
    g(); // Here, too.
}
#[cfg(test)]
mod more {
    fn f() {}
}
#[cfg(test)]
fn g() {}
fn h() {}
"""


def self_test():
    failed = 0

    def expect(what, found, wanted):
        nonlocal failed
        is_met = found == wanted
        failed += not is_met
        print(f"{'ok' if is_met else 'FAILED'}: {what}" + ("" if is_met else f": {found}, not {wanted}"))

    crates = {"re-export": HIDDEN, "module": BY_MODULE, "parent": BY_PARENT, "glob": BY_GLOB, "macro": BY_MACRO, "none": INNOCENT}
    wanted = {"re-export": [["a.rs", "b.rs"]], "module": [["a/mod.rs", "b.rs"]], "parent": [["a/below.rs", "a/mod.rs"]],
              "glob": [["a.rs", "b.rs"]], "macro": [["a.rs", "b.rs"]], "none": []}
    with tempfile.TemporaryDirectory() as root:
        for name, files in crates.items():
            write_crate(os.path.join(root, "adapters", name), files)
        write_crate(root, {"lib.rs": COUNTED + "// x\n" * 600, "session/mod.rs": "mod a;\n", "tests.rs": "mod a;\n",
                           "session/tests/mod.rs": "mod a;\n", "json.rs": "#[inline(always)]\nfn f() {}\n"})
        house = House(root)
        for name in crates:
            groups = imports.circles(house.uses(f"adapters/{name}"))
            base = house.path("adapters", name, "src")
            expect(f"circles by {name}", [[os.path.relpath(file, base) for file in group] for group in groups], wanted[name])
        figures = house.figures()
        expect("code", figures["code core"], 6 + 1 + 2)
        expect("code without the session", figures["code core without session"], 8)
        expect("code of the engines", figures["code engines"], 1)
        expect("forced inlining", figures["mark inline(always) src"], 1)
        expect("long files", figures[LONG_FILES], 1)
        expect("cycles in all", figures["cycles"], 5)
        expect("imports on circles", figures["imports in cycles adapters/re-export"], 2)
        verdict = lambda text: quietly(check, figures, text)
        none = "\n".join(f"cycles adapters/{name} 1" for name in crates)
        expect("figures on their bounds", verdict(f"# Why.\n\ncode core 9\n{none}\n"), 0)
        expect("a figure above its bound", verdict(f"code core 8\n{none}\n"), 1)
        expect("a bound for nothing", verdict(f"code kore 9\n{none}\n"), 1)
        expect("circles without a bound", verdict("code core 9\n"), 1)
    ran = len(crates) + 11
    print(f"{ran - failed} passed, {failed} failed")
    return 1 if failed else 0


def quietly(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*arguments)


def write_crate(folder, files):
    for name, text in files.items():
        path = os.path.join(folder, "src", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
