#!/usr/bin/env python3
"""Checks the packages that `cargo publish --workspace --dry-run` has made.

    tools/packages.py FOLDER     the folder `package` in cargo's target folder

A package has its licences and its README, no tests or examples of the repository, and takes at most SIZE_MAX bytes. Prints a line
for each package, and ends with `N passed, M failed`. Exits 1 if one failed, or if there is none.
"""

import pathlib
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZE_MAX = 500_000
LICENCES = ["LICENSE-MIT", "LICENSE-APACHE"]
FILES = [*LICENCES, "README.md", "Cargo.toml", "src/lib.rs"]
PLACEHOLDER = "antiphon.invalid"


def faults_of(package):
    size = package.stat().st_size
    if size > SIZE_MAX:
        yield f"it takes {size} bytes, {SIZE_MAX} are allowed"
    with tarfile.open(package) as archive:
        members = [member for member in archive if member.isfile()]
        texts = {member.name.partition("/")[2]: archive.extractfile(member).read() for member in members}
    for name in FILES:
        if name not in texts:
            yield f"{name} is missing"
    for name in LICENCES:
        # If a symbolic link is not followed, the package has the path of the file instead of its text.
        if name in texts and texts[name] != (ROOT / name).read_bytes():
            yield f"{name} is not the one of the repository"
    for name in texts:
        if name.split("/")[0] in ("tests", "benches", "examples", "fuzz", "docs", "tools", ".ci", ".github"):
            yield f"{name} is only of use in the repository"


def main(words):
    if len(words) != 1:
        print(__doc__)
        return 2
    passed = failed = 0
    # A dry run leaves each package in two folders.
    packages = {package.name: package for package in pathlib.Path(words[0]).rglob("*.crate")}
    for package in map(packages.get, sorted(packages)):
        faults = list(faults_of(package))
        passed, failed = passed + (not faults), failed + bool(faults)
        print(f"{package.name}: {package.stat().st_size} bytes")
        for fault in faults:
            print(f"FAILED {package.name}: {fault}")
    if PLACEHOLDER in (ROOT / "Cargo.toml").read_text(encoding="utf-8"):
        print("NOTE: `repository` in Cargo.toml is a placeholder. Fill it in before anything is published.")
    print(f"{passed} passed, {failed} failed")
    return 0 if packages and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
