"""Writes the linker's version script: every function that functions.def intercepts and that the
public header declares is exported, and the dynamic linker's lookup, nothing else."""

import re
import sys


def exported(functions_def, header):
    rows = re.findall(r"^HIPGRAFT_INTERCEPT\((\w+)", functions_def, re.M)
    public = re.findall(r"\b(hipgraft_\w+)\(", header)
    return sorted({*rows, *public, "dlopen", "dlsym", "dlvsym"})


def main():
    functions_def, header, output = sys.argv[1:]
    with open(functions_def) as table, open(header) as public:
        names = exported(table.read(), public.read())
    with open(output, "w") as script:
        script.write("{ global:\n")
        script.writelines(f"  {name};\n" for name in names)
        script.write("local: *; };\n")


main()
