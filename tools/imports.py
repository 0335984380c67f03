"""Finds which files of a crate use which others, by resolving every path in them, and the circles among them.

Not a command: `tools/house.py --cycles` prints what is found here.

A name is followed to the file that *defines* it: through `use`, renaming, groups, globs and
re-exports, whether the path begins with `crate`, `super`, `self`, a module beside it or an imported
module, and whether it is in a `use` or in the middle of an expression. So a module that only
re-exports what is below it (an index) uses nothing, and hides nothing. Comments, strings and what is
compiled only for tests do not count. Methods are found by type and not by path, so a call of one is
no use.
"""

import collections
import os
import re

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*)
  | (?P<block>/\*)
  | (?P<raw>(?:b|c)?r(?P<hashes>\#*)"(?s:.*?)"(?P=hashes))
  | (?P<text>(?:b|c)?"(?s:\\.|[^"\\])*")
  | (?P<char>b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\])')
  | (?P<life>'\w+)
  | (?P<word>(?:r\#)?[A-Za-z_]\w*)
  | (?P<number>\d[\w.]*)
  | (?P<sign>::|=>|->|.)
""", re.X | re.S)
ITEMS = {"fn", "struct", "enum", "union", "trait", "type", "const", "static"}
# The words that may come before the keyword of an item.
MODIFIERS = {"pub", "async", "const", "unsafe", "extern", "default"}
CLOSING = {"(": ")", "[": "]", "{": "}"}

Token = collections.namedtuple("Token", "text line is_word")
# One file uses what another defines.
Use = collections.namedtuple("Use", "source target name line")


class Module:
    """A module: its file, what its names mean, and the paths in it."""

    def __init__(self, path, file, parent):
        self.path, self.file, self.parent = path, file, parent
        self.items = set()
        self.children = {}
        self.imports = collections.defaultdict(list)  # by name: paths
        self.globs = []
        self.uses = []      # (path, line, the name it is re-exported by or None)
        self.mentions = []  # (path, line) in code
        self.words = {}     # the line of each single word


def tokens(text):
    """The words and signs of a source text, without comments and the contents of strings."""
    found, at, line = [], 0, 1
    while at < len(text):
        match = TOKEN.match(text, at)
        end = match.end()
        if match.lastgroup == "block":
            end = end_of_comment(text, at)
        elif match.lastgroup != "skip":
            is_word = match.lastgroup == "word"
            shown = match.group() if is_word or match.lastgroup == "sign" else '""'
            found.append(Token(shown.removeprefix("r#"), line, is_word))
        line += text.count("\n", at, end)
        at = end
    return without_tests(found)


def end_of_comment(text, at):
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def end_of_group(found, at):
    """The place after the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(found)):
        if found[place].text in CLOSING:
            depth += 1
        elif found[place].text in CLOSING.values():
            depth -= 1
            if depth == 0:
                return place + 1
    return len(found)


def without_tests(found):
    """Leaves out items under `#[cfg(test)]`, or under `all(…)` with `test` in it."""
    kept, at = [], 0
    while at < len(found):
        if found[at].text == "#" and at + 1 < len(found) and found[at + 1].text == "[":
            end = end_of_group(found, at + 1)
            words = [token.text for token in found[at + 2:end]]
            if words[:3] == ["cfg", "(", "test"] or (words[:3] == ["cfg", "(", "all"] and "test" in words):
                at = end_of_item(found, end)
                continue
        kept.append(found[at])
        at += 1
    return kept


def end_of_item(found, at):
    """The place after the item, field, variant, arm or statement that begins at `at`."""
    while found[at].text == "#":
        at = end_of_group(found, at + 1)
    first = at
    while found[first].text in MODIFIERS or found[first].text == '""':
        first += 1
        if found[first].text == "(":
            first = end_of_group(found, first)
    is_item = found[first].text in ITEMS | {"mod", "use", "impl", "let", "macro_rules"} or first > at
    while at < len(found):
        sign = found[at].text
        if sign in CLOSING.values():
            return at
        if sign == ";" or (sign == "," and not is_item):
            return at + 1
        if sign in CLOSING:
            at = end_of_group(found, at)
            if sign == "{" and is_item:
                return at
        else:
            at += 1
    return at


def read_use(found, at, before):
    """The paths of the `use` tree that begins at `at`, each with the name it imports, and the place after the tree."""
    path, paths = list(before), []
    while True:
        token = found[at]
        if token.text == "{":
            at += 1
            while found[at].text != "}":
                inner, at = read_use(found, at, path)
                paths += inner
                if found[at].text == ",":
                    at += 1
            return paths, at + 1
        if token.text == "*":
            return [(path, "*")], at + 1
        if token.is_word and token.text == "as":
            return [(path, found[at + 1].text)], at + 2
        if token.is_word:
            if token.text != "self" or not path:
                path = path + [token.text]
        elif token.text != "::":
            return [(path, path[-1])], at
        at += 1


class Crate:
    """All modules of a crate."""

    def __init__(self, folder):
        self.folder, self.modules, self.macros = folder, {}, {}
        for root in ("lib.rs", "main.rs"):
            path = os.path.join(folder, root)
            if os.path.isfile(path):
                self.root = self.read(path, (), None)
                break
        else:
            raise ValueError(f"{folder} has no root")

    def read(self, file, path, parent):
        module = self.modules[path] = Module(path, file, parent)
        with open(file, encoding="utf-8") as source:
            self.read_body(module, tokens(source.read()))
        return module

    def read_body(self, module, found):
        """Takes the items of a module, and the names and imports within them."""
        at, depth = 0, 0
        while at < len(found):
            token = found[at]
            if token.text in CLOSING:
                depth += 1
            elif token.text in CLOSING.values():
                depth -= 1
            elif token.text == "use" and token.is_word and found[at + 1].text != "<":
                at = self.read_import(module, found, at)
                continue
            elif depth == 0 and token.text == "mod" and token.is_word:
                at = self.read_module(module, found, at)
                continue
            elif depth == 0 and token.text in ITEMS and found[at + 1].is_word:
                if found[at + 1].text not in ITEMS | MODIFIERS:
                    module.items.add(found[at + 1].text)
                    at += 1
            elif token.text == "macro_rules" and found[at + 1].text == "!":
                self.macros[found[at + 2].text] = module.file
                at += 2
            elif token.is_word:
                at = self.read_mention(module, found, at)
                continue
            at += 1

    def read_import(self, module, found, at):
        is_passed_on = at > 0 and found[at - 1].text in ("pub", ")")
        line = found[at].line
        if found[at + 1].text in ("::", "$"):
            # The path of another crate, even if something here has the same name.
            while found[at].text != ";":
                at += 1
            return at
        paths, at = read_use(found, at + 1, [])
        for path, name in paths:
            if name == "*":
                module.globs.append(path)
            else:
                module.imports[name].append(path)
                module.uses.append((path, line, name if is_passed_on else None))
        return at

    def read_module(self, module, found, at):
        name = found[at + 1].text
        path = module.path + (name,)
        if found[at + 2].text == "{":
            end = end_of_group(found, at + 2)
            inner = self.modules[path] = Module(path, module.file, module)
            module.children[name] = inner
            self.read_body(inner, found[at + 3:end - 1])
            return end
        base = os.path.join(self.folder, *path)
        for file in (base + ".rs", os.path.join(base, "mod.rs")):
            if os.path.isfile(file):
                module.children[name] = self.read(file, path, module)
        return at + 2

    def read_mention(self, module, found, at):
        is_beginning = at == 0 or found[at - 1].text not in ("::", ".")
        path, start = [found[at].text], at
        while at + 2 < len(found) and found[at + 1].text == "::" and found[at + 2].is_word:
            at += 2
            path.append(found[at].text)
        line = found[start].line
        if is_beginning and len(path) > 1:
            module.mentions.append((path, line))
        if is_beginning:
            is_macro = at + 1 < len(found) and found[at + 1].text == "!"
            module.words.setdefault((path[0], is_macro and len(path) == 1), line)
        return at + 1

    def look_up(self, module, name, seen):
        """What a name means in a module: (file, name) of items, and modules."""
        if (module.path, name) in seen:
            return set()
        seen = seen | {(module.path, name)}
        found = {(module.file, name)} if name in module.items else set()
        if name in module.children:
            found.add(module.children[name])
        for path in module.imports.get(name, ()):
            found |= self.resolve(module, path, seen)
        if not found:
            for path in module.globs:
                for target in self.resolve(module, path, seen):
                    if isinstance(target, Module):
                        found |= self.look_up(target, name, seen)
        return found

    def resolve(self, module, path, seen=frozenset()):
        """What a path in a module means: (file, name) of items, and modules. Empty if it leads out of the crate."""
        path = collections.deque(path)
        first = path.popleft()
        if first == "crate":
            now = {self.root}
        elif first == "self":
            now = {module}
        elif first == "super":
            now = {module.parent} if module.parent else set()
            while path and path[0] == "super":
                path.popleft()
                now = {outer.parent for outer in now if outer.parent}
        else:
            now = self.look_up(module, first, seen)
        for name in path:
            inner = set()
            for target in now:
                if isinstance(target, Module):
                    inner |= self.look_up(target, name, seen) or self.macro_named(name)
            # A name after an item belongs to the item: a variant, an associated function.
            now = inner or {target for target in now if not isinstance(target, Module)}
        return now

    def macro_named(self, name):
        return {(self.macros[name], name)} if name in self.macros else set()

    def all_uses(self):
        """Each use of one file by another."""
        found = set()

        def add(module, path, line, is_below_free=False):
            for target in self.resolve(module, path):
                if isinstance(target, Module) or target[0] == module.file:
                    continue
                if is_below_free and self.is_below(module, target[0]):
                    continue
                found.add(Use(module.file, *target, line))

        for module in self.modules.values():
            for path, line, passed_on in module.uses:
                # An index re-exports names from below it. It uses one only if its own code has the name.
                is_index = passed_on is not None and (passed_on, False) not in module.words
                add(module, path, line, is_index)
            for path, line in module.mentions:
                add(module, path, line)
            for (word, is_macro), line in module.words.items():
                if is_macro and word in self.macros and self.macros[word] != module.file:
                    found.add(Use(module.file, self.macros[word], word, line))
                if module.globs and not self.is_explicit(module, word):
                    add(module, [word], line)
        return found

    @staticmethod
    def is_explicit(module, word):
        return word in module.items or word in module.imports or word in module.children

    def is_below(self, module, file):
        return any(other.file == file and other.path[:len(module.path)] == module.path
                   for other in self.modules.values() if other.path != module.path)


def circles(uses):
    """The groups of files in which each uses every other, directly or through others."""
    graph = collections.defaultdict(set)
    for use in uses:
        graph[use.source].add(use.target)
    reach = {file: reached(graph, file) for file in graph}
    groups, seen = [], set()
    for file in sorted(graph):
        group = {other for other in reach[file] if file in reach.get(other, ())}
        if file in group and file not in seen:
            seen |= group
            groups.append(sorted(group))
    return groups


def reached(graph, file):
    seen, left = set(), [file]
    while left:
        for other in graph.get(left.pop(), ()):
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen
