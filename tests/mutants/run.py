#!/usr/bin/env python3
"""Activates one mutant of the core after another, and expects a test to fail. The program has all of them built in, and
an environment variable says which one is *awake*.

    tests/mutants/run.py                     everything; writes SUMMARY.md
    tests/mutants/run.py --again             the same, without what the last run caught in files unchanged since
    tests/mutants/run.py --files id calls    only mutants of files whose path contains a word; writes nothing
    tests/mutants/run.py --files id --write  the same; what SUMMARY.md has of other files stays
    tests/mutants/run.py --files durable/ --unit [--sample 100]
                                             only with the unit tests, which builds much quicker; 100 of them
    tests/mutants/run.py --sample 40 --seed 7
                                             40 mutants that neither SUMMARY.md lists as survivors
                                             nor reasons.txt explains, drawn by the seed; each must be caught
    tests/mutants/run.py --survivors         only those that SUMMARY.md lists as survivors; writes nothing
    tests/mutants/run.py --floors 5          only mutants of these floors; what SUMMARY.md has of the others stays

Of floor 4 only the session is mutated (`ABOVE` in src/main.rs has the modules); floor 5 are services, topics, flows and
durable topics. Exits 1 if fewer than 95 of 100 viable mutants of floors 1 to 3, of the session, or of one of these are caught, if a survivor stands without a reason in reasons.txt, or if one of a sample survives; 3 if what is built with
cannot be fetched. README.md says how it works.
"""

import argparse
import collections
import filecmp
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGET = os.path.abspath(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"))
WORK = os.path.join(TARGET, "mutants")
COPY = os.path.join(WORK, "copy")
SUMMARY = os.path.join(HERE, "SUMMARY.md")
REASONS = os.path.join(HERE, "reasons.txt")

CAUGHT_PERCENT_MIN = 95
# Of this floor only the session is mutated.
SESSION_FLOOR = 4
FLOORS = [0, 1, 2, 3, SESSION_FLOOR, 5]
# What is judged by itself: the folders of floor 5.
FOLDERS = {"services": "src/service", "topics": "src/pubsub/", "flows": "src/flow/", "durable topics": "src/durable/"}
# What we exit with when something cannot be fetched and nothing was run.
SKIPPED = 3
# All protocol cases of one file count as one test, whose name is the file's and ends so.
CASES = ".txt"
NOT_RUN = ("not run", "")
NO_REASON = "**Not yet killed.**"
# The test binaries of the core. Not among them: those that read the source instead of running it (repository) or build
# programs (examples). Left out of `memory` is what plays a few conversations a hundred thousand times, and of the tests
# of the macros what only has programs compiled, which are refused.
TESTS = ["api", "conformance", "interpreted", "memory", "model"]
NOT_RUN_TESTS = ("allocations::", "refused::")
# How many seconds the tests of the first round of a mutant may take together, those of the second, and so on.
ROUNDS = [0.05, 0.5, 4.0, float("inf")]
# The processor time that a run may take: this many times what it takes without a mutant, and this many seconds more.
MAX_TIMES, SECONDS_MORE = 4, 0.3
# About how long a process takes before its first test.
PROCESS_SECONDS = 0.003
# How long a run may take by the clock: this many times the time above, and this many seconds more.
MAX_WAIT_TIMES, MAX_WAIT_SECONDS = 40, 60
MAX_MEMORY_BYTES = 3 << 30
MAX_BUILD_SECONDS = 1800
# A test that takes longer alone is left out: it would run for every survivor.
MAX_TEST_SECONDS = 10
# How often the compiler may complain before we give up.
MAX_BUILDS = 40

Mutant = collections.namedtuple("Mutant", "number floor file line column function what")
Test = collections.namedtuple("Test", "binary name seconds reached")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", nargs="+", default=[])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--unit", action="store_true", help="builds and runs only the unit tests")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--floors", nargs="+", type=int, default=FLOORS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--again", action="store_true",
                        help="keeps what was caught before, where the file has not changed since, and survivors with a reason")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--nice", type=int, default=10)
    parser.add_argument("--no-fuzz", action="store_true", help="without the replay of the fuzz corpora")
    parser.add_argument("--report", action="store_true", help="runs nothing; writes SUMMARY.md from what was kept")
    options = parser.parse_args()
    if options.report:
        return report(options.floors)
    if why := missing():
        say(f"SKIPPED: {why}")
        return SKIPPED
    began = time.monotonic()
    mutants, dropped, binaries = build(not options.no_fuzz, options.unit)
    os.nice(options.nice)
    tests = measure(binaries)
    viable = [mutant for mutant in mutants if mutant.number not in dropped]
    say(f"{len(mutants)} mutants, {len(viable)} viable, {len(tests)} tests")
    chosen = choose(viable, options)
    kept = load("verdicts.json", {}) if options.again else {}
    verdicts = {mutant.number: tuple(kept[key]) for mutant, key in zip(chosen, keys(mutants, chosen))
                if kept.get(key, NOT_RUN)[0] in ("caught", "timeout")}
    if options.again:
        reasons = read_reasons()
        verdicts |= {mutant.number: ("survived", "") for mutant in chosen
                     if mutant.number not in verdicts and (mutant.file, mutant.function, mutant.what) in reasons}

    def keep():
        with keeping:
            names = zip(keys(mutants, chosen), chosen)
            save("verdicts.json", load("verdicts.json", {}) | {key: verdicts[mutant.number] for key, mutant in names})

    keeping = threading.Lock()
    run_all([mutant for mutant in chosen if mutant.number not in verdicts], tests, options.jobs, verdicts, keep)
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"{(time.monotonic() - began) / 60:.0f} minutes, {(cpu.ru_utime + cpu.ru_stime) / 60:.0f} of a processor")
    survivors = [mutant for mutant in chosen if verdicts[mutant.number][0] == "survived"]
    for mutant in survivors:
        say(f"survived: {title(mutant)}")
    say(f"{len(chosen) - len(survivors)} of {len(chosen)} caught")
    if len(chosen) < options.sample:
        say(f"there are no {options.sample} to draw")
        return 1
    if options.files:
        say(f"{100 - 100 * len(survivors) / max(1, len(chosen)):.1f} of 100")
        if options.write:
            is_run = lambda floor, name: any(word in name for word in options.files)
            mutants = [mutant for mutant in mutants if is_run(mutant.floor, mutant.file)]
            return write_summary(is_run, mutants, dropped, collections.defaultdict(lambda: NOT_RUN, verdicts))
    if options.sample or options.files or options.survivors:
        return 1 if survivors and not options.survivors else 0
    return report(options.floors)


