#!/usr/bin/env python3
"""Measures everything that there is a target for, and prints one table: must, target, measured, verdict.

usage: table.py [--only ROWS] [--keep]

--only ROWS   some of them: 1,3,15-17
--keep        writes the table into docs/performance.md as well

Builds and runs the programs of benches/ and tests/embedded/, other software beside ours in the same run. A figure is the
middle of its rounds; one whose middle half spreads by more than 10 % is measured again, and if that does not help it is
marked with ~, and its row is unsettled unless both ends of the spread give the same verdict. What cannot be measured here
is SKIPPED, with the reason. With CARGO_TARGET_DIR, all that is built goes into folders in it.

Rows 15 to 17 are our code's time as a multiple of the bare transport's, which is the kernel's. On the machine of their
limits other software cost known multiples, too; where one is off by more than 30 %, the bare transport costs something else
here, and those rows say so beside their verdict.

Exit code 1: a must is missed, or something broke. 2: wrong usage. It takes about ten minutes once everything is built.
"""

import datetime
import os
import statistics
import subprocess
import sys

import rows
import sources

PAGE = sources.HERE.parent / "docs" / "performance.md"
MARKS = ("<!-- benches/table.py: begin -->\n", "<!-- benches/table.py: end -->\n")
MAX_SPREAD = 0.10
ATTEMPTS = 3


class Figure:
    """A figure and its spread."""

    def __init__(self, part, measured):
        values = sorted(part.of(*values) for values in zip(*(measured[name] for name in part.names)))
        quarter = len(values) // 4
        self.low, self.high = values[quarter], values[-1 - quarter]
        self.value = statistics.median(values)
        self.spread = (self.high - self.low) / abs(self.value) if self.value else 0.0
        self.is_noisy = self.spread > MAX_SPREAD
        self.text = ("~" if self.is_noisy else "") + part.form.format(self.value)


def with_beside(parts):
    for part in parts:
        yield part
        yield from with_beside(part.beside)


def figures(chosen):
    """By the id of a part: its figure, or the exception that says why there is none. What is noisy is measured again."""
    known = {}
    waiting = list(with_beside([part for row in chosen for part in row.parts]))
    for attempt in range(ATTEMPTS):
        for source in dict.fromkeys(part.source for part in waiting):
            parts = [part for part in waiting if part.source is source]
            print(f"{type(source).__name__}: {len(parts)} figures, attempt {attempt + 1}", file=sys.stderr, flush=True)
            try:
                measured = source.measure({name for part in parts for name in part.names})
                found = {id(part): Figure(part, measured) for part in parts}
            except (sources.Missing, sources.Failed) as error:
                found = {id(part): error for part in parts}
            except KeyError as error:
                found = {id(part): sources.Failed(f"{error} was not measured") for part in parts}
            for part in parts:
                new, old = found[id(part)], known.get(id(part))
                if old is None or isinstance(new, Figure) and new.spread < old.spread:
                    known[id(part)] = new
        waiting = [part for part in waiting if isinstance(known[id(part)], Figure) and known[id(part)].is_noisy]
    return known


def judge(row, value):
    def fits(limit):
        return value >= limit if row.is_least else value <= limit
    if row.target is not None and fits(row.target):
        return "target"
    return "must" if row.must is None or fits(row.must) else "MISSED"


def verdict(row, found):
    """The verdict of the worst part; a row without limits has none."""
    missing = [figure for figure in found if isinstance(figure, sources.Missing)]
    if row.must is None and row.target is None:
        return f"SKIPPED: {missing[0]}" if missing else "–"
    measured = [figure for figure in found if isinstance(figure, Figure)]
    if not measured:
        return f"SKIPPED: {missing[0]}"
    worst = min if row.is_least else max

    def of(name):
        return judge(row, worst(getattr(figure, name) for figure in measured))
    said = of("value")
    if any(figure.is_noisy for figure in measured) and of("low") != of("high"):
        said = f"unsettled: {said}?"
    if said == "must" and row.must is None:
        said = "target missed"
    return said + (f", in part SKIPPED: {missing[0]}" if missing else "")


