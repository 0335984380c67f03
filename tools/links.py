#!/usr/bin/env python3
"""Checks the links of every page: each relative link leads to a file that is there, each anchor to a heading in it.

    tools/links.py               checks the pages that git knows
    tools/links.py --self-test   checks small pages made up for it

It also checks that tests/guide runs README, the adapters' READMEs and each page of docs and the guide, that each page
of the guide is in its summary, and that there are no fewer links and pieces of Rust than before. Ends with
`N passed, M failed`; exits with 1 if something is wrong.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The least number of relative links, and of pieces of Rust that are run as tests: these may only grow.
LINKS_MIN = 71
RUST_MIN = 40
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]*)\)|^ *\[[^\]]+\]: +(\S+)", re.M)
IS_RUN = re.compile(r"README\.md$|docs/|adapters/[^/]+/README\.md$")
IS_ELSEWHERE = re.compile(r"[a-z]+:")
FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", re.M | re.S)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)


def without_code(text):
    return CODE.sub("code", FENCE.sub("", text))


def anchors(text):
    """The anchors of a page's headings, as code hosts and mdBook make them."""
    seen = {}
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", FENCE.sub("", text), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = seen.get(slug, 0)
        seen[slug] = number + 1
        yield f"{slug}-{number}" if number else slug


def faults(root, pages):
    """How many relative links the pages have, and what is wrong with them."""
    count, found = 0, []
    for page in pages:
        text = (root / page).read_text(encoding="utf-8")
        for link in (first or second for first, second in LINK.findall(without_code(text))):
            if IS_ELSEWHERE.match(link):
                continue
            count += 1
            path, _, anchor = link.partition("#")
            target = (root / page).parent / path if path else root / page
            if not target.exists():
                found.append(f"{page}: there is no {link}")
            elif root not in [target.resolve(), *target.resolve().parents]:
                found.append(f"{page}: {link} leads out of the repository")
            elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
                found.append(f"{page}: there is no heading for {link}")
    return count, found


def left_out(root, pages):
    """Pages that no test runs, pages of the guide that are not in its summary, and too little Rust in them."""
    guide = "docs/guide/src/"
    run = (root / "tests/guide/src/lib.rs").read_text()
    summary = (root / guide / "SUMMARY.md").read_text()
    pieces = 0
    for page in pages:
        if page == guide + "SUMMARY.md" or not IS_RUN.match(page):
            continue
        pieces += len(re.findall("^```rust", (root / page).read_text(encoding="utf-8"), re.M))
        if f'include_str!("../../../{page}")' not in run:
            yield f"{page}: tests/guide/src/lib.rs does not include it"
        if page.startswith(guide) and f"({page[len(guide):]})" not in summary:
            yield f"{page}: it is not in the guide's summary"
    if pieces < RUST_MIN:
        yield f"there are {pieces} pieces of Rust, and there were {RUST_MIN}"


def main():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    pages = listed.stdout.split()
    count, found = faults(ROOT, pages)
    found += left_out(ROOT, pages)
    if count < LINKS_MIN:
        found.append(f"there are {count} links, and there were {LINKS_MIN}")
    for fault in found:
        print(f"links: {fault}")
    print(f"{len(pages)} pages")
    print(f"{count - len(found)} passed, {len(found)} failed")
    return 1 if found else 0


PAGES = {
    "a.md": "# A page\n[b](deep/b.md#two-words-1) [self](#a-page) [out](https://example.org/x) ![picture](deep/b.md)\n"
            "`[code](no.md)` ``[`code`](no.md)``\n```text\n[code](no.md)\n# No heading\n```\n[ref]\n\n[ref]: deep/b.md\n",
    "deep/b.md": "## Two `words`\n[up](../a.md)\n## Two, words!\n",
    "bad.md": "[no](no.md) [no heading](a.md#no-heading) [`no`](deep/no.md) [out](../../etc)\n\n[ref]: no.md\n",
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve() / "root"
        for name, text in PAGES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        good, bad = faults(root, ["a.md", "deep/b.md"]), faults(root, ["bad.md"])
    is_right = good == (5, []) and bad[0] == 5 and len(bad[1]) == 5
    print("links: the self-test " + ("passed" if is_right else f"failed: {good}, {bad}"))
    return 0 if is_right else 1


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--self-test"]):
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    sys.exit(self_test() if sys.argv[1:] else main())
