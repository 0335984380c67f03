#!/usr/bin/env python3
"""Checks and writes tools/requirements.txt: for every requirement id of the catalogue the tests that hold it.

    tools/requirements.py OUTPUT…    checks the map against the output of the test runs that are
                                     given; a file that does not exist stands for no run
    tools/requirements.py --propose  writes the map anew from the comments above the tests
    tools/requirements.py --book     writes docs/requirements.md: each id, what it asks for in a line
                                     (tools/requirements-words.txt) and its tests
    tools/requirements.py --ids CATALOGUE
                                     checks that the map has the ids of the catalogue, and no others

The ids are in a comment line right above a test: `// MSG-07 SER-04` above `fn name` in Rust,
`# MSG-07` above `== title` in tests/conformance, tests/suite/scripts and tests/regressions/wire, and
above a case in tests/interop. An id is held when a test names it, pending otherwise.

The check fails when a named test does not exist or did not run, when an id is missing, unknown or
there twice, when fewer ids are held than the header says (the number may only grow), and when
docs/requirements.md is not what --book would write.

Exit code 0: all is well. 1: something is wrong. 2: wrong usage.
"""

import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAP = ROOT / "tools" / "requirements.txt"
WORDS = ROOT / "tools" / "requirements-words.txt"
BOOK = ROOT / "docs" / "requirements.md"
BOOK_HEAD = """# Requirements

Made by `tools/requirements.py --book`: change `tools/requirements-words.txt` or the comments above the tests instead.

Every requirement that tests, code and documents cite by its id, in one line, with the tests that hold it. {held} of {all} have
tests; the others belong to parts that are not there yet.

How to find a test by its name:

| name | stands in |
|---|---|
| `a_name_like_this` | a Rust test: `grep -rn 'fn NAME' src tests adapters fuzz` |
| `messages: a title` | the case of that title in `tests/conformance/messages.txt` |
| `suite/push: a title` | the script of that title in `tests/suite/scripts` or `tests/regressions/wire` |
| `interop: a title` | a case of that title in `tests/interop`; `*` stands for what it computes |
"""
# How many ids each chapter of the catalogue has, in its order.
CHAPTERS = {
    "ARC": 25, "MSG": 29, "ONE": 12, "SER": 15, "ERR": 13, "CLI": 31, "SRV": 35, "INT": 12,
    "CAN": 15, "EXT": 12, "PUB": 17, "PER": 20, "FLO": 16, "TRN": 10, "STD": 10, "HTP": 10,
    "WSK": 15, "CON": 12, "GEN": 13, "OBS": 10, "SEC": 15, "TST": 21, "EXA": 12, "USE": 25,
}
ID = re.compile(r"\b[A-Z]{3}-\d{2}\b")
# An interrupted run of the tests leaves hundreds of faults, which would hide its cause.
FAULTS_SHOWN = 20
RUST_FOLDERS = ("src", "macros", "tests", "adapters", "fuzz")


def all_ids():
    return [f"{chapter}-{n:02}" for chapter, count in CHAPTERS.items() for n in range(1, count + 1)]


def files(folders, suffix):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob(f"*{suffix}")):
            if "target" not in path.relative_to(ROOT).parts:
                yield path


def ids_of_comment(line, mark):
    """The ids of a comment line that begins with one; none for any other line."""
    if not line.startswith(mark):
        return []
    words = line[len(mark):].strip()
    return ID.findall(words) if ID.match(words) else []


def rust_tests():
    """Name and ids of every Rust test."""
    for path in files(RUST_FOLDERS, ".rs"):
        ids, is_test = [], False
        for line in path.read_text().splitlines():
            line = line.strip()
            found = ids_of_comment(line, "//")
            if found:
                ids = ids + found
            elif line.startswith("#[test]"):
                is_test = True
            elif line.startswith(("#", "//")):
                pass
            elif (name := re.match(r"(?:pub )?(?:async )?fn (\w+)", line)) and (is_test or ids):
                # Inside `proptest!` the attribute may be missing.
                yield name[1], ids
                ids, is_test = [], False
            elif line:
                ids, is_test = [], False