def report(run):
    """Writes SUMMARY.md from what was kept; of floors that were not run, as it stands there."""
    mutants = list_mutants(build_tool())
    unviable, kept = set(load("unviable.json", [])), load("verdicts.json", {})
    dropped, verdicts = set(), {}
    for mutant, key in zip(mutants, keys(mutants, mutants)):
        if key in unviable:
            dropped.add(mutant.number)
        verdicts[mutant.number] = tuple(kept.get(key, NOT_RUN))
    is_run = lambda floor, _: floor in run
    return write_summary(is_run, [mutant for mutant in mutants if mutant.floor in run], dropped, verdicts)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def say(text):
    print(text, flush=True)


def title(mutant):
    return f"{mutant.file}:{mutant.line}:{mutant.column} {mutant.function}: {mutant.what}"


def choose(viable, options):
    """Which mutants are run."""
    if options.files:
        viable = [mutant for mutant in viable if any(word in mutant.file for word in options.files)]
        return random.Random(options.seed).sample(viable, min(options.sample or len(viable), len(viable)))
    viable = [mutant for mutant in viable if mutant.floor in options.floors]
    if options.sample or options.survivors:
        # Lines move, so they do not count.
        text = re.sub(r":\d+:\d+`", "`", read(SUMMARY))
        is_listed = lambda mutant: f"- `{mutant.file}` {mutant.function}: {mutant.what}" in text
        if options.survivors:
            return list(filter(is_listed, viable))
        explained = read_reasons()
        # Of a file that has never been run nobody knows the survivors.
        known = set(re.findall(r"^\| \d+ \| `(.+?)` \|", text, re.M))
        rest = [mutant for mutant in viable if mutant.floor >= 1 and mutant.file in known and not is_listed(mutant)
                and (mutant.file, mutant.function, mutant.what) not in explained]
        return random.Random(options.seed).sample(rest, min(options.sample, len(rest)))
    return viable


# Building


