#!/usr/bin/env python3
"""Shows that proptest-regressions/model.txt receives a failure that the model test finds, and replays it.

    tests/planted_failure.py

In a copy of the tree: a fault is planted in the core, the model test finds it by chance, and a line is added to the
file; without any new random case (PROPTEST_CASES=0) the line alone makes the test fail again; without the line, and
without new cases, it passes, fault and all; and with the line, and the fault taken out, it passes. Then the line that
was found is worth committing. Exit code 0: all four are so. 1: one is not.
"""
import pathlib
import sys
import tempfile

from deleted_rules import copy_tree
from ten_bugs import BUILD_SECONDS_MAX, CARGO, put_back, run

FILE = "proptest-regressions/model.txt"
TEST = "the_connection_does_what_the_model_says_whatever_is_done_to_it"
# An answer to a call that timed out is told as one to a call that never was: too subtle for the lines already there.
FAULT = ("src/calls.rs", [("(first.max(1)..self.next).contains(&number)",
                           "(first.max(1)..self.next).contains(&number) && number % 5 != 3")])


def fails(tree, cases):
    """Whether the model test fails with so many new random cases, the old lines read first."""
    code, output, seconds = run([*CARGO, "--test", "model", "--", TEST], tree, BUILD_SECONDS_MAX, cases)
    if code is None or "running 1 test" not in output:
        raise SystemExit(f"the model test did not run:\n{output[-2000:]}")
    return code != 0, seconds


def seeds(tree):
    text = pathlib.Path(tree, FILE).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.startswith("cc ")]


def main():
    shown = []

    def show(what, is_so):
        shown.append(is_so)
        print(f"{'ok' if is_so else 'FAILED'} {what}", flush=True)

    with tempfile.TemporaryDirectory() as tree:
        copy_tree(tree)
        file = pathlib.Path(tree, FILE)
        before = file.read_text(encoding="utf-8")
        path, edits = FAULT
        sound = put_back(tree, path, edits)
        known, _ = fails(tree, 0)
        show("the lines that are there do not find the planted fault", not known)
        found, seconds = fails(tree, 20_000)
        new = [seed for seed in seeds(tree) if seed not in before]
        show(f"the model test finds it by chance, in {seconds:.0f} s, and {FILE} receives {len(new)} line", found and len(new) == 1)
        for seed in new:
            print(f"   {seed[:160]}…")
        show("with no new case at all, the line alone makes it fail again", fails(tree, 0)[0])
        with_line = file.read_text(encoding="utf-8")
        file.write_text(before, encoding="utf-8")
        show("without the line it passes, so it was the line", not fails(tree, 0)[0])
        file.write_text(with_line, encoding="utf-8")
        pathlib.Path(tree, path).write_text(sound, encoding="utf-8")
        show("with the line, and without the fault, it passes", not fails(tree, 0)[0])
    print(f"{sum(shown)} passed, {len(shown) - sum(shown)} failed")
    return 0 if all(shown) else 1


if __name__ == "__main__":
    sys.exit(main())