def script_cases():
    """The cases that are played against the core, and those that every adapter and transport plays."""
    core, suite = files(["tests/conformance"], ".txt"), files(["tests/suite/scripts", "tests/regressions/wire"], ".txt")
    for prefix, path in [*(("", path) for path in core), *(("suite/", path) for path in suite)]:
        ids = []
        for line in path.read_text().splitlines():
            if line.startswith("== "):
                yield f"{prefix}{path.stem}: {line[3:].strip()}", ids
                ids = []
            elif line.startswith("#"):
                ids = ids + ids_of_comment(line, "#")
            else:
                ids = []


def interop_cases():
    """Cases by the text of their name; what a name computes is shown as `*`."""
    for path in files(["tests/interop"], ".py"):
        ids, text = [], path.read_text()
        for match in re.finditer(r'^[ ]*(#.*)$|^[ ]*@case\(\s*f?"([^"]*)"|^[ ]*([^#@\s].*)$', text, re.M):
            comment, name, other = match.groups()
            if comment:
                ids = ids + ids_of_comment(comment, "#")
            elif name is not None:
                yield "interop: " + re.sub(r"\{[^}]*\}", "*", name), ids
                ids = []
            elif other and not other.startswith(("def ", ")", '("')):
                # What follows a case belongs to it until the next comment.
                ids = []


def existing():
    """Every test, and the ids that its comment names."""
    tests = {}
    for name, ids in [*rust_tests(), *script_cases(), *interop_cases()]:
        tests.setdefault(name, [])
        tests[name] += [id for id in ids if id not in tests[name]]
    return tests


def propose(floor):
    held = {id: [] for id in all_ids()}
    unknown = []
    for name, ids in existing().items():
        for id in ids:
            if id in held:
                held[id].append(name)
            else:
                unknown.append(f"{name} names {id}, which is no requirement")
    count = sum(1 for names in held.values() if names)
    lines = [
        "# For every requirement of the catalogue the tests that hold it, or `pending`.",
        "# Made by tools/requirements.py --propose from the comments above the tests.",
        "# The number below may only grow.",
        f"# held: {max(count, floor)}",
    ]
    lines += [f"{id}  {', '.join(names) if names else 'pending'}" for id, names in held.items()]
    MAP.write_text("\n".join(lines) + "\n")
    return unknown, count


def split_names(text, tests):
    """Names between commas; a name may hold commas itself, so the longest that exists is taken."""
    pieces, names = text.split(", "), []
    while pieces:
        for end in range(len(pieces), 0, -1):
            name = ", ".join(pieces[:end])
            if name in tests or end == 1:
                names.append(name)
                pieces = pieces[end:]
                break
    return names


def read_map(tests):
    floor, lines, faults = None, {}, []
    for number, line in enumerate(MAP.read_text().splitlines(), 1):
        if line.startswith("#"):
            floor = int(line[8:]) if line.startswith("# held: ") else floor
            continue
        id, gap, names = line.partition("  ")
        if not gap or not ID.fullmatch(id):
            faults.append(f"line {number} is no line of the map: {line}")
        elif id in lines:
            faults.append(f"{id} is there twice")
        else:
            lines[id] = [] if names == "pending" else split_names(names, tests)
    if floor is None:
        faults.append("the header does not say how many ids are held")
    return floor or 0, lines, faults


def read_words():
    """The title of each chapter and the line of each id, and what is wrong with them."""
    titles, words, faults = {}, {}, []
    for line in WORDS.read_text().splitlines():
        if line.startswith("#"):
            continue
        if chapter := re.fullmatch(r"\[([A-Z]{3})\] (.+)", line):
            titles[chapter[1]] = chapter[2]
            continue
        id, gap, text = line.partition("  ")
        if not gap or not ID.fullmatch(id) or id in words or not text.endswith("."):
            faults.append(f"{WORDS.name} has a line that cannot stand there: {line}")
        words[id] = text
    if list(words) != all_ids() or list(titles) != list(CHAPTERS):
        faults.append(f"{WORDS.name} has not exactly the ids and chapters of the catalogue, in their order")
    return titles, words, faults


def book(lines):
    """The page about requirements, and what is wrong with the file of words."""
    titles, words, faults = read_words()
    page = BOOK_HEAD.format(held=sum(1 for names in lines.values() if names), all=len(all_ids()))
    for id in all_ids():
        if id.endswith("-01"):
            page += f"\n## {id[:3]}: {titles.get(id[:3], '')}\n"
        names = ", ".join(f"`` {name} ``" if "`" in name else f"`{name}`" for name in lines.get(id, []))
        page += f"\n### {id}\n\n{words.get(id, '')}\n\n{'Tests: ' + names if names else 'No test yet.'}\n"
    return page, faults