def missing():
    """What the builds need and cannot be fetched; none if all is there."""
    for folder in (ROOT, HERE):
        ran = subprocess.run(["cargo", "fetch", "-q", "--locked"], cwd=folder, text=True, capture_output=True,
                             timeout=MAX_BUILD_SECONDS)
        # A lock file that is out of date is a fault, which the build tells of.
        if ran.returncode != 0 and "lock file" not in ran.stderr:
            return (ran.stderr.strip().splitlines() or ["cargo fetch failed"])[0]
    return None


def environment(**more):
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.join(WORK, "target"), CARGO_INCREMENTAL="0", RUST_BACKTRACE="0",
               CARGO_PROFILE_DEV_DEBUG="0", CARGO_PROFILE_DEV_OPT_LEVEL="1", RUSTC_BOOTSTRAP="1", **more)
    return env


def build_tool():
    target = os.path.join(WORK, "tool")
    subprocess.run(["cargo", "build", "-q", "--locked", "-j2"], cwd=HERE, check=True, timeout=MAX_BUILD_SECONDS,
                   env=dict(os.environ, CARGO_TARGET_DIR=target))
    return os.path.join(target, "debug/antiphon-mutants")


def list_mutants(tool):
    return read_mutants(subprocess.run([tool, ROOT], check=True, text=True, capture_output=True).stdout)


def build(with_fuzz, only_unit=False):
    """The mutants, the numbers of those that do not compile, and the test binaries by name."""
    tool = build_tool()
    copy_tree()
    dropped_path = os.path.join(WORK, "dropped")
    # What did not compile last time is not tried again where the file is the same.
    mutants = list_mutants(tool)
    known = load("unviable.json", [])
    dropped = {mutant.number for mutant, key in zip(mutants, keys(mutants, mutants)) if key in known}
    # With the types of OpenRPC, for what stands behind the feature is mutated too.
    core = ["-p", "antiphon", "--features", "openrpc", "--lib"]
    commands = [(COPY, ["cargo", "check", *core]),
                (COPY, ["cargo", "test", "--no-run", *core] + [word for name in TESTS for word in ("--test", name)]),
                (COPY, ["cargo", "test", "--no-run", "-p", "antiphon-macros", "--test", "all"])]
    if only_unit:
        commands[1:] = [(COPY, ["cargo", "test", "--no-run", *core])]
    elif with_fuzz:
        commands.append((os.path.join(COPY, "fuzz"), ["cargo", "test", "--no-run", "--no-default-features",
                                                      "--test", "replay"]))
    binaries = {}
    for folder, command in commands:
        for _ in range(MAX_BUILDS):
            write(dropped_path, "\n".join(map(str, sorted(dropped))))
            subprocess.run([tool, ROOT, COPY, dropped_path], check=True, stdout=subprocess.DEVNULL)
            ran = subprocess.run([*command, "-j2", "--offline", "--message-format=json"], cwd=folder, env=environment(),
                                 text=True, capture_output=True, timeout=MAX_BUILD_SECONDS)
            messages = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
            if ran.returncode == 0:
                break
            guilty = guilty_mutants(messages)
            if not guilty - dropped:
                sys.exit("it does not compile, and no mutant is to blame:\n"
                         + "\n".join(rendered(messages)[:5] or [ran.stderr]))
            say(f"{len(guilty - dropped)} mutants do not compile")
            dropped |= guilty
        else:
            sys.exit("it does not compile, however many mutants are dropped")
        for message in messages:
            if message.get("reason") == "compiler-artifact" and message["executable"]:
                name = message["target"]["name"]
                name = "unit" if "lib" in message["target"]["kind"] else name
                binaries[name] = (message["executable"], os.path.dirname(message["manifest_path"]))
    unviable = [mutant for mutant in mutants if mutant.number in dropped]
    save("unviable.json", keys(mutants, unviable))
    return mutants, dropped, binaries


