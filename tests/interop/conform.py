"""`antiphon conform`: accuses no right server, finds each fault of one that has a single one, and those of other authors' servers."""

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import time

from suite import CLI, HERE, MODULES, PEER, PYTHON, case, node_env, rust
from wire import Process, run_once, temporary_folder

SERVER = HERE / "peers" / "faulty_server.py"
# Several wait at once; more would take time from each other, and silence is judged by time.
AT_ONCE = 8
LIMIT = 150
# `.ci/run soak_conform` sets it.
WHOLE = "ANTIPHON_CONFORM_WHOLE" in os.environ


def conform(*words, env=None):
    """The findings, and how many cases ran."""
    code, out, err = run_once([CLI, "conform", "--format", "json", *words], env=env, timeout=LIMIT)
    assert code in (0, 1), f"exit code {code}: {err.decode()}"
    assert b"\x1b" not in out
    report = json.loads(out)
    assert code == bool(report["findings"]), report
    return report


def found(report):
    return {finding["check"] for finding in report["findings"]}


def listening(command, url, env=None):
    """Starts a server that prints its port."""
    process = Process(command, env=env)
    return url.format(process.stdout_line().strip())


def served(target, *options):
    process = Process([PEER, *options, "server", target])
    return process.stderr_line(r"^listening (\S+)").group(1)


TARGETS = ["tcp://127.0.0.1:0", "tcp+lsp://127.0.0.1:0", "tcp+json://127.0.0.1:0", "http://127.0.0.1:0/", "ws://127.0.0.1:0/"]


@case("conform: no finding against antiphon-peer over {form}", forms=TARGETS)
def right_over_sockets(form):
    report = conform("--method", "echo", served(form, "--preset", "strict"))
    assert not report["findings"] and not report["stopped"], report["findings"]
    return f"{sum(report['ran'].values())} cases of {len(report['ran'])} checks"


@case("conform: no finding against antiphon-peer over pipes, with framing detected and in the dialects")
def right_over_pipes():
    for framing, preset, mine in (("ndjson", "strict", "strict"), ("lsp", "strict", "strict"), ("lsp", "lsp", "lsp"), ("ndjson", "mcp", "mcp-2025-06-18")):
        report = conform("--preset", preset, "--", PEER, "--preset", mine, "server", f"stdio:{framing}")
        # The peer has no life cycle of LSP, so it answers before `initialize`.
        assert found(report) <= {"lsp.early"} and not report["stopped"], (framing, preset, report["findings"])


