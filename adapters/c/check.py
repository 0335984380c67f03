#!/usr/bin/env python3
"""Checks the C interface from outside: adapters/c/check.py

Builds the libraries; writes the header with cbindgen, if it is installed, and compares; compiles the server in C with the sanitizers for
addresses and undefined behaviour; and plays the cases of the protocol against it, and against the server in Python, under one framing. The cases of a client are played
through the functions themselves (client.py).
Prints what was done, and ends with `N passed, M failed`. What cannot be done here is printed as SKIPPED.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "debug"
PLAY = ROOT / "tests/conformance/play.py"
# Fewer plays mean that cases were lost.
LEAST = {"C": 800, "Python": 300, "client": 84}
WARNINGS = "-std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror".split()
SANITIZERS = "-g -fsanitize=address,undefined -fno-sanitize-recover=all".split()


def header():
    """Whether the header is what cbindgen writes; None without cbindgen."""
    if not shutil.which("cbindgen"):
        return None
    command = ["cbindgen", "-q", "--config", "cbindgen.toml"]
    written = subprocess.run(command, cwd=HERE, check=True, capture_output=True, text=True).stdout
    return written == (HERE / "include/antiphon.h").read_text(encoding="utf-8")


def compiled(into, *flags):
    """Whether the server compiles and links."""
    command = ["gcc", *WARNINGS, *flags, f"-I{HERE}/include", f"{HERE}/examples/server.c", f"{TARGET}/libantiphon_c.a", "-o", into]
    return subprocess.run(command).returncode == 0


def played(player, *arguments):
    """How many plays passed; None if one failed."""
    ran = subprocess.run([sys.executable, player, *arguments], capture_output=True, text=True)
    print(ran.stdout)
    found = re.search(r"^(\d+) passed, 0 failed", ran.stdout, re.M)
    return int(found[1]) if found and ran.returncode == 0 else None


def main():
    subprocess.run(["cargo", "build", "-q", "--locked", "-p", "antiphon-c"], cwd=ROOT, check=True)
    passed = failed = 0
    same = header()
    if same is None:
        print("SKIPPED: there is no cbindgen to write the header; the tests of antiphon-c compare it with the sources")
    elif not same:
        print("FAILED: include/antiphon.h is not what cbindgen writes (0.29.4): see cbindgen.toml")
    passed, failed = passed + (same is True), failed + (same is False)
    players = {}
    with tempfile.TemporaryDirectory() as folder:
        if not shutil.which("gcc"):
            print("SKIPPED: there is no gcc to compile the server in C")
        elif compiled(f"{folder}/server", *SANITIZERS):
            players["C"] = PLAY, f"{folder}/server {{limits}} {{framing}}"
        elif compiled(f"{folder}/server"):
            print("SKIPPED: the sanitizers cannot be linked here")
            players["C"] = PLAY, f"{folder}/server {{limits}} {{framing}}"
        else:
            print("FAILED: the server in C does not compile")
            failed += 1
        library = next(filter(pathlib.Path.exists, (TARGET / f"libantiphon_c.{kind}" for kind in ("so", "dylib"))), None)
        if library:
            python = shlex.join([sys.executable, "-S", "-E", f"{HERE}/examples/server.py", str(library)])
            players["Python"] = PLAY, f"{python} {{limits}} newline"
            players["client"] = HERE / "client.py", library
        else:
            print("FAILED: there is no shared library")
            failed += 1
        for name, command in players.items():
            count = played(*command)
            is_right = count is not None and count >= LEAST[name]
            print(f"{name}: {count} plays of cases, {LEAST[name]} at least" if is_right else f"FAILED {name}: {count} plays of cases")
            passed, failed = passed + (count or 0), failed + (not is_right)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
