#!/usr/bin/env python3
"""Checks the rules about dependencies that need no further tool. Licences, sources and duplicates are in deny.toml.

    tools/dependencies.py [MANIFEST…]     default: the workspace's

At run time the core may need three crates. Cryptography and C code are the caller's choice: no package depends on them. No
published crate links what is for tests. Prints a line for each fault, and how many packages passed and failed.
"""

import json
import re
import subprocess
import sys

CORE = {"serde", "serde_json", "smallvec"}
CORE_OPTIONAL = {"arbitrary", "schemars"}
# Only where the target has no compare-and-swap.
CORE_WITHOUT_SWAP = {"portable-atomic", "portable-atomic-util"}

# A program that wants one of these adds it: a rustls configuration contains its cryptography. `ring` is for tests.
FORBIDDEN = {"openssl", "openssl-sys", "native-tls", "aws-lc-sys"}
ONLY_FOR_TESTS = {"ring", "rcgen", "proptest", "criterion", "tokio-test"}
# A crate that is a program has made the choice.
PROGRAMS = {"antiphon-cli": {"ring"}}


def linked(package, manifest):
    """The names of the packages that are linked into a crate, with all of its features, on any system."""
    command = ["cargo", "tree", "--locked", *manifest, "-p", package, "-e", "normal,build",
               "--all-features", "--target", "all", "--prefix", "none", "--format", "{p}"]
    tree = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^(\S+) v", tree, re.M))


def faults(packages, manifest):
    for package in packages:
        name = package["name"]
        if name in FORBIDDEN:
            yield f"{name}: a program that wants it brings it"
        if package["source"] is not None:
            continue
        if package["publish"] is None:
            for other in sorted((ONLY_FOR_TESTS - PROGRAMS.get(name, set())) & linked(name, manifest)):
                yield f"{name}: links {other}, which is for tests"
        if name == "antiphon":
            for dependency in package["dependencies"]:
                allowed = CORE | (CORE_OPTIONAL if dependency["optional"] else set())
                if dependency["target"] == 'cfg(not(target_has_atomic = "ptr"))':
                    allowed |= CORE_WITHOUT_SWAP
                if dependency["kind"] is None and dependency["name"] not in allowed:
                    yield f"antiphon: must not need {dependency['name']}"


def check(manifest):
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1", *manifest]
    packages = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["packages"]
    wrong = list(faults(packages, manifest))
    for line in wrong:
        print(f"FAILED {line}")
    print(f"{len(packages) - len(wrong)} passed, {len(wrong)} failed")
    return not wrong


def main(arguments):
    manifests = [["--manifest-path", name] for name in arguments] or [[]]
    return 0 if all([check(manifest) for manifest in manifests]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