def copy_tree():
    """Copies the tree to where it is mutated, with a manifest that declares only what is needed there."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True, capture_output=True,
                            check=True).stdout.split("\n")
    for folder, _, names in os.walk(os.path.join(COPY, "src")):
        for path in (os.path.join(folder, name) for name in names):
            # A file that is not in the tree any more is removed; src/mutants.rs is only in the copy.
            name = os.path.relpath(path, COPY)
            if name != "src/mutants.rs" and not os.path.isfile(os.path.join(ROOT, name)):
                os.remove(path)
    for name in filter(None, listed):
        source, copy = os.path.join(ROOT, name), os.path.join(COPY, name)
        # The tool writes src/; what is patched is written below.
        if name.startswith("src/") or name in PATCHED or not os.path.isfile(source):
            continue
        if not (os.path.isfile(copy) and filecmp.cmp(source, copy, shallow=False)):
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(source, copy)
    text = read(os.path.join(ROOT, "Cargo.toml"))
    text = re.sub(r'members = \[.*?\]', 'members = [".", "adapters/net", "adapters/shell", "adapters/websocket", "macros", "tests/support"]', text, flags=re.S)
    text = re.sub(r'\[\[bench\]\]\n(\w.*\n)*', "", text)
    text = re.sub(r'\[target\.[^\n]*dev-dependencies\]\n(\w.*\n)*', "", text)
    text = re.sub(r'antiphon-blocking = .*\n', "", text)
    text = re.sub(r'\[profile\.(?!release)[^\n]*\]\n(\w.*\n)*', "", text)
    # A failed case ends its process, as with the usual harness; and one file of cases can be read alone.
    patch("tests/conformance/harness.rs", 'println!("test {} ... {verdict}", name(case));',
          'println!("test {} ... {verdict}", name(case)); if played.is_err() { return ExitCode::from(101); }')
    patch("tests/support/src/notation.rs", 'kind == "txt"',
          'kind == "txt" && std::env::var("ANTIPHON_CASES").map_or(true, |only| path.ends_with(only))')
    manifest = os.path.join(COPY, "Cargo.toml")
    if not os.path.isfile(manifest) or read(manifest) != text:
        write(manifest, text)


def patch(name, old, new):
    """Copies a file with one change."""
    text, copy = read(os.path.join(ROOT, name)), os.path.join(COPY, name)
    if old not in text:
        sys.exit(f"{name}: what is changed in its copy is not there: {old}")
    text = text.replace(old, new)
    if not os.path.isfile(copy) or read(copy) != text:
        write(copy, text)


PATCHED = ("tests/conformance/harness.rs", "tests/support/src/notation.rs", "Cargo.toml")


def read_mutants(text):
    mutants = []
    for line in text.splitlines():
        number, floor, file, at, column, function, what = line.split("\t")
        mutants.append(Mutant(int(number), int(floor), file, int(at), int(column), function, what))
    return mutants


def rendered(messages):
    return [message["message"]["rendered"] for message in messages
            if message.get("reason") == "compiler-message" and message["message"]["level"] == "error"]


def guilty_mutants(messages):
    """The mutants at whose places the compiler found errors: the changes where it names one, else the place."""
    guilty, texts = set(), {}
    for message in messages:
        if message.get("reason") != "compiler-message" or message["message"]["level"] != "error":
            continue
        for span in sorted(message["message"]["spans"], key=lambda span: not span["is_primary"]):
            path = os.path.join(COPY, span["file_name"])
            if not os.path.isfile(path):
                continue
            if path not in texts:
                with open(path, "rb") as file:
                    texts[path] = file.read()
            found = enclosing(texts[path], span["byte_start"])
            if found:
                guilty |= found
                break
    return guilty


def enclosing(text, position):
    """The numbers of the innermost change or place around a position."""
    stack = []
    for mark in re.finditer(rb"/\*<([\d,]+)\*/|/\*>\*/", text):
        if mark.start() > position:
            break
        if mark.group(1):
            stack.append(mark.group(1))
        else:
            stack.pop()
    return set(map(int, stack[-1].split(b","))) if stack else set()


# Running


class Running:
    """One process of a test binary with some of its tests, held to limits of time and memory."""

    def __init__(self, binary, names, seconds, more=SECONDS_MORE, **env):
        executable, folder = binary
        self.seconds = seconds * MAX_TIMES + more
        bounded = lambda: (signal.setitimer(signal.ITIMER_PROF, self.seconds),
                           resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES)),
                           resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        words = ["--exact", *names]
        if names[0].endswith(CASES):
            env["ANTIPHON_CASES"], words = names[0], [": "]
        # Always the same random cases; a failing one is neither kept nor made smaller.
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [executable, "--test-threads=1", "-Zunstable-options", "--fail-fast", *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=self.output,
            stderr=subprocess.DEVNULL, preexec_fn=bounded, start_new_session=True,
            env=environment(PROPTEST_RNG_SEED="1", PROPTEST_CASES="96", PROPTEST_MAX_SHRINK_ITERS="0", **env))

    def verdict(self):
        """What became of the mutant, and the tests that failed."""
        try:
            code = self.process.wait(timeout=MAX_WAIT_SECONDS + self.seconds * MAX_WAIT_TIMES)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            code = self.process.wait()
        self.output.seek(0)
        failed = re.findall(r"^test (.*) \.\.\. FAILED$", self.output.read().decode(errors="replace"), re.M)
        self.output.close()
        if code in (-signal.SIGPROF, -signal.SIGKILL):
            return "timeout", failed
        return "survived" if code == 0 else "caught", failed


def listed_tests(name, binary):
    """The names of a binary's tests; of the protocol cases the names of their files, for reading all takes longest."""
    if name == "conformance":
        return sorted(file for file in os.listdir(os.path.join(COPY, "tests/conformance")) if file.endswith(CASES))
    ran = subprocess.run([binary[0], "--list"], cwd=binary[1], text=True, capture_output=True, check=True,
                         env=environment(), timeout=60)
    return [test for test in re.findall(r"^(.*): test$", ran.stdout, re.M) if not test.startswith(NOT_RUN_TESTS)]


