#!/usr/bin/env python3
"""Holds the dependencies to the policy that is written here.

    tests/dependencies.py [MANIFEST…]     default: the workspace's

What the core may need at run time is three crates; every package comes from the registry or from
this tree; every licence is one that MIT OR Apache-2.0 code can be shipped with; cryptography and C
code are nobody's but the caller's; and how many crates there are in two versions may only go down.
Prints how many packages were looked at, and fails with one line for each that does not comply.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict

CORE = {"serde", "serde_json", "smallvec"}
CORE_OPTIONAL = {"arbitrary"}

LICENCES = {
    "MIT", "MIT-0", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib",
    "0BSD", "Unlicense", "CC0-1.0", "Unicode-3.0", "Unicode-DFS-2016", "BSL-1.0", "CDLA-Permissive-2.0",
}

# Whoever wants them brings them: a rustls configuration carries its cryptography. `ring` is for tests.
FORBIDDEN = {"openssl", "openssl-sys", "native-tls", "aws-lc-sys"}
ONLY_FOR_TESTS = {"ring", "rcgen", "proptest", "criterion", "tokio-test"}

# Crates in two versions, of those that are linked into what users build.
MAX_DUPLICATES = 2


def complies(expression):
    """Whether a licence expression can be met with what is allowed."""
    expression = expression.replace("/", " OR ")
    tokens = re.findall(r"\(|\)|[^\s()]+", expression)
    at = 0

    def peek():
        return tokens[at] if at < len(tokens) else None

    def single():
        nonlocal at
        if peek() == "(":
            at += 1
            inner = either()
            at += 1
            return inner
        name = tokens[at]
        at += 1
        if peek() == "WITH":
            name += " WITH " + tokens[at + 1]
            at += 2
        return name in LICENCES

    def both():
        nonlocal at
        met = single()
        while peek() == "AND":
            at += 1
            met = single() and met
        return met

    def either():
        nonlocal at
        met = both()
        while peek() == "OR":
            at += 1
            met = both() or met
        return met

    return either()


def linked(metadata, manifest):
    """Packages that are linked into the crates that users depend on, as (name, version)."""
    found = set()
    for package in metadata["packages"]:
        if package["source"] is None and package["publish"] is None:
            command = ["cargo", "tree", "--locked", *manifest, "-p", package["name"], "-e", "normal,build",
                       "--all-features", "--target", "all", "--prefix", "none", "--format", "{p}"]
            tree = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found.update(re.findall(r"^(\S+) v(\S+)", tree, re.M))
    return found


def check(manifest):
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1", *manifest]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    wrong = []
    shipped = linked(metadata, manifest)
    versions = defaultdict(set)
    for package in metadata["packages"]:
        name, source = package["name"], package["source"]
        if source is not None and not source.startswith("registry+"):
            wrong.append(f"{name}: comes from {source}, not from the registry")
        if not package["license"] or not complies(package["license"]):
            wrong.append(f"{name}: its licence is {package['license']}")
        if name in FORBIDDEN:
            wrong.append(f"{name}: whoever wants it brings it")
        if (name, package["version"]) in shipped:
            versions[name].add(package["version"])
            if name in ONLY_FOR_TESTS:
                wrong.append(f"{name}: is for tests, and is linked into what users build")
        if name == "antiphon" and source is None:
            for dependency in package["dependencies"]:
                allowed = CORE | (CORE_OPTIONAL if dependency["optional"] else set())
                if dependency["kind"] is None and dependency["name"] not in allowed:
                    wrong.append(f"antiphon: must not need {dependency['name']}")
    twice = {name: sorted(known) for name, known in versions.items() if len(known) > 1}
    if len(twice) > MAX_DUPLICATES:
        wrong.append(f"{len(twice)} crates are linked in two versions, {MAX_DUPLICATES} may be")
    for name, known in sorted(twice.items()):
        print(f"twice: {name} {' '.join(known)}")
    for line in wrong:
        print(f"FAILED {line}")
    print(f"{len(metadata['packages']) - len(wrong)} passed, {len(wrong)} failed")
    return not wrong


def main(arguments):
    assert complies("MIT OR Apache-2.0") and complies("(MIT OR GPL-3.0) AND Unicode-3.0")
    assert not complies("GPL-3.0-only") and not complies("MIT AND GPL-3.0")
    manifests = [["--manifest-path", name] for name in arguments] or [[]]
    return 0 if all([check(manifest) for manifest in manifests]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
