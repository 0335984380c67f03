#!/usr/bin/env python3
"""Measures how the cost of a call, a connection and a byte grows with their number; says whether it is as promised.

usage: run.py                 measures, prints the verdicts; exits 1 if one is broken
       run.py --keep          the same, and writes curves.csv and curves.svg
       run.py --quick         fewer sizes

Flat is what is promised of a call while others are open, of a connection's memory while there are others, and of a byte that
comes alone; linear of the worst inputs, whose counts are those of tests/linear. Judged are instructions, which callgrind
counts the same every time, and bytes, which an allocator counts; nanoseconds are shown beside them, which depend on the caches,
and no promise is made of those. Exit code 1: a promise is broken. 3: there is no valgrind.
"""

import csv
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LINEAR = HERE.parent.parent / "tests" / "linear"
# The largest cost of a flat curve, as a multiple of its smallest.
MAX_FLAT = 1.25
# The most that doubling the input may multiply the cost by, as in tests/linear.
MAX_DOUBLING = 2.2
SAID = re.compile(r"times (\d+) (nanoseconds|bytes) (\d+)")
TENS = [10 ** n for n in range(7)]
QUICK = {"calls": [1, 1000, 100_000], "frames": [64, 1024, 16_384], "connections": [1, 100, 1000]}
FULL = {"calls": TENS, "frames": [64 << n for n in range(0, 15, 2)], "connections": TENS[:5]}
# Name, and the arguments of the program with the size left out.
CURVES = [
    ("a call and its answer, in order", "calls {} in-order"),
    ("a call and its answer, in any order", "calls {} any-order"),
    ("a byte that comes alone", "frames {}"),
    ("a connection of the core", "connections {} core"),
    ("a connection of the tokio adapter", "connections {} tokio"),
]


def build():
    target = os.environ.get("CARGO_TARGET_DIR") or str(HERE / "target")
    subprocess.run(["cargo", "build", "--release", "--locked", "-q", "--target-dir", target], cwd=HERE, check=True)
    return pathlib.Path(target, "release", "antiphon-curves")


def said(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    found = SAID.search(done.stdout)
    if done.returncode != 0 or not found:
        raise SystemExit(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr[-1000:]}")
    return int(found[1]), found[2], int(found[3])


def point(binary, words):
    """Unit to the cost of one repetition, at one size."""
    times, unit, cost = said([binary, *words])
    costs = {unit: cost / times}
    if unit == "nanoseconds":
        with tempfile.TemporaryDirectory() as folder:
            said(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                  "--toggle-collect=*measured*", str(binary), *words])
            total = re.search(r"^totals: (\d+)", pathlib.Path(folder, "out").read_text(), re.M)
            # Of frames the whole message is counted, and only a slice of it is timed.
            costs["instructions"] = int(total[1]) / (int(words[1]) if words[0] == "frames" else times)
    return costs


def measure(binary, sizes):
    """Rows: curve, unit, size, cost of one repetition."""
    rows = []
    for name, words in CURVES:
        for size in sizes[words.split()[0]]:
            for unit, cost in sorted(point(binary, words.format(size).split()).items()):
                rows.append((name, unit, size, round(cost, 1)))
                print(f"{name:36} {size:9} {cost:10.1f} {unit}", flush=True)
    return rows


