"""The table of targets for the core: what must be, what is wanted, and what this machine measures now.

Called by `run.py --rows`. Ratios are the median over rounds of the ratio within a round, so that what else the machine
does falls on both sides; a row whose rounds vary by more than 10 % (the middle half, by the median) is marked.
"""

import statistics

MIX = "14 mix_4000"
RECORDED = "15 recorded"


def median_ratio(times, ours, theirs):
    """Median of the ratios within each round, and the spread of the middle half."""
    ratios = sorted(a / b for a, b in zip(times[ours][1], times[theirs][1]))
    quarter = len(ratios) // 4
    middle = statistics.median(ratios)
    return middle, (ratios[-1 - quarter] - ratios[quarter]) / middle


def fastest_quarter(times, name):
    """Nanoseconds: the lower quartile, since what disturbs only ever adds."""
    rounds = sorted(times[name][1])
    return rounds[len(rounds) // 4]


class Table:
    def __init__(self):
        self.missed = 0
        print("| # | what | must | target | measured |")
        print("|---|---|--:|--:|--:|")

    def row(self, number, what, must, target, measured, text=None, spread=0.0, at_least=False):
        fits = (lambda limit: measured >= limit) if at_least else (lambda limit: measured <= limit)
        verdict = "target" if fits(target) else "must" if fits(must) else "MISSED"
        self.missed += verdict == "MISSED"
        sign = "≥" if at_least else "≤"
        shown = text or f"{measured:.2f}"
        noisy = f", spread {spread:.0%}" if spread > 0.1 else ""
        print(f"| {number} | {what} | {sign} {must} | {sign} {target} | {shown} ({verdict}{noisy}) |")


def parse_rows(table, counted, times):
    def ratio(number, what, must, target, item):
        measured, spread = median_ratio(times, f"parse {item}", f"serde {item}")
        instructions = counted[f"parse {item}"][0] / counted[f"serde {item}"][0]
        table.row(number, what, must, target, measured, f"{measured:.2f}, instructions {instructions:.2f}", spread)

    ratio(1, f"item {MIX} against serde_json typed", 0.62, 0.45, MIX)
    # The same of what real peers said: whether the mix is like them.
    ratio(1, f"item {RECORDED} against the same", 0.62, 0.45, RECORDED)
    for item in ("01 req_small", "04 resp_small", "05 resp_error", "08 batch_100", "11 id_uuid"):
        ratio(2, f"item {item} against the same", 0.30, 0.22, item)
    for item, must, target in (("01 req_small", 800, 650), ("04 resp_small", 700, 550), ("05 resp_error", 850, 700)):
        number = counted[f"parse {item}"][0]
        table.row(4, f"instructions for item {item}", must, target, number, f"{number:.0f}")
    item = "parse 03 lsp_didchange_5k"
    speed = times[item][0] / fastest_quarter(times, item)
    table.row(5, "item 03, GB/s", 5.5, 8, speed, at_least=True)
    ratio(6, "item 06 against serde_json typed", 0.65, 0.50, "06 eth_block_30k")
    ratio(7, "item 07 against serde_json typed", 0.80, 0.55, "07 params_1m")


def encode_rows(table, times):
    measured, spread = median_ratio(times, "encode small ContentLength", "encode small by serde_json")
    table.row(9, "a small notification with Content-Length against a struct of serde", 0.40, 0.28, measured, spread=spread)
    measured, spread = median_ratio(times, "encode request ContentLength", "encode request by serde_json")
    table.row(9, "a small request, table of calls and all", 0.40, 0.28, measured, spread=spread)
    for size in ("24 KB", "1 MiB"):
        measured, spread = median_ratio(times, f"encode {size} ContentLength", f"copy {size}")
        table.row(10, f"{size} against copying the frame", 1.15, 1.05, measured, spread=spread)


def call_rows(rows, counted, times):
    # Some real peers escape the slash in a method's name, and an event then owns the name without escapes.
    most = max(figures[1] for name, figures in counted.items() if not name.startswith("serde ") and RECORDED not in name)
    rows.row(11, "allocations per message, the worst of all operations", 0, 0, most, f"{most:.3f}")
    of = {name: fastest_quarter(times, name) for name in times}
    table = {open: of[f"call and give up, {open} open"] - of["notify"] for open in (1, 10000, 1000000)}
    text = f"{table[1]:.0f} with one open, {table[10000]:.0f} with 10 000"
    table_row = max(table[1], table[10000])
    rows.row(12, "bookkeeping of a call, ns", 12, 7, table_row, text)
    usual = of["table of hash and heap, 1000000 open"]
    text = f"{table[1000000] / usual:.2f}, {table[1000000]:.0f} ns of {usual:.0f}"
    rows.row(13, "the same with 1 M open, against hash map and heap", 0.6, 0.45, table[1000000] / usual, text)
    worst = max(of[name] for name in of if name.startswith("round trip "))
    each = ", ".join(f"{name[11:]} {of[name]:.0f}" for name in of if name.startswith("round trip "))
    rows.row(14, "round trip in memory, ns, the worst framing", 200, 140, worst, each)


def feed_rows(table, times):
    worst = 0.0
    for name in times:
        if name.endswith(" by bytes"):
            worst = max(worst, median_ratio(times, name, name.replace(" by bytes", " whole"))[0])
    text = f"{worst:.1f} × the time of the whole"
    table.row(21, "a frame byte by byte, times the whole (must: linear)", 1000, 3, worst, text)


def table(count, time, build):
    """Prints the table; returns 1 if a must is missed."""
    binary = build()
    counted, times = count(binary), time(binary)
    rows = Table()
    parse_rows(rows, counted, times)
    encode_rows(rows, times)
    call_rows(rows, counted, times)
    feed_rows(rows, times)
    print("\nRow 3 needs the other software (benches/peers), row 8 a build with RUSTFLAGS=--cfg=antiphon_portable,")
    print("row 20 is measured by .ci/no_std; row 19 is the size of `Connection`, which has no heap until its first message.")
    return 1 if rows.missed else 0
