#!/usr/bin/env python3
"""Deletes one guard of the adapters after another and expects a test to notice.

What the guards are stands in guards.py. Each is deleted in a copy of the tree, the one test that is
named for it is run there, and the guard is put back. A test that does not end counts as one that
noticed, and is ended. A guard whose deletion is not noticed fails this script; so does one whose
text is no longer in its file, or whose test is not there, or fails with the guard in place.

    tests/deleted_guards.py               all guards
    tests/deleted_guards.py http queue    those with "http" or "queue" in their file or their test
    tests/deleted_guards.py --list        the guards, without running anything; fails if one is not there any more
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

from deleted_rules import ROOT, copy_tree, failed_tests, listed
from guards import GUARDS, SUITES

# How long building may take, and then one test; in seconds.
BUILD_SECONDS_MAX = 1200
TEST_SECONDS_MAX = 60

TARGET = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")


def build(tree, names):
    """Builds test binaries: their paths by name and the folders to run them in, or what is wrong."""
    command = ["cargo", "test", "--no-run", "--locked", "--message-format=json", *SUITES[names[0]][1]]
    for name in names[1:]:
        command += ["--test", name]
    # Nobody looks for a line in what fails here.
    env = dict(os.environ, CARGO_TARGET_DIR=TARGET, CARGO_PROFILE_DEV_DEBUG="0", CARGO_INCREMENTAL="0")
    run = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True,
                         timeout=BUILD_SECONDS_MAX, stdin=subprocess.DEVNULL)
    if run.returncode != 0:
        texts = re.findall(r'"rendered":"(error.*?)\\n', run.stdout)
        return None, (texts or re.findall(r"^error.*", run.stderr, re.M) or ["it is not built"])[0]
    built = {}
    for line in run.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message["executable"]:
            continue
        package = os.path.dirname(message["manifest_path"])
        for name in names:
            is_lib = name == "lib" and "lib" in message["target"]["kind"]
            is_named = is_lib or message["target"]["name"] == name
            if is_named and package_name(package) == SUITES[name][0]:
                built[name] = (message["executable"], package)
    return built, ""


def package_name(folder):
    with open(os.path.join(folder, "Cargo.toml"), encoding="utf-8") as file:
        return re.search(r'^name = "(.*)"', file.read(), re.M).group(1)


def run_test(executable, folder, words):
    """The tests that failed, how many ran, and what was printed."""
    env = dict(os.environ, RUST_BACKTRACE="0")
    running = subprocess.Popen([executable, *words], cwd=folder, env=env, stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = running.communicate(timeout=TEST_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        return ["(it did not end)"], 1
    counted = sum(map(int, re.findall(r"^running (\d+) test", output, re.M)))
    if running.returncode == 0:
        return [], counted
    return failed_tests(output) or ["(the test process died)"], counted


def check_guards(tree, guards):
    """Says which named tests are missing or fail with every guard in place."""
    complaints = []
    wanted = {}
    for *_, test in guards:
        name, word = test.split("::", 1)
        wanted.setdefault(name, []).append(word)
    for names in grouped(wanted):
        built, why = build(tree, names)
        if built is None:
            return [why]
        for name in names:
            for word in dict.fromkeys(wanted[name]):
                failed, counted = run_test(*built[name], [word])
                if failed or not counted:
                    complaints.append(f"{name}::{word}: {failed[0] if failed else 'there is no such test'}")
    return complaints


def grouped(names):
    """Test binaries that are built with one command."""
    groups = {}
    for name in names:
        arguments = SUITES[name][1]
        groups.setdefault(tuple(arguments[:-2]) if name != "lib" else tuple(arguments), []).append(name)
    return groups.values()


def run_without(tree, guard):
    """Deletes a guard in the copied tree, runs its test, and puts the guard back."""
    path, old, new, _, test = guard
    name, word = test.split("::", 1)
    full = os.path.join(tree, path)
    with open(full, encoding="utf-8") as file:
        text = file.read()
    if old not in text:
        return [], "its text is not in the file any more"
    try:
        with open(full, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))
        built, why = build(tree, [name])
        if built is None:
            return [], "without it nothing is built: " + why
        failed, _ = run_test(*built[name], [word])
        return failed, "no test failed"
    finally:
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def main(arguments):
    words = [argument for argument in arguments if not argument.startswith("-")]
    guards = [guard for guard in GUARDS
              if not words or any(word in guard[0] or word in guard[4] for word in words)]
    if "--list" in arguments:
        return listed((path, old, f"{path}: {what} ({test})") for path, old, _, what, test in guards)
    if not guards:
        print("no guard has in its file or test: " + ", ".join(words), file=sys.stderr)
        return 2
    # Always the same folder, so that what is built once stays built.
    tree = os.path.join(TARGET, "deleted-guards")
    copy_tree(tree)
    complaints = check_guards(tree, guards)
    if complaints:
        print("before anything is deleted:\n" + "\n".join(complaints))
        return 1
    caught = 0
    for guard in guards:
        began = time.monotonic()
        failed, why = run_without(tree, guard)
        seconds = time.monotonic() - began
        caught += bool(failed)
        told = f"caught by {guard[4].split('::')[0]}::{failed[0]}" if failed else f"NOT CAUGHT: {why}"
        print(f"{guard[0]}: «{guard[3]}» {told} ({seconds:.0f} s)", flush=True)
    print(f"{caught} passed, {len(guards) - caught} failed")
    return 0 if caught == len(guards) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
