"""Prints how much flash an ELF file takes: text and read-only data, in bytes.

usage: sections.py FILE [MOST]     fails when text and rodata together pass MOST
"""

import struct
import sys


def sections(data):
    """Name and size of every section; 32-bit or 64-bit, little-endian."""
    if data[:4] != b"\x7fELF" or data[5] != 1:
        raise ValueError("no little-endian ELF file")
    wide = data[4] == 2
    if wide:
        start = struct.unpack_from("<Q", data, 40)[0]
        size, count, names = struct.unpack_from("<HHH", data, 58)
        layout, pick = "<IIQQQQ", (0, 4, 5)
    else:
        start = struct.unpack_from("<I", data, 32)[0]
        size, count, names = struct.unpack_from("<HHH", data, 46)
        layout, pick = "<IIIIII", (0, 4, 5)
    headers = [struct.unpack_from(layout, data, start + index * size) for index in range(count)]
    text_at = headers[names][pick[1]]
    for header in headers:
        name_at = text_at + header[pick[0]]
        name = data[name_at : data.index(b"\0", name_at)].decode()
        yield name, header[pick[2]]


def main():
    if len(sys.argv) not in (2, 3):
        print("usage: sections.py FILE [MOST]", file=sys.stderr)
        return 2
    try:
        with open(sys.argv[1], "rb") as file:
            sizes = dict(sections(file.read()))
    except (OSError, ValueError) as error:
        print(f"cannot read {sys.argv[1]}: {error}", file=sys.stderr)
        return 2
    text, rodata = sizes.get(".text", 0), sizes.get(".rodata", 0)
    print(f"text {text} + rodata {rodata} = {text + rodata} bytes of flash, {sizes.get('.bss', 0)} bytes of RAM reserved")
    if text == 0:
        print("there is no code in it: nothing was linked", file=sys.stderr)
        return 1
    if len(sys.argv) == 3 and text + rodata > int(sys.argv[2]):
        print(f"that is more than {sys.argv[2]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
