#!/usr/bin/env python3
"""Plays the cases of this folder against any JSON-RPC server on standard input and output: play.py [OPTION…] COMMAND

COMMAND is one argument, split like a shell's. In it {preset}, {framing} and {limits} stand for what a case wants, the
last as `--limit NAME=NUMBER`. Without {preset} or {framing} only cases of --preset and --framing are played, without
{limits} none that sets one. README.md says what the server serves and what is compared.

Prints each failure with what was sent, wanted and received, then how many passed, failed and did not apply, and why.
Exit code 0: all passed. 1: one failed, or none was played. 2: wrong usage.
"""
import argparse, collections, concurrent.futures, io, json, queue, shlex, subprocess, sys, threading

import cases

STANDARD = {"subtract", "sum", "get_data", "echo", "update", "notify_hello", "notify_sum"}
ANSWERS = {"respond", "respond_err", "respond_code", "respond_unknown"}
NEEDS_OPEN = "it needs requests that stay open"

Number = type("Number", (str,), {"__doc__": "A number by its text: 1.0 stays 1.0."})

def parse(text):
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=int)  # int refuses NaN, which is no JSON

def framed(body, framing):
    head = b"Content-Length: %d\r\n\r\n" % len(body) if framing == "content-length" else b""
    return head + body + (b"\n" if framing == "newline" or framing == "concatenated" and body[-1:] not in b"]}" else b"")

def messages(stream, framing):
    """The messages in a stream; a server writes one a line, or with headers."""
    while line := stream.readline():
        if framing == "content-length":
            length = 0
            while line.strip():
                length = int(line[15:]) if line.lower().startswith(b"content-length:") else length
                line = stream.readline()
            yield stream.read(length)
        elif line.strip():
            yield line.strip()

def meaning(message):
    """What is compared of a message."""
    if isinstance(message, list):
        return f"batch {sorted(map(meaning, message))}"
    if not isinstance(message, dict):
        return f"no message {message!r}"
    seen = {name: json.dumps(message[name], sort_keys=True) for name in ("jsonrpc", "result", "error") if name in message}
    error = message.get("error")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        seen["error"] = f"error {error.get('code')}"
    if "id" in message:
        seen["id"] = type(message["id"]).__name__ + repr(message["id"])
    return repr(sorted(seen.items()))

def understood(frame):
    try:
        return meaning(parse(frame))
    except (ValueError, RecursionError) as error:
        return f"no JSON {frame!r}: {error}"

def is_json(body):
    return body[:1] in (b"{", b"[") and not understood(body).startswith("no JSON")

def unknown(reply):
    """What a server replies that does not know the method, in place of this reply and in its version."""
    version = {"jsonrpc": "2.0"} if "jsonrpc" in reply else {"result": None}
    return {**version, "error": {"code": Number("-32601"), "message": "Method not found"}, "id": reply["id"]}

def wanted(step, asked):
    """The messages that a step leads to in a server that knows only the standard methods."""
    def swap(item):
        is_known = asked.get(repr(item.get("id")), "echo") in STANDARD
        return item if is_known or step.get("do", [""])[0] not in ANSWERS else unknown(item)
    for text in step.get("sends", []) + [step[name] for name in ("sends_bytes",) if name in step]:
        framing = "content-length" if text.startswith(b"Content-Length") else "newline"
        for message in map(parse, messages(io.BytesIO(text), framing)):
            yield [swap(item) for item in message] if isinstance(message, list) else swap(message)

def plan(case, framing):
    """What to send and to expect, as [(bytes, messages)], None for the end of input; or why the case does not apply."""
    if case["role"] != "server":
        return "the role is not a server's"
    if "exchange" in case or case["framing"] not in ("any", "messages", framing):
        return "it is about another framing"
    steps, asked, opened, ends = [], {}, 0, False
    for step in case["steps"]:
        if "receive" in step:
            if opened:
                return NEEDS_OPEN
            data = b""
            for kind, body in step["receive"]:
                fits = {"newline": body.strip() and b"\n" not in body, "content-length": body, "concatenated": is_json(body)}
                if case["framing"] != framing if kind == "bytes" else not fits[framing]:
                    return "a message cannot stand in this framing"
                data += framed(body, framing) if kind == "message" else body
            steps.append((data, []))
        elif step["do"][0] in ANSWERS:
            opened -= 1
        elif step["do"] != ["eof"] or step is not case["steps"][-1]:
            return "it takes a clock or a command"
        else:
            steps.append((None, []))
        for event in step.get("events", []):
            kind = event["kind"]
            if kind in ("cancelled", "error", "response") or event.get("reason") in ("Busy", "RepeatedId"):
                return NEEDS_OPEN
            ends = ends or kind == "closed" and event["reason"] != "end-of-input"
            if kind == "request":
                opened += 1
                asked[repr(parse(event["id"]))] = event["method"]
        if steps:
            steps[-1][1].extend(wanted(step, asked))
    version = {"params": []} if case["preset"] == "v1" else {"jsonrpc": "2.0"}
    probe = framed(json.dumps({**version, "method": "p", "id": "p"}).encode(), framing)
    probes = case["settings"].get("max_message_bytes", len(probe)) >= len(probe) and not ends
    last = [(probe, [unknown({**version, "id": "p"})])] * probes + [(None, [])] if steps[-1][0] is not None else []
    return NEEDS_OPEN if opened else steps + last

