#!/usr/bin/env python3
"""How many mutants of cargo-mutants have a counterpart here: the same change at the same place.

    cargo install cargo-mutants --locked
    tests/mutants/compare.py            prints the table that README.md has
    tests/mutants/compare.py --missing  and each one without a counterpart

Nothing is built but the tool that lists ours. Those that do not compile count on both sides.
"""

import collections
import json
import re
import subprocess
import sys

import run

KINDS = {"FnValue": "a body replaced", "BinaryOperator": "an operator for another", "UnaryOperator": "`!` or `-` left out",
         "MatchArm": "an arm left out", "MatchArmGuard": "a guard", "StructField": "a field left out"}


def main():
    ours = collections.defaultdict(list)
    for mutant in run.list_mutants(run.build_tool()):
        if mutant.floor >= 1:
            ours[mutant.file].append(mutant)
    named = [word for name in sorted(ours) for word in ("--file", name)]
    listed = subprocess.run(["cargo", "mutants", "--list", "--json", "--package", "antiphon", *named], cwd=run.ROOT,
                            check=True, text=True, capture_output=True)
    counted, without = collections.defaultdict(collections.Counter), []
    for theirs in json.loads(listed.stdout):
        has = any(is_same(theirs, mutant) for mutant in ours[theirs["file"]])
        counted[KINDS[theirs["genre"]]][has] += 1
        if not has:
            without.append(theirs["name"])
    total = sum(counted.values(), collections.Counter())
    print("| kind | of cargo-mutants | also here | not here |\n|---|---:|---:|---:|")
    for kind, row in [*sorted(counted.items()), ("**all**", total)]:
        print(f"| {kind} | {row.total()} | {row[True]} | {row[False]} |")
    if "--missing" in sys.argv[1:]:
        print("\n".join(without))


def is_same(theirs, mutant):
    """Whether one of theirs is one of ours."""
    place, change = theirs["span"]["start"], theirs["replacement"]
    is_here = (mutant.line, mutant.column) == (place["line"], place["column"])
    match theirs["genre"]:
        case "FnValue":
            # Theirs stands where the body begins, ours where the function has its name.
            within = theirs["function"]["span"]["start"]["line"] <= mutant.line <= place["line"]
            return within and mutant.what.startswith("the body by ") and is_same_value(change, mutant.what[12:])
        case "BinaryOperator":
            return is_here and f" by `{change}` in " in mutant.what
        case "UnaryOperator":
            return is_here and " left out in " in mutant.what
        case "MatchArm":
            return is_here and mutant.what.startswith("the arm ")
        case "MatchArmGuard":
            return is_here and mutant.what.startswith("the guard ") and mutant.what.endswith(f" by {change}")
        case "StructField":
            # Ours stands where the struct begins.
            field = re.search(r"delete field (\w+)", theirs["name"]).group(1)
            function = theirs["function"]["span"]
            within = function["start"]["line"] <= mutant.line <= place["line"]
            return within and mutant.what == f"the field {field} left out"


def is_same_value(theirs, ours):
    """Whether two values are the same but for how they are spelled."""
    ours, theirs = spelled(ours.strip("`")), spelled(theirs)
    # A long one of ours is cut short.
    return theirs.startswith(ours[:-3]) if ours.endswith("...") else theirs == ours


def spelled(value):
    value = re.sub(r"\s|::std::|\b(vec|string|boxed|borrow|std|iter|alloc|core|rc|sync)::", "", value)
    value = value.replace("aniteratorover", "once:").replace("anemptyiterator", "empty()")
    value = re.sub(r"^once\((.*)\)$", r"once:\1", value)
    value = value.replace("vec![]", "Vec::new()").replace(",)", ")")
    return re.sub(r";[^\]]*\]", ";_]", value)


if __name__ == "__main__":
    main()
