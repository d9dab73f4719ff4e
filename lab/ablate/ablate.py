#!/usr/bin/env python3
"""Which heuristics of the scheduler are worth having? Switches each one off, and runs the loads of lab/scaling without it.

Usage: lab/ablate/ablate.py FOLDER [SWITCH...]

Builds the checkout with `switches.patch`, which adds one switch to each heuristic, in a worktree of its own. Runs every load with
each switch off (all by default) on simulated machines, and writes one JSON file for each run into FOLDER, so that a second call
goes on where the first one stopped. Then prints a table in Markdown: the time without the heuristic over the time with it, for
each load that changes by 5 % or more. `none+100` is the same build with other seeds: the noise.

Switches: see NAMES in the patched crates/coreshard-platform/src/ablate.rs.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VCPUS = str(ROOT / "crates/coreshard-sim/tests/machines/xeon-16-vcpu.toml")
MACHINES = {
    "2": ["--machine", VCPUS, "--cpus", "2", "--seeds", "2"],
    "16": ["--machine", VCPUS, "--seeds", "2"],
    "72": ["--machine", "grace", "--seeds", "1"],
    "192": ["--machine", "epyc-9654-2s", "--cpus", "192", "--seeds", "1"],
    "480": ["--machine", "xeon-hcc-2s", "--cpus", "480", "--seeds", "1"],
}
LOADS = (
    "loop:16:1000000,loop:64:10000,loop:4096:2000,loop:4096:250,loop:4096:25,burst:64:1000,burst:64:10000,burst:640:10000,"
    "pingpong:200:1,pingpong:200:16,spawn:12800:1,spawn:12800:64,fib:20:100,tree:13:100"
)
SHOWN = 0.05


def build(tree):
    """Builds the patched program. Returns its path and the names of its switches."""
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "--quiet", tree], check=True)
    subprocess.run(["git", "-C", tree, "apply", HERE / "switches.patch"], check=True)
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    build = ["cargo", "build", "--release", "-p", "scaling", "--target-dir", f"{target}/ablate"]
    subprocess.run(build, cwd=tree, check=True)
    source = (Path(tree) / "crates/coreshard-platform/src/ablate.rs").read_text()
    names = re.findall(r'"(\w+)"', re.search(r"NAMES[^=]*= \[(.*?)\];", source, re.S).group(1))
    return f"{target}/ablate/release/scaling", names


def run(program, machine, switch, out):
    environment = dict(os.environ)
    if switch == "none+100":
        environment["FIRST_SEED"] = "100"
    elif switch != "none":
        environment["ABLATE"] = switch
    command = [program, *MACHINES[machine], "--runs", "6", "--executors", "coreshard", "--loads", LOADS]
    done = subprocess.run(command + ["--json", out], env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"{machine} CPUs without {switch}: {done.stderr.strip()}", file=sys.stderr)


def times(folder, machine, switch):
    path = folder / f"{machine}-{switch}.json"
    cells = json.loads(path.read_text()) if path.exists() else []
    return {cell["load"]: cell for cell in cells}


def table(folder, switches):
    print("| without | " + " | ".join(f"{machine} CPUs" for machine in MACHINES) + " |")
    print("|---" * (len(MACHINES) + 1) + "|")
    for switch in switches:
        row = []
        for machine in MACHINES:
            with_it, without = times(folder, machine, "none"), times(folder, machine, switch)
            changed = []
            for load in with_it.keys() & without.keys():
                ratio = without[load]["median_ns"] / with_it[load]["median_ns"]
                if abs(ratio - 1) >= SHOWN:
                    changed.append(f"{load} {ratio:.2f}")
            row.append(", ".join(sorted(changed)) if without else "not run")
        print(f"| {switch} | " + " | ".join(row) + " |")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        tree = f"{scratch}/tree"
        try:
            program, names = build(tree)
            if unknown := set(sys.argv[2:]) - set(names):
                sys.exit(f"unknown switches {sorted(unknown)}: expected some of {names}")
            switches = ["none+100", *(sys.argv[2:] or names)]
            for machine in MACHINES:
                for switch in ["none", *switches]:
                    out = folder / f"{machine}-{switch}.json"
                    if not out.exists():
                        run(program, machine, switch, out)
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=False)
    table(folder, switches)


if __name__ == "__main__":
    main()
