#!/usr/bin/env python3
"""Puts ten bugs back that other implementations have had, and expects at least two layers of tests to notice each.

    tests/ten_bugs.py            all bugs; their lines in tests/TEN_BUGS.md are written anew
    tests/ten_bugs.py cancel     the bugs whose name contains "cancel", and their lines
    tests/ten_bugs.py --layers=vectors,model …
                                 only these layers; the list says which were run
    tests/ten_bugs.py --list     the bugs and the layers, without running anything; fails if a bug has no place any more

Each bug is an edit of the core, made in a copy of the tree. Every layer is run there by itself and timed, from the
first test that it starts; building is timed apart. A layer catches a bug when it fails, and when without the bug it
does not, which is seen first. A layer that a bug keeps from ending has caught it too.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from deleted_rules import ROOT, copy_tree, listed

LIST = pathlib.Path(ROOT, "tests", "TEN_BUGS.md")
# How long one build may take, and one layer, in seconds.
BUILD_SECONDS_MAX = 1200
RUN_SECONDS_MAX = 900
# What a script here exits with where the tools are missing.
SKIPPED = 3
LAYERS_MIN = 2

CARGO = ["cargo", "test", "--offline", "--locked", "-p", "antiphon"]
# Built together, so that the library is built once.
TOGETHER = [*CARGO, "--test", "vectors", "--test", "scripts", "--test", "model", "--test", "splits", "--no-run"]
FUZZ = ["cargo", "test", "--offline", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--no-default-features"]
# The targets that are fuzzed on from the committed cases, for five seconds of the processor each.
FUZZED = ["frames", "client", "server", "encode", "operations"]
# Every adapter over every transport.
SUITE = ["cargo", "test", "--offline", "--locked", "-p", "antiphon-suite", "--test", "suite"]
# Layer: how it is built, and how it is run.
LAYERS = {
    "vectors": (TOGETHER, [*CARGO, "--test", "vectors"]),
    "scripts": (TOGETHER, [*CARGO, "--test", "scripts"]),
    "model": (TOGETHER, [*CARGO, "--test", "model"]),
    "splits": (TOGETHER, [*CARGO, "--test", "splits"]),
    "fuzz corpus": ([*FUZZ, "--no-run"], FUZZ),
    "unit tests": ([*CARGO, "--lib", "--no-run"], [*CARGO, "--lib"]),
    "live fuzz": ([sys.executable, "-c", "import sys; sys.path.insert(0, 'fuzz'); import engine; engine.missing() or engine.build()"],
                  [sys.executable, "fuzz/live.py", "--seconds", "5", *FUZZED]),
    "simulator": (["cargo", "build", "--offline", "--locked", "-p", "antiphon-sim"],
                  ["cargo", "run", "--offline", "--locked", "-p", "antiphon-sim", "--", "--seeds", "300"]),
    "suite": ([*SUITE, "--no-run"], SUITE),
}

# (name, where it was seen, file, [(text, replacement)…])
BUGS = [
    ("framing", "a header that arrives in two reads loses a byte: vscode-languageserver-node#917, helix#504",
     "src/frame/content_length.rs",
     [("self.scanned = self.scanned.max(window);", "self.scanned = self.scanned.max(window + 1);")]),
    ("id text", "the id 3100.0 is echoed as 3100: erpc#869, OniMods#163",
     "src/requests.rs",
     [("slot.id.set(id.json().as_bytes());",
       "slot.id.set(id.json().as_str().trim_end_matches(\".0\").as_bytes());"),
      ("KeptId::new(id.json().as_bytes())",
       "KeptId::new(id.json().as_str().trim_end_matches(\".0\").as_bytes())")]),
    ("batch slot", "the answers of a batch stand where they were finished, not where they were asked: nethermind#5122",
     "src/batches.rs",
     [("for reply in &self.replies {\n            parts[reply.position as usize]",
       "for (index, reply) in self.replies.iter().enumerate() {\n            parts[index]")]),
    ("cancel race", "a batch that cancels one of its own requests runs it all the same: context7#3076",
     "src/connection/items.rs", [("if has_cancels {", "if false && has_cancels {")]),
    ("deadline", "a call is woken for after its deadline, and outlives it: of the family of longhorn#13553",
     "src/deadlines.rs", [("*bound = deadline;", "*bound = deadline.saturating_add(1_000_000);")]),
    ("limit", "one more than the limit is let in: go-ethereum#26681",
     "src/connection/refuse.rs",
     [("self.requests.open() >= self.config.requests_max", "self.requests.open() > self.config.requests_max")]),
    ("1.0 shape", "a 1.0 result comes without its null error: bitcoin#2960",
     "src/encode.rs", [("out.extend_from_slice(b\",\\\"error\\\":null\");", "")]),
    ("late answer", "an answer that comes late settles whichever call has its place now: python-sdk#3060",
     "src/calls.rs",
     [("slot.take_if(|slot| slot.is(number))", "slot.take()"),
      ("slot.filter(|slot| slot.is(number))", "slot")]),
    ("response lane", "reading stops while all requests are taken, so the answers they wait for never arrive: LSP#12, jrpc2#20",
     "src/connection/receive.rs",
     [("if self.phase.has_ended() {\n                return None;",
       "if self.phase.has_ended() || self.requests.open() >= self.config.requests_max.max(1) {\n                return None;")]),
    ("encoding", "an id that comes back with other escapes is taken for another id",
     "src/id.rs", [("ours.code_points().eq(theirs.code_points())", "ours.raw() == theirs.raw()")]),
]


def environment(cases):
    """For cargo: nothing but what the tests need to be the same each time."""
    return dict(os.environ, CARGO_INCREMENTAL="0", RUST_BACKTRACE="0", PROPTEST_CASES=str(cases),
                CARGO_TARGET_DIR=os.environ.get("TEN_BUGS_TARGET", os.path.join(ROOT, "target", "ten-bugs")))


def run(command, tree, seconds_max, cases=256):
    """Runs a command; gives its exit code (none if it did not end), what it printed, and how long it took."""
    began = time.monotonic()
    # A group of its own: what a test has started ends with it, or its output would be waited for.
    child = subprocess.Popen(command, cwd=tree, env=environment(cases), stdin=subprocess.DEVNULL, start_new_session=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        output, _ = child.communicate(timeout=seconds_max)
        return child.returncode, output, time.monotonic() - began
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return None, "", time.monotonic() - began


def layer(name, tree):
    """Builds and runs a layer: whether it noticed something (none where it cannot run), how long it ran, and what it named
    first."""
    build, test = LAYERS[name]
    code, output, _ = run(build, tree, BUILD_SECONDS_MAX)
    if code != 0:
        raise SystemExit(f"{name} cannot be built:\n{output[-3000:]}")
    code, output, seconds = run(test, tree, RUN_SECONDS_MAX)
    if code is None:
        return True, seconds, "it did not end"
    if "live" in name and code == SKIPPED:
        return None, seconds, output.strip()
    # A test binary's own line, a fuzz target's, the simulator's, or a panic without either.
    named = re.search(r"^test (.+) \.\.\. FAILED$", output, re.M) or re.search(r"^(\w+): .* FOUND \w+$", output, re.M) \
        or re.search(r"^(seed .*|.*FAILED.*|.*panicked.*)$", output, re.M)
    return code != 0, seconds, named[1].strip()[:110] if named and code else ""


def put_back(tree, path, edits):
    """Makes the edits; gives the text that was there."""
    file = pathlib.Path(tree, path)
    text = file.read_text(encoding="utf-8")
    changed = text
    for old, new in edits:
        if changed.count(old) != 1:
            raise SystemExit(f"{path}: the text is there {changed.count(old)} times: {old}")
        changed = changed.replace(old, new)
    file.write_text(changed, encoding="utf-8")
    return text


def write_list(rows):
    """Puts new lines in the place of those of the same bugs."""
    lines = LIST.read_text(encoding="utf-8").splitlines() if LIST.exists() else []
    known = {line.split(" | ")[0][2:]: line for line in lines if line.startswith("| ")} | rows
    LIST.write_text("\n".join([
        "# Ten bugs, put back on purpose", "",
        "Made by `tests/ten_bugs.py`, which makes each edit in a copy of the tree and runs the layers there: "
        + ", ".join(LAYERS) + ". The time is that of the whole layer, building not counted; behind it is what the layer named "
        "first; live fuzzing takes its targets one after the other (" + ", ".join(FUZZED) + "), at most five seconds of the processor "
        "each, and ends a target at its first find. `3 of 9` means that nine layers were run and three of them noticed; a line with fewer "
        "than nine is from a run of those layers alone (`--layers`). The script fails below two.", "",
        "| bug | what it does, and who has had it | where it is put | noticed by | which, how long, and by what |",
        "|---|---|---|---|---|", *(known[bug] for bug, _, _, _ in BUGS if bug in known), ""]), encoding="utf-8")


def main(arguments):
    wanted = [argument for argument in arguments if not argument.startswith("-")]
    bugs = [bug for bug in BUGS if not wanted or any(word in bug[0] for word in wanted)]
    if "--list" in arguments:
        print("layers: " + ", ".join(LAYERS))
        return listed((path, old, f"{name}: {seen} ({path})") for name, seen, path, edits in bugs for old, _ in edits)
    if not bugs:
        print("no bug has a name with: " + ", ".join(wanted), file=sys.stderr)
        return 2
    only = [argument[9:].split(",") for argument in arguments if argument.startswith("--layers=")]
    layers = only[0] if only else list(LAYERS)
    if not set(layers) <= set(LAYERS):
        print("the layers are: " + ", ".join(LAYERS), file=sys.stderr)
        return 2
    failed = 0
    with tempfile.TemporaryDirectory() as tree:
        copy_tree(tree)
        for name in list(layers):
            fails, seconds, what = layer(name, tree)
            if fails is None:
                print(f"SKIPPED {name}: {what}", flush=True)
                layers.remove(name)
                continue
            print(f"without a bug, {name}: {'FAILED ' + what if fails else 'passes'}, {seconds:.1f} s", flush=True)
            if fails:
                return 1
        for bug, seen, path, edits in bugs:
            text = put_back(tree, path, edits)
            caught = []
            for name in layers:
                notices, seconds, what = layer(name, tree)
                if notices:
                    caught.append((name, seconds, what))
                print(f"  {bug}, {name}: {'caught: ' + what if notices else 'not noticed'}, {seconds:.1f} s", flush=True)
            pathlib.Path(tree, path).write_text(text, encoding="utf-8")
            is_enough = len(caught) >= LAYERS_MIN
            failed += not is_enough
            print(f"{'ok' if is_enough else 'FAILED'} {bug}: {len(caught)} layers", flush=True)
            shown = "<br>".join(f"{name}, {seconds:.1f} s: `{what}`" for name, seconds, what in caught)
            write_list({bug: f"| {bug} | {seen} | `{path}` | {len(caught)} of {len(layers)} | {shown} |"})
    print(f"{len(bugs) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