def worst_inputs():
    """Rows of the same kind from tests/linear: instructions a byte; and what doubling cost most in each series."""
    sys.path.insert(0, str(LINEAR))
    import run as linear
    series = {}
    with open(LINEAR / "counts.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["input"], row["role"], row["fed"])
            series.setdefault(key, []).append((*key, int(row["bytes"]), int(row["instructions"])))
    rows, most = [], {}
    for key, points in series.items():
        name = " ".join(key)
        most[name] = max(ratio for _, _, ratio in linear.doublings(points))
        rows += [(name, "instructions", one[3], round(one[4] / one[3], 1)) for one in points]
    return rows, most


def verdicts(rows, most):
    """Prints what is flat and what is linear; how many promises are broken."""
    broken = 0
    for name, _ in CURVES:
        for unit in ("instructions", "bytes"):
            costs = [cost for curve, of, _, cost in rows if (curve, of) == (name, unit)]
            if costs:
                spread = max(costs) / min(costs)
                broken += spread > MAX_FLAT
                print(f"{'flat' if spread <= MAX_FLAT else 'NOT FLAT'}: {name}: {min(costs):.0f} to {max(costs):.0f} {unit}, "
                      f"{spread:.3f} times")
    above = [name for name, ratio in most.items() if ratio > MAX_DOUBLING]
    worst = max(most, key=most.get)
    print(f"{'NOT LINEAR' if above else 'linear'}: the worst inputs, {len(most)} series: doubling costs at most "
          f"{most[worst]:.3f} times ({worst})")
    for name in above:
        print(f"    NOT LINEAR: {name}: {most[name]:.3f}")
    return broken + len(above)


def panel(title, curves, x0, y0, width, height):
    """Lines of SVG: cost over size, both by doublings."""
    points = [(math.log2(size), math.log2(cost)) for _, _, line in curves for size, cost in line]
    left, right = min(x for x, _ in points), max(x for x, _ in points) + 0.01
    low, high = math.floor(min(y for _, y in points)) - 0.5, math.ceil(max(y for _, y in points)) + 0.5

    def place(x, y):
        return (x0 + 50 + (x - left) / (right - left) * (width - 60),
                y0 + height - 30 - (y - low) / (high - low) * (height - 60))
    lines = [f'<text x="{x0 + 50}" y="{y0 + 18}" font-size="12">{title}</text>']
    for n in range(math.ceil(left), math.floor(right) + 1, max(1, round((right - left) / 8))):
        x, _ = place(n, low)
        name = f"{1 << (n - 20)} Mi" if n >= 20 else f"{1 << (n - 10)} Ki" if n >= 10 else str(1 << n)
        lines.append(f'<line x1="{x:.0f}" y1="{y0 + 28}" x2="{x:.0f}" y2="{y0 + height - 30}" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.0f}" y="{y0 + height - 14}" text-anchor="middle">{name}</text>')
    for n in range(math.ceil(low), math.floor(high) + 1, max(1, round((high - low) / 6))):
        _, y = place(left, n)
        lines.append(f'<line x1="{x0 + 50}" y1="{y:.0f}" x2="{x0 + width - 10}" y2="{y:.0f}" stroke="#ddd"/>')
        lines.append(f'<text x="{x0 + 44}" y="{y + 4:.0f}" text-anchor="end">{2.0 ** n:g}</text>')
    for name, colour, line in curves:
        joined = " ".join("{:.1f},{:.1f}".format(*place(math.log2(size), math.log2(cost))) for size, cost in line)
        lines.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-opacity="0.7"><title>{name}</title></polyline>')
    return lines


def plot(rows, worst):
    def curve(name, unit, colour, of=rows):
        return f"{name}, {unit}", colour, [(size, cost) for curve, each, size, cost in of if (curve, each) == (name, unit)]
    calls = [curve(name, unit, colour) for name, unit, colour in (
        (CURVES[0][0], "instructions", "#1f5fbf"), (CURVES[1][0], "instructions", "#2a9d4a"),
        (CURVES[0][0], "nanoseconds", "#c03030"), (CURVES[1][0], "nanoseconds", "#d98a1f"))]
    lone = [curve(CURVES[2][0], "instructions", "#1f5fbf"), curve(CURVES[2][0], "nanoseconds", "#c03030")]
    idle = [curve(CURVES[3][0], "bytes", "#1f5fbf"), curve(CURVES[4][0], "bytes", "#c03030")]
    names = dict.fromkeys(row[0] for row in worst)
    inputs = [curve(name, "instructions", "#1f5fbf" if name.endswith("whole") else "#c03030", worst) for name in names]
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="720" font-family="sans-serif" font-size="10">',
             '<rect width="1000" height="720" fill="white"/>']
    lines += panel("A call and its answer over calls in flight: instructions (blue; green in any order), ns (red; orange)", calls, 0, 0, 500, 360)
    lines += panel("A byte that comes alone over the message's size: instructions (blue), ns (red)", lone, 500, 0, 500, 360)
    lines += panel("Bytes a connection over connections: core (blue), tokio adapter (red)", idle, 0, 360, 500, 360)
    lines += panel("Worst inputs, instructions a byte over bytes: whole (blue), byte by byte (red)", inputs, 500, 360, 500, 360)
    (HERE / "curves.svg").write_text("\n".join([*lines, "</svg>"]) + "\n", encoding="utf-8")


def main(words):
    if set(words) - {"--keep", "--quick"}:
        print(__doc__, file=sys.stderr)
        return 2
    if not shutil.which("valgrind"):
        print("SKIPPED: there is no valgrind to count instructions")
        return 3
    rows = measure(build(), QUICK if "--quick" in words else FULL)
    worst, most = worst_inputs()
    if "--keep" in words:
        table = "".join(f'"{curve}",{unit},{size},{cost}\n' for curve, unit, size, cost in rows)
        (HERE / "curves.csv").write_text("curve,unit,size,cost\n" + table, encoding="utf-8")
        plot(rows, worst)
    broken = verdicts(rows, most)
    count = len(CURVES) + len(most)
    print(f"{count - broken} passed, {broken} failed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
