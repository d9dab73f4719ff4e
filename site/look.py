#!/usr/bin/env python3
"""Looks at every page of the site as a telephone shows it, in light and in dark: nothing is wider than 380 pixels, and all
text stands out from what is behind it (WCAG 2.1, contrast of 4.5, or 3 where it is large).

Usage: site/look.py FOLDER [PICTURES]    also leaves pictures of some pages in the folder PICTURES, for people to look at

Needs chromium-headless-shell, chromium or google-chrome. All is measured by the browser, on the pages as they are.
"""
import json
import re
import html
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTH = 380
SHOWN = ["index.html", "learn/shards.html", "ADVISE.html", "results/peers.html", "machine/index.html"]
SCHEMES = {"light": [], "dark": ["--blink-settings=preferredColorScheme=0"]}
PROGRAM = r"""<!doctype html><meta charset="utf-8"><body><pre id="found"></pre><script>
const PAGES = %s, WIDTH = %d, found = [];
const light = (text) => {
  const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
  return { rgb: [r, g, b], a };
};
const over = (top, below) => top.rgb.map((part, at) => part * top.a + below[at] * (1 - top.a));
const luminance = (rgb) => rgb.map((part) => part / 255)
  .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
const behind = (element, view) => {
  const layers = [];
  for (let it = element; it; it = it.parentElement) {
    const layer = light(view.getComputedStyle(it).backgroundColor);
    if (layer.a > 0) layers.push(layer);
    if (layer.a === 1) break;
  }
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
};
const look = (page, frame) => {
  const view = frame.contentWindow, text = frame.contentDocument;
  const wide = text.documentElement.scrollWidth;
  if (wide > WIDTH) {
    // The widest that nothing scrolls.
    let worst = "";
    for (const it of text.querySelectorAll("main *")) {
      let scrolls = false;
      for (let up = it.parentElement; up; up = up.parentElement) scrolls ||= /auto|scroll|hidden/.test(view.getComputedStyle(up).overflowX);
      if (!scrolls && it.getBoundingClientRect().right > WIDTH) worst = it.outerHTML.slice(0, 100);
    }
    found.push([page, `is ${wide} pixels wide: ${worst}`]);
  }
  const pale = new Map();
  const walk = text.createTreeWalker(text.querySelector("main") ?? text.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, style = view.getComputedStyle(element);
    if (!walk.currentNode.data.trim() || !element.getClientRects().length || element.closest("svg, script, style, select, button, :disabled")) continue;
    count += 1;
    const back = behind(element, view), front = over(light(style.color), back);
    const [a, b] = [luminance(front), luminance(back)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (contrast < least) pale.set(`${element.tagName}.${element.className}`, `${contrast.toFixed(2)} ${style.color} on ${back.map(Math.round)}: ${walk.currentNode.data.trim().slice(0, 30)}`);
  }
  if (count < 3) found.push([page, `shows ${count} texts`]);
  for (const [what, how] of pale) found.push([page, `pale ${what}: ${how}`]);
};
(async () => {
  for (const page of PAGES) {
    const frame = document.createElement("iframe");
    frame.style = `width: ${WIDTH}px; height: 900px; border: 0`;
    frame.src = page;
    document.body.append(frame);
    await new Promise((done) => (frame.onload = done));
    await new Promise((done) => setTimeout(done, 100));
    try { look(page, frame); } catch (error) { found.push([page, `cannot be looked at: ${error}`]); }
    frame.remove();
  }
  document.getElementById("found").textContent = JSON.stringify({ pages: PAGES.length, found });
})();
</script>"""


def main():
    root = Path(sys.argv[1]).resolve()
    pictures = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if not browser:
        sys.exit("site/look.py: cannot find chromium-headless-shell, chromium or google-chrome")
    # Pages of results beside the text are made for wide screens. The other excluded pages are mdBook's pages for
    # printing and for missing addresses.
    pages = [path for path in sorted(root.rglob("*.html")) if not path.name.endswith("-charts.html")]
    pages = [path.relative_to(root).as_posix() for path in pages if path.name not in ("print.html", "404.html", "toc.html")]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        # Beside the pages, so that the browser takes them for one place.
        program = root / "look-at-all.html"
        program.write_text(PROGRAM % (json.dumps(pages), WIDTH), encoding="utf-8")
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files",
                 f"--user-data-dir={folder}/profile"]
        try:
            for scheme, options in SCHEMES.items():
                look = [*words, *options, "--virtual-time-budget=120000", "--dump-dom", program.as_uri()]
                run = subprocess.run(look, capture_output=True, text=True, timeout=600)
                answer = re.search(r'<pre id="found">(.+?)</pre>', run.stdout, re.DOTALL)
                if not answer:
                    sys.exit(f"site/look.py: the browser did not come to an end: {run.stderr[-500:]}")
                answer = json.loads(html.unescape(answer[1]))
                for page, problem in answer["found"]:
                    print(f"site/look.py: {scheme}: {page} {problem}", file=sys.stderr)
                wrong += len(answer["found"])
                print(f"site/look.py: {scheme}: {answer['pages']} pages, {len(answer['found'])} things wrong")
                for page in SHOWN if pictures else []:
                    pictures.mkdir(parents=True, exist_ok=True)
                    file = pictures / f"{page.removesuffix('.html').replace('/', '-')}-{scheme}.png"
                    shot = [*words, *options, f"--window-size={WIDTH},1800", "--virtual-time-budget=4000",
                            f"--screenshot={file.resolve()}", (root / page).as_uri()]
                    subprocess.run(shot, check=True, capture_output=True, timeout=120)
        finally:
            program.unlink()
    sys.exit(bool(wrong))


main()
