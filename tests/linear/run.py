#!/usr/bin/env python3
"""Counts the instructions that the worst inputs cost, for doubling sizes, and draws them.

    tests/linear/run.py BINARY [--quick] [--keep] [--to=MIB] [--bytes-to=MIB] [--only=ROLE,FED]
                                [--counter=qemu|callgrind] [NAME…]
    tests/linear/run.py BINARY --compare [NAME…]

BINARY is `antiphon-linear`, built with --release. Every input is played by a server and by a client,
whole and byte by byte. Instructions are counted exactly and the same every time: by QEMU's user mode with
`count.c` beside this file, which is fast enough for 64 MiB, or by valgrind's callgrind, which needs nothing
built and is what `--quick` takes. `--quick` takes the small sizes. `--to` ends at so many MiB instead of 64,
`--bytes-to` does so for what is fed byte by byte. `--only=client,bytes` counts one role, fed in one way.
`--keep` writes `counts.csv` and `counts.svg` beside this file; series that it did not count stay in them.
`--compare` counts the same runs with both counters and writes `compared.csv`.

Linear means: doubling the input costs at most 2.2 times the instructions, at every doubling.

Exit code 0: all is linear and within the memory promised. 1: something is not, or the counters differ.
2: wrong usage. 3: there is no counter, so nothing was counted.
"""

import concurrent.futures
import math
import pathlib
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COUNTS = HERE / "counts.csv"
MAX_RATIO = 2.2
# Sizes in bytes. The first is large enough that costs which do not depend on the size do not show.
QUICK = {"whole": (64 << 10, 128 << 10), "bytes": (8 << 10, 16 << 10)}
# Inputs with a search for every item: a search that is not constant shows only with many items.
SEARCHES = ("ids_rejected", "same_id_cancelled", "cancelled", "cancelled_by_text", "cancelled_in_batch",
            "null_errors", "replies_backwards", "named_replies")
QUICK_SEARCHES = (256 << 10, 512 << 10)
# Inputs of many items go as far as a million of them, all others to 64 MiB. There is a doubling at the
# bottom, one in the middle and one at the top; what lies between them is judged by the mean doubling.
FIRST = {"whole": 64 << 10, "bytes": 8 << 10}
MIDDLE = 1 << 20
LAST = 64 << 20
MAX_ITEMS = 1_000_000
# Sizes nearer to each other than this say more about their first instruction than about a doubling.
STEP_MIN = 1.5
COMPARED = {"whole": (1 << 20, 2 << 20), "bytes": (256 << 10, 512 << 10)}
# How far the ratios of a doubling may lie apart when two programs count it.
MAX_APART = 0.02
# If fewer instructions are counted, the counter did not see the part that reads the input.
MAX_BYTES_PER_INSTRUCTION = 8
MAX_SERIES_SECONDS = 3000
SAID = re.compile(r"bytes (\d+) items (\d+) events (\d+) held (\d+) bound (\d+)")
COUNTED = re.compile(r"^totals: (\d+)", re.MULTILINE)
QEMU = f"qemu-{platform.machine()}"


