#!/usr/bin/env python3
"""Counts what the core costs in instructions, and compares it with the committed figures.

usage: run.py                 count, compare with figures.txt, fail when one is more than 2 % above it
       run.py --write         count, and commit to the result: writes figures.txt
       run.py --show          count, and print everything, serde_json beside ours
       run.py --prove         show that the guard notices one more pass over the bytes: fails if it does not

benches/table.py compares these counts, and the times, with the targets.

The counts are callgrind's, so they repeat, but another compiler gives other counts: figures.txt names the one it was made
with, and the guard prints SKIPPED when this one differs, or when valgrind is missing. A figure that falls by more than 2 % is
no failure, but is printed, for it is to be written down.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FIGURES = os.path.join(HERE, "figures.txt")
TOLERANCE = 0.02
# A few instructions more or less in an operation of thirty are not worth a red line.
SLACK = 2.0
# What a publication to ten receivers may cost among a million other subscriptions, against a thousand.
MAX_GROWTH = 1.5
# What decoding a text may cost against serde_json on the same text, for reading has checked the text before.
MAX_DECODE = 1.10


def build(*features):
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(HERE, "target")
    command = ["cargo", "build", "--release", "--locked", "-q", "--target-dir", target]
    if features:
        command += ["--features", ",".join(features)]
    subprocess.run(command, cwd=HERE, check=True)
    return os.path.join(target, "release", "antiphon-instructions")


def compiler():
    shown = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"^release: (.*)$", shown, re.M).group(1)
    host = re.search(r"^host: (.*)$", shown, re.M).group(1)
    return f"rustc {release} {host}"


def count(binary, *wanted, seconds=None):
    """Name to (instructions, allocations) of one time, in the order of the operations; of some that are wanted, or of all."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*measured_run*",
            "--dump-after=*measured_end*", "--dump-instr=no", "--collect-jumps=no",
            f"--callgrind-out-file={folder}/out", binary, "count", *wanted,
        ]
        run = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        if run.returncode != 0:
            sys.exit(f"run.py: the count failed:\n{run.stderr[-2000:]}")
        totals = {}
        for path in glob.glob(f"{folder}/out.*"):
            part = int(path.rsplit(".", 1)[1])
            with open(path, encoding="utf-8") as file:
                text = file.read()
            found = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
            if found:
                totals[part] = int(found.group(1))
    figures = {}
    for part, line in enumerate(run.stdout.splitlines(), 1):
        name, times, allocations = line.split("\t")
        if part not in totals:
            sys.exit(f"run.py: callgrind wrote no count for {name}")
        figures[name] = (totals[part] / int(times), int(allocations) / int(times))
    if not wanted and len(figures) < 20:
        sys.exit(f"run.py: only {len(figures)} operations were counted")
    return figures


def guarded(name):
    return not name.startswith(("serde ", "copy ", "table ")) and not name.endswith("by serde_json")


def read_figures():
    made_with, figures = None, {}
    with open(FIGURES, encoding="utf-8") as file:
        for line in file:
            if line.startswith("# made with "):
                made_with = line.removeprefix("# made with ").strip()
            elif line.strip() and not line.startswith("#"):
                number, name = line.split(maxsplit=1)
                figures[name.strip()] = float(number)
    return made_with, figures


def compare(counted, figures):
    """The lines of what rose, of what fell, and of what is on one side only."""
    rose, fell = [], []
    for name in sorted(set(counted) | set(figures)):
        if name not in figures:
            rose.append(f"{name}: counted, but not in figures.txt")
        elif name not in counted:
            rose.append(f"{name}: in figures.txt, but not counted")
        else:
            new, old = counted[name], figures[name]
            line = f"{name}: {old:.0f} -> {new:.0f} ({new / old - 1:+.1%})"
            if new > old * (1 + TOLERANCE) + SLACK:
                rose.append(line)
            elif new < old * (1 - TOLERANCE) - SLACK:
                fell.append(line)
    return rose, fell


def ours(counted):
    return {name: figures[0] for name, figures in counted.items() if guarded(name)}


def write(counted):
    with open(FIGURES, "w", encoding="utf-8") as file:
        file.write("# Instructions of one operation each, by callgrind. Written by run.py --write, held to by run.py.\n")
        file.write(f"# made with {compiler()}\n")
        for name, number in ours(counted).items():
            file.write(f"{number:12.1f}  {name}\n")


def show(counted):
    print(f"{'instructions':>14} {'of serde':>9} {'allocations':>12}  operation")
    for name, (number, allocations) in counted.items():
        beside = counted.get(name.replace("parse ", "serde ", 1)) if name.startswith("parse ") else None
        ratio = f"{number / beside[0]:.3f}" if beside else ""
        print(f"{number:14.1f} {ratio:>9} {allocations:12.3f}  {name}")


def slow_to_decode(counted):
    """Where `Json::decode` costs more than serde_json on the same text, and how much."""
    pairs = [(name, figures[0] / counted[f"{name} by serde_json"][0])
             for name, figures in counted.items() if name.startswith("decode ") and guarded(name)]
    if len(pairs) < 14:
        sys.exit(f"run.py: only {len(pairs)} items were decoded")
    return [f"{name}: {ratio:.2f} of serde_json" for name, ratio in pairs if ratio > MAX_DECODE]


def grows(counted):
    """Where publishing costs more the more other subscriptions there are, and how much."""
    publishing = {name: figures[0] for name, figures in counted.items() if name.startswith("publish to 10 among ")}
    if len(publishing) < 3:
        sys.exit(f"run.py: publishing was counted {len(publishing)} times")
    least = min(publishing.values())
    return [f"{name}: {cost / least:.2f} of the least" for name, cost in publishing.items() if cost > MAX_GROWTH * least]


def main():
    arguments = sys.argv[1:]
    known = ([], ["--write"], ["--show"], ["--prove"])
    if arguments not in known:
        print(__doc__, file=sys.stderr)
        return 2
    mode = arguments[0] if arguments else ""
    try:
        subprocess.run(["valgrind", "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        print("SKIPPED: valgrind is missing, nothing was counted")
        return 3
    if mode == "--write":
        write(count(build()))
        return 0
    if mode == "--show":
        show(count(build()))
        return 0
    made_with, figures = read_figures()
    if made_with != compiler():
        print(f"SKIPPED: the figures were made with {made_with}, this is {compiler()}")
        return 3
    if mode == "--prove":
        # Only reading passes over bytes of the peer.
        reads = {name: figure for name, figure in figures.items() if name.startswith("parse ")}
        caught, _ = compare(ours(count(build("extra_pass"), *reads)), reads)
        print("\n".join(caught))
        print(f"one more pass over the bytes: {len(caught)} operations rose")
        return 0 if len(caught) >= 14 else 1
    counted = count(build())
    rose, fell = compare(ours(counted), figures)
    rose += slow_to_decode(counted)
    rose += grows(counted)
    for line in fell:
        print(f"fell, write it down with --write: {line}")
    for line in rose:
        print(f"ROSE: {line}")
    print(f"{len(figures)} operations counted, {len(rose)} rose by more than {TOLERANCE:.0%}, {len(fell)} fell")
    return 1 if rose else 0


if __name__ == "__main__":
    sys.exit(main())
