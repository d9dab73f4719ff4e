#!/usr/bin/env python3
"""Checks every link of a folder of HTML pages: the file is there, and so is the anchor.

Usage: site/check_links.py FOLDER

Links to the Internet are counted, not followed. A page that loads anything from there is a failure: the site is read without.
"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.loads, self.names = [], [], set()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        if tag in ("a", "area") and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in ("img", "script", "iframe", "source") and attributes.get("src"):
            self.loads.append(attributes["src"])
        if tag == "link" and attributes.get("href"):
            self.loads.append(attributes["href"])


def main():
    folder = Path(sys.argv[1]).resolve()
    pages = {}
    for path in sorted(folder.rglob("*.html")):
        pages[path] = Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    wrong, outside, checked = [], 0, 0
    for path, page in pages.items():
        # mdBook's page for missing addresses has links from the server's root.
        if path.name == "404.html":
            continue
        for target in page.links + page.loads:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https", "mailto") or parts.netloc:
                outside += 1
                if target in page.loads:
                    wrong.append(f"{path.relative_to(folder)} loads {target} from the Internet")
                continue
            if parts.scheme in ("data", "javascript"):
                continue
            checked += 1
            found = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if found.is_dir():
                found = found / "index.html"
            if not found.is_file():
                wrong.append(f"{path.relative_to(folder)} links to {target}, which is not there")
            elif parts.fragment and found in pages and unquote(parts.fragment) not in pages[found].names:
                wrong.append(f"{path.relative_to(folder)} links to {target}, but that page lacks the anchor")
    for line in sorted(set(wrong)):
        print(f"site/check_links.py: {line}", file=sys.stderr)
    print(f"site/check_links.py: {len(pages)} pages, {checked} links within, {outside} to the Internet, {len(set(wrong))} wrong")
    sys.exit(bool(wrong))


main()
