#!/usr/bin/env python3
"""Reads the cases of this folder that any implementation can play. README.md describes the notation.

    cases.py          prints them as JSON, one a line, for players that would rather not read the notation

In what is printed, bytes that are no UTF-8 stand as {"hex": …}.
"""
import json, pathlib, re, sys

FRAMINGS = {"Newline": "newline", "ContentLength": "content-length", "Concatenated": "concatenated",
            "Messages": "messages", "Detect": "detect"}
ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))")
ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}
TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{} ]')
CANONICAL = {"-32700": "Parse error", "-32600": "Invalid Request", "-32601": "Method not found", "-32602": "Invalid params",
             "-32603": "Internal error", "-32001": "Request cancelled", "-32800": "Request cancelled", "-32002": "Server busy",
             "-32005": "Request timeout"}

def expand(text):
    """Short forms written out: $(text*n), and those of whole messages."""
    at = re.search(r"\$([a-z]?)\(", text)
    if not at:
        return text
    depth, end = 1, at.end()
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    inside, after = text[at.end():end - 1], expand(text[end:])
    if not at[1]:
        inside, times = inside.rsplit("*", 1)
        written = expand if "$" in inside else str
        is_counted = any(c in inside for c in "#%$")
        counted = (inside.replace("#", str(n)).replace("%", str(n + 1)) for n in range(1, int(times) + 1))
        made = "".join(map(written, counted)) if is_counted else inside * int(times)
    else:
        first, _, rest = expand(inside).partition(" ")
        made = {"q": f'{{"jsonrpc":"2.0","method":"m","id":{first}}}', "n": '{"jsonrpc":"2.0","method":"n"}',
                "r": f'{{"jsonrpc":"2.0","result":{rest},"id":{first}}}',
                "e": f'{{"jsonrpc":"2.0","error":{{"code":{first},"message":"{CANONICAL.get(first)}"}},"id":{rest}}}'}[at[1]]
    return text[:at.start()] + made + after

def unescape(text):
    return ESCAPE.sub(lambda found: bytes([int(found[1], 16)]) if found[1] else ESCAPES[found[2]], text.encode())

def words(line):
    """The words of a line; a JSON string, array or object is one, blanks and all."""
    found, depth, start = [], 0, 0
    for token in TOKEN.finditer(line):
        if token[0] == " " and not depth:
            found += [line[start:token.start()]] if start < token.start() else []
            start = token.end()
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
    return found + ([line[start:]] if start < len(line) else [])

def name(word):
    """A method: a bare word, or a JSON string."""
    return json.loads(word) if word.startswith('"') else word

def event(line):
    """What the program is told, as far as it can be seen from outside: the kind, and what that has of method, id and reason."""
    kind, *said = words(line)
    if said and re.fullmatch(r"@\d+", said[-1]):
        said.pop()
    found = {"kind": kind, "line": line}
    if kind in ("request", "notification"):
        found["method"] = name(said[0])
    if kind == "request":
        found["id"] = said[-1]
    if kind in ("malformed", "refused", "closed", "error"):
        found["reason"] = said[1 if kind == "malformed" else 0]
    return found

def add(case, mark, rest, block):
    """Adds what one line says to its case."""
    steps, text = case["steps"], expand(rest)
    if mark == "rule":
        rule, _, note = rest.partition(": ")
        case.update({"rule": rule, **({"note": note} if note else {})})
    elif mark in ("kind", "role", "differs-from-strict", "play"):
        case["reads" if mark == "play" else mark] = rest
    elif mark == "clause":
        case["clause"] = rest.split("; ")
    elif mark == "config":
        for word in words(rest):
            setting, _, value = word.partition("=")
            if word.endswith("-exchange"):
                case["exchange"] = word.removesuffix("-exchange")
            elif not value:
                case["preset"] = word
            elif setting == "framing":
                case["framing"] = FRAMINGS[value]
            else:
                case["settings"][setting] = int(value) if value.isdigit() else value
    elif mark in ("<", "<x", "<<"):
        last = steps[-1] if steps else {}
        if set(last) != {"receive", "block"} or last["block"] != block:
            steps.append(last := {"receive": [], "block": block})
        last["receive"].append(("bytes" if mark == "<<" else "message", text.encode() if mark == "<" else unescape(text)))
    elif mark == "=":
        steps.append({"do": words(text), "block": block})
    elif mark == "!":
        steps[-1].setdefault("events", []).append(event(text))
    elif mark == ">":
        steps[-1].setdefault("sends", []).append(text.encode())
    elif mark == ">>":
        steps[-1]["sends_bytes"] = steps[-1].get("sends_bytes", b"") + unescape(text)
    elif mark == "?":
        steps[-1].setdefault("state", {}).update([rest.split(" ", 1)])
    else:
        raise SystemExit(f"{case['name']}: no such line: {mark} {rest}")

def read(path):
    """The cases of a file, those of this library alone too: they have no rule."""
    cases, ids, block = [], [], 0
    for line in path.read_text(encoding="utf-8").split("\n"):
        repeated = re.match(r"\*(\d+) ", line)
        if not line:
            ids, block = [], block + 1
        elif line.startswith("#"):
            ids += line.split()[1:] if re.match(r"# [A-Z]+-\d+\b", line) else []
        elif line.startswith("== "):
            cases.append({"name": f"{path.stem}: {line[3:]}", "ids": ids, "preset": "strict", "framing": "any", "settings": {}, "steps": []})
            ids = []
        elif not cases:
            raise SystemExit(f"{path.name}: only a comment or a title is read here: {line}")
        else:
            times, line = (int(repeated[1]), line[repeated.end():]) if repeated else (1, line)
            for n in range(1, times + 1):
                counted = line.replace("#", str(n)).replace("@", str(times + 1 - n)) if repeated else line
                add(cases[-1], *counted.partition(" ")[::2], block)
    return cases

def read_all():
    """The cases that any implementation can play. What a case leaves out is as in the case of its rule before it."""
    for path in sorted(pathlib.Path(__file__).resolve().parent.glob("*.txt")):
        rules = {}
        for case in read(path):
            if "rule" in case:
                known = rules.get(case["rule"], {})
                rules[case["rule"]] = {member: case.get(member, known.get(member)) for member in ("note", "clause", "kind", "role")}
                yield {**case, **rules[case["rule"]]}

def shown(value):
    """Bytes for JSON: their text, or if they are no UTF-8 their hex."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}

if __name__ == "__main__":
    if sys.argv[1:]:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    for each in read_all():
        print(json.dumps(each, ensure_ascii=False, default=shown))