def play(command):
    """What the binary said of each size."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SERIES_SECONDS, check=False)
    said = SAID.findall(done.stdout)
    # It exits with 1 when memory was above the bound, which the rows show.
    if done.returncode not in (0, 1) or not said:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stdout} {done.stderr[-500:]}")
    return [tuple(map(int, one)) for one in said]


def count_by_callgrind(job, folder):
    """What the binary said of each size, and how many instructions each took."""
    # Counts in this function alone, and dumps the counters whenever it is left: once for each size.
    function = "antiphon_linear::measured"
    said = play(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                 f"--toggle-collect={function}", f"--dump-after={function}", *job])
    dumps = [pathlib.Path(folder, f"out.{n + 1}") for n in range(len(said))]
    return said, [int(COUNTED.search(dump.read_text())[1]) for dump in dumps]


def count_by_qemu(job, folder):
    """What the binary said of each size, and how many instructions lay between two of its lines."""
    plugin, out = pathlib.Path(folder, "count.so"), pathlib.Path(folder, "out")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", plugin, HERE / "count.c"], check=True, timeout=60)
    said = play([QEMU, "-plugin", f"{plugin},out={out}", *job])
    lines = [int(line) for line in out.read_text().split()]
    # Four lines a size: open, playing, played, and what was said.
    if len(lines) != 4 * len(said):
        raise RuntimeError(f"{job}: {len(lines)} lines of counts for {len(said)} sizes")
    return said, [lines[4 * n + 2] - lines[4 * n + 1] for n in range(len(said))]


COUNTERS = {
    "qemu": (count_by_qemu, (QEMU, "cc")),
    "callgrind": (count_by_callgrind, ("valgrind",)),
}


def sizes_to(binary, name, role, mode, end):
    """The sizes of a full series: as far as `end` bytes, or as a million items."""
    last = end
    size, items = play([binary, name, str(1 << 20), role, "whole"])[0][:2]
    if items > 100:
        # Numbers grow longer, so the size of a million items is approached in steps.
        last = min(1 << 20, end)
        while items < MAX_ITEMS and last < end:
            last = min(end, size + (MAX_ITEMS - items) * size // items + 1024)
            size, items = play([binary, name, str(last), role, "whole"])[0][:2]
    wanted = sorted({FIRST[mode], 2 * FIRST[mode], MIDDLE, 2 * MIDDLE, last // 2, last})
    sizes = []
    for size in wanted:
        # The top counts most: a size beyond it, or too near below its half, is left out.
        if size <= last and (size in (last, last // 2) or STEP_MIN * size <= last // 2):
            sizes.append(size)
    return sizes


def series(count, binary, name, role, mode, sizes):
    """The rows of one input, smallest first: name, role, mode, size, instructions, items, memory held
    and promised."""
    with tempfile.TemporaryDirectory() as folder:
        said, counts = count([binary, name, ",".join(map(str, sizes)), role, mode], folder)
    if len(said) != len(sizes):
        raise RuntimeError(f"{name} {role} {mode}: {len(said)} of {len(sizes)} sizes were played")
    rows = []
    for counted, (size, items, _events, held, bound) in zip(counts, said):
        if counted * MAX_BYTES_PER_INSTRUCTION < size:
            raise RuntimeError(f"{name} {role} {mode}: {counted} instructions for {size} bytes: not all was counted")
        rows.append((name, role, mode, size, counted, items, held, bound))
    return rows


def doublings(rows):
    """The steps of a series, and what each costs, scaled to a doubling: sizes are not met to the byte."""
    return [(before[3], after[3], (after[4] / before[4]) ** (1 / math.log2(after[3] / before[3])))
            for before, after in zip(rows, rows[1:]) if after[3] >= STEP_MIN * before[3]]


def verdict(rows):
    """The worst ratio of a series, and what is wrong with it."""
    steps = doublings(rows)
    faults = [f"{before} to {after} bytes costs {ratio:.2f} times"
              for before, after, ratio in steps if ratio > MAX_RATIO]
    if not steps:
        faults.append("no two sizes differ, so nothing was doubled")
    for row in rows:
        if row[6] > row[7]:
            faults.append(f"{row[6]} bytes held of {row[7]} at {row[3]}")
    return max((ratio for _, _, ratio in steps), default=0.0), faults


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
    """Writes the results beside this file, in the place of earlier results of the same series."""
    known = {}
    if COUNTS.exists():
        for line in COUNTS.read_text().splitlines()[1:]:
            *job, size, counted, items, held, bound = line.split(",")
            row = (*job, int(size), int(counted), int(items), int(held), int(bound))
            known.setdefault(tuple(job), []).append(row)
    known |= {rows[0][:3]: rows for rows in results}
    table = "".join(",".join(map(str, row)) + "\n" for rows in known.values() for row in rows)
    COUNTS.write_text("input,role,fed,bytes,instructions,items,held,bound\n" + table)
    plot(list(known.values()), HERE / "counts.svg")


def compare(binary, jobs, pool):
    """Counts the same series with both counters, and returns for how many of them they disagree."""
    def both(job):
        return [doublings(series(count, binary, *job, COMPARED[job[2]])) for count, _ in COUNTERS.values()]
    lines, apart_most, failed = [], 0.0, 0
    for job, counted in zip(jobs, pool.map(both, jobs)):
        ratios = [steps[0][2] for steps in counted]
        apart = abs(ratios[0] - ratios[1])
        apart_most, failed = max(apart_most, apart), failed + (apart > MAX_APART)
        shown = ",".join(f"{ratio:.4f}" for ratio in ratios)
        lines.append(",".join((*job, *map(str, counted[0][0][:2]), shown)) + "\n")
        print(lines[-1], end="", flush=True)
    header = "input,role,fed,bytes,twice," + ",".join(COUNTERS) + "\n"
    (HERE / "compared.csv").write_text(header + "".join(lines))
    print(f"the ratios of the two counters are at most {apart_most:.4f} apart")
    return failed


def measure(count, binary, jobs, sizes_of, pool, is_kept):
    """Counts and judges every series, and returns how many failed."""
    print(f"{'input':26} {'role':7} {'fed':6} {'up to bytes':>12} {'items':>9} "
          f"{'instr/byte':>10} {'worst x2':>8} {'held/bound':>10}")
    results, failed = [], 0
    for job, rows in zip(jobs, pool.map(lambda job: series(count, binary, *job, sizes_of(*job)), jobs)):
        worst, faults = verdict(rows)
        last = rows[-1]
        held = max(row[6] / row[7] for row in rows)
        print(f"{job[0]:26} {job[1]:7} {job[2]:6} {last[3]:12} {last[5]:9} "
              f"{last[4] / last[3]:10.1f} {worst:8.3f} {held:9.1%}", flush=True)
        for fault in faults:
            print(f"    FAILED: {fault}")
        failed += bool(faults)
        results.append(rows)
        if is_kept:
            keep(results)
    return failed


def main(words):
    options = {word for word in words if word.startswith("--")}
    words = [word for word in words if not word.startswith("--")]
    given = {key: [word.split("=", 1)[1] for word in options if word.startswith(f"--{key}=")]
             for key in ("to", "bytes-to", "only", "counter")}
    options = {word for word in options if "=" not in word}
    is_quick = "--quick" in options
    counter = (given["counter"] or ["callgrind" if is_quick else "qemu"])[-1]
    end = (given["to"] or [str(LAST >> 20)])[-1]
    ends = {"whole": end, "bytes": (given["bytes-to"] or [end])[-1]}
    is_known = counter in COUNTERS and all(end.isdigit() for end in ends.values())
    if not words or options - {"--quick", "--keep", "--compare"} or not is_known:
        print(__doc__, file=sys.stderr)
        return 2
    used = COUNTERS if "--compare" in options else {counter: COUNTERS[counter]}
    for name, (_, tools) in used.items():
        missing = [tool for tool in tools if not shutil.which(tool)]
        if missing:
            print(f"SKIPPED: there is no {missing[0]}, which {name} needs, so no instruction was counted")
            return 3
    binary, wanted = words[0], words[1:]
    names = subprocess.run([binary, "--names"], capture_output=True, text=True, check=True, timeout=60)
    names = [name for name in names.stdout.split() if not wanted or name in wanted]
    jobs = [(name, role, mode) for role in ("server", "client") for mode in ("whole", "bytes")
            for name in names if not given["only"] or f"{role},{mode}" in given["only"]]

    def sizes_of(name, role, mode):
        if not is_quick:
            return sizes_to(binary, name, role, mode, int(ends[mode]) << 20)
        return QUICK_SEARCHES if name in SEARCHES and mode == "whole" else QUICK[mode]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        if "--compare" in options:
            failed = compare(binary, jobs, pool)
        else:
            failed = measure(COUNTERS[counter][0], binary, jobs, sizes_of, pool, "--keep" in options)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(jobs) - failed} passed, {failed} failed, 0 skipped; "
          f"{(used.ru_utime + used.ru_stime) / 60:.1f} CPU-minutes")
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
