#!/usr/bin/env python3
"""Names the workspace's packages that files belong to, and the packages that depend on them, tests included.

Usage: git diff --name-only COMMIT | ci/affected.py    one package a line: `NAME changed` or `NAME uses`

Pages and the list of commands belong to coreshard-cli, whose tests read them. Files of no package are named on stderr.
"""

import json
import os
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
metadata = subprocess.check_output(["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"])
packages = json.loads(metadata)["packages"]
folders = {os.path.relpath(os.path.dirname(it["manifest_path"])): it["name"] for it in packages}

changed = set()
for file in sys.stdin.read().splitlines():
    above = [folder for folder in folders if file.startswith(folder + "/")]
    if above:
        changed.add(folders[max(above, key=len)])
    elif file in ("Cargo.toml", "Cargo.lock"):
        changed.update(folders.values())
    elif file.endswith(".md") or file.startswith("site/"):
        changed.add("coreshard-cli")
    elif file:
        print(f"of no package: {file}", file=sys.stderr)

found = dict.fromkeys(sorted(changed), "changed")
size = -1
while size != len(found):
    size = len(found)
    for package in packages:
        if any(it.get("path") and it["name"] in found for it in package["dependencies"]):
            found.setdefault(package["name"], "uses")
for name, how in found.items():
    print(name, how)
