#!/usr/bin/env python3
"""Extracts the examples of a crate's documentation into a crate of examples.

Usage: docs.py FOLDER > lib.rs

Each run of documentation lines in FOLDER's .rs files that holds a block of code is written as it stands, before a
function that does nothing and bears the file's name and the line. `cargo test --doc` then compiles and runs the
examples, and sees that those marked compile_fail do not compile, against whatever crate of that name is linked.

Needs nothing but Python 3.8.
"""

import re
import sys
from pathlib import Path

LINE = re.compile(r"^\s*//[/!](.*)$")
BLOCK = re.compile(r"/\*!(.*?)\*/", re.S)


def runs(text):
    """Returns the documentation of one file: the first line's number, and the lines without their marks."""
    current, first = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        match = LINE.match(line)
        if match:
            first = first if current else number
            current.append(match[1])
        elif current:
            yield first, current
            current = []
    for match in BLOCK.finditer(text):
        yield text[: match.start()].count("\n") + 1, match[1].splitlines()


def main():
    folder = Path(sys.argv[1])
    for path in sorted(folder.rglob("*.rs")):
        name = re.sub(r"\W", "_", str(path.relative_to(folder).with_suffix("")))
        for number, lines in runs(path.read_text()):
            if any("```" in line for line in lines):
                print("\n".join("///" + line for line in lines))
                print(f"pub fn {name}_{number}() {{}}\n")


if __name__ == "__main__":
    main()
