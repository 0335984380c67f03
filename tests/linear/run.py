#!/usr/bin/env python3
"""Counts the instructions that the worst inputs cost, for doubling sizes, and draws them.

    tests/linear/run.py BINARY [--quick] [--keep] [--to=MIB] [NAME…]

BINARY is `antiphon-linear`, built with --release. Every input is played by a server and by a client,
whole and byte by byte, under valgrind's callgrind, which counts exactly and the same every time.
`--quick` takes the small sizes. `--to` ends at so many MiB instead of 64, and a 64th of that byte by
byte. `--keep` writes `counts.csv` and `counts.svg` beside this file.

Linear means: doubling the input costs at most 2.2 times the instructions, at every doubling.

Exit code 0: all is linear and within the memory promised. 1: something is not. 2: wrong usage.
3: there is no valgrind, so nothing was counted.
"""

import concurrent.futures
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RATIO_MAX = 2.2
# Sizes in bytes. The first is large enough that what does not depend on it is lost.
QUICK = {"whole": (64 << 10, 128 << 10), "bytes": (8 << 10, 16 << 10)}
# Here something is looked up for every item: a search that is not constant shows only with many.
SEARCHES = ("ids_rejected", "same_id_cancelled", "cancelled", "cancelled_by_text", "cancelled_in_batch",
            "null_errors", "replies_backwards", "named_replies")
QUICK_SEARCHES = (256 << 10, 512 << 10)
# Inputs of many items go as far as a million of them, all others to 64 MiB; what is fed byte by byte
# goes to 1 MiB, for each byte costs a turn of the loop. There is a doubling at the bottom and one at
# the top; what lies between them is judged by the mean doubling.
FIRST = {"whole": 64 << 10, "bytes": 8 << 10}
LAST = {"whole": 64 << 20, "bytes": 1 << 20}
ITEMS_MAX = 1_000_000
SAID = re.compile(r"bytes (\d+) items (\d+) events (\d+) held (\d+) bound (\d+)")
COUNTED = re.compile(r"^totals: (\d+)", re.MULTILINE)


def series(binary, name, role, mode, sizes):
    """The rows of one input, smallest first: name, role, mode, size, instructions, items, memory held
    and promised."""
    if not sizes:
        probe = subprocess.run([binary, name, str(FIRST[mode]), role, mode], capture_output=True,
                               text=True, timeout=600, check=False)
        size, items = (int(number) for number in SAID.search(probe.stdout).groups()[:2])
        last = LAST[mode]
        if items > 100:
            last = min(last, size * ITEMS_MAX // items + 64)
        sizes = sorted({FIRST[mode], 2 * FIRST[mode], last // 2, last})
        sizes = [size for size in sizes if size >= FIRST[mode]]
    with tempfile.TemporaryDirectory() as folder:
        # One dump of the counters for each size, whenever the part that counts is left.
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                   "--toggle-collect=*measured*", "--dump-after=antiphon_linear::measured",
                   binary, name, ",".join(map(str, sizes)), role, mode]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
        dumps = [pathlib.Path(folder) / f"out.{n + 1}" for n in range(len(sizes))]
        said = SAID.findall(done.stdout)
        if len(said) != len(sizes) or not all(dump.exists() for dump in dumps):
            raise RuntimeError(f"{name} {sizes} {role} {mode}: {done.stdout} {done.stderr[-500:]}")
        counts = [int(COUNTED.search(dump.read_text())[1]) for dump in dumps]
    rows = []
    for count, (size, items, _events, held, bound) in zip(counts, said):
        rows.append((name, role, mode, int(size), count, int(items), int(held), int(bound)))
    return rows


def verdict(rows):
    """The worst ratio of a series, and what is wrong with it."""
    worst, faults = 0.0, []
    for before, after in zip(rows, rows[1:]):
        # For a doubling, and not met to the byte.
        ratio = (after[4] / before[4]) ** (1 / math.log2(after[3] / before[3]))
        worst = max(worst, ratio)
        if ratio > RATIO_MAX:
            faults.append(f"{before[3]} to {after[3]} bytes costs {ratio:.2f} times")
    for row in rows:
        if row[6] > row[7]:
            faults.append(f"{row[6]} bytes held of {row[7]} at {row[3]}")
    return worst, faults


def plot(results, path):
    """Instructions a byte over the size, both axes by doublings: linear is a level line."""
    width, height, left, top = 900, 560, 60, 30
    points = [(math.log2(one[3]), math.log2(one[4] / one[3])) for rows in results for one in rows]
    x0, x1 = min(p[0] for p in points), max(p[0] for p in points) + 0.01
    y0, y1 = min(p[1] for p in points), max(p[1] for p in points) + 0.01

    def place(x, y):
        return (left + (x - x0) / (x1 - x0) * (width - left - 20),
                height - 40 - (y - y0) / (y1 - y0) * (height - top - 60))
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="{left}" y="18" font-size="13">Instructions a byte, for doubling inputs: '
             'level is linear (blue whole, red byte by byte)</text>']
    for n in range(math.ceil(x0), math.floor(x1) + 1, 2):
        x, _ = place(n, y0)
        name = f"{1 << (n - 20)} MiB" if n >= 20 else f"{1 << (n - 10)} KiB"
        lines.append(f'<line x1="{x:.0f}" y1="{top}" x2="{x:.0f}" y2="{height - 40}" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.0f}" y="{height - 22}" text-anchor="middle">{name}</text>')
    for n in range(math.ceil(y0), math.floor(y1) + 1, 2):
        _, y = place(x0, n)
        lines.append(f'<line x1="{left}" y1="{y:.0f}" x2="{width - 20}" y2="{y:.0f}" stroke="#ddd"/>')
        lines.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{2.0 ** n:g}</text>')
    for rows in results:
        spots = [place(math.log2(one[3]), math.log2(one[4] / one[3])) for one in rows]
        colour = "#1f5fbf" if rows[0][2] == "whole" else "#c03030"
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        title = f"{rows[0][0]}, {rows[0][1]}, {rows[0][2]}"
        lines.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" '
                     f'stroke-opacity="0.6"><title>{title}</title></polyline>')
    lines.append("</svg>")
    path.write_text("\n".join(lines) + "\n")


