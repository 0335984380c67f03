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

In tests/interop the comment may also be above a `for` that makes several cases.

The check fails when a named test does not exist or did not run, when a comment names an id and is not
directly above a test, when an id is missing, unknown or there twice, when fewer ids are held than the
header says (the number may only grow), and when docs/requirements.md is not what --book would write.
A case that was skipped has not run: ids that have no other test are counted apart, and named.

    tools/requirements.py --self-test
                                     tries the reading of comments and of outputs on made-up files

Exit code 0: all is well. 1: something is wrong. 2: wrong usage.
"""

import ast
import fnmatch
import pathlib
import re
import sys
import tempfile

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
    "WSK": 15, "CON": 12, "GEN": 13, "OBS": 10, "SEC": 15, "TST": 21, "EXA": 12, "USE": 50,
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
    """Name and ids of every Rust test; a name of None for ids that are above no test."""
    for path in files(RUST_FOLDERS, ".rs"):
        ids, is_test = [], False
        for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
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
            elif ids and (name := re.match(r"(\w+)(?:;|:| =)", line)):
                # A line of a macro that makes a test of each of its lines.
                yield name[1], ids
                ids, is_test = [], False
            else:
                if ids:
                    yield None, [f"{path.relative_to(ROOT)}:{number}: {id}" for id in ids]
                ids, is_test = [], False


def script_cases():
    """The cases that are played against the core, and those that every adapter and transport plays."""
    core, suite = files(["tests/conformance"], ".txt"), files(["tests/suite/scripts", "tests/regressions/wire"], ".txt")
    for prefix, path in [*(("", path) for path in core), *(("suite/", path) for path in suite)]:
        ids = []
        for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
            if line.startswith("== "):
                yield f"{prefix}{path.stem}: {line[3:].strip()}", ids
                ids = []
            elif line.startswith("#"):
                ids = ids + ids_of_comment(line, "#")
            else:
                if ids:
                    yield None, [f"{path.relative_to(ROOT)}:{number}: {id}" for id in ids]
                ids = []


def interop_cases():
    """Cases by the text of their name, in which `*` stands for what is computed; as in `rust_tests`."""
    for path in files(["tests/interop"], ".py"):
        text = path.read_text()
        comments = {number: found for number, line in enumerate(text.splitlines(), 1)
                    if (found := ids_of_comment(line.strip(), "#"))}
        used = set()

        def above(node):
            """The ids of the comment lines directly above a statement."""
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
            lines = text.splitlines()
            number, ids = first - 1, []
            while number > 0 and lines[number - 1].strip().startswith("#"):
                ids = comments.get(number, []) + ids
                used.add(number)
                number -= 1
            return ids

        def walk(statements, inherited):
            for node in statements:
                if isinstance(node, ast.FunctionDef):
                    ids = inherited + above(node)
                    for one in node.decorator_list:
                        if isinstance(one, ast.Call) and getattr(one.func, "id", None) == "case":
                            yield "interop: " + name_of(one.args[0]), ids
                elif isinstance(node, ast.For):
                    yield from walk(node.body, inherited + above(node))

        yield from walk(ast.parse(text).body, [])
        for number in sorted(comments.keys() - used):
            yield None, [f"{path.relative_to(ROOT)}:{number}: {id}" for id in comments[number]]


def name_of(node):
    """The name of an interop case, with `*` for each part that its forms or its loop fill in."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in parts)
    return re.sub(r"\{[^}]*\}", "*", text)


def existing():
    """Every test, and the ids that its comment names. Under None: ids whose comment is above no test."""
    tests = {None: []}
    for name, ids in [*rust_tests(), *script_cases(), *interop_cases()]:
        tests.setdefault(name, [])
        tests[name] += [id for id in ids if id not in tests[name]]
    return tests


