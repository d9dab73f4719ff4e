#!/usr/bin/env python3
"""Finds what a newcomer looks for, from the start page of the site that was made, in two clicks at most.

Usage: site/find.py FOLDER

Only what a page itself links counts: the table of contents at the side has everything, and tells a newcomer nothing.
"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Questions, the page that answers each, and words that the page must contain; no word may occur only in the page's
# title.
LOOKED_FOR = [
    ("what a cache shard is", "learn/shards.html", "A cache shard is a part of one last-level cache's cores"),
    ("how to try it", "index.html", "cargo run --release -- bench queue"),
    ("how to try it in a program", "WORKQUEUE.html", "coreshard::workqueue()"),
    ("how to use it beside tokio", "ASYNC.html", "#[tokio::main] async fn main()"),
    ("what a figure rests on", "results/index.html", "A figure without its range is not a result"),
    ("what of a kernel to change", "ADVISE.html", "coreshard advise"),
    ("a machine's shards, drawn", "machine/index.html", "how work queues divide it"),
]


class Page(HTMLParser):
    """The links and the text of a page's own part: the contents of <main>, or of the whole page without it."""

    def __init__(self, text):
        super().__init__()
        self.has_main, self.depth, self.links, self.parts = "<main" in text, 0, [], []
        self.feed(text)
        self.text = " ".join(" ".join(self.parts).split())

    def handle_starttag(self, tag, attributes):
        self.depth += tag == "main"
        href = dict(attributes).get("href")
        if tag == "a" and href and (self.depth or not self.has_main):
            self.links.append(href)

    def handle_endtag(self, tag):
        self.depth -= tag == "main"

    def handle_data(self, data):
        if self.depth or not self.has_main:
            self.parts.append(data)


def main():
    root = Path(sys.argv[1]).resolve()
    pages, clicks = {}, {root / "index.html": 0}
    for distance in range(3):
        for path in [path for path, at in clicks.items() if at == distance]:
            pages[path] = Page(path.read_text(encoding="utf-8"))
            for link in pages[path].links:
                parts = urlsplit(link)
                to = (path.parent / unquote(parts.path)).resolve()
                if not parts.scheme and to.suffix == ".html" and to.is_file() and to.is_relative_to(root):
                    clicks.setdefault(to, distance + 1)
    wrong = 0
    for what, page, words in LOOKED_FOR:
        path = root / page
        if path not in pages:
            problem = f"{page} is more than two clicks away"
        elif words not in pages[path].text:
            problem = f"{page} does not say: {words}"
        else:
            print(f"site/find.py: {what}: {page}, clicks: {clicks[path]}")
            continue
        wrong += 1
        print(f"site/find.py: {what}: {problem}", file=sys.stderr)
    sys.exit(bool(wrong))


main()
