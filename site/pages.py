#!/usr/bin/env python3
"""Copies the pages that a SUMMARY.md names into one folder, as mdBook wants them.

Usage: site/pages.py docs/SUMMARY.md FOLDER

Pages may lie anywhere in the repository: READMEs beside the code are pages, too. Links between pages follow them; links to
pictures and other files of docs/ bring these along; what links to anything else of the repository, such as code, becomes
the file's name: the site is read without the repository.
"""
import re
import shutil
import sys
from pathlib import Path

ROOT = Path.cwd().resolve()
DOCS = ROOT / "docs"
# The machine page is made beside the book.
MADE = "machine/index.html"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
DEFINITION = re.compile(r"^(\[[^\]]+\]:\s+)(\S+)(.*)$", re.MULTILINE)
# Kept besides pictures: what results were measured.
ASSETS = {".svg", ".png", ".json", ".html", ".csv", ".txt", ".toml"}


def place(page):
    """The path of a page, or of a file in docs/, in the book."""
    is_inside = page.is_relative_to(DOCS)
    path = page.relative_to(DOCS) if is_inside else Path("repository") / page.relative_to(ROOT)
    # A page of results beside the text about them has the name that mdBook gives the text.
    if path.suffix == ".html":
        return path.with_name(f"{path.stem}-charts.html")
    # The file that a browser opens for a folder.
    return path.with_name("index.md") if path.name == "README.md" else path


def main():
    summary, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    text = summary.read_text(encoding="utf-8")
    pages = {(summary.parent / target).resolve() for _, _, target in LINK.findall(text)}
    missing = [str(page) for page in pages if not page.is_file()]
    if missing:
        sys.exit(f"site/pages.py: docs/SUMMARY.md names what is not there: {', '.join(missing)}")
    assets = set()

    def rewritten(page, target):
        """The link in the book, or None if it leads outside of the book."""
        path, hash_sign, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path or path == MADE:
            return target
        found = (page.parent / path).resolve()
        if found.is_dir() and (found / "README.md") in pages:
            found = found / "README.md"
        if found not in pages:
            if not (found.is_relative_to(DOCS) and found.suffix in ASSETS and found.is_file()):
                return None
            assets.add(found)
        up = Path(*[".."] * (len(place(page).parts) - 1))
        return (up / place(found)).as_posix() + hash_sign + anchor

    def prose_of(page, prose):
        def link(match):
            picture, words, target = match.groups()
            to = rewritten(page, target)
            if to is not None:
                return f"{picture}[{words}]({to})"
            return words

        def definition(match):
            return f"{match[1]}{rewritten(page, match[2]) or '#'}{match[3]}"

        return DEFINITION.sub(definition, LINK.sub(link, prose))

    for page in sorted(pages):
        # A link may go on in the next line, so that what lies between programs is looked at whole.
        parts, prose, fence = [], [], None
        for line in page.read_text(encoding="utf-8").split("\n"):
            mark = re.match(r"\s*(```+|~~~+)", line)
            if fence is None and not mark:
                prose.append(line)
                continue
            if prose:
                parts.append(prose_of(page, "\n".join(prose)))
                prose = []
            parts.append(line)
            if mark and fence is None:
                fence = mark[1]
            elif mark and mark[1].startswith(fence):
                fence = None
        parts.append(prose_of(page, "\n".join(prose)))
        to = out / place(page)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text("\n".join(parts), encoding="utf-8")
    for asset in assets:
        to = out / place(asset)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(asset, to)

    def in_book(match):
        page = (summary.parent / match[3]).resolve()
        return f"[{match[2]}]({place(page).as_posix()})"

    (out / "SUMMARY.md").write_text(LINK.sub(in_book, text), encoding="utf-8")


main()
