#!/usr/bin/env python3
"""How much flash the echo peers for a bare Cortex-M4F take: vectors, text and read-only data, in bytes.

usage: flash.py [--parts] [--symbols] [--write]

Builds the peers of echo/ (optimised for size, one codegen unit, link-time optimisation over
everything, abort on panic; a stable toolchain with its own core and alloc), and compares with
flash.txt: a size more than 2 % above the figure there fails, one more than 2 % below asks for --write.

--parts     by part of the program;  --symbols  every symbol;  --write  write the figures down
--parts and --symbols leave out the peers with serde_json.
"""

import collections
import os
import subprocess
import sys
from pathlib import Path

from elf import Elf, part_of

HERE = Path(__file__).parent
FIGURES = HERE / "flash.txt"
TARGET = "thumbv7em-none-eabihf"
# The echo peers, and three methods: by hand on text, by hand with types, through the router; and both without antiphon.
PEERS = {
    "antiphon": "antiphon-embedded-echo", "least": "antiphon-embedded-least", "serde_json": "serde-embedded-echo",
    "untyped": "antiphon-embedded-untyped", "typed": "antiphon-embedded-typed", "routed": "antiphon-embedded-routed",
    "serde_methods": "serde-embedded-methods",
}
TOLERANCE = 0.02
SECTIONS = (".vectors", ".text", ".rodata")


def build():
    """The files of the peers, by name."""
    target_dir = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "echo/target")).absolute()
    command = ["cargo", "build", "-q", "--locked", "--release", "--target", TARGET, "--target-dir", str(target_dir)]
    subprocess.run(command, cwd=HERE / "echo", check=True)
    return {peer: Elf((target_dir / TARGET / "release" / binary).read_bytes()) for peer, binary in PEERS.items()}


def flash(elf):
    return elf.section(".vectors") + elf.section(".text") + elf.section(".rodata")


def written():
    rows = (line.split() for line in FIGURES.read_text().splitlines() if line and not line.startswith("#"))
    return {peer: int(figure) for peer, figure in rows}


def show(elf, by_part):
    sizes = collections.Counter()
    for size, name in elf.symbols(*SECTIONS):
        sizes[part_of(name) if by_part else name] += size
    sizes["without a name: strings, tables, padding"] = flash(elf) - sum(sizes.values())
    for name, size in sizes.most_common():
        print(f"  {size:6} {name}")


def main():
    options = set(sys.argv[1:])
    if options - {"--parts", "--symbols", "--write"}:
        print(__doc__, file=sys.stderr)
        return 2
    elves = build()
    figures = {} if "--write" in options else written()
    verdict = 0
    for peer, elf in elves.items():
        size = flash(elf)
        text, rodata = elf.section(".text"), elf.section(".rodata")
        print(f"{peer}: text {text} + rodata {rodata} + vectors = {size} bytes of flash")
        if text == 0:
            print("there is no code in it: nothing was linked", file=sys.stderr)
            verdict = 1
        if options & {"--parts", "--symbols"} and not peer.startswith("serde_"):
            show(elf, "--parts" in options)
        known = figures.get(peer, size)
        if size > known * (1 + TOLERANCE):
            print(f"{peer}: GROWN from {known}", file=sys.stderr)
            verdict = 1
        elif size < known * (1 - TOLERANCE):
            print(f"{peer}: smaller than the {known} written down; --write")
    if "--write" in options:
        lines = [f"{peer} {flash(elf)}" for peer, elf in elves.items()]
        FIGURES.write_text("\n".join(["# Bytes of flash, by flash.py --write.", *lines]) + "\n")
    return verdict


if __name__ == "__main__":
    sys.exit(main())