def measure(binaries):
    """Runs every test alone with no mutant awake: what it reaches, and how long it takes."""
    Test.binaries = binaries
    # What is known of a binary stays known as long as it is the same.
    built = {name: [digest(path), MAX_TEST_SECONDS] for name, (path, _) in binaries.items()}
    known = load("tests.json", {"built": {}, "tests": []})
    same = {name for name in built if known["built"].get(name) == built[name]}
    tests = [Test(*test[:3], frozenset(test[3])) for test in known["tests"] if test[0] in same]
    wanted = [(name, test) for name, binary in binaries.items() if name not in same
              for test in listed_tests(name, binary)]
    lock = threading.Lock()

    def one(job):
        name, test = job
        path = os.path.join(WORK, f"reached.{threading.get_ident()}")
        open(path, "wb").close()
        running = Running(binaries[name], [test], 0, MAX_TEST_SECONDS, ANTIPHON_MUTANTS_REACHED=path)
        _, status, used = os.wait4(running.process.pid, 0)
        running.process.returncode = os.waitstatus_to_exitcode(status)
        running.output.close()
        with open(path, "rb") as file:
            reached = frozenset(number for number, in struct.iter_unpack("<I", file.read()))
        with lock:
            if running.process.returncode in (-signal.SIGPROF, -signal.SIGKILL):
                say(f"left out, for it takes longer than {MAX_TEST_SECONDS} s: {name}: {test}")
            elif running.process.returncode != 0:
                say(f"left out, for it fails in the copy with no mutant awake: {name}: {test}")
            elif reached:
                tests.append(Test(name, test, used.ru_utime + used.ru_stime, reached))

    began = time.monotonic()
    in_parallel(one, wanted, 2)
    say(f"measured {len(wanted)} tests, {sum(test.seconds for test in tests):.0f} s of a processor, "
        f"{time.monotonic() - began:.0f} s")
    tests.sort(key=lambda test: (test.seconds, test.binary, test.name))
    save("tests.json", {"built": built, "tests": [[*test[:3], sorted(test.reached)] for test in tests]})
    return tests


def in_parallel(one, jobs, count):
    jobs = collections.deque(jobs)
    errors = []

    def work():
        while jobs and not errors:
            try:
                job = jobs.popleft()
            except IndexError:
                return
            try:
                one(job)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def rounds(tests):
    """The tests in rounds, the quickest first."""
    left, plan = collections.deque(tests), []
    for most in ROUNDS:
        seconds, chosen = 0.0, []
        while left and seconds + left[0].seconds <= most:
            seconds += left[0].seconds
            chosen.append(left.popleft())
        plan.append(chosen)
    return plan


