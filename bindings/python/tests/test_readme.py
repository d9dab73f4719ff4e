"""The README's programs run, and so do the examples in docstrings."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import unittest

import support

import coreshard

support.watch()
README = os.path.join(os.path.dirname(__file__), "..", "README.md")


class Documentation(unittest.TestCase):
    def test_programs_of_the_readme(self):
        with open(README, encoding="utf-8") as file:
            programs = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        self.assertGreaterEqual(len(programs), 3)
        for program in programs:
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, timeout=support.LIMIT, check=False
            )
            self.assertEqual(done.returncode, 0, f"{program}\n{done.stderr}")

    def test_docstrings(self):
        tried = 0
        for module in pkgutil.iter_modules(coreshard.__path__, "coreshard."):
            if module.name.endswith("__main__"):
                continue
            try:
                loaded = importlib.import_module(module.name)
            except ImportError as error:
                # Only what is optional may be missing.
                self.assertIn(error.name, {"joblib", "distributed", "pandas"})
                continue
            result = doctest.testmod(loaded, verbose=False)
            self.assertEqual(result.failed, 0, module.name)
            tried += result.attempted
        tried += doctest.testmod(coreshard, verbose=False).attempted
        self.assertGreaterEqual(tried, 4)


if __name__ == "__main__":
    unittest.main()