# The fault of faulty_server.py, and the check that finds it, by transport.
FAULTS = {
    "stdio": {
        "version-absent-taken": "version.absent",
        "version-wrong-taken": "version.wrong",
        "string-id-unanswered": "id.string",
        "negative-unanswered": "id.negative",
        "fraction-cut": "id.fraction",
        "big-as-float": "id.big",
        "id-rewritten": "id.exact-text",
        "null-id-unanswered": "id.null",
        "bool-id-taken": "id.bool",
        "object-id-taken": "id.object",
        "params-scalar-unanswered": "params.scalar",
        "params-null-unanswered": "params.null",
        "params-empty-unanswered": "params.absent",
        "unknown-method-internal": "method.unknown",
        "method-missing-taken": "method.missing",
        "method-not-string-taken": "method.not-string",
        "reserved-invalid": "method.reserved",
        "unknown-member-refused": "member.unknown",
        "duplicate-ends": "member.duplicate",
        "notification-answered": "notification.silent",
        "unknown-notification-answered": "notification.unknown-silent",
        "notification-error-answered": "notification.error-silent",
        "syntax-invalid": "parse.syntax",
        "empty-ends": "parse.empty",
        "utf8-unanswered": "parse.utf8",
        "trailing-taken": "parse.trailing",
        "depth-ends": "parse.depth",
        "surrogate-ends": "parse.surrogate",
        "batch-empty-array": "batch.empty",
        "invalid-element-alone": "batch.invalid-element",
        "all-invalid-once": "batch.all-invalid",
        "null-element-ends": "batch.null-element",
        "mixed-refused": "batch.mixed",
        "batch-notifications-array": "batch.notifications",
        "nested-unanswered": "batch.nested",
        "same-id-merged": "batch.same-id",
        "long-cut": "batch.long",
        "shape-no-version": "answer.shape",
        "shape-code-text": "answer.shape",
        "one-outcome-both": "answer.one-outcome",
        "own-id-lost": "answer.own-id",
        "answered-twice": "answer.once",
        "response-answered": "response.not-answered",
        "garbage-ends": "recover.garbage",
        "split-lost": "frame.split",
        "second-lost": "frame.twice",
        "crlf-refused": "frame.crlf",
        "eof-forgets": "frame.eof-owed",
        "params-depth-ends": "limit.depth",
        "size-unanswered": "limit.size",
    },
    "lsp": {
        "case-refused": "frame.case",
        "blank-needed": "frame.no-blank",
        "length-in-characters": "frame.bytes",
        "early-taken": "lsp.early",
        "dollar-unanswered": "lsp.dollar",
        "cancelled-unanswered": "lsp.cancelled",
    },
    "mcp": {"batch-taken": "mcp.batch-refused", "cancel-answered": "mcp.cancelled"},
    "http": {
        "get-fails": "http.get",
        "type-exact": "http.type",
        "no-reply-fails": "http.no-reply",
        "text-taken": "http.simple-post",
        "rebinding-taken": "http.rebinding",
        "two-lengths-taken": "http.two-lengths",
        "chunked-stays-open": "http.length-and-chunked",
        "second-forgotten": "http.keep-alive",
        "reset-ends": "http.closed-cancels",
        "one-at-a-time": "limit.slow",
        "oversize-ends": "recover.oversize",
    },
    "ws": {
        "binary-ignored": "ws.binary",
        "fragments-lost": "ws.fragments",
        "ping-unanswered": "ws.ping",
        "broken-text-taken": "ws.utf8",
        "close-unanswered": "ws.close",
        "oversize-hangs": "recover.oversize",
    },
}


# Rules for every answer have no cases of their own: these break them.
CASES_OF = {"answer.own-id": "method.reserved", "answer.once": "params.absent"}


def faulty(transport, fault, words=()):
    """The checks that find something."""
    command = ["python3", SERVER, transport, fault]
    words = list(words)
    if transport in ("http", "ws"):
        return found(conform(*words, listening(command, f"{transport}://127.0.0.1:{{}}/")))
    words += {"lsp": ["--preset", "lsp"], "mcp": ["--preset", "mcp"]}.get(transport, ["--method", "echo", "--framing", "newline"])
    return found(conform(*words, "--", *command))


@case("conform: a server with one fault is accused of that fault alone, over {form}", forms=FAULTS)
def single_faults(form):
    assert faulty(form, "") == set(), "the right server"

    def one(entry):
        fault, check = entry
        # The long form runs all checks against each.
        return fault, faulty(form, fault, [] if WHOLE else ["--only", check, "--only", CASES_OF.get(check, check)])

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        seen = dict(pool.map(one, FAULTS[form].items()))
    wrong = {fault: checks for fault, checks in seen.items() if checks != {FAULTS[form][fault]}}
    assert not wrong, wrong
    return f"{len(seen)} faults"


# Faults that no fixed case aims at.
FUZZED = ["exponent-id-unanswered", "empty-name-ends", "wide-text-unanswered", "three-params-internal", "null-param-unanswered", "five-cut", "half-characters-lost", "third-lost"]


@case("conform: a server with one fault that no fixed case aims at is found by --fuzz, and antiphon-peer has none")
def fuzzed():
    seeds, span = ([1, 2, 3], "60s") if WHOLE else ([1], "8s")

    def one(entry):
        fault, seed = entry
        command = ["python3", SERVER, "stdio", fault] if fault else [PEER, "--preset", "strict", "server", "stdio:ndjson"]
        options = ["--framing", "newline", "--fuzz", span, "--seed", str(seed)]
        return entry, found(conform(*options, *([] if WHOLE else ["--only", "fuzz."]), "--", *command))

    with concurrent.futures.ThreadPoolExecutor(1 + len(FUZZED)) as pool:
        seen = list(pool.map(one, [(fault, seed) for fault in ["", *FUZZED] for seed in seeds]))
    for (fault, seed), checks in seen:
        assert bool(checks) == bool(fault) and all(check.startswith("fuzz.") for check in checks), (fault, seed, checks)
    return f"{len(FUZZED)} faults, {len(seeds)} seeds"


