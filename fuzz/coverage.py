#!/usr/bin/env python3
"""Counts what the committed cases reach of the core: the regions of floors 0 to 3 of `src/`.

    fuzz/coverage.py [--list]

Plays the committed cases through a build that counts, with the Rust that `coverage.txt` names (what
a region is differs between compilers), and exits 1 if more regions are not reached than that file
allows. The number there may only go down. --list prints each region that is not reached. Needs the component
`llvm-tools` and exits 3 without it. A generic function that no target uses is not counted at all.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import engine

SRC = engine.HERE.parent / "src"
KNOWN = engine.HERE / "coverage.txt"


def known():
    text = KNOWN.read_text()
    wanted = {name: re.search(rf"^{name} (\S+)$", text, re.M).group(1) for name in ("toolchain", "max_uncovered")}
    return wanted["toolchain"], int(wanted["max_uncovered"])


# Not counted: headers of HTTP, which no target reads. How many of its functions are linked is up to the compiler.
NOT_FUZZED = {"origin"}
# Not counted: the reader of small programs, of which this build takes the least part. Unit tests compare all of it with serde_json.
NOT_BUILT = {"json/by_value.rs", "json/fault.rs"}


def floors():
    """The floor of each module that is counted, from the table that the core is held to."""
    table = (engine.HERE.parent / "tests/repository/floors.rs").read_text()
    rooms = re.findall(r'room\(\s*(\d+),\s*"(\w+)"', table)
    return {name: int(floor) for floor, name in rooms if name not in NOT_FUZZED}


def tools(toolchain):
    """Where llvm-profdata and llvm-cov are; none if they cannot be had."""
    add = ["rustup", "component", "add", "llvm-tools", "--toolchain", toolchain]
    try:
        subprocess.run(add, capture_output=True, timeout=300)
        shown = subprocess.run(["rustc", f"+{toolchain}", "--print", "sysroot"], capture_output=True, text=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = sorted(pathlib.Path(shown.stdout.strip() or ".").glob("lib/rustlib/*/bin/llvm-cov"))
    return found[0].parent if found else None


def replay(toolchain, tools, folder):
    """Plays all cases, and gives what was counted."""
    # One unit for each crate. Of several, those that nothing needs are not linked, and with them goes what tells of functions
    # that nothing calls: how many that are differed from build to build.
    flags = "-C instrument-coverage -C codegen-units=1"
    environment = {**os.environ, "RUSTUP_TOOLCHAIN": toolchain, "RUSTFLAGS": flags, "CARGO_INCREMENTAL": "0"}
    environment["LLVM_PROFILE_FILE"] = f"{folder}/%p.profraw"
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", engine.HERE / "target")) / "coverage"
    environment["CARGO_TARGET_DIR"] = str(target)
    command = ["cargo", "test", "--no-default-features", "--test", "replay"]
    built = subprocess.run(command + ["--no-run", "--message-format=json"], env=environment, cwd=engine.HERE, check=True, capture_output=True, text=True)
    programs = [line["executable"] for line in map(json.loads, built.stdout.splitlines()) if line.get("executable")]
    subprocess.run([*programs, "committed::"], env=environment, cwd=engine.HERE, check=True)
    profile = f"{folder}/all.profdata"
    subprocess.run([tools / "llvm-profdata", "merge", "-sparse", *pathlib.Path(folder).glob("*.profraw"), "-o", profile], check=True)
    exported = subprocess.run([tools / "llvm-cov", "export", f"-instr-profile={profile}", *programs], check=True, capture_output=True, text=True)
    return json.loads(exported.stdout)


def regions(exported):
    """How often each region of floors 0 to 3 was reached: the most of all types its function was made for."""
    reached = {}
    table = floors()
    for function in exported["data"][0]["functions"]:
        for line, column, to_line, to_column, count, file, _, kind in function["regions"]:
            path = pathlib.Path(function["filenames"][file])
            if kind != 0 or not path.is_relative_to(SRC) or path.stem == "tests":
                continue
            path = path.relative_to(SRC)
            if str(path) in NOT_BUILT:
                continue
            if table.get(path.parts[0].removesuffix(".rs"), 9) <= 3:
                place = (str(path), line, column, to_line, to_column)
                reached[place] = max(reached.get(place, 0), count)
    return reached


def main():
    toolchain, max_uncovered = known()
    found = tools(toolchain)
    if found is None:
        print(f"SKIPPED: no llvm-tools for Rust {toolchain}")
        return engine.SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        reached = regions(replay(toolchain, found, folder))
    files = {}
    for (path, *_), count in reached.items():
        all_of, of_it = files.get(path, (0, 0))
        files[path] = (all_of + 1, of_it + (count > 0))
    for path, (all_of, of_it) in sorted(files.items()):
        print(f"{path:30} {of_it:5} of {all_of:5}  {100 * of_it / all_of:5.1f} %")
    uncovered = sorted(place for place, count in reached.items() if count == 0)
    if "--list" in sys.argv[1:]:
        for path, line, column, to_line, to_column in uncovered:
            text = (SRC / path).read_text().splitlines()[line - 1]
            cut = text[column - 1 : to_column - 1] if line == to_line else text[column - 1 :]
            print(f"src/{path}:{line}:{column}-{to_line}:{to_column} {cut.strip()}")
    share = 100 * (len(reached) - len(uncovered)) / len(reached)
    print(f"coverage: {len(reached) - len(uncovered)} of {len(reached)} regions of floors 0 to 3, {share:.2f} %, {len(uncovered)} not reached")
    if len(uncovered) > max_uncovered:
        print(f"coverage: {max_uncovered} may be; run with --list")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
