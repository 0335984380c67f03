#!/usr/bin/env python3
"""Compares the crates that the public API shows with the public ones in docs/public-dependencies.md.

    tools/public_dependencies.py

Rustdoc writes the API as JSON, which only a nightly compiler does. Each path in a signature, a field, an implementation or a
re-export leads to the crate that defines the item. Prints an example for each crate that is shown and not listed, and ends with
`N passed, M failed`.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = {"std", "core", "alloc"}
# Crates that are no dependencies themselves, by the dependency that re-exports or needs them.
THROUGH = {
    "serde_core": "serde", "rustls_pki_types": "rustls", "http": "tungstenite", "socket2": "antiphon-net", "http_body": "hyper",
    "antiphon-websocket": "antiphon-net",
}


def rows():
    """For each published crate its public dependencies, and all of them."""
    text = (ROOT / "docs/public-dependencies.md").read_text(encoding="utf-8")
    for name, public, private in re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \|$", text, re.M):
        public = re.findall(r"`([\w-]+)`", public)
        yield name, set(public), {*public, *re.findall(r"`([\w-]+)`", private)}


def paths_in(node):
    """The ids of all items that a part of the API names."""
    if isinstance(node, dict):
        if "id" in node and ("path" in node or "source" in node):
            yield str(node["id"])
        node = list(node.values())
    for part in node if isinstance(node, list) else []:
        yield from paths_in(part)


def shown(api, dependencies):
    """The dependencies that appear in the API, each with an example."""
    found = {}
    for item in api["index"].values():
        made = item["inner"].get("impl", {})
        if item["crate_id"] != 0 or made.get("is_synthetic") or made.get("blanket_impl"):
            continue
        for path in map(api["paths"].get, paths_in(item["inner"])):
            crate = path and path["crate_id"] and api["external_crates"][str(path["crate_id"])]["name"]
            if not crate or crate in OURS:
                continue
            for name in (crate, crate.replace("_", "-")):
                if name in dependencies or name in THROUGH:
                    crate = name
            origin = crate if crate in dependencies else THROUGH.get(crate, crate)
            found.setdefault(origin, f"{'::'.join(path['path'])} in {item['name'] or 'an implementation'}")
    return found


def main():
    known = list(rows())
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "nightly"
    flags = {"RUSTDOCFLAGS": "-Z unstable-options --output-format json", "CARGO_TARGET_DIR": str(target)}
    subprocess.run(["cargo", "+nightly", "doc", "-q", "--locked", "--no-deps", "--all-features",
                    *(f"--package={name}" for name, _, _ in known)], cwd=ROOT, env={**os.environ, **flags}, check=True)
    passed = failed = 0
    for name, public, dependencies in known:
        api = json.loads((target / "doc" / f"{name.replace('-', '_')}.json").read_text(encoding="utf-8"))
        found = shown(api, dependencies)
        passed += len(public & found.keys())
        for crate in sorted(public ^ found.keys()):
            failed += 1
            print(f"FAILED {name}: {crate} " + (f"shows: {found[crate]}" if crate in found else "does not show"))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