STRESSED = {"lost-under-load": "stress.answered", "twice-under-load": "stress.once", "mixed-under-load": "stress.own-answer"}


@case("conform: --stress finds a server that loses, repeats or mixes up answers under load, and nothing in antiphon-peer")
def stressed():
    options = ["--only", "stress.", "--stress=1s", "--method", "echo"]
    for fault, check in {"": None, **STRESSED}.items():
        report = conform("--timeout", "3s", *options, "--framing", "newline", "--", "python3", SERVER, "stdio", fault)
        assert found(report) == ({check} if check else set()), (fault, report["findings"])
        for finding in report["findings"]:
            done = subprocess.run(["sh", "-c", finding["command"]], capture_output=True, timeout=60, check=False)
            # Those that ran beside each other have written into one pipe, whole lines.
            lines = {line for line in finding["received"]["text"].splitlines() if fault != "twice-under-load"}
            assert lines <= set(done.stdout.decode().splitlines()), (fault, done.stdout)
    counts = []
    for listen in (TARGETS[0], TARGETS[3], TARGETS[4]):
        report = conform(*options, served(listen, "--preset", "strict"))
        stress = report["stress"]
        assert not report["findings"] and stress["answers"] == stress["requests"] > 100 and stress["connections"] == 16 and not stress["refused"], report
        counts.append(stress["answers"])
    return f"{sum(counts)} answers of antiphon-peer"


def shows(report, check, words, level="must"):
    """The finding is there; its own command, without antiphon, shows the bytes that it reports."""
    findings = [finding for finding in report["findings"] if (finding["check"], finding["level"]) == (check, level)]
    fit = [finding for finding in findings if re.search(words, finding["found"])]
    assert fit, f"{check} is not found: {[finding['found'] for finding in findings]}, {found(report)}"
    finding = fit[0]
    assert str(CLI) not in finding["command"]
    done = subprocess.run(["sh", "-c", finding["command"]], capture_output=True, timeout=30, check=False)
    received = finding["received"].get("text", "").strip()
    assert received.encode() in done.stdout, (finding["command"], received, done.stdout)
    if "not answered" in finding["found"]:
        ids = re.findall(r'"id":("[^"]*"|[-+.0-9eE]+)', finding["sent"]["text"])
        ids = [ident for ident in ids if "still-there" not in ident]
        assert not any(f'"id":{ident}' in done.stdout.decode() for ident in ids), done.stdout


@case("conform: jsonrpsee 0.26's server over HTTP leaves ids unanswered, and takes what is no request for no JSON",
      ("rust:jsonrpsee_peer",))
def jsonrpsee():
    report = conform(listening([rust("jsonrpsee_peer"), "server"], "http://127.0.0.1:{}/"))
    for check in ("id.negative", "id.fraction", "id.big"):
        shows(report, check, "answered with null")
    shows(report, "parse.syntax", "-32700, not -32600")


@case("conform: jayson over HTTP never answers [[]], and changes big ids", ("npm:jayson",))
def jayson():
    command = ["node", HERE / "peers" / "jayson_server.cjs", "http", "2"]
    report = conform(listening(command, "http://127.0.0.1:{}/", node_env()))
    shows(report, "batch.nested", "not answered")
    shows(report, "id.big", "9007199254740992, not 9007199254740993")


@case("conform: json-rpc-2.0 1.8.1 ends at [null], and answers [1] with an object and methods that are no strings with -32601",
      ("npm:json-rpc-2.0",))