def choose(case, options):
    """Every play of a case, as (case, framing, command, steps), or why there is none."""
    limits = case["settings"]
    if any(not isinstance(limit, int) for limit in limits.values()) or limits and "{limits}" not in options.command:
        return "the program cannot be set so"
    if "{preset}" not in options.command and case["preset"] != options.preset:
        return "it is about another dialect"
    framings = ["newline", "content-length", "concatenated"] if "{framing}" in options.command else [options.framing]
    plans = {framing: plan(case, framing) for framing in framings}
    words = {"preset": case["preset"], "limits": " ".join(f"--limit {name}={limit}" for name, limit in limits.items())}

    def command(framing):
        framing = dict(name.split("=") for name in options.name).get(framing, framing)
        return shlex.split(options.command.format(**words, framing=framing))
    plays = [(case, framing, command(framing), steps) for framing, steps in plans.items() if isinstance(steps, list)]
    return plays or next(iter(plans.values()))

def play(command, steps, framing, wait):
    """Plays one case. Gives what was received, and whether that is what was wanted."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    arriving, got, due = queue.Queue(), [], 0

    def read():
        for message in messages(process.stdout, framing):
            arriving.put(message)
        arriving.put(None)
    threading.Thread(target=read, daemon=True).start()
    try:
        for data, replies in steps:
            process.stdin.close() if data is None else (process.stdin.write(data), process.stdin.flush())
            due += len(replies)
            while (len(got) < due or data is None) and (not got or got[-1]):
                got.append(arriving.get(timeout=wait))
    except (queue.Empty, OSError) as error:
        got.append(f"then {type(error).__name__}".encode())
    process.kill()
    process.wait()
    expected = sorted(meaning(reply) for _, replies in steps for reply in replies)
    return list(filter(None, got)), sorted(map(understood, filter(None, got))) == expected

def play_all(options):
    """Plays what applies: [(case, framing, steps, messages received, whether it passed)], and how many did not apply, by reason."""
    apart, plays = collections.Counter(), []
    for case in cases.read_all():
        chosen = choose(case, options) if options.only in case["name"] else []
        (apart.update([chosen]) if isinstance(chosen, str) else plays.extend(chosen))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        came = pool.map(lambda each: play(each[2], each[3], each[1], options.wait), plays)
        return [(case, framing, steps, *seen) for (case, framing, _, steps), seen in zip(plays, came)], apart

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", help="the server and its arguments, in one argument")
    parser.add_argument("--preset", default="strict", help="whose cases are played if the command has no {preset}")
    parser.add_argument("--framing", default="newline", help="under which cases are played if the command has no {framing}")
    parser.add_argument("--name", action="append", default=[], metavar="OURS=THEIRS", help="the name that the command has for a framing")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name")
    parser.add_argument("--wait", type=float, default=10, metavar="SECONDS", help="how long an answer may take")
    played, apart = play_all(parser.parse_args())
    for case, framing, steps, got, passed in played:
        if not passed:
            sent, replies = b"".join(data or b"" for data, _ in steps), [reply for _, replies in steps for reply in replies]
            print(f"FAILED {case['name']} [{case['preset']}, {framing}] {'; '.join(case['clause'])}\n  sent   {sent[:2000]!r}")
            print(f"  wanted {json.dumps(replies)[:2000]}\n  got    {b' '.join(got)[:2000]!r}")
    print("\n".join(f"{count:5} do not apply: {why}" for why, count in apart.most_common()))
    passed, names = sum(each[4] for each in played), {each[0]["name"] for each in played}
    print(f"{passed} passed, {len(played) - passed} failed, {apart.total()} not applicable; {len(names)} cases played")
    return 0 if played and passed == len(played) else 1

if __name__ == "__main__":
    sys.exit(main())