def ran(outputs):
    """The names of the tests that passed, and the kinds of run that were seen."""
    names, kinds = set(), set()
    for path in outputs:
        if not path.exists():
            continue
        for line in path.read_text(errors="replace").splitlines():
            if match := re.match(r"test (.+?)(?: - should panic)? \.\.\. ok$", line):
                kinds.add("cargo")
                names.add(match[1])
                names.add(match[1].rsplit("::", 1)[-1])
            elif match := re.match(r"ok \d+ (.+) \(\d+\.\d+ s\)$", line):
                kinds.add("interop")
                names.add("interop: " + match[1])
            elif re.match(r"SKIPPED \d+ ", line):
                # An interop case whose peer is not installed: that run prints and counts it.
                kinds.add("interop")
                names.add("interop: " + line.split(" ", 2)[2].rsplit(": ", 1)[0])
    return names, kinds


def has_run(name, names, kinds):
    if not name.startswith("interop: "):
        return name in names
    if "interop" not in kinds:
        return True
    # A case may add a note to its name.
    return any(fnmatch.fnmatchcase(other, pattern) for other in names for pattern in (name, name + ": *"))


def check(outputs):
    tests = existing()
    floor, lines, faults = read_map(tests)
    wanted = all_ids()
    faults += [f"{id} is missing" for id in wanted if id not in lines]
    faults += [f"{id} is no requirement" for id in lines if id not in wanted]
    names, kinds = ran(outputs)
    if outputs and "cargo" not in kinds:
        faults.append("the output that was given shows no test that ran")
    for id, held_by in lines.items():
        for name in held_by:
            if name not in tests:
                faults.append(f"{id}: there is no test {name}")
            elif outputs and not has_run(name, names, kinds):
                faults.append(f"{id}: the test {name} did not run, or did not pass")
            elif id not in tests[name]:
                faults.append(f"{id}: the comment above {name} does not name it")
    held = sum(1 for names in lines.values() if names)
    if held < floor:
        faults.append(f"{held} ids are held, and {floor} were: one went back to pending")
    # A new test has to be entered by --propose, or its removal would go unnoticed.
    for name, ids in tests.items():
        for id in ids:
            if id not in wanted:
                faults.append(f"{name} names {id}, which is no requirement")
            elif name not in lines.get(id, []):
                faults.append(f"{id} does not list {name}: run tools/requirements.py --propose")
    if held > floor:
        faults.append(f"{held} ids are held, and the header says {floor}: raise it")
    page, wrong = book(lines)
    faults += wrong
    if not BOOK.exists() or BOOK.read_text() != page:
        faults.append(f"{BOOK.relative_to(ROOT)} is stale: run tools/requirements.py --book")
    return faults, held


def main(arguments):
    if arguments == ["--propose"]:
        before = read_map(existing())[0] if MAP.exists() else 0
        faults, held = propose(before)
        if held < before:
            faults.append(f"{held} ids are held, and {before} were")
    elif arguments == ["--book"]:
        _, lines, faults = read_map(existing())
        page, wrong = book(lines)
        BOOK.write_text(page)
        faults += wrong
        held = sum(1 for names in lines.values() if names)
    elif len(arguments) == 2 and arguments[0] == "--ids":
        try:
            text = pathlib.Path(arguments[1]).read_text()
        except OSError as error:
            print(f"cannot read {arguments[1]}: {error.strerror}", file=sys.stderr)
            return 2
        stated = re.findall(r"^- \*\*([A-Z]{3}-\d{2})\*\*", text, re.M)
        faults = [f"{id} differs" for id in sorted(set(stated) ^ set(all_ids()))]
        held = sum(1 for names in read_map(existing())[1].values() if names)
    elif any(argument.startswith("-") for argument in arguments):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    else:
        if not MAP.exists():
            print(f"there is no {MAP.name}: run tools/requirements.py --propose", file=sys.stderr)
            return 2
        faults, held = check([pathlib.Path(argument) for argument in arguments])
    for fault in faults[:FAULTS_SHOWN]:
        print(f"requirements: {fault}")
    if len(faults) > FAULTS_SHOWN:
        print(f"requirements: and {len(faults) - FAULTS_SHOWN} more")
    print(f"held {held}/{len(all_ids())}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
