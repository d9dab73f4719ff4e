#!/usr/bin/env python3
"""Opens the machine page in a headless Chromium, from a file, and looks at what it shows.

Usage: site/machine/test.py FILE

Needs chromium-headless-shell, chromium or google-chrome. The pages that it opens have a few lines more, which do what a person would.
"""
import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

XML = ("<topology version='2.0'><object type='Machine' cpuset='0xf'>"
       + "".join(f"<object type='Package' cpuset='{hex(3 << at)}'><object type='L3Cache' depth='3' cpuset='{hex(3 << at)}'>"
                 + "".join(f"<object type='Core' cpuset='{hex(1 << cpu)}'><object type='PU' os_index='{cpu}' cpuset='{hex(1 << cpu)}'/></object>"
                           for cpu in (at, at + 1)) + "</object></object>" for at in (0, 2))
       + "</object></topology>")
DO = """<script>
const wait = setInterval(() => {
  if (!document.documentElement.dataset.ready) return;
  clearInterval(wait);
  const at = (id) => document.getElementById(id);
  %s
}, 5);
</script></body>"""
TYPE = "at('text').value = %r; at('text').dispatchEvent(new Event('input'));"

# Actions, with the texts that must and must not appear.
CASES = [
    ("", ["72 CPUs, 72 cores", "cache_shard: 9 pools of 8 cores, with a requested size of 8", "<svg", "cores per shard"], ['role="alert">']),
    ("at('shard').value = 16; at('shard').dispatchEvent(new Event('input'));", ["5 pools of 14 to 15 cores, with a requested size of 16"], []),
    (TYPE % "pack:1 l3:1 core:36 pu:1", ["36 CPUs", "5 pools of 7 to 8 cores", '<section class="card" aria-label="Simulated throughput" id="sweep" hidden'], []),
    (TYPE % XML, ["4 CPUs, 4 cores, 2 last-level caches", "cache_shard: 2 pools of 2 cores"], []),
    (TYPE % "graec", ["no machine is called", "72 CPUs"], ["hidden></p>"]),
    (TYPE % "x<b onload=x>", ["&lt;b onload"], ["<b onload"]),
    ("at('preset').value = 'xeon-hcc-2s'; at('preset').dispatchEvent(new Event('change')); document.querySelector('[data-scope=numa]').click();",
     ["480 CPUs, 240 cores", "numa: 2 pools of 120 cores"], []),
]


def main():
    page = Path(sys.argv[1]).read_text(encoding="utf-8")
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if not browser:
        sys.exit("site/machine/test.py: cannot find chromium-headless-shell, chromium or google-chrome")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for at, (do, seen, unseen) in enumerate(CASES):
            file = Path(folder) / f"{at}.html"
            file.write_text(page.replace("</body>", DO % do), encoding="utf-8")
            words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
                     f"--user-data-dir={folder}/profile", "--dump-dom", file.as_uri()]
            run = subprocess.run(words, capture_output=True, text=True, timeout=120)
            # The page without its own program, which has all words.
            dom = re.sub(r"<script>.*?</script>", "", run.stdout, flags=re.DOTALL)
            dom = re.sub(r"<textarea.*?</textarea>", "", dom, flags=re.DOTALL)
            wrong = [f"has no {html.unescape(words)!r}" for words in seen if words not in dom]
            wrong += [f"has {words!r}" for words in unseen if words in dom]
            if wrong:
                failed += 1
                print(f"site/machine/test.py: after {do!r} the page {', '.join(wrong)}", file=sys.stderr)
    print(f"site/machine/test.py: {len(CASES)} cases, {failed} wrong")
    sys.exit(bool(failed))


main()
