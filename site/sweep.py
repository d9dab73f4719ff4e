#!/usr/bin/env python3
"""Makes site/machine/sweeps.json: what a simulated machine makes of each scope and size of shards, for each preset.

Usage: site/sweep.py [COMMAND]            COMMAND is the program coreshard, target/release/coreshard by default
       site/sweep.py --check [COMMAND]    changes nothing, and fails where the file is not what would be made

Simulations are deterministic: the same program gives the same file. Takes a quarter of an hour on two CPUs.
"""
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The version of the file, to be increased when page.js has to read it differently.
FORMAT = 1
ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "site/machine/sweeps.json"


def swept(command, preset):
    words = [command, "tune", "--machine", preset, "--json"]
    run = subprocess.run(words, check=True, capture_output=True, text=True)
    return [
        {
            "scope": it["scope"],
            "shard": it["shard_cores"],
            "pods": it["pods"],
            "even": round(it["even"]["items_per_sec"]),
            "bursts": round(it["lopsided"]["items_per_sec"]),
        }
        for it in json.loads(run.stdout)["candidates"]
    ]


def main():
    words = sys.argv[1:]
    is_check = words[:1] == ["--check"]
    command = words[is_check] if len(words) > is_check else "target/release/coreshard"
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
    presets = [path.stem for path in sorted((ROOT / "crates/coreshard-topology/presets").glob("*.toml"))]
    kept = json.loads(OUT.read_text(encoding="utf-8")) if is_check else {}
    machines, stale = {}, [] if is_check and kept.get("format") == FORMAT else ["the format"]
    # Each simulation has one thread.
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for preset, rows in zip(presets, threads.map(lambda preset: swept(command, preset), presets)):
            machines[preset] = rows
            is_stale = is_check and kept.get("machines", {}).get(preset) != rows
            stale += [preset] * is_stale
            print(f"{preset}: {len(rows)} layouts{', stale' if is_stale else ''}", flush=True)
    if is_check:
        if stale:
            sys.exit(f"site/sweep.py: {OUT.name} is stale in {', '.join(stale)}; site/sweep.py makes it anew")
        return
    head = {"format": FORMAT, "version": version}
    lines = ",\n".join(f'"{name}": {json.dumps(rows)}' for name, rows in machines.items())
    head = json.dumps(head)[1:-1]
    OUT.write_text(f'{{{head},\n"machines": {{\n{lines}\n}}}}\n', encoding="utf-8")


main()
