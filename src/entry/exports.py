"""Writes the linker's version script: every function that functions.def intercepts and that the
public header declares is exported, and the dynamic linker's lookup, nothing else.

usage: exports.py functions.def header output [--no-lookup]"""

import re
import sys


def exported(functions_def, header, lookup):
    rows = re.findall(r"^HIPGRAFT_INTERCEPT\((\w+)", functions_def, re.M)
    public = re.findall(r"\b(hipgraft_\w+)\(", header)
    return sorted({*rows, *public, *lookup})


def main():
    functions_def, header, output, *flags = sys.argv[1:]
    lookup = [] if "--no-lookup" in flags else ["dlopen", "dlsym", "dlvsym"]
    with open(functions_def) as table, open(header) as public:
        names = exported(table.read(), public.read(), lookup)
    with open(output, "w") as script:
        script.write("{ global:\n")
        script.writelines(f"  {name};\n" for name in names)
        script.write("local: *; };\n")


main()
