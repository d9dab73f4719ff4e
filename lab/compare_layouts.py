#!/usr/bin/env python3
"""Holds `coreshard layout` against pahole (Debian: dwarves), type by type: size, place and size of each member, holes
and the bytes in them, padding.

Usage: lab/compare_layouts.py COMMAND FILE...     COMMAND is the built coreshard; FILE a program or library with debug
                                                  information, or BTF below /sys/kernel/btf

Prints a line for each file, and the types that differ. Exit status 1 if there are any. Left out, and counted: what pahole
itself does not print whole: types that it calls broken, bit fields in unions, to which it gives no bit, and C11's _Atomic, to
which it gives no size.
"""
import json
import re
import subprocess
import sys

# A name may have blanks and brackets; base classes follow a colon between blanks.
START = re.compile(r"^(struct|union|class)(?: typedef \S+ \S+)?(?: ([^{].*?))?(?: : .*)? \{$")
END = re.compile(r"^\}")
MEMBER = re.compile(r"/\*\s*(\d+)(?::\s*(\d+))?\s+(\d+)\s*\*/\s*$")
SIZE = re.compile(r"/\* size: (\d+), cachelines: \d+, members: (\d+)(?:, static members: \d+)? \*/")
BITS = re.compile(r"(?:sum bit holes|bit_padding): (\d+) bits")
HOLES = re.compile(r"holes: (\d+), sum holes: (\d+)")
PADDING = re.compile(r"/\* padding: (\d+)")


def of_pahole(text):
    """Returns the layouts that pahole prints, by name."""
    forms, at = {}, None
    for line in text.splitlines():
        if at is None:
            found = START.match(line)
            if found and not line.rstrip().endswith(";"):
                at = {"kind": found[1], "name": found[2], "members": [], "size": 0, "holes": (0, 0), "padding": 0,
                      "bits": 0, "broken": False}
            continue
        if END.match(line):
            if at["name"] and at["size"]:
                forms.setdefault(at["name"], []).append(at)
            at = None
            continue
        if "BRAIN FART" in line or "BFFF" in line:
            at["broken"] = True
        if found := SIZE.search(line):
            at["size"] = int(found[1])
        elif found := PADDING.search(line):
            at["padding"] = int(found[1])
        if found := HOLES.search(line):
            at["holes"] = (int(found[1]), int(found[2]))
        at["bits"] += sum(int(bits) for bits in BITS.findall(line))
        # A member of the outermost type has one tab before it.
        if re.match(r"^\t[^\t]", line) and (found := MEMBER.search(line)):
            bit = int(found[2]) if found[2] else None
            at["members"].append((int(found[1]), bit, int(found[3])))
    return forms


def of_ours(layout):
    """Returns the same for a layout of `coreshard layout`."""
    members = []
    for field in layout["fields"]:
        bit = field["bits"][0] if field["bits"] else None
        members.append((field["offset_bytes"], bit, field["size_bytes"]))
    holes = layout["holes"]
    return {"size": layout["size_bytes"], "members": members, "padding": layout["padding_bytes"],
            "bits": layout["spare_bits"], "holes": (len(holes), sum(hole["size_bytes"] for hole in holes)),
            "atomics": {field["offset_bytes"] for field in layout["fields"] if field["role"] == "atomic"}}


def differs(ours, theirs):
    """Describes the difference; an empty text if there is none."""
    if ours["size"] != theirs["size"]:
        return f"size {ours['size']}, pahole has {theirs['size']}"
    if ours["members"] != theirs["members"]:
        pairs = zip(ours["members"] + [None] * 99, theirs["members"] + [None] * 99)
        return next((f"member {one}, pahole has {other}" for one, other in pairs if one != other), "count of members")
    if theirs["bits"] or ours["bits"]:
        # Unused bytes of a bit field's word are holes for coreshard, and bits for pahole.
        unused = [8 * (one["holes"][1] + one["padding"]) + one["bits"] for one in (ours, theirs)]
        if unused[0] != unused[1]:
            return f"{unused[0]} unused bits, pahole has {unused[1]}"
    elif theirs["kind"] != "union":
        if ours["holes"] != theirs["holes"]:
            return f"holes {ours['holes']}, pahole has {theirs['holes']}"
        if ours["padding"] != theirs["padding"]:
            return f"padding {ours['padding']}, pahole has {theirs['padding']}"
    return ""


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    wrong = 0
    for file in sys.argv[2:]:
        option = ["--btf"] if file.startswith("/sys/kernel/btf") else []
        layouts = subprocess.run([sys.argv[1], "layout", *option, file, "--all", "--json"],
                                 check=True, capture_output=True).stdout
        ours = {}
        for layout in json.loads(layouts):
            bare = layout["name"].split("<")[0].split("::")[-1] + (
                "<" + layout["name"].split("<", 1)[1] if "<" in layout["name"] else "")
            for name in {layout["name"], bare}:
                ours.setdefault(name, []).append(of_ours(layout))
        theirs = of_pahole(subprocess.run(["pahole", file], capture_output=True, text=True, errors="replace").stdout)
        same, left_out, bad = 0, 0, []
        for name, forms in theirs.items():
            for form in forms:
                is_vague = form["kind"] == "union" and any(bit is not None for _, bit, _ in form["members"])
                found = ours.get(name, [])
                is_vague |= any(size == 0 and at in one["atomics"] for at, _, size in form["members"] for one in found)
                reasons = [differs(one, form) for one in found]
                if "" in reasons:
                    same += 1
                elif form["broken"] or is_vague:
                    left_out += 1
                else:
                    bad.append((name, reasons[0] if reasons else "not found"))
        print(f"{file}: {same} types are equal, {len(bad)} differ, {left_out} left out")
        for name, reason in bad[:20]:
            print(f"  {name}: {reason}")
        wrong += len(bad) + (same == 0)
    sys.exit(wrong > 0)


main()
