#!/usr/bin/env python3
"""Checks the files that only the code host reads, and lists that would otherwise go stale unnoticed.

    tools/project.py

* Each command of a workflow in .github/workflows calls `.ci/run` with steps that exist, or `.ci/tools` with tools that it knows.
  Together they run all steps, on Linux, macOS and Windows.
* What dependabot watches is there. Each issue template says what it is for.
* `.ci/run` and, but for the command, `.ci/windows` know all crates that are published, and each of those has its metadata.
* Each dependency of a published crate is listed in docs/public-dependencies.md, as public or as private.
* A public enum is `#[non_exhaustive]`, or is listed in tools/exhaustive.txt.
* No two public types of a crate share a name, in docs/api.
* `.ci/run STEP` and `cargo ALIAS` in CONTRIBUTING.md exist.
* Each example is in the index, examples/README.md, with the command that runs it.
* The subject of a commit has at most 72 characters. Older ones are longer, so the check begins at a commit.

Prints what is wrong, and ends with `N passed, M failed`.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SYSTEMS = ("ubuntu", "macos", "windows")
# The manifest that dependabot reads, by its name for the ecosystem.
MANIFESTS = {"cargo": "Cargo.toml", "npm": "package.json", "github-actions": ".github/workflows"}
MAX_SUBJECT = 72
# The last commit whose subject is not checked.
BEFORE_SUBJECTS = "e327da51"
METADATA = ("description", "license", "repository", "readme", "rust_version", "keywords", "categories")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def printed(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def listed(script):
    """What `SCRIPT --list` prints, by group."""
    lines = printed("bash", script, "--list").splitlines()
    return {group: words.split() for group, words in (line.split(": ") for line in lines)}


GROUPS = listed(".ci/run")
PUBLISHED = GROUPS.pop("published")
STEPS = set().union(*GROUPS.values())
TOOLS = set(listed(".ci/tools")["tools"])
PACKAGES = [package for package in json.loads(printed(
    "cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"))["packages"] if package["publish"] is None]


def commands(text):
    """The commands of a workflow; one that uses its job's matrix once for every line of the matrix."""
    for job in re.split(r"^  (?=\w+:\n)", text, flags=re.M):
        rows = re.findall(r"^ +- ([a-z0-9_ ]+)$", job, re.M)
        for command in re.findall(r"\brun: (.*)", job):
            if "${{" not in command:
                yield command
            for row in rows if "${{" in command else []:
                yield command.replace("${{ matrix.steps }}", row)


def workflows():
    run, systems = set(), set()
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        text = path.read_text(encoding="utf-8")
        systems.update(re.findall(r"runs-on: ([a-z]+)-", text))
        for command in commands(text):
            program, *words = command.split()
            known = {".ci/run": STEPS | GROUPS.keys(), ".ci/tools": TOOLS}.get(program, set())
            if not words or not known.issuperset(words):
                yield f"{path.name}: `{command}` is no step of .ci/run"
            if program == ".ci/run":
                run.update(step for word in words for step in GROUPS.get(word, [word]))
    for step in sorted(STEPS - run):
        yield f"no workflow runs the step {step}"
    for system in set(SYSTEMS) - systems:
        yield f"no workflow runs on {system}"


def dependabot():
    text = read(".github/dependabot.yml")
    watched = re.findall(r"package-ecosystem: (\S+)\n +directory: (\S+)", text)
    if not watched or len(watched) != text.count("package-ecosystem:"):
        yield "dependabot.yml: an entry has no directory right below"
    for ecosystem, folder in watched:
        if ecosystem not in MANIFESTS or not (ROOT / folder.strip("/") / MANIFESTS[ecosystem]).exists():
            yield f"dependabot.yml: there is nothing of {ecosystem} in {folder}"


def templates():
    for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.md")):
        if not re.match(r"---\nname: .+\nabout: .+\n(.+\n)*---\n", path.read_text(encoding="utf-8")):
            yield f"{path.name}: it does not begin with its name and what it is about"
    if not read(".github/PULL_REQUEST_TEMPLATE.md").strip():
        yield "the template of pull requests is empty"


def published():
    names = {package["name"] for package in PACKAGES}
    windows = set(re.search(r"PACKAGES=\((.*)\)", read(".ci/windows"))[1].split())
    # The command is a program of its own, with C that needs a compiler for Windows.
    windows.add("antiphon-cli")
    for script, known in ((".ci/run", set(PUBLISHED)), (".ci/windows", windows)):
        for name in sorted(known ^ names):
            yield f"{script}: {name} is published and not listed, or the other way round"
    for package in PACKAGES:
        for field in METADATA:
            if not package[field]:
                yield f"{package['name']}: {field} is missing"
        if not ((package["metadata"] or {}).get("docs", {}).get("rs", {})).get("all-features"):
            yield f"{package['name']}: its documentation would be built without its features"


