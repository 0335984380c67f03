"""Reads what a little-endian ELF file says of its own size: sections, and the symbols in them."""

import re
import struct

ESCAPES = {"LT": "<", "GT": ">", "u20": " ", "RF": "&", "C": ",", "u7b": "{", "u7d": "}", "u5b": "[", "u5d": "]", "LP": "(", "RP": ")"}


class Elf:
    def __init__(self, data):
        if data[:4] != b"\x7fELF" or data[5] != 1:
            raise ValueError("no little-endian ELF file")
        self.data = data
        self.wide = data[4] == 2
        if self.wide:
            start = struct.unpack_from("<Q", data, 40)[0]
            size, count, names = struct.unpack_from("<HHH", data, 58)
            layout = "<IIQQQQIIQQ"
        else:
            start = struct.unpack_from("<I", data, 32)[0]
            size, count, names = struct.unpack_from("<HHH", data, 46)
            layout = "<IIIIIIIIII"
        # Each: name, type, flags, address, offset, size, link, …
        self.headers = [struct.unpack_from(layout, data, start + index * size) for index in range(count)]
        self.names = [self._text(self.headers[names][4] + header[0]) for header in self.headers]

    def _text(self, at):
        return self.data[at : self.data.index(b"\0", at)].decode()

    def section(self, name):
        """Its size in bytes, 0 if there is none."""
        return sum(header[5] for header, own in zip(self.headers, self.names) if own == name)

    def symbols(self, *sections):
        """(bytes, name) of everything that is named in these sections."""
        wanted = {index for index, name in enumerate(self.names) if name in sections}
        layout, pick = ("<IBBHQQ", (0, 3, 4, 5)) if self.wide else ("<IIIBBH", (0, 5, 1, 2))
        taken = set()
        for header, name in zip(self.headers, self.names):
            if name != ".symtab":
                continue
            texts = self.headers[header[6]][4]
            for at in range(header[4], header[4] + header[5], struct.calcsize(layout)):
                fields = struct.unpack_from(layout, self.data, at)
                name_at, section, address, size = (fields[index] for index in pick)
                if section in wanted and size and address not in taken:
                    taken.add(address)
                    yield size, plain(self._text(texts + name_at))


def plain(name):
    """A mangled name as one would write it, without its hash."""
    found = re.match(r"_ZN(.*)E(?:[ .].*)?$", name)
    if not found:
        return plain_v0(name)
    rest, parts = found.group(1), []
    while digits := re.match(r"\d+", rest):
        end = digits.end() + int(digits.group())
        parts.append(rest[digits.end() : end])
        rest = rest[end:]
    if parts and re.fullmatch(r"h[0-9a-f]{16}", parts[-1]):
        parts.pop()
    text = "::".join(parts).replace("..", "::")
    return re.sub(r"\$(\w+?)\$", lambda escape: ESCAPES.get(escape.group(1), "?"), text).replace("_<", "<")


def plain_v0(name):
    """Only the words of a name in the newer mangling, which the standard library has."""
    if not name.startswith("_R"):
        return name
    words, rest = [], name[2:]
    while digits := re.search(r"(?:s[0-9A-Za-z]*_)?([1-9]\d*)_?(?=[A-Za-z_])", rest):
        end = digits.end() + int(digits.group(1))
        word = rest[digits.end() : end]
        if len(word) == int(digits.group(1)) and re.fullmatch(r"\w+", word):
            words.append(word)
            rest = rest[end:]
        else:
            rest = rest[digits.end() :]
    return "::".join(words) or name


def part_of(name):
    """Which part of the program a symbol belongs to."""
    found = re.search(r"(antiphon::connection::\w+|antiphon::\w+|serde_json|serde|smallvec|compiler_builtins|alloc::\w+|core::\w+)", name)
    if found:
        return found.group(1)
    if re.match(r"__aeabi|__u?div|mem(cpy|move|set|cmp|clr)", name):
        return "compiler_builtins"
    if "embedded" in name or name in ("reset", "VECTORS"):
        return "the program"
    return "constants and other"