def json_rpc_2_0():
    script = HERE / "peers" / "json_rpc_2_0_server.cjs"
    report = conform("--only", "batch.null", "--", "env", f"NODE_PATH={MODULES}", "node", script, "stdio")
    shows(report, "batch.null-element", "the server ends")
    report = conform("--only", "batch.invalid", "--only", "method.not", listening(["node", script, "http"], "http://127.0.0.1:{}/", node_env()))
    shows(report, "batch.invalid-element", "without an array")
    shows(report, "method.not-string", "-32601, not -32600")


@case("conform: jsonrpcserver 5.0.9 answers a whole batch with one error when one element is bad", ("pypi:jsonrpcserver", "pypi:aiohttp"))
def jsonrpcserver():
    report = conform("--only", "batch.mixed", "--", PYTHON, "-E", HERE / "peers" / "jsonrpcserver_peer.py", "stdio")
    shows(report, "batch.mixed", "the whole batch is answered with one -32600")


@case("conform: lsp-server 0.7.9 leaves ids unanswered, and ends at what is no JSON", ("rust:lsp_server_0_7",))
def lsp_server():
    report = conform("--only", "id.fraction", "--only", "id.big", "--only", "parse.syntax", "--", rust("lsp_server_0_7"))
    shows(report, "id.big", "not answered")
    shows(report, "id.fraction", "not answered")
    shows(report, "parse.syntax", "not answered, and the server ends")


# Where a client is waited for. Not over pipes: antiphon-peer starts what it speaks to over them.
LISTENS = ["tcp://127.0.0.1:0", "tcp+lsp://127.0.0.1:0", "tcp+json://127.0.0.1:0", "http://127.0.0.1:0/", "ws://127.0.0.1:0/"]
CLIENT = HERE / "peers" / "faulty_client.py"


@case("conform: no finding against the client of antiphon-peer, over every transport")
def right_clients():
    def one(listen):
        return listen, conform("--client", listen, "--", "python3", HERE / "peers" / "antiphon_loop.py", PEER)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        reports = dict(pool.map(one, LISTENS))
    for listen, report in reports.items():
        assert not report["findings"] and "client.precision" in report["ran"], (listen, report["findings"])
    return f"{sum(sum(report['ran'].values()) for report in reports.values())} cases"


# The fault of faulty_client.py, and the check that finds it.
CLIENT_FAULTS = {
    "late-taken": "client.late",
    "late-ends": "client.late",
    "unknown-taken": "client.unknown",
    "unknown-ends": "client.unknown",
    "twice-ends": "client.twice",
    "order-assumed": "client.out-of-order",
    "null-id-ends": "client.null-id",
    "both-taken": "client.both-members",
    "garbage-ends": "client.garbage",
    "split-lost": "client.split",
    "called-back-ends": "client.called-back",
    "called-back-id-lost": "client.called-back",
    "notification-answered": "client.called-back",
    "version-taken": "client.wrong-version",
    "integers-as-floats": "client.precision",
    "called-back-id-as-float": "client.precision",
}


def faulty_client(listen, fault, *words):
    """The report on a client, which makes two calls at once if its fault shows only then."""
    command = ["python3", CLIENT, "2" if fault == "order-assumed" else "1", fault] + (["stdio"] if listen == "stdio" else [])
    return conform(*words, "--client", listen, "--", *command)


@case("conform: a client with one fault is accused of that fault alone, and the finding's command shows it")
def client_faults():
    def one(entry):
        listen, fault, check = entry
        report = faulty_client(listen, fault, *([] if WHOLE or not check else ["--only", check]))
        assert found(report) == ({check} if check else set()), (entry, report["findings"])
        for finding in report["findings"]:
            shows_at_client(finding)

    tcp, *others = LISTENS[0], "stdio", LISTENS[3], LISTENS[4]
    entries = [(listen, "", None) for listen in (tcp, *others)] + [(tcp, "batches-too", None)] + [(tcp, *entry) for entry in CLIENT_FAULTS.items()]
    entries += [(listen, "version-taken", "client.wrong-version") for listen in others]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, entries))
    return f"{len(entries)} clients"