def dependencies():
    """Compares the lists in docs/public-dependencies.md with the manifests."""
    text = read("docs/public-dependencies.md")
    known = {}
    for name, public, private in re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \|$", text, re.M):
        known[name] = re.findall(r"`([\w-]+)`", public + private)
    for package in PACKAGES:
        needed = {dependency["name"] for dependency in package["dependencies"] if dependency["kind"] is None}
        said = known.pop(package["name"], [])
        for name in sorted(needed ^ set(said)):
            yield f"docs/public-dependencies.md: {name} of {package['name']} is missing, or is no dependency any more"
        if len(said) != len(set(said)):
            yield f"docs/public-dependencies.md: {package['name']} has a dependency twice"
    for name in known:
        yield f"docs/public-dependencies.md: {name} is not published"


def enums():
    complete = set(re.findall(r"^(\w+)", read("tools/exhaustive.txt"), re.M))
    found = set()
    for path in printed("git", "ls-files", "src/*.rs", "adapters/*/src/*.rs").split():
        lines = read(path).splitlines()
        for number, line in enumerate(lines):
            name = re.match(r" *pub enum (\w+)", line)
            above = number
            while name and re.match(r" *(///|#\[|\)\])", lines[above - 1]):
                above -= 1
            if name and "#[non_exhaustive]" not in "".join(lines[above:number]):
                found.add(name[1])
                if name[1] not in complete:
                    yield f"{path}: {name[1]} is not #[non_exhaustive], and not in tools/exhaustive.txt"
    for name in sorted(complete - found):
        yield f"tools/exhaustive.txt: {name} is #[non_exhaustive], or is gone"


def names():
    """Looks in docs/api for public types of one crate that share a name. A facade re-exports two other crates."""
    def types(package):
        shown = re.findall(r"^(?:#\[\w+\] )?pub (?:struct|enum|trait|type|union) (\w+(?:::\w+)*)", read(f"docs/api/{package}.txt"),
                           re.M)
        # An associated type of a trait does not count: the name before it begins with a capital.
        return sorted({path for path in shown if not path.startswith("core::") and not path.split("::")[-2][:1].isupper()})

    core, shells = types("antiphon"), types("antiphon-shell") + types("antiphon-net")
    for package in PUBLISHED:
        text = read(f"docs/api/{package}.txt")
        paths = types(package)
        if "<<antiphon::*>>" in text:
            chosen = set(re.findall(r"^pub use \w+::(\w+)$", text, re.M))
            # A facade re-exports whole modules, with the types in them.
            paths += core + [path for path in shells if path.split("::")[1] in chosen]
        seen = {}
        for path in paths:
            name = path.split("::")[-1]
            if name in seen:
                yield f"docs/api/{package}.txt: {path} and {seen[name]}"
            seen[name] = path


def contributing():
    text = read("CONTRIBUTING.md")
    aliases = set(re.findall(r"^(\w+) = ", read(".cargo/config.toml"), re.M))
    for step in re.findall(r"`\.ci/run ([a-z_]+)", text):
        if step not in STEPS | GROUPS.keys():
            yield f"CONTRIBUTING.md: there is no step {step}"
    for alias in re.findall(r"`cargo (\w+)", text):
        if alias not in aliases | {"test", "fmt", "bench", "run"}:
            yield f"CONTRIBUTING.md: there is no alias {alias}"


def examples():
    index = read("examples/README.md")
    for package in PACKAGES:
        for target in package["targets"]:
            if target["kind"] != ["example"]:
                continue
            path = pathlib.Path(target["src_path"]).relative_to(ROOT).as_posix()
            link = path.removeprefix("examples/") if path.startswith("examples/") else "../" + path
            chosen = "" if package["name"] == "antiphon" else f"-p {package['name']} "
            if f"({link})" not in index or not re.search(f"`cargo run {chosen}(.* )?--example {target['name']}\\b", index):
                yield f"examples/README.md: {path} is missing, or the command that runs it"


def subjects():
    try:
        lines = printed("git", "log", "--format=%h %s", f"{BEFORE_SUBJECTS}..HEAD").splitlines()
    except (OSError, subprocess.CalledProcessError):
        print(f"SKIPPED subjects: there is no git history from {BEFORE_SUBJECTS} on")
        return
    for commit, subject in (line.split(" ", 1) for line in lines):
        if len(subject) > MAX_SUBJECT:
            yield f"the subject of {commit} has {len(subject)} characters, {MAX_SUBJECT} may be: {subject}"


def main():
    passed = failed = 0
    for check in (workflows, dependabot, templates, published, dependencies, enums, names, contributing, examples,
                  subjects):
        faults = list(check())
        passed, failed = passed + (not faults), failed + bool(faults)
        for fault in faults:
            print(f"FAILED {check.__name__}: {fault}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
