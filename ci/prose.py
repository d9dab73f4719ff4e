#!/usr/bin/env python3
"""Checks that prose gets no worse: turns of phrase that readers stumble over are counted in each file.

Usage: prose.py [--update | --test | --worst N] [FILE ...]

Prose is Markdown outside of code, comments, and strings of at least three words in Rust, C, C++ and Python. The journal in
lab/journal is left out: its pages are kept as they were written. ci/prose.txt has
each file's count; a file may not exceed it. A file that is not listed may have one for each 500 words. --update lowers
the counts that have fallen, lists new files, and drops those that are gone; it raises none. --worst shows the lines of the N
files with the most. --test checks the check.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "ci/prose.txt"
JOURNAL = Path("lab/journal")
SUFFIXES = {".md", ".rs", ".c", ".h", ".hpp", ".py"}
WORDS_TO_ONE = 500
# Lines of a file that are shown, at most.
MOST_SHOWN = 20

# The counted turns of phrase, and the replacements.
PATTERNS = {
    r"(?:^|[.;:] )[Ww]hat (?:is|are|was|has|they|it|one|a|the|that|others?|users?|waits|comes|runs|blocks)\b": "start with a noun",
    r"\b(?:no|some)body\b": "name the actor: worker, producer, caller, thread",
    r"\b[Ww]hoever\b|(?:^|[.;:] )Who [a-z]+s\b": "name the actor",
    r"\bthose who\b": "name them: 'workers that', 'users of'",
    r"\bof (?:ours|theirs)\b|\bof [a-z]+'s\b(?! [a-z])": "write 'the tokio runtime'",
    r"\b(?:told|tells?|hears?|heard) of\b": "report, log, notify",
    r"\b(?:is|are|was|were) (?:over|gone)\b(?! (?:an?|the|\d))": "finish, exit, end",
    r"\ballowed are\b": "'expected ...'",
    r", too\b": "'also'",
}
ANY = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS))
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
COMMENT = re.compile(r"^\s*(?://[/!]?|/?\*+)\s?(.*)$")
PYTHON_COMMENT = re.compile(r"^\s*#\s?(.*)$")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
CODE = re.compile(r"`[^`]*`")


def prose(suffix, text):
    """Lines of prose with their numbers."""
    is_fenced = False
    comment = PYTHON_COMMENT if suffix == ".py" else COMMENT
    for number, line in enumerate(text.split("\n"), 1):
        found = [line] if suffix == ".md" else [m.group(1) for m in [comment.match(line)] if m]
        if found and found[0].lstrip().startswith(("```", "~~~")):
            is_fenced = not is_fenced
        elif found and not is_fenced:
            yield number, CODE.sub("X", found[0])
        elif not found:
            is_fenced = False
            yield from ((number, s) for s in STRING.findall(line) if len(WORD.findall(s)) >= 3)


def look(suffix, text):
    """How many words, and the lines that have one of the patterns, one for each time."""
    words, hits = 0, []
    for number, line in prose(suffix, text):
        words += len(WORD.findall(line))
        hits += [(number, match.group(0), line.strip()) for match in ANY.finditer(line)]
    return words, hits


def cure(phrase, line):
    return next(cure for pattern, cure in PATTERNS.items() if any(m.group(0) == phrase for m in re.finditer(pattern, line)))


def files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    tracked = (Path(name) for name in listed)
    tracked = (path for path in tracked if path != Path("ci/prose.py") and JOURNAL not in path.parents)
    return [path for path in tracked if path.suffix in SUFFIXES and (ROOT / path).exists()]


def read_record():
    lines = RECORD.read_text().split("\n") if RECORD.exists() else []
    return {Path(name): int(count) for count, name in (line.split(" ", 1) for line in lines if line and not line.startswith("#"))}


def main(arguments):
    chosen = [Path(word) for word in arguments if not word.startswith("-") and not word.isdigit()]
    record = read_record()
    looked = {}
    for path in chosen or files():
        looked[path] = look(path.suffix, (ROOT / path).read_text(errors="replace"))
    if "--update" in arguments:
        counts = {path: len(hits) for path, (_, hits) in looked.items() if hits}
        kept = {path: min(count, record.get(path, count)) for path, count in counts.items()}
        lines = [f"{count} {path}" for path, count in sorted(kept.items())]
        RECORD.write_text("# Turns of phrase in each file that ci/prose.py counts. Only --update writes here.\n" + "\n".join(lines) + "\n")
        return 0
    if "--worst" in arguments:
        most = int(arguments[arguments.index("--worst") + 1])
        for path, (words, hits) in sorted(looked.items(), key=lambda it: -len(it[1][1]))[:most]:
            print(f"{path}: {len(hits)} in {words} words")
            for number, phrase, line in hits:
                print(f"  {number}: {phrase.strip()!r}: {cure(phrase, line)}")
        return 0
    worse = 0
    for path, (words, hits) in looked.items():
        most = record.get(path, words // WORDS_TO_ONE)
        if len(hits) > most:
            worse += 1
            print(f"prose.py: {path} has {len(hits)} turns of phrase, at most {most}:", file=sys.stderr)
            for number, phrase, line in hits[:MOST_SHOWN]:
                print(f"  {path}:{number}: {phrase.strip()!r}: {cure(phrase, line)}", file=sys.stderr)
    return 1 if worse else 0


# For the test. On separate lines, so that the check does not count them here.
BAD = """
What is refused comes back.
It wakes nobody.
Whoever waits, runs.
a runtime of tokio's
The item is over.
It is told of it.
"""


def test():
    for bad in BAD.strip().split("\n"):
        for suffix, text in [(".md", bad), (".rs", f"/// {bad}\nfn f() {{}}"), (".py", f"# {bad}")]:
            words, hits = look(suffix, text)
            assert words > 2 and hits, (suffix, bad)
            assert cure(hits[0][1], hits[0][2])
    for good in ["Rejected items are returned.", "A waiting worker runs subtasks.", "The worker has exited."]:
        assert not look(".md", good)[1], good
    word = "nobody"
    assert not look(".md", f"`{word}` is a user name.")[1]
    assert not look(".md", f"```\n{word}\n```\n")[1]
    assert look(".rs", f'let text = "{word} waits for it";')[1], "messages are prose"
    assert not look(".rs", "let nobody = 1;")[1], "names are not"


if __name__ == "__main__":
    if "--test" in sys.argv:
        test()
    else:
        sys.exit(main(sys.argv[1:]))