def shows_at_client(finding, env=None):
    """The finding's own command, without antiphon, prints the conversation with what the finding reports."""
    assert str(CLI) not in finding["command"]
    done = subprocess.run(["sh", "-c", finding["command"]], capture_output=True, timeout=60, check=False, env={**os.environ, **(env or {})})
    shown = done.stdout.decode()
    is_over = re.search("ends$|no further call", finding["found"])
    assert bool(is_over) == ("-- no further call" in shown), (finding, shown, done.stderr)
    # Calls that are under way at once come in any order.
    sent = finding["sent"]["text"].splitlines()[0]
    assert f"-> {sent}" in shown or '"id":"' in sent, (sent, shown)


def client_found(report, check, words, env=None):
    fit = [finding for finding in report["findings"] if finding["check"] == check and re.search(words, finding["found"])]
    assert fit, (check, report["findings"])
    shows_at_client(fit[0], env)


@case("conform: every later call of jsonrpsee 0.26's client over WebSocket fails after an unknown id, a second answer, an error without an id",
      ("rust:jsonrpsee_peer",))
def jsonrpsee_client():
    report = conform("--client", "ws://127.0.0.1:0/", *words_of("unknown", "twice", "null-id", "split"), "--", rust("jsonrpsee_peer"), "loop")
    assert found(report) == {"client.unknown", "client.twice", "client.null-id"}, report["findings"]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda check: client_found(report, check, "no further call"), sorted(found(report))))


@case("conform: json-rpc-2.0 1.8.1's client takes an answer with error and one of another version for results, and as a server too it ends at that",
      ("npm:json-rpc-2.0",))
def json_rpc_2_0_client():
    checks = words_of("both", "wrong", "twice", "unknown", "null-id")
    script = HERE / "peers" / "json_rpc_2_0_loop.cjs"
    command = ["--client", "stdio", *checks, "--", "env", f"NODE_PATH={MODULES}", "node", script]
    report = conform(*command, "client")
    assert found(report) == {"client.both-members", "client.wrong-version"}, report["findings"]
    client_found(report, "client.both-members", "taken for a result")
    client_found(report, "client.wrong-version", "taken for a result")
    client_found(conform(*command, "both"), "client.wrong-version", "the client ends")


def words_of(*checks):
    return [word for check in checks for word in ("--only", f"client.{check}")]


# What is found in language servers that many use. Both are right: JSON-RPC owes an answer to what is no request and to
# what is no JSON; ruff ends instead, clangd is silent.
KNOWN = {"method.not-string", "parse.syntax"}
# Checks whose cases are requests that an editor may send; the others end ruff each time, which takes long.
QUICK = ["id.", "params.", "notification.", "answer.", "lsp.", "member.unknown", "method.unknown", "method.not-string", "frame.split", "frame.twice", "frame.bytes"]


@case("conform: no must against {form} under the preset lsp, but for what is listed", ("bin:ruff", "bin:clangd"), forms=["ruff", "clangd"])
def language_servers(form):
    only = [] if WHOLE else [word for check in QUICK for word in ("--only", check)]
    command = [PYTHON.parent / form] + (["server"] if form == "ruff" else [])
    report = conform("--preset", "lsp", *only, "--", *command)
    musts = {finding["check"] for finding in report["findings"] if finding["level"] == "must"}
    assert musts <= KNOWN and not report["stopped"], report
    return f"{sum(report['ran'].values())} cases"


@case("conform: the commands of the README run as they stand in an empty directory")
def readme():
    text = (HERE.parent.parent / "cli" / "README.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```sh\n(.*?)```", text, re.S) if "cargo install" not in block]
    assert blocks
    with temporary_folder() as folder:
        env = {**os.environ, "PATH": f"{CLI.parent.resolve()}:{os.environ['PATH']}"}
        for block in blocks:
            done = subprocess.run(["sh", "-e", "-c", block], cwd=folder, env=env, capture_output=True, timeout=LIMIT, check=False)
            assert done.returncode == 0, done.stderr.decode()
            lines = done.stdout.decode().splitlines()
            assert lines[0] == "5" and "it has findings" in lines, lines