def setup(known):
    """Which other software costs another multiple of the bare transport than it did; empty if the limits are for this floor."""
    apart = []
    for part in rows.SETUP.parts:
        figure = known.get(id(part))
        if isinstance(figure, Figure) and abs(figure.value / part.anchor - 1) > rows.MAX_APART:
            apart.append(f"{part.label} {figure.value:.0f} instead of {part.anchor:g}")
    return ", ".join(apart)


def why(figure):
    """Why there is no figure; empty if there is one."""
    if isinstance(figure, Figure):
        return ""
    return f" {'FAILED' if isinstance(figure, sources.Failed) else 'SKIPPED'}: {figure}"


def shown(part, known):
    figure = known[id(part)]
    text = figure.text if isinstance(figure, Figure) else "–"
    beside = ", ".join(shown(one, known) + why(known[id(one)]) for one in part.beside)
    beside = f"there {part.anchor:g}" if part.anchor is not None else beside
    return f"{part.label} {text}".strip() + (f" ({beside})" if beside else "")


def limit(row, number):
    return "–" if number is None else f"{'≥' if row.is_least else '≤'} {number:g}"


def table(chosen, known):
    lines = ["| # | what | must | target | measured | verdict |", "|--:|---|--:|--:|---|---|"]
    verdicts = []
    apart = setup(known)
    for row in chosen:
        broken = [one for part in with_beside(row.parts) if isinstance(one := known[id(part)], sources.Failed)]
        said = f"FAILED: {broken[0]}" if broken else verdict(row, [known[id(part)] for part in row.parts])
        if row is rows.SETUP and all(isinstance(known[id(part)], Figure) for part in row.parts):
            said = f"APART: {apart}" if apart else "as it was"
        elif row.is_against_transport and apart:
            said += ", but the set-up is apart"
        verdicts.append(said)
        measured = ", ".join(shown(part, known) for part in row.parts)
        lines.append(f"| {row.number} | {row.what} | {limit(row, row.must)} | {limit(row, row.target)} | {measured} | {said} |")
    return lines, verdicts


def where():
    """What this was measured on."""
    rust = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=sources.HERE, capture_output=True, text=True).stdout.strip()
    load = os.getloadavg()[0]
    day = datetime.date.today().isoformat()
    return f"Measured on {day} at {commit or 'no commit'}, {os.cpu_count()} cores of {os.uname().machine}, load average {load:.1f}, Rust {rust}."


def keep(lines):
    before, rest = PAGE.read_text().split(MARKS[0])
    _, after = rest.split(MARKS[1])
    PAGE.write_text(before + MARKS[0] + "\n".join(lines) + "\n" + MARKS[1] + after)


def numbers(text):
    """1,3,15-17 as a set."""
    chosen = set()
    for word in text.split(","):
        first, _, last = word.partition("-")
        chosen.update(range(int(first), int(last or first) + 1))
    return chosen


def main(words):
    only = None
    if "--only" in words[:-1]:
        at = words.index("--only")
        try:
            only = numbers(words[at + 1])
            del words[at:at + 2]
        except ValueError:
            # The words stay, so the usage is printed below.
            pass
    if set(words) - {"--keep"}:
        print(__doc__, file=sys.stderr)
        return 2
    def is_chosen(row):
        # The check of the set-up belongs to every row that is against a bare transport.
        is_wanted = only is None or row.at in only
        return is_wanted or row is rows.SETUP and any(one.is_against_transport for one in rows.ROWS if one.at in only)
    chosen = [row for row in sorted(rows.ROWS, key=lambda row: (row.at, str(row.number))) if is_chosen(row)]
    lines, verdicts = table(chosen, figures(chosen))
    lines = [where(), "", *lines]
    print("\n".join(lines))
    if "--keep" in words:
        keep(lines)
    kinds = ("target", "must", "target missed", "MISSED", "unsettled", "SKIPPED", "FAILED")
    told = {kind: sum(said.split(":")[0].split(",")[0] == kind for said in verdicts) for kind in kinds}
    print("\n" + ", ".join(f"{number} {kind}" for kind, number in told.items()))
    if any(said.startswith("APART") for said in verdicts):
        print("The set-up is apart: rows 15 to 17 are of another floor than their limits, see benches/README.md.")
    return 1 if told["MISSED"] or told["FAILED"] or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