def propose(floor):
    held = {id: [] for id in all_ids()}
    unknown = []
    tests = existing()
    unknown += [f"{stray}: this comment is directly above no test" for stray in tests.pop(None)]
    for name, ids in tests.items():
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
    """The names of the tests that passed, of the interop cases that were skipped, and the kinds of run that were seen."""
    names, skipped, kinds = set(), set(), set()
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
            elif match := re.match(r"SKIPPED \d+ (.+?): ", line):
                kinds.add("interop")
                skipped.add("interop: " + match[1])
    return names, skipped, kinds


def is_among(name, names):
    """Whether a test is among those of a run: the name of an interop case has a `*`, and may get a note."""
    if not name.startswith("interop: "):
        return name in names
    return any(fnmatch.fnmatchcase(other, pattern) for other in names for pattern in (name, name + ": *"))


def check(outputs):
    tests = existing()
    floor, lines, faults = read_map(tests)
    wanted = all_ids()
    faults += [f"{id} is missing" for id in wanted if id not in lines]
    faults += [f"{id} is no requirement" for id in lines if id not in wanted]
    faults += [f"{stray}: this comment is directly above no test" for stray in tests.pop(None)]
    names, skipped, kinds = ran(outputs)
    if outputs and "cargo" not in kinds:
        faults.append("the output that was given shows no test that ran")
    unseen = []
    for id, held_by in lines.items():
        seen = 0
        for name in held_by:
            is_shown = "interop" in kinds if name.startswith("interop: ") else outputs
            if name not in tests:
                faults.append(f"{id}: there is no test {name}")
            elif id not in tests[name]:
                faults.append(f"{id}: the comment above {name} does not name it")
            elif not is_shown or is_among(name, names):
                seen += 1
            elif not is_among(name, skipped):
                faults.append(f"{id}: the test {name} did not run, or did not pass")
        if held_by and not seen:
            unseen.append(id)
    if unseen:
        print(f"requirements: skipped, so not shown by this run: {', '.join(unseen)}")
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


MADE_UP = {
    "tests/rust.rs": """
// MSG-01
#[test]
fn first() {}
on_every_runtime! {
    // MSG-02
    second;
}
// MSG-03

fn a_helper_behind_a_blank_line() {}
""",
    "tests/interop/cases.py": """
# MSG-04
for kind in ("http", "tcp"):
    @case(f"a loop over {kind}")
    def run(kind=kind):
        pass


# MSG-05
@case("alone")
def alone():
    pass


# MSG-06
NUMBER = 6
""",
    "out": """test tokio::second ... ok
ok 1 a loop over http (0.1 s)
SKIPPED 2 alone: not installed: npm:x
""",
}


def self_test():
    """What is wrong with the reading of made-up files."""
    global ROOT
    before = ROOT
    with tempfile.TemporaryDirectory() as folder:
        ROOT = pathlib.Path(folder)
        for name, text in MADE_UP.items():
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(text)
        tests, (names, skipped, _) = existing(), ran([ROOT / "out"])
    ROOT = before
    strays = [stray.rsplit(" ", 1)[1] for stray in tests.pop(None)]
    wanted = {"first": ["MSG-01"], "second": ["MSG-02"], "interop: a loop over *": ["MSG-04"], "interop: alone": ["MSG-05"]}
    return [what for what, is_right in {
        "ids above tests, lines of macros, loops and cases": {name: ids for name, ids in tests.items() if ids} == wanted,
        "ids above no test": strays == ["MSG-03", "MSG-06"],
        "what passed": is_among("second", names) and is_among("interop: a loop over *", names) and not is_among("first", names),
        "what was skipped": is_among("interop: alone", skipped) and not is_among("interop: alone", names),
    }.items() if not is_right]


def main(arguments):
    if arguments == ["--self-test"]:
        faults = self_test()
        print(*(f"requirements: not read as it should be: {fault}" for fault in faults), f"{4 - len(faults)} passed, {len(faults)} failed", sep="\n")
        return 1 if faults else 0
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
