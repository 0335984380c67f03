#!/usr/bin/env python3
"""Fuzzes each target for a while, from the committed cases on.

    fuzz/live.py [--seconds N] [--keep] [TARGET…]

N seconds of the processor a target, 10 unless told. With --keep, the few cases that reach more than
the committed ones are added to them; the committed ones all stay. Needs a nightly Rust and `cargo install
cargo-fuzz --locked`; exits 3 without them. Exits 1 if anything was found, with the case and what it broke.
"""

import argparse
import sys
import tempfile

import engine


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seconds", type=int, default=10)
    asked.add_argument("--keep", action="store_true")
    asked.add_argument("targets", nargs="*")
    asked = asked.parse_args()
    chosen = engine.chosen(asked.targets)
    if why := engine.missing():
        print(f"SKIPPED: {why}")
        return engine.SKIPPED
    programs = engine.build([], chosen)
    found = 0
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            engine.unpack(name, folder)
            run = engine.fuzz(programs / name, folder, asked.seconds)
            verdict = "nothing found" if run.found is None else f"FOUND {run.found.hex()}"
            print(f"{name}: {run.executions} executions, {run.rate:.0f} a second, {run.covered} edges, {verdict}", flush=True)
            if run.found is not None:
                print(run.said[-4000:])
                found += 1
            elif asked.keep:
                with tempfile.TemporaryDirectory() as into:
                    engine.unpack(name, into)
                    engine.minimise(programs / name, [folder], into)
                    print(f"{name}: {engine.pack(name, into)} cases kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
