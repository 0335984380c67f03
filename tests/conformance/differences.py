#!/usr/bin/env python3
"""Plays the cases against JSON-RPC servers of other authors and in other languages, and explains what differs.

    tests/conformance/differences.py            compares with DIFFERENCES.md; fails if a difference is not there
    tests/conformance/differences.py --write    writes DIFFERENCES.md anew
    … --may-skip                            exit code 0 where the peers are not installed, and a line that says so

`.ci/peers` installs them. The table shows for each difference the case, its clause, both answers' bytes, and who is
right and why; a difference without an explanation in EXPLAINED fails with --write too. Exit code 0: nothing new.
1: something is new. 2: wrong usage. 3: the peers are not installed.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import sys

import play

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parent.parent / ".ci" / "cache" / "peers"
TABLE = HERE / "DIFFERENCES.md"
PYTHON = CACHE / "python" / "bin" / "python"
# Name: what it is, its command, and the file without which it is not installed.
PEERS = {
    "jsonrpcserver": ("jsonrpcserver 5.0.9, Python, Beau Barker", f"{PYTHON} -E {HERE}/peers/with_jsonrpcserver.py", PYTHON),
    "jayson": ("jayson 4.3.0, JavaScript, Tedde Lundgren", f"node {HERE}/peers/with_jayson.cjs", CACHE / "npm" / "node_modules" / "jayson"),
}
# At least so many cases are played against each peer.
PLAYED_MIN = 280
# An answer is shown whole unless it is longer than this; then so many characters of either end.
MAX_WHOLE_BYTES = 4096
END = 120

ONLY = "(jsonrpcserver|jayson) "
# What differs, as a pattern of peer and case, of which the first that fits counts; who is right; and why.
EXPLAINED = [
    ("jayson .*any size|jsonrpcserver .*any size.*0.123", "ours", "the value that comes back is another one: it went through a "
     "64-bit floating-point number, which RFC 8259 §6 lets a reader do and which loses what is passed on"),
    ("jsonrpcserver .*any size", "ours", "what comes back is `Infinity`, which RFC 8259 §6 does not have"),
    (ONLY + "json: number: (an integer|a fraction|an exponent)", "both",
     "the values are equal, and RFC 8259 §6 says nothing of their spelling; ours is passed on as it stood"),
    ("jsonrpcserver .*(NaN|[Ii]nfinity)", "ours", "RFC 8259 §6: infinity and NaN are not permitted"),
    (ONLY + ".*lone surrogate in a method", "both", "RFC 8259 §8.2 leaves open what a lone surrogate means; ours takes no name that is no text"),
    (ONLY + ".*(UTF-8|surrogate in)", "ours", "RFC 8259 §8.1: the text is UTF-8. The library is given text, and the bytes that "
     "are none were replaced before it saw them"),
    (ONLY + ".*byte order mark", "both", "RFC 8259 §8.1 lets a parser ignore a mark; it need not"),
    (ONLY + "cancel: ", "both", "JSON-RPC 2.0 has no cancellation; the case is a dialect's"),
    ("jayson .*(null_ids|null ids|with a null id|the id null)", "ours", "JSON-RPC 2.0 §4.1: a notification is without an id member; one "
     "that is null is an id, and jayson does not answer it"),
    (ONLY + ".*(beyond 64 bits|huge exponent|18446744073709551616|400 digits|9223372036854775809)", "ours",
     "JSON-RPC 2.0 §5: the id is the same value as in the request, and here it is another, or none"),
    (ONLY + "specification: the id ", "both", "the values are equal, and JSON-RPC 2.0 §5 asks for the value, not the spelling"),
    ("jsonrpcserver traps: trap: the ids 1,", "both", "the values are equal, and JSON-RPC 2.0 §5 asks for the value, not the spelling"),
    (ONLY + ".*(repeated|duplicate keys)", "both", "RFC 8259 §4: names should be unique, and readers differ where they are not. "
     "Theirs takes the last, ours refuses, so that nobody before or behind it can read another message"),
    ("jayson traps: trap: an empty batch", "ours", "JSON-RPC 2.0 §6 and its example: what is in a batch and no valid request is answered with "
     "−32600; theirs answers nothing at all where that is an array"),
    ("jayson server: each bad element", "ours", "JSON-RPC 2.0 §5: the id is null if it could not be detected; in the third it could, and theirs is "
     "null all the same. §6: the last is answered too; theirs leaves it out, for it is an array"),
    ("jsonrpcserver .*(bad element|invalid batch|empty batch|unknown_id)", "ours", "JSON-RPC 2.0 §6 and its example: "
     "one invalid element is answered alone; theirs refuses the whole batch"),
    (ONLY + ".*(a response with an unknown id|nothing is owed)", "both", "the specification does not say what a server does with a "
     "response; ours answers none, or two peers could trade errors for ever"),
    ("jsonrpcserver .*differ by case", "both", "the specification does not say what unknown members do; theirs refuses them, ours ignores them"),
    (ONLY + "(errors: an invalid|knobs: (null_params|invalid_request_id)|messages: (a call with version|a version|D-13|a m(issing|ethod)|params "
     "that|an object that)|server: each bad|traps: trap: an empty batch|version1: V2Only)", "ours",
     "JSON-RPC 2.0 §5: the id is null if it could not be detected; here it could, and theirs is null all the same"),
]


def explanation(peer, name):
    for pattern, right, why in EXPLAINED:
        if re.match(pattern, f"{peer} {name}"):
            return right, why
    return None


def shown(data):
    """Data as a cell of the table: all of it, or if it is very long its two ends, its length and its hash."""
    whole = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    text = whole.decode("utf-8", "backslashreplace")
    about = ""
    if len(whole) > MAX_WHOLE_BYTES:
        about = f" ({len(whole)} bytes, SHA-256 {hashlib.sha256(whole).hexdigest()}; shown are {END} characters of either end)"
        text = f"{text[:END]} … {text[-END:]}"
    # What ends a cell or its code, or cannot be seen, is written as JSON escapes it.
    text = "".join(c if c.isprintable() and c != "`" else f"\\u{ord(c):04x}" if c == "`" else json.dumps(c)[1:-1] for c in text)
    return "`` " + text.replace("|", "\\|") + " ``" + about if text else "nothing"


def rows_of(peer, command):
    options = argparse.Namespace(command=command, preset="strict", framing="newline", name=[], only="", wait=20)
    played, _ = play.play_all(options)
    if len(played) < PLAYED_MIN:
        raise SystemExit(f"{peer}: only {len(played)} cases were played")
    rows, unexplained = [], []
    for case, _, steps, got, passed in played:
        if passed:
            continue
        said = explanation(peer, case["name"])
        unexplained += [] if said else [f"{peer}: {case['name']}"]
        right, why = said or ("?", "?")
        # Without the probe, which is the last thing sent and nearly always answered last.
        sent = b"".join(data or b"" for data, _ in steps[:-2]).strip()
        ours = "\n".join(play_text(reply) for _, replies in steps[:-2] for reply in replies)
        theirs = b"\n".join(line for line in got if not is_probe(line)).decode("utf-8", "backslashreplace")
        rows.append(f"| {case['name'].replace('|', chr(92) + '|')} | {'; '.join(case['clause'])} | {shown(sent)} | {shown(ours)} | "
                    f"{shown(theirs)} | {right}: {why} |")
    return len(played), rows, unexplained


def play_text(value):
    """A reply as it is to be sent."""
    if isinstance(value, play.Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{play_text(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(play_text, value)) + "]"
    return json.dumps(value)


def is_probe(line):
    return b'"p"' in line and b"-32601" in line or line.startswith(b"then ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write DIFFERENCES.md anew")
    parser.add_argument("--may-skip", action="store_true", help="exit code 0 where the peers are not installed")
    options = parser.parse_args()
    absent = [name for name, (_, _, file) in PEERS.items() if not file.exists()]
    if absent:
        print(f"SKIPPED: {' and '.join(absent)} not installed, so the cases were not compared: run .ci/peers")
        return 0 if options.may_skip else 3
    os.environ["NODE_PATH"] = str(CACHE / "npm" / "node_modules")
    text = ["# What other implementations answer otherwise", "",
            "Made by `differences.py --write`, which plays the cases of strict 2.0, one message a line, against servers that `.ci/peers`",
            "installs. Every case that is not here is answered alike. The answer to the probe, a request after each case, is not shown;",
            "where a method is not one of the standard ones, ours is the −32601 that is wanted from any server. Messages are shown whole,",
            f"byte for byte; only one of more than {MAX_WHOLE_BYTES} bytes is shown by its length, its hash and its two ends. Line ends, what cannot",
            "be printed and a backtick are escaped as JSON does; a byte that is no UTF-8 stands as `\\xNN`; a bar is `\\|`.", ""]
    new, missing = 0, []
    known = TABLE.read_text(encoding="utf-8").split("\n") if TABLE.exists() else []
    for peer, (what, command, _) in PEERS.items():
        played, rows, unexplained = rows_of(peer, command)
        print(f"{peer}: {played} cases, {len(rows)} answered otherwise, {len(unexplained)} not explained", flush=True)
        text += [f"## {what}: {len(rows)} of {played}", "", "| case | clause | sent | ours | theirs | who is right, and why |",
                 "|---|---|---|---|---|---|", *rows, ""]
        missing += unexplained
        for row in rows:
            if row not in known and not options.write:
                new += 1
                print(f"not in {TABLE.name}: {row}")
    for name in missing:
        print(f"not explained: {name}")
    if options.write and not missing:
        TABLE.write_text("\n".join(text), encoding="utf-8")
    print(f"{len(PEERS) if not new + len(missing) else 0} passed, {new + len(missing)} failed")
    return 1 if new or missing else 0


if __name__ == "__main__":
    sys.exit(main())