def keep(results):
    """Writes what is known so far beside this file."""
    header = "input,role,fed,bytes,instructions,items,held,bound\n"
    table = "".join(",".join(map(str, row)) + "\n" for rows in results for row in rows)
    (HERE / "counts.csv").write_text(header + table)
    plot(results, HERE / "counts.svg")


def main(words):
    options = {word for word in words if word.startswith("--")}
    words = [word for word in words if not word.startswith("--")]
    ends = [word[5:] for word in options if word.startswith("--to=")]
    options -= {f"--to={end}" for end in ends}
    if not words or options - {"--quick", "--keep"} or not all(end.isdigit() for end in ends):
        print(__doc__, file=sys.stderr)
        return 2
    for end in ends:
        LAST.update(whole=int(end) << 20, bytes=int(end) << 14)
    binary, wanted = words[0], words[1:]
    if not shutil.which("valgrind"):
        print("SKIPPED: there is no valgrind, so no instruction was counted")
        return 3
    names = subprocess.run([binary, "--names"], capture_output=True, text=True, check=True)
    names = [name for name in names.stdout.split() if not wanted or name in wanted]
    sizes = QUICK if "--quick" in options else None
    jobs = [(name, role, mode) for role in ("server", "client") for mode in ("whole", "bytes")
            for name in names]
    results, failed = [], 0
    print(f"{'input':26} {'role':7} {'fed':6} {'up to bytes':>12} {'items':>9} "
          f"{'instr/byte':>10} {'worst x2':>8} {'held/bound':>10}")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        def sizes_of(name, mode):
            if sizes is None:
                return None
            return QUICK_SEARCHES if name in SEARCHES and mode == "whole" else sizes[mode]
        rows_of = pool.map(lambda job: series(binary, *job, sizes_of(job[0], job[2])), jobs)
        for job, rows in zip(jobs, rows_of):
            worst, faults = verdict(rows)
            last = rows[-1]
            held = max(row[6] / row[7] for row in rows)
            print(f"{job[0]:26} {job[1]:7} {job[2]:6} {last[3]:12} {last[5]:9} "
                  f"{last[4] / last[3]:10.1f} {worst:8.3f} {held:9.1%}", flush=True)
            for fault in faults:
                print(f"    FAILED: {fault}")
            failed += bool(faults)
            results.append(rows)
            if "--keep" in options:
                keep(results)
    print(f"{len(results) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
