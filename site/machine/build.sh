#!/usr/bin/env bash
# Makes the machine page: one HTML file with its WebAssembly, style, program and the simulated figures inside.
#
# Usage: site/machine/build.sh FILE
#
# Needs Rust's target wasm32-unknown-unknown (rustup target add wasm32-unknown-unknown) and Python 3.
set -euo pipefail
out=$(realpath -m "${1:?site/machine/build.sh FILE}")
cd "$(dirname "$0")"
cargo build --quiet --release --target wasm32-unknown-unknown
mkdir -p "$(dirname "$out")"
python3 - "$out" <<'PYTHON'
import base64, json, sys
read = lambda name: open(name, encoding="utf-8").read()
module = open("target/wasm32-unknown-unknown/release/machine_page.wasm", "rb").read()
# Compact; and no text in it may end the program that it stands in.
sweeps = json.dumps(json.loads(read("sweeps.json")), separators=(",", ":")).replace("<", "\\u003c")
page = read("page.html")
for mark, text in [
    ("/*STYLE*/", read("page.css")),
    ("/*SWEEPS*/", f"const SWEEPS = {sweeps};"),
    ("/*MODULE*/", f'const MODULE = "{base64.b64encode(module).decode()}";'),
    ("/*PROGRAM*/", read("page.js")),
]:
    assert page.count(mark) == 1, mark
    page = page.replace(mark, text)
open(sys.argv[1], "w", encoding="utf-8").write(page)
PYTHON
