"""README.md says what the program says.

usage: test_readme.py PROGRAM README
"""

import re
import subprocess
import sys
import unittest

PROGRAM, README = sys.argv[1:3]


class ReadmeTest(unittest.TestCase):
    def test_its_option_table_is_the_program_s(self):
        with open(README, encoding="utf-8") as file:
            text = file.read()
        tables = re.findall(r"^\| variable \|.*\n(?:\|.*\n)*", text, re.M)
        printed = subprocess.run([PROGRAM, "options"], stdout=subprocess.PIPE, text=True,
                                 check=True, timeout=30)
        self.assertEqual(tables, [printed.stdout])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
