#!/usr/bin/env python3
"""Compiles one source in the dialect of kernels.h to a C++ file that holds its device code twice:
as a plain code object (NAME_code_object) and as the offload bundle that a compiler would have
embedded for registration (NAME_bundle)."""

import argparse
import pathlib
import struct
import subprocess
import tempfile

BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
PAGE = 4096
LINE = 32


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clang", required=True, help="clang with the AMDGPU target")
    parser.add_argument("--lld", required=True, help="ld.lld of the same LLVM")
    parser.add_argument("--arch", default="gfx90a", help="GPU to compile for")
    parser.add_argument("--name", required=True, help="prefix of the C++ arrays")
    parser.add_argument("--include", action="append", default=[], help="folder of headers")
    parser.add_argument("--depfile", required=True)
    parser.add_argument("source")
    parser.add_argument("output")
    return parser.parse_args()


def compile_code_object(options, folder):
    """Compiler, assembler and linker by hand: the driver's own chain wants tools of further
    packages (an unversioned lld, the offload bundler)."""
    assembly, relocatable, linked = (folder / name for name in ("a.s", "a.o", "a.co"))
    dependencies = ["-MD", "-MF", options.depfile, "-MT", options.output]
    subprocess.run(
        [options.clang, "-x", "hip", "-std=c++20", "--cuda-device-only", "--no-gpu-bundle-output",
         f"--offload-arch={options.arch}", "-nogpulib", "-nogpuinc", "-O2", *dependencies,
         *(f"-I{folder}" for folder in options.include),
         "-S", options.source, "-o", assembly], check=True)
    subprocess.run(
        [options.clang, "-target", "amdgcn-amd-amdhsa", f"-mcpu={options.arch}",
         "-c", assembly, "-o", relocatable], check=True)
    subprocess.run(
        [options.lld, "-flavor", "gnu", "-shared", "--no-undefined", relocatable, "-o", linked],
        check=True)
    return linked.read_bytes()


def bundle(code_object, arch):
    """Magic, number of entries, per entry {offset, size, length of its id, id}; each content
    begins on a page, as the code object is mapped from where it lies."""
    entries = [(b"host-x86_64-unknown-linux--", b""),
               (f"hipv4-amdgcn-amd-amdhsa--{arch}".encode(), code_object)]
    header = BUNDLE_MAGIC + struct.pack("<Q", len(entries))
    for identifier, content in entries:
        header += struct.pack("<QQQ", PAGE, len(content), len(identifier)) + identifier
    return header.ljust(PAGE, b"\0") + code_object


def array(name, content):
    rows = (content[at:at + LINE] for at in range(0, len(content), LINE))
    body = "\n".join(",".join(str(byte) for byte in row) + "," for row in rows)
    return f"alignas({PAGE}) extern const unsigned char {name}[] = {{\n{body}\n}};\n"


def main():
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        code_object = compile_code_object(options, pathlib.Path(folder))
    pathlib.Path(options.output).write_text(
        array(f"{options.name}_code_object", code_object)
        + array(f"{options.name}_bundle", bundle(code_object, options.arch)), encoding="ascii")


if __name__ == "__main__":
    main()
