#!/usr/bin/env python3
"""Shows that a failure which the model test finds is written to proptest-regressions/model.txt, and is replayed from there.

    tools/planted_failure.py

The model test runs in an empty folder with a copy of that file. With MODEL_MISHEARS set it misreads the connection's
events, which is the planted fault. It finds the fault by chance and adds a line to the file. Without any new random case
(PROPTEST_CASES=0) that line alone makes the test fail again. Without the line it passes in spite of the fault; with the
line and without the fault it passes too. If so, a line that the test adds is worth committing. Exit code 0: all of this
is so. 1: some of it is not.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE = "proptest-regressions/model.txt"
TEST = "the_connection_does_what_the_model_says_whatever_is_done_to_it"
# How long the build may take, and one run, in seconds.
MAX_SECONDS = 1200


def program():
    """Builds the model test; gives its path."""
    command = ["cargo", "test", "--locked", "-p", "antiphon", "--test", "model", "--no-run", "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=MAX_SECONDS)
    for message in map(json.loads, built.stdout.splitlines()):
        if message.get("executable") and message["target"]["name"] == "model":
            return message["executable"]
    raise SystemExit("cargo named no program for the model test")


def fails(model, folder, cases, mishears=True):
    """Whether the test fails with `cases` new random cases, after those of the file; and the seconds it took."""
    env = dict(os.environ, PROPTEST_CASES=str(cases), RUST_BACKTRACE="0")
    env.pop("MODEL_MISHEARS", None)
    if mishears:
        env["MODEL_MISHEARS"] = "1"
    began = time.monotonic()
    run = subprocess.run([model, TEST], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, errors="replace", timeout=MAX_SECONDS)
    if "running 1 test" not in run.stdout:
        raise SystemExit(f"the model test did not run:\n{run.stdout[-2000:]}")
    return run.returncode != 0, time.monotonic() - began


def main():
    shown = []

    def show(what, is_so):
        shown.append(is_so)
        print(f"{'ok' if is_so else 'FAILED'} {what}", flush=True)

    model = program()
    before = (ROOT / FILE).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, FILE)
        file.parent.mkdir()
        file.write_text(before, encoding="utf-8")
        known, _ = fails(model, folder, 0)
        show("the lines that are there do not find the planted fault", not known)
        found, seconds = fails(model, folder, 20_000)
        with_line = file.read_text(encoding="utf-8")
        new = [line for line in with_line.splitlines() if line.startswith("cc ") and line not in before]
        show(f"the model test finds it by chance, in {seconds:.0f} s, and {FILE} receives {len(new)} line", found and len(new) == 1)
        for line in new:
            print(f"   {line[:160]}…")
        again, _ = fails(model, folder, 0)
        show("with no new case at all, the line alone makes it fail again", again)
        file.write_text(before, encoding="utf-8")
        without, _ = fails(model, folder, 0)
        show("without the line it passes, so it was the line", not without)
        file.write_text(with_line, encoding="utf-8")
        sound, _ = fails(model, folder, 0, mishears=False)
        show("with the line, and without the fault, it passes", not sound)
    print(f"{sum(shown)} passed, {len(shown) - sum(shown)} failed")
    return 0 if all(shown) else 1


if __name__ == "__main__":
    sys.exit(main())
