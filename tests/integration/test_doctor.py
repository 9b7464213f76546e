"""`hipgraft doctor`: each verdict, over runtimes and programs made for it.

usage: test_doctor.py PROGRAM LIBRARY VERSION
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, LIBRARY, VERSION = sys.argv[1:4]
PROGRAM = os.path.realpath(PROGRAM)
LIBRARY = os.path.realpath(LIBRARY)
CC = os.environ.get("CC", "cc").split()

CALLS = ["hipMallocAsync", "hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphLaunch"]
LEFT_ALONE = ["hipGetDeviceCount", "hipInit"]
RUNTIME = "".join(f"int {name}(void) {{ return 0; }}\n" for name in CALLS + LEFT_ALONE)
VERSION_CALL = "int hipRuntimeGetVersion(int* version) { *version = 70253211; return 0; }\n"
MAIN = "int main(void) { return 0; }\n"
CALLER = """int hipMallocAsync(void), hipInit(void);
int main(void) { return hipMallocAsync() + hipInit(); }
"""


class DoctorTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.bin = self.path("bin")
        os.mkdir(self.bin)
        # This machine's runtimes, and its sudo, stay out of it.
        self.script("ldconfig", "exit 0")
        self.script("sudo", 'shift; unset LD_PRELOAD; exec "$@"')

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def script(self, name, body, folder=None):
        path = os.path.join(folder or self.bin, name)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{body}\n")
        os.chmod(path, 0o755)
        return path

    def compile(self, name, source, *options):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run([*CC, "-x", "c", "-", "-x", "none", "-o", path, *options], input=source,
                       text=True, check=True)
        return path

    def runtime(self, name="hip/libamdhip64.so.7", source=RUNTIME + VERSION_CALL, *options):
        return self.compile(name, source, "-shared", "-fPIC", "-Wl,-soname,libamdhip64.so.7",
                            *options)

    def doctor(self, *arguments, env=None, library=LIBRARY):
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith(("HIPGRAFT", "LD_", "ROCM_PATH"))}
        clean["PATH"] = f"{self.bin}:{clean['PATH']}"
        result = subprocess.run(
            [PROGRAM, "doctor", "--library", library, "--opt", self.path("opt"), *arguments],
            env={**clean, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=60)
        self.assertEqual(result.stderr, "")
        return result

    def assert_works(self, result, *parts, verdict="verdict: will work"):
        self.assertEqual((result.stdout.splitlines()[-1], result.returncode), (verdict, 0),
                         result.stdout)
        for part in parts:
            self.assertIn(part, result.stdout)

    def assert_fails(self, result, *parts):
        verdict = result.stdout.splitlines()[-1]
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertTrue(verdict.startswith("verdict: will not work: "), verdict)
        for part in parts:
            self.assertIn(part, verdict)

    def with_runtime(self):
        return {"LD_LIBRARY_PATH": os.path.dirname(self.runtime())}

    # --- In general ---

    def test_all_well(self):
        result = self.doctor(env=self.with_runtime())
        self.assert_works(result, f"{LIBRARY}  version {VERSION}", "found by LD_LIBRARY_PATH",
                          "version 7.2.53211, as it says itself",
                          "intercepted: 4; left alone: 3 of 7 exported hip functions")
        self.assertRegex(result.stdout, r"(?m)^route +symbol$")
        self.assertRegex(result.stdout, r"(?m)^preload +works")
        self.assertRegex(result.stdout, r"(?m)^env -i +drops LD_PRELOAD")
        self.assertRegex(result.stdout, r"(?m)^sudo +drops LD_PRELOAD")

    def test_ways_to_a_runtime(self):
        self.runtime("opt/rocm-9.9/lib/libamdhip64.so.9")
        self.runtime("rocm/lib/libamdhip64.so.8")
        cached = self.runtime("cached/libamdhip64.so.6")
        self.script("ldconfig", f"echo '\tlibamdhip64.so.6 (libc6,x86-64) => {cached}'")
        wanted = self.runtime("wanted/libamdhip64.so.5")
        result = self.doctor(env={"ROCM_PATH": self.path("rocm"), "HIPGRAFT_RUNTIME": wanted})
        self.assert_works(result)
        found = re.findall(r"(?m)^runtime +(\S+)\n +found by (.*)$", result.stdout)
        self.assertEqual(found, [
            (wanted, "HIPGRAFT_RUNTIME"), (self.path("rocm/lib/libamdhip64.so.8"), "ROCM_PATH"),
            (cached, "the linker's cache"),
            (self.path("opt/rocm-9.9/lib/libamdhip64.so.9"), self.path("opt/rocm-9.9"))])

    def test_no_runtime(self):
        self.assert_fails(self.doctor(), "no HIP runtime was found")

    def test_a_runtime_that_cannot_be_loaded(self):
        broken = "int missing(void);\nint use(void) { return missing(); }"
        folder = os.path.dirname(self.runtime("hip/libamdhip64.so.7.2.1",
                                              RUNTIME + VERSION_CALL + broken))
        result = self.doctor(env={"LD_LIBRARY_PATH": folder})
        self.assert_fails(result, "cannot be used", "missing")
        self.assertIn("version 7.2.1, by its file name", result.stdout)

    def test_a_runtime_that_hangs_or_crashes_when_asked(self):
        for body in ("for (;;) ;", "__builtin_trap();"):
            folder = os.path.dirname(self.runtime(
                source=RUNTIME + f"int hipRuntimeGetVersion(int* v) {{ {body} }}"))
            start = time.monotonic()
            result = self.doctor("--time-limit", "1", env={"LD_LIBRARY_PATH": folder})
            self.assertLess(time.monotonic() - start, 10)
            self.assert_works(result, "version 7, by its file name")

    def test_a_runtime_without_graphs(self):
        folder = os.path.dirname(self.runtime(source="int hipMallocAsync(void) { return 0; }"))
        self.assert_fails(self.doctor(env={"LD_LIBRARY_PATH": folder}), "it has no hip")

    def test_hipgraft_is_off(self):
        self.assert_fails(self.doctor(env={**self.with_runtime(), "HIPGRAFT": "off"}),
                          "HIPGRAFT is off")

    def test_another_library_than_hipgraft(self):
        other = self.compile("libhipgraft.so", "int other;", "-shared", "-fPIC")
        self.assert_fails(self.doctor(env=self.with_runtime(), library=other), "not in force")

    def test_a_library_that_breaks_programs(self):
        trap = "__attribute__((constructor)) void f(void) { __builtin_trap(); }"
        other = self.compile("libhipgraft.so", trap, "-shared", "-fPIC")
        self.assert_fails(self.doctor(env=self.with_runtime(), library=other), "killed by signal")

    def test_a_library_that_lacks_dlsym(self):
        other = self.compile("libhipgraft.so", 'const char* hipgraft_version(void) { return "0"; }',
                             "-shared", "-fPIC")
        self.assert_fails(self.doctor(env=self.with_runtime(), library=other),
                          "is in force instead")

    def test_a_path_that_ld_preload_cannot_carry(self):
        os.mkdir(self.path("a b"))
        copy = shutil.copy(LIBRARY, self.path("a b"))
        self.assert_fails(self.doctor(library=copy), "blank")

    def test_sudo_as_it_may_be(self):
        env = self.with_runtime()
        self.script("sudo", 'shift; exec "$@"')
        self.assertRegex(self.doctor(env=env).stdout, r"(?m)^sudo +keeps the library$")
        self.script("sudo", "exit 1")
        self.assertRegex(self.doctor(env=env).stdout, r"(?m)^sudo +not tried.*exited with 1")
        self.script("sudo", "sleep 60")
        self.assert_works(self.doctor("--time-limit", "1", env=env), "within the time limit")

    # --- For a program ---

    def linked(self, *options):
        return self.compile("linked", CALLER, self.runtime(), *options)

    def test_a_linked_program(self):
        program = self.linked("-Wl,-rpath," + self.path("hip"))
        self.assert_works(self.doctor("--", program, "--its", "arguments"), "found by the program",
                          "1 of the 2 HIP functions")
        self.assert_works(self.doctor(program), "found by the program")

    def test_a_program_whose_runtime_is_not_found(self):
        self.assert_fails(self.doctor("--", self.linked()),
                          "libamdhip64.so.7 is not found")

    def test_a_program_that_may_load_a_runtime(self):
        source = '#include <dlfcn.h>\nint main(void) { return dlopen("x", 1) != 0; }'
        program = self.compile("loads", source)
        result = self.doctor("--", program)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("if the program loads a HIP runtime", result.stdout.splitlines()[-1])
        self.assertIn("none", result.stdout.splitlines()[-1])

    def test_a_program_that_has_nothing_to_do_with_hip(self):
        self.assert_fails(self.doctor("--", self.compile("plain", MAIN), env=self.with_runtime()),
                          "links no HIP runtime")

    def test_a_static_program(self):
        program = self.compile("static", MAIN, "-static")
        self.assert_fails(self.doctor("--", program), "static")

    def test_a_set_uid_program(self):
        program = self.linked("-Wl,-rpath," + self.path("hip"))
        if os.geteuid() == 0:
            os.chown(program, 65534, 65534)
            os.chmod(program, 0o4755)
            self.assert_fails(self.doctor("--", program), "set-uid")
        else:
            os.chmod(program, 0o4755)
            self.assert_works(self.doctor("--", program), "its owner only")

    def test_a_program_of_another_architecture(self):
        program = self.compile("other", MAIN)
        with open(program, "r+b") as file:
            file.seek(18)  # e_machine
            file.write((183).to_bytes(2, "little"))
        self.assert_fails(self.doctor("--", program), "AArch64", "x86-64")

    def test_a_program_without_its_dynamic_linker(self):
        program = self.compile("lost", MAIN, "-Wl,--dynamic-linker=/nowhere/ld.so")
        self.assert_fails(self.doctor("--", program), "/nowhere/ld.so")

    def test_a_script_is_judged_by_its_interpreter(self):
        path = self.script("run.sh", "true")
        result = self.doctor("--", path)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("a script, run by /bin/sh", result.stdout)

    def test_no_program(self):
        self.assert_fails(self.doctor("--", "/nowhere/simulator"), "/nowhere/simulator")
        self.assert_fails(self.doctor("--", self.folder), "there is no program")
        plain = self.path("text")
        with open(plain, "wb") as file:
            file.write(b"\x7fELF")
        self.assert_fails(self.doctor("--", plain), "not executable")
        os.chmod(plain, 0o755)
        self.assert_fails(self.doctor("--", plain), "neither an ELF file")

    # --- Usage ---

    def test_usage_errors(self):
        for arguments in (["--nonsense"], ["--library", "/nowhere.so"], ["--time-limit", "0"],
                          ["--time-limit", "soon"]):
            result = subprocess.run([PROGRAM, "doctor", *arguments], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, timeout=30)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn(arguments[0], result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