def run_all(mutants, tests, jobs, verdicts, keep):
    """Adds to `verdicts` what became of each mutant, and the binary whose test failed."""
    # Tests that have caught mutants of the same function run first.
    liked, wins, plans = collections.defaultdict(list), collections.Counter(), {}
    left, done, began = [], [], 0
    for mutant in mutants:
        reaching = [test for test in tests if mutant.number in test.reached]
        verdicts[mutant.number] = NOT_RUN if reaching else ("survived", "not reached")
        plans[mutant.number] = rounds(reaching)

    def merit(job):
        """Sorts first the processes that have caught the most mutants for their time."""
        return -sum(1 + wins[test] for test in job[1]) / sum(test.seconds + PROCESS_SECONDS for test in job[1])

    def one(mutant, count, done):
        done.append(mutant)
        if len(done) % 50 == 0:
            keep()
            say(f"{len(done)} of {len(left)}, {time.monotonic() - began:.0f} s")
        place = (mutant.file, mutant.function)
        plan = plans[mutant.number]
        # Tests of earlier rounds have run.
        due = {test for some in plan for test in some} if count == 0 else set(plan[count])
        first = [test for test in liked[place] if test in due]
        jobs = grouped(first) + sorted(grouped(test for test in plan[count] if test not in first), key=merit)
        for binary, some in jobs:
            running = Running(Test.binaries[binary], [test.name for test in some],
                              sum(test.seconds for test in some), ANTIPHON_MUTANT=str(mutant.number))
            how, failed = running.verdict()
            if how != "survived":
                verdicts[mutant.number] = (how, binary)
                found = [test for test in some if test.name in failed or len(some) == 1][:2]
                wins.update(found)
                liked[place] = (found + [test for test in liked[place] if test not in found])[:6]
                return

    for count, most in enumerate(ROUNDS):
        left = [mutant for mutant in mutants if verdicts[mutant.number] == NOT_RUN and plans[mutant.number][count]]
        began, done = time.monotonic(), []
        in_parallel(lambda mutant: one(mutant, count, done), left, jobs)
        keep()
        found = collections.Counter(verdicts[mutant.number][0] for mutant in left)
        say(f"round {count + 1}: {len(left)} mutants, tests of at most {most} s: {found['caught']} caught, "
            f"{found['timeout']} out of time, {time.monotonic() - began:.0f} s")
    for mutant in mutants:
        if verdicts[mutant.number] == NOT_RUN:
            verdicts[mutant.number] = ("survived", "")
    keep()


def grouped(tests):
    """The tests by their binary, as far as one process can run them."""
    chosen = collections.defaultdict(list)
    for test in tests:
        chosen[test.binary, test.name if test.name.endswith(CASES) else ""].append(test)
    return [(binary, some) for (binary, _), some in chosen.items()]


# What is kept


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def keys(mutants, chosen):
    """A key for each mutant: its file, a hash of the texts of file and tool, and its place among the file's mutants."""
    firsts, hashes, names = {}, {}, []
    tool = "".join(read(os.path.join(HERE, "src", name)) for name in ("sites.rs", "values.rs"))
    for mutant in mutants:
        firsts.setdefault(mutant.file, mutant.number)
    for mutant in chosen:
        if mutant.file not in hashes:
            # Unit tests stand at the end and change nothing.
            text = read(os.path.join(ROOT, mutant.file)).split("\n#[cfg(test)]\nmod ")[0]
            hashes[mutant.file] = hashlib.sha256((tool + text).encode()).hexdigest()[:16]
        names.append(f"{mutant.file} {hashes[mutant.file]} {mutant.number - firsts[mutant.file]}")
    return names


def load(name, otherwise):
    path = os.path.join(WORK, name)
    return json.loads(read(path)) if os.path.isfile(path) else otherwise


def save(name, value):
    write(os.path.join(WORK, name), json.dumps(value, indent=0))


