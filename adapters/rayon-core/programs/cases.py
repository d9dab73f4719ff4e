"""How the published programs are run.

words         the program and its arguments; {inputs} is what inputs.py has made, {out} a fresh folder of the run
files         more arguments: the inputs that match
copy          the inputs that are copied to {out} before, to be changed there
files_of_out  more arguments: the copied files that match
any_order     the lines of the standard output may be in any order
status        the exit status of a run that went well, where it is not 0

What is held equal is the standard output and each file below {out}.
"""

CASES = {
    "oxipng, 12 pictures": {
        "words": ["oxipng", "-o", "2", "--dir", "{out}"], "files": "pictures/picture-*.png", "any_order": True,
    },
    "oxipng, 1 large": {"words": ["oxipng", "-o", "3", "--out", "{out}/large.png", "{inputs}/pictures/large.png"]},
    "b3sum, 1 large": {"words": ["b3sum", "{inputs}/blobs/large.bin"]},
    "b3sum, 200 files": {"words": ["b3sum"], "files": "blobs/small/*.bin"},
    "tokei": {"words": ["tokei", "--sort", "code", "{inputs}/sources"]},
    "du-dust": {"words": ["dust", "-P", "-c", "-b", "-n", "200", "-w", "120", "{inputs}/tree"]},
    "parallel-disk-usage": {"words": ["pdu", "--json-output", "{inputs}/tree"]},
    "sd, 300 files": {
        "words": ["sd", "([aeiou])([a-z]+)", "$2$1"], "copy": "texts", "files_of_out": "*.txt",
    },
    "dssim": {"words": ["dssim", "{inputs}/pictures/large.png", "{inputs}/pictures/large-changed.png"]},
    "cavif, 12 pictures": {
        "words": ["cavif", "--quiet", "--speed", "9", "--quality", "60", "-o", "{out}"], "files": "pictures/picture-*.png",
    },
    "cavif, 1 large": {
        "words": ["cavif", "--quiet", "--speed", "8", "-o", "{out}/large.avif", "{inputs}/pictures/large.png"],
    },
    "fclones": {"words": ["fclones", "group", "--format", "fdupes", "{inputs}/tree"]},
    "skani, 16 genomes": {
        "words": ["skani", "triangle", "-t", "4", "-o", "{out}/matrix"], "files": "genomes/*.fa",
    },
}
