#!/usr/bin/env python3
"""Are two builds of a program the same code? Compares each function of Coreshard, instruction by instruction.

Usage: lab/compare_code.py ONE OTHER    needs objdump

For builds that can be compared: the same folder, and CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
CARGO_PROFILE_RELEASE_LTO=off, so that neither paths nor the division of the work change what is inlined.
Addresses, and the padding between functions, are left out.
"""

import collections
import re
import subprocess
import sys


def functions(path):
    text = subprocess.run(
        ["objdump", "-d", "-C", "--no-show-raw-insn", path], check=True, capture_output=True, text=True
    ).stdout
    plain = lambda name: re.sub(r"::h[0-9a-f]{16}", "", name)
    found, current = collections.defaultdict(list), None
    for line in text.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.*)>:$", line)
        if head:
            current = []
            found[plain(head.group(1))].append(current)
            continue
        code = re.match(r"^\s+[0-9a-f]+:\s+(.*)$", line)
        if current is None or not code:
            continue
        code = re.sub(r"#.*", "", code.group(1))
        code = re.sub(r"\b[0-9a-f]{4,} <([^>+]*)(\+0x[0-9a-f]+)?>", lambda to: f"<{plain(to.group(1))}>", code)
        code = re.sub(r"\+0x[0-9a-f]+>", ">", code)
        code = re.sub(r"-?0x[0-9a-f]+\(%rip\)", "data", code).strip()
        code = re.sub(r"^(call|jmp)\s+[0-9a-f]+ ", r"\1 ", code)
        if not re.match(r"^(data16|nop|cs nop|xchg\s+%ax,%ax)", code):
            current.append(code)
    return found


def main():
    one, other = functions(sys.argv[1]), functions(sys.argv[2])
    same = instructions = 0
    differ = []
    for name in sorted(set(one) | set(other)):
        if "coreshard" not in name:
            continue
        pair = [sorted(map(tuple, built.get(name, []))) for built in (one, other)]
        if pair[0] == pair[1]:
            same += len(pair[0])
            instructions += sum(map(len, pair[0]))
        else:
            differ.append((name, [len(code) for code in pair[0]], [len(code) for code in pair[1]]))
    print(f"{same} functions with {instructions} instructions are the same, {len(differ)} differ")
    for name, lengths, others in differ:
        print(f"  {name}: instructions {lengths} and {others}")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
