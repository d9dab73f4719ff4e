#!/usr/bin/env python3
"""Makes site/machine/sweeps.json: what a simulated machine makes of each scope and size of shards, for each preset.

Usage: site/sweep.py [COMMAND]    COMMAND is the program coreshard, target/release/coreshard by default

Simulations are deterministic: the same program gives the same file.
"""
import json
import subprocess
import sys
from pathlib import Path

ITEMS = "20"


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else "target/release/coreshard"
    root = Path(__file__).resolve().parent.parent
    sweeps = {}
    for preset in sorted((root / "crates/coreshard-topology/presets").glob("*.toml")):
        words = [command, "tune", "--machine", preset.stem, "--items", ITEMS, "--json"]
        run = subprocess.run(words, check=True, capture_output=True, text=True)
        tuning = json.loads(run.stdout)
        sweeps[preset.stem] = [
            {
                "scope": it["scope"],
                "shard": it["shard_cores"],
                "pods": it["pods"],
                "even": round(it["even"]["items_per_sec"]),
                "bursts": round(it["lopsided"]["items_per_sec"]),
            }
            for it in tuning["candidates"]
        ]
        print(f"{preset.stem}: {len(sweeps[preset.stem])} layouts", flush=True)
    lines = [f'"{name}": {json.dumps(rows)}' for name, rows in sweeps.items()]
    out = root / "site/machine/sweeps.json"
    out.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


main()
