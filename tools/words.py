#!/usr/bin/env python3
"""Searches what users read for the words of tools/words.txt.

    tools/words.py             ends with `N passed, M failed`, one for each pattern, and exits 1 on a find
    tools/words.py --self-test tries each pattern on a line that it must find

Tests are not searched for words: only what ships and is read.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ITEM = re.compile(r"^\s*pub (?:const |async |unsafe )*(?:fn|struct|enum|trait|type|mod|static) (\w+)|^\s*pub (\w+):")
# Generated files, and tests.
NOT_READ = re.compile(r"^docs/(api/|requirements\.md)|/tests/")
FOUND = {
    r"\b[Ww]hoever\b": "whoever waits",
    r"/// The same\b": "/// The same as before.",
    r"\bThe rules? guarded here\b": "The rule guarded here is",
    r"\b(he|him|his)\b": "for him",
    r"(^|_)(place|keep(?!_?alive|_position)|room|taken|inside|beside)s?(_|$)": "no_room",
    r"(Place|Keep(?!Alive)|Room|Taken|Inside|Beside)": "NoRoom",
}


def patterns():
    with open(os.path.join(ROOT, "tools/words.txt"), encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line and not line.startswith("#"):
                kind, pattern = line.split("\t")
                yield kind, pattern


def lines():
    """Every line that is searched, as its place and its text."""
    listed = subprocess.run(["git", "ls-files", "src", "adapters", "docs", "README.md"],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in listed.split("\n"):
        if path.endswith((".rs", ".md")) and not NOT_READ.search(path):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                for number, text in enumerate(file, 1):
                    yield f"{path}:{number}", text


def main(words):
    if words == ["--self-test"]:
        wrong = [pattern for _, pattern in patterns() if not re.search(pattern, FOUND.get(pattern, ""))]
        print(*(f"never found: {pattern}" for pattern in wrong), sep="\n")
        return int(bool(wrong))
    if words:
        print(__doc__)
        return 2
    everything = list(lines())
    names = []
    for place, text in everything:
        item = ITEM.match(text)
        if item:
            names.append((place, item.group(1) or item.group(2)))
    for path in sorted({place.rsplit(":", 1)[0] for place, _ in everything}):
        names.append((path, os.path.splitext(os.path.basename(path))[0].replace("-", "_")))
    passed = failed = 0
    for kind, pattern in patterns():
        searched = everything if kind == "text" else names
        found = [(place, text.strip()) for place, text in searched if re.search(pattern, text)]
        for place, text in found:
            print(f"{place}: {text}")
        passed, failed = (passed, failed + 1) if found else (passed + 1, failed)
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or passed < len(FOUND))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
