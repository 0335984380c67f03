"""Cases by name, what they need, and how they are run and counted."""

import functools
import os
import pathlib
import shutil
import sys
import time
import traceback

import wire

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / ".ci" / "cache" / "peers"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROFILE = os.environ.get("ANTIPHON_PROFILE", "debug")
PEER = TARGET / PROFILE / "antiphon-peer"
CLI = TARGET / PROFILE / "antiphon"
LSP = TARGET / PROFILE / "lsp"
MCP = TARGET / PROFILE / "mcp"
PYTHON = PEERS / "python" / "bin" / "python"
MODULES = PEERS / "npm" / "node_modules"
HERE = ROOT / "tests" / "interop"

# Our servers and clients on another adapter: tokio, smol or async-std.
RUNTIME = ["--runtime", os.environ["ANTIPHON_RUNTIME"]] if "ANTIPHON_RUNTIME" in os.environ else []
# What .ci/peers has built from tests/interop/peers.
RUST = PEERS / "rust" / "debug"
ALLOY = PEERS / "alloy" / "debug" / "antiphon-interop-alloy"
COMPILED = PEERS / "compiled"

CASES = []


class Skip(Exception):
    """The case cannot run here."""


def case(name, needs=(), forms=None):
    """Registers a function as a case. `needs` names what .ci/peers installs, or a program.

    With `forms` it is a case for each of them: `{form}` in the name stands for it, and the
    function is called with it.
    """
    def register(function):
        if forms is None:
            CASES.append((name, tuple(needs), function))
        for form in forms or ():
            def run_form(form=form):
                return function(form)
            run_form.__module__ = function.__module__
            CASES.append((name.replace("{form}", form), tuple(needs), run_form))
        return function
    return register


def missing(need):
    """Whether something that a case needs is not there."""
    if need == "node":
        return shutil.which("node") is None
    if need == "browser":
        unpacked = PEERS / "browser" / "root" / "usr" / "lib" / "chromium" / "chromium"
        return shutil.which("chromium") is None and not unpacked.exists()
    if need.startswith("npm:"):
        return shutil.which("node") is None or not (MODULES / need[4:]).exists()
    if need.startswith("pypi:"):
        if not PYTHON.exists():
            return True
        found = (PEERS / "python").glob(f"lib/python3*/site-packages/{need[5:]}")
        return next(found, None) is None
    if need.startswith("target:"):
        return not has_target(need[7:])
    if need.startswith("rust:"):
        return not rust(need[5:]).exists()
    if need == "alloy":
        return not ALLOY.exists()
    if need.startswith("jvm:"):
        return not (PEERS / "jvm" / "classes" / f"{need[4:]}.class").exists()
    if need.startswith("compiled:"):
        return not (COMPILED / need[9:]).exists()
    if need.startswith("bin:"):
        return not (PEERS / "python" / "bin" / need[4:]).exists()
    raise ValueError(need)


@functools.cache
def has_target(scheme):
    """Whether the contract binary was built with this transport: it says which port it was given."""
    process = wire.Process([PEER, "server", f"{scheme}://127.0.0.1:0/"])
    try:
        process.stderr_line(r"^listening ")
        return True
    except AssertionError:
        return False
    finally:
        process.kill()


def rust(name):
    return RUST / name


def node_env():
    return {"ANTIPHON_MODULES": str(MODULES), "NODE_PATH": str(MODULES)}


def run(pattern, minimum, may_skip):
    passed = failed = skipped = 0
    chosen = [entry for entry in CASES if pattern in f"{entry[2].__module__}: {entry[0]}"]
    began = time.monotonic()
    for number, (name, needs, function) in enumerate(chosen, 1):
        absent = [need for need in needs if missing(need)]
        if absent:
            skipped += 1
            print(f"SKIPPED {number} {name}: not installed: {', '.join(absent)}", flush=True)
            continue
        start = time.monotonic()
        try:
            note = function()
        except Skip as why:
            skipped += 1
            print(f"SKIPPED {number} {name}: {why}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"FAILED {number} {name}: {type(error).__name__}: {str(error)[:1000]}", flush=True)
            where = traceback.extract_tb(error.__traceback__)
            for frame in where[-4:]:
                print(f"    {pathlib.Path(frame.filename).name}:{frame.lineno}: {frame.line}")
            for process in wire.Process.alive:
                for line in process.stderr_lines[-5:]:
                    print(f"    stderr: {line[:300]}")
        else:
            passed += 1
            seconds = time.monotonic() - start
            print(f"ok {number} {name}{': ' + note if note else ''} ({seconds:.2f} s)", flush=True)
        finally:
            wire.Process.clean_up()
    seconds = time.monotonic() - began
    print(f"{passed} passed, {failed} failed, {skipped} skipped in {seconds:.1f} s")
    if failed:
        return 1
    if pattern == "" and skipped and not may_skip:
        print("interop: something was skipped; run .ci/peers, or allow it with --may-skip",
              file=sys.stderr)
        return 3
    if pattern == "" and passed + (skipped if may_skip else 0) < minimum:
        print(f"interop: fewer than {minimum} cases: some were lost", file=sys.stderr)
        return 1
    return 0 if passed else 1
