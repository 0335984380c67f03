#!/usr/bin/env python3
"""Shows that each target finds the fault planted for it, from an empty corpus.

    fuzz/planted.py [TARGET…]

Builds with the feature `planted` and gives each target 300 seconds of the processor, one seed, no
case to begin with. Prints how many executions, at which rate and with how many covered edges it
took. The case that was found has to pass without the feature, or it shows another fault. Exits 1 if
a planted fault is not found, 3 if the engine is not there.
"""

import sys
import tempfile

import engine

MAX_CPU_SECONDS = 300


def main():
    chosen = engine.chosen(sys.argv[1:])
    if why := engine.missing():
        print(f"SKIPPED: {why}")
        return engine.SKIPPED
    plain, programs = engine.build([], chosen), engine.build(["planted"], chosen)
    lost = 0
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            run = engine.fuzz(programs / name, folder, MAX_CPU_SECONDS, seed=1)
        numbers = f"{run.cpu_seconds:.0f} s, {run.executions} executions, {run.rate:.0f} a second, {run.covered} edges"
        if run.found is None:
            lost += 1
            print(f"{name}: NOT FOUND in {numbers}", flush=True)
        elif not engine.passes(plain / name, run.found):
            lost += 1
            print(f"{name}: found ANOTHER FAULT in {numbers}: {run.found.hex()}", flush=True)
        else:
            print(f"{name}: found in {numbers}, {len(run.found)} bytes", flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