@case("conform: reports and cases have their schemas", ("pypi:jsonschema",))
def schemas():
    folder = HERE.parent.parent / "cli" / "schema"
    _, report, _ = run_once([CLI, "conform", "--format", "json", "--", "python3", SERVER, "stdio", "utf8-unanswered"], timeout=LIMIT)
    _, cases, _ = run_once([CLI, "conform", "--cases"])
    script = """
import json, sys
import jsonschema
schema, text = json.load(open(sys.argv[1])), sys.stdin.read()
values = [json.loads(text)] if text.startswith("{\\n") else [json.loads(line) for line in text.splitlines()]
for value in values:
    jsonschema.Draft202012Validator(schema).validate(value)
print(len(values))
"""
    counts = []
    for name, text in (("report.json", report), ("case.json", cases)):
        code, out, err = run_once([PYTHON, "-c", script, folder / name], stdin=text)
        assert code == 0, err.decode()
        counts.append(int(out))
    assert counts[0] == 1 and counts[1] > 90, counts


@case("conform: a stock reader of JUnit reads the report", ("pypi:junitparser",))
def junit():
    _, report, _ = run_once([CLI, "conform", "--format", "junit", "--", "python3", SERVER, "stdio", "utf8-unanswered"], timeout=LIMIT)
    script = """
import sys
import junitparser
read = junitparser.JUnitXml.fromstring(sys.stdin.buffer.read())
failed = [case.name for suite in read for case in suite if case.result]
print(read.tests, read.failures, *failed)
"""
    code, out, err = run_once([PYTHON, "-c", script], stdin=report)
    assert code == 0, err.decode()
    tests, failures, *failed = out.decode().split()
    assert int(tests) > 40 and (failures, failed) == ("1", ["parse.utf8"]), out


@case("conform: an interrupt ends with 130")
def interrupted():
    process = Process([CLI, "conform", "--timeout", "20s", "--", "sleep", "30"])
    time.sleep(0.5)
    process.process.send_signal(signal.SIGINT)
    assert process.wait() == 130


@case("conform: exit codes, baseline, JUnit, and nothing of a peer on the terminal")
def outside():
    right, wrong = [PEER, "--preset", "strict", "server", "stdio:ndjson"], ["python3", SERVER, "stdio", "bool-id-taken"]
    assert run_once([CLI, "conform", "--only", "id", "--", *right])[0] == 0
    code, out, _ = run_once([CLI, "conform", "--format", "json", "--only", "id", "--", *wrong])
    assert code == 1
    known = HERE.parent.parent / "target" / "conform-baseline.json"
    known.write_bytes(out)
    assert run_once([CLI, "conform", "--baseline", known, "--only", "id", "--", *wrong])[0] == 0
    code, out, _ = run_once([CLI, "conform", "--format", "junit", "--only", "id", "--", *wrong])
    assert code == 1 and out.count(b"<failure ") == 1 and out.count(b"<testcase ") == 8, out
    for words, wanted in (
        (["conform"], 2), (["conform", "ftp://x"], 2), (["conform", "--only", "nope", "tcp://127.0.0.1:1"], 2),
        (["conform", "tcp://127.0.0.1:1"], 3), (["conform", "--", "/no/such/program"], 3), (["conform", "--", "true"], 3),
        (["conform", "--timeout", "300ms", "--", "sleep", "9"], 4), (["call", "tcp://127.0.0.1:1", "m"], 3),
        (["call", "nope", "--", *right], 1), (["call", "subtract", "5", "3", "--", *right], 0),
        (["call", "--timeout", "300ms", "sleep", "5000", "--", *right], 4),
    ):
        code, out, err = run_once([CLI, *words])
        assert code == wanted, (words, code, err)
        assert b"\x1b" not in out + err
    url = listening(["python3", SERVER, "http", "get-fails"], "http://127.0.0.1:{}/")
    code, out, err = run_once([CLI, "conform", "--only", "http.get", "--token-env", "TOKEN", url], env={"TOKEN": "do-not-show"})
    assert code == 1 and b"$SECRET" in out and b"do-not-show" not in out + err, out
    code, out, _ = run_once([CLI, "call", "echo", "a:=1.50", "b=\u202e", "--", *right])
    assert (code, out) == (0, '{"a":1.50,"b":"\u202e"}\n'.encode()), out
