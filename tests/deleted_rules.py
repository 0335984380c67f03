#!/usr/bin/env python3
"""Deletes one rule after another and expects a test to notice.

Each rule is one small edit of a file on floors 1 to 3. The edit is made in a copy of the tree, the
tests are run there, and the names of those that fail are printed. A rule whose deletion no test
notices fails this script; so does one whose text is no longer in its file.

    tests/deleted_rules.py            all rules
    tests/deleted_rules.py calls      the rules of files whose path contains "calls"
    tests/deleted_rules.py --list     the rules, without running anything; fails if one is not there any more
"""

import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# How long one build and test run may take, in seconds.
RUN_SECONDS_MAX = 900

# (file, text to replace, replacement, the rule that is gone)
RULES = [
    ("src/id.rs", "ours.code_points().eq(theirs.code_points())", "ours.raw() == theirs.raw()",
     "string ids are compared after unescaping"),
    ("src/message.rs", "if !envelope.repeated().is_empty() {\n            return Err(self.invalid(",
     "if false {\n            return Err(self.invalid(", "a call that repeats a member is invalid"),
    ("src/encode.rs", "out.extend_from_slice(b\",\\\"error\\\":null\");", "",
     "a 1.0 result is accompanied by a null error"),
    ("src/error_object.rs", "if let Some(text) = self.text {", "if let Some(text) = None::<Json<'_>> {",
     "an error that arrived is passed on as it stood"),
    ("src/codes.rs", "-32768 <= code", "-32767 <= code", "the reserved range begins at -32768"),
    ("src/owned.rs", "self.has_params\n            .then(", "true\n            .then(",
     "absent params stay absent in an owned event"),
    ("src/config.rs", "self != Self::V2Only", "true", "1.0 is not understood unless allowed"),
    ("src/presets.rs", "config.cancel_answer = CancelAnswer::Silent;", "",
     "a cancelled MCP request is not answered"),
    ("src/outbox.rs", "let unsent = |part: &Part| part.has_calls() && part.last_call > begun_call;",
     "let unsent = |_: &Part| false;", "calls that settle as unsent are taken out of the output"),
    ("src/deadlines.rs", "*bound = deadline;", "", "a bound is never later than a deadline below it"),
    ("src/calls.rs", "(number <= number_max).then_some(number)", "Some(number)",
     "call numbers end at the last one that is exact"),
    ("src/requests.rs", "request.generation = request.generation.wrapping_add(1);", "",
     "a token does not answer the next request in its slot"),
    ("src/batches.rs", "for reply in &self.replies {\n            parts[reply.position as usize]",
     "for (index, reply) in self.replies.iter().enumerate() {\n            parts[index]", "answers of a batch leave in request order"),
    ("src/input.rs", "self.consumed = self.bytes.len();", "", "a whole message is consumed whole"),
    ("src/connection/timing.rs", "self.now = self.now.max(now.min(LATEST));", "self.now = now;",
     "a clock that steps back does no harm"),
    ("src/connection/commands.rs", "if self.outbox.len() > self.config.outbox_bytes_soft {",
     "if false {", "the soft output limit holds back new calls"),
    ("src/connection/batch.rs", "return Err(SendError::BatchEmpty);", "",
     "an empty batch is never sent"),
    ("src/connection/answers.rs", "if self.config.check_app_codes && ", "if false && ",
     "reserved codes can be kept for what defines them"),
    ("src/connection/receive.rs", "rest.len() > self.config.message_bytes_max", "false",
     "a message over its limit is not read"),
    ("src/connection/items.rs", "if has_cancels {", "if false {",
     "a cancel in a batch comes before the request it cancels"),
    ("src/connection/refuse.rs", "return Some(RefusedCause::Busy);", "",
     "open requests are limited"),
    ("src/connection/deliver.rs", "self.requests.set_cancelled(slot);", "",
     "a cancelled request is not cancelled twice"),
    ("src/connection/settle.rs", "Outcome::Missing", "Outcome::Aborted",
     "a call left out of its exchange's answer is missing"),
]

# The tests that name rules one by one. Model, memory and allocations notice much of this too, and
# would only make it slower.
TEST_COMMAND = ["cargo", "test", "--no-fail-fast", "-p", "antiphon", "--lib",
                "--test", "vectors", "--test", "scripts", "--test", "api"]


def failed_tests(output):
    """The names of failed tests in what the test runners printed."""
    names = re.findall(r"^(?:test )?(\S.*?) \.\.\. FAILED", output, re.M)
    names += re.findall(r"^---- (\S.*?) stdout ----", output, re.M)
    seen = []
    for name in names:
        if name not in seen:
            seen.append(name)
    return seen


def copy_tree(target):
    """Copies what git knows of. What is there already and the same is left, and so is its time."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    listed = set(listed.stdout.splitlines())
    for path in listed:
        source, copy = os.path.join(ROOT, path), os.path.join(target, path)
        if not os.path.isfile(source) or (os.path.isfile(copy) and filecmp.cmp(source, copy, shallow=False)):
            continue
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy(source, copy)
    for folder, _, files in os.walk(target):
        for path in (os.path.join(folder, file) for file in files):
            if os.path.relpath(path, target) not in listed:
                os.remove(path)


def listed(edits):
    """Prints what is said of each edit, and fails if the text that it replaces is not in its file any more."""
    gone = 0
    for path, old, says in edits:
        is_there = old in open(os.path.join(ROOT, path), encoding="utf-8").read()
        gone += not is_there
        print(says if is_there else f"{says}: GONE, there is no {old!r}")
    return 1 if gone else 0


def run_without(tree, rule):
    """Deletes a rule in the copied tree, runs the tests, and puts the rule back."""
    path, old, new, _ = rule
    full = os.path.join(tree, path)
    with open(full, encoding="utf-8") as file:
        text = file.read()
    if text.count(old) < 1:
        return None, "its text is not in the file any more"
    with open(full, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.join(ROOT, "target", "deleted-rules"))
    try:
        run = subprocess.run(TEST_COMMAND, cwd=tree, env=env, capture_output=True, text=True,
                             timeout=RUN_SECONDS_MAX, stdin=subprocess.DEVNULL)
        output, code = run.stdout + run.stderr, run.returncode
    except subprocess.TimeoutExpired as error:
        return ["(the tests did not end)"], str(error)
    finally:
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
    if code == 0:
        return [], "no test failed"
    names = failed_tests(output)
    if not names and "error: could not compile" in output:
        return None, "it does not compile: " + "".join(re.findall(r"^error.*", output, re.M)[:1])
    return names or ["(a test process died)"], ""


def main(arguments):
    wanted = [argument for argument in arguments if not argument.startswith("-")]
    rules = [rule for rule in RULES if not wanted or any(word in rule[0] for word in wanted)]
    if "--list" in arguments:
        return listed((path, old, f"{path}: {why}") for path, old, _, why in rules)
    if not rules:
        print("no rule is in a file whose path contains: " + ", ".join(wanted), file=sys.stderr)
        return 2
    passed = 0
    with tempfile.TemporaryDirectory() as tree:
        copy_tree(tree)
        for rule in rules:
            names, why = run_without(tree, rule)
            if names:
                passed += 1
                shown = names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
                print(f"ok      {rule[0]}: without «{rule[3]}» fails: {shown}", flush=True)
            else:
                print(f"FAILED  {rule[0]}: «{rule[3]}»: {why}", flush=True)
    print(f"{passed} passed, {len(rules) - passed} failed")
    return 0 if passed == len(rules) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
