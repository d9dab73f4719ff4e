#!/usr/bin/env python3
"""Prints whose work is in the program that is handed out: each crate that it is linked with, and the texts of its licences.

Usage: release/notices.py PACKAGE TARGET    such as: release/notices.py coreshard-cli x86_64-unknown-linux-gnu

A crate without a file of its licence is named with what its manifest says; sources in C that a crate brings have theirs, too.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

IS_LICENCE = re.compile(r"^(licen[sc]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
# Sources of others within a crate: one folder down, as in zstd-sys/zstd.
DEPTH = 2


def linked(metadata, name):
    """The packages that a program is linked with: no build scripts, no tests, no macros."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [next(id for id, package in packages.items() if package["name"] == name)]
    found = set()
    while waiting:
        id = waiting.pop()
        if id in found or any("proc-macro" in target["kind"] for target in packages[id]["targets"]):
            continue
        found.add(id)
        waiting += [dep["pkg"] for dep in nodes[id]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    others = [packages[id] for id in found if packages[id]["source"]]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def licences(folder):
    paths = [path for depth in range(DEPTH) for path in folder.glob("*/" * depth + "*")]
    return sorted(path for path in paths if path.is_file() and IS_LICENCE.match(path.name) and path.suffix not in (".rs", ".c", ".h"))


def main():
    name, target = sys.argv[1:]
    words = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    texts = {}
    for package in linked(metadata, name):
        who = f"{package['name']} {package['version']} ({package['license']})"
        folder = Path(package["manifest_path"]).parent
        for path in licences(folder) or [None]:
            text = path.read_text(encoding="utf-8", errors="replace").strip() if path else "Its licence is named in its manifest alone."
            texts.setdefault(text, []).append(who if path is None or path.parent == folder else f"{who}: {path.parent.name}")
    print("The program is linked with the GNU C library (LGPL 2.1 or later; its sources, and this program's, are public), and with the\n"
          "following crates, under the licences that stand below their names.")
    for text, names in sorted(texts.items(), key=lambda it: it[1]):
        print(f"\n{'=' * 80}\n" + "\n".join(sorted(set(names))) + f"\n\n{text}")


main()
