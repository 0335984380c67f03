#!/usr/bin/env python3
"""Runs the interop cases against the built binaries.

    cargo build -p antiphon-peer -p antiphon-cli && .ci/peers && tests/interop/run.py [--may-skip] [PART-OF-A-NAME]

Exit code 0: every case passed. 1: a case failed, or fewer cases passed than `MINIMUM`. 2: wrong
usage, or the binaries are not built. 3: all that ran passed, but something was skipped because it
is not installed; `--may-skip` turns that into 0, with the skipped cases still named and counted.
With PART-OF-A-NAME: 0 if no case failed and one passed, else 1.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import suite  # noqa: E402
# Importing a file registers its cases.
import raw_server  # noqa: E402,F401
import raw_client  # noqa: E402,F401
import raw_proxy  # noqa: E402,F401
import tiny_servers  # noqa: E402,F401
import libraries  # noqa: E402,F401
import web_libraries  # noqa: E402,F401
import streams  # noqa: E402,F401
import restarts  # noqa: E402,F401
import compiled  # noqa: E402,F401
import jvm  # noqa: E402,F401
import mcp_peers  # noqa: E402,F401
import language_servers  # noqa: E402,F401
import wasm_peer  # noqa: E402,F401
import browser  # noqa: E402,F401
import one_port  # noqa: E402,F401
import openrpc  # noqa: E402,F401
import prometheus  # noqa: E402,F401
import frameworks  # noqa: E402,F401
import conform  # noqa: E402,F401

# Cases that must pass; skipped ones count with --may-skip. Raise it with every case; it never sinks.
MINIMUM = 407


def main(arguments):
    may_skip = "--may-skip" in arguments
    words = [word for word in arguments if word != "--may-skip"]
    if len(words) > 1 or any(word.startswith("-") for word in words):
        print("usage: run.py [--may-skip] [PART-OF-A-NAME]", file=sys.stderr)
        return 2
    for binary in (suite.PEER, suite.LSP, suite.MCP, suite.CLI):
        if not binary.exists():
            print(f"interop: {binary.name} is not built: cargo build -p antiphon-peer -p antiphon-cli", file=sys.stderr)
            return 2
    return suite.run(words[0] if words else "", MINIMUM, may_skip)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