def read_reasons():
    """Why survivors stay: by file, function and change."""
    reasons = {}
    with open(REASONS, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                file_name, function, what, reason = (part.strip() for part in line.split(" ;; "))
                reasons[file_name, function, what] = reason
    return reasons


HEAD = ["mutants", "unviable", "caught", "out of time", "survived", "not run", "of viable caught"]
# How a verdict is called in `verdicts.json`, in the order of HEAD.
VERDICTS = ["unviable", "caught", "timeout", "survived", "not run"]


def section(floor):
    """Where the survivors of a floor are listed."""
    return f"## Survivors of {'the session' if floor == SESSION_FLOOR else f'floor {floor}'}"


def stands(is_run):
    """What SUMMARY.md says of files that were not run: the figures of each, and each section's lines."""
    text = read(SUMMARY) if os.path.isfile(SUMMARY) else ""
    files, sections = {}, {}
    for floor, name, numbers in re.findall(r"^\| (\d+) \| `(.+?)` \|((?: \d+ \|){6})", text, re.M):
        if not is_run(int(floor), name):
            numbers = [int(number) for number in re.findall(r"\d+", numbers)]
            files[int(floor), name] = collections.Counter(dict(zip(VERDICTS, numbers[1:])))
    for floor in FLOORS:
        if section(floor) in text:
            lines = text.split(section(floor) + "\n")[1].split("\n## ")[0].splitlines()
            sections[floor] = [line for line in lines if line and not is_run(floor, line.split("`")[1].split(":")[0])]
    return files, sections


def write_summary(is_run, mutants, dropped, verdicts):
    """Writes SUMMARY.md; 1 if too few are caught, or a survivor has no reason, or a reason no survivor."""
    reasons, used = read_reasons(), set()
    stood, sections = stands(is_run)
    files, floors = collections.defaultdict(collections.Counter, stood), collections.defaultdict(collections.Counter)
    for mutant in mutants:
        files[mutant.floor, mutant.file]["unviable" if mutant.number in dropped else verdicts[mutant.number][0]] += 1
    for (floor, _), counted in files.items():
        floors[floor] += counted
    upper = sum((floors[floor] for floor in (1, 2, 3)), collections.Counter())
    judged = {"floors 1 to 3": upper, "the session": floors[SESSION_FLOOR]}
    for name, folder in FOLDERS.items():
        counted = (counted for (_, file), counted in files.items() if file.startswith(folder))
        judged[name] = sum(counted, collections.Counter())
    lines = ["# What became of the mutants", "", "Written by `run.py`; `README.md` says what is counted.", ""]
    lines += ["| floor | " + " | ".join(HEAD) + " |", "|---|" + "---:|" * len(HEAD)]
    lines += [row(str(floor), floors[floor]) for floor in (0, 1, 2, 3)]
    lines += [row(f"**{name.split(maxsplit=1)[-1]}**", counted) for name, counted in judged.items()]
    lines += ["", "| floor | file | " + " | ".join(HEAD) + " |", "|---|---|" + "---:|" * len(HEAD)]
    lines += [row(f"{floor} | `{name}`", files[floor, name]) for floor, name in sorted(files)]
    survivors = [mutant for mutant in mutants
                 if mutant.number not in dropped and verdicts[mutant.number][0] == "survived"]
    for mutant in survivors:
        key = (mutant.file, mutant.function, mutant.what)
        used.add(key)
        reached = " Not reached." if verdicts[mutant.number][1] else ""
        sections.setdefault(mutant.floor, []).append(
            f"- `{mutant.file}:{mutant.line}:{mutant.column}` {mutant.function}: {mutant.what}."
            f"{reached} {reasons.get(key, NO_REASON)}")
    for floor in FLOORS:
        lines += ["", section(floor), "", *sections.get(floor, [])]
    left = [mutant for mutant in mutants if verdicts[mutant.number] == NOT_RUN and mutant.number not in dropped]
    if left:
        lines += ["", "## Not run to the end", "", "The quickest tests have not caught them; the others have not run.", ""]
        lines += [f"- `{mutant.file}:{mutant.line}:{mutant.column}` {mutant.function}: {mutant.what}"
                  for mutant in left if mutant.floor >= 1]
        below = sum(mutant.floor == 0 for mutant in left)
        lines.append(f"- and {below} on floor 0")
        lines[3:3] = [f"**The run was ended early**: {len(left)} mutants have not been run to the end, and count as not caught.", ""]
    write(SUMMARY, "\n".join(lines) + "\n")
    listed = re.sub(r":\d+:\d+`", "`", "\n".join(lines))
    idle = [key for key in reasons.keys() - used if f"- `{key[0]}` {key[1]}: {key[2]}." not in listed]
    for key in idle:
        say("a reason for no survivor: " + " ;; ".join(key))
    alone = sum(counted["not run"] for counted in judged.values())
    alone += sum(line.endswith(NO_REASON) for floor in FLOORS[1:] for line in sections.get(floor, []))
    say("of 100 viable mutants caught: "
        + ", ".join(f"{percent(counted):.1f} of {name}" for name, counted in judged.items()))
    least = min(map(percent, judged.values()))
    return 1 if least < CAUGHT_PERCENT_MIN or alone or idle else 0


def row(name, counted):
    numbers = [counted.total(), *(counted[how] for how in VERDICTS)]
    return f"| {name} | " + " | ".join(map(str, numbers)) + f" | {percent(counted):.1f} % |"


def percent(counted):
    viable = counted.total() - counted["unviable"]
    return 100 * (counted["caught"] + counted["timeout"]) / max(1, viable)


if __name__ == "__main__":
    sys.exit(main())
