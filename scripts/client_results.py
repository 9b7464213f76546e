"""What scripts/clients left of the runs of a program: NAME.out, NAME.err, NAME.status and, where
hipgraft was preloaded, NAME.report.json."""

import json
import pathlib
import signal


class Run:
    def __init__(self, folder, name):
        self._base = pathlib.Path(folder) / name
        self.status = int(self.text("status"))

    def text(self, suffix):
        path = self._base.with_name(f"{self._base.name}.{suffix}")
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def document(self, suffix):
        """A JSON document; None if the program did not get to write it all."""
        try:
            return json.loads(self.text(suffix))
        except json.JSONDecodeError:
            return None

    @property
    def ending(self):
        """The exit status as text. The shell adds 128 to the number of a signal."""
        if self.status == 124:
            return "timed out"
        try:
            return signal.Signals(self.status - 128).name
        except ValueError:
            return f"exit {self.status}"


class Comparison:
    """A table of two columns that remembers whether they are equal."""

    def __init__(self):
        self.differences = 0
        print(f"{'':<34} {'native':>14} {'hipgraft':>14}")

    def row(self, text, native, hipgraft):
        equal = native == hipgraft
        self.differences += not equal
        print(f"{text:<34} {native!s:>14} {hipgraft!s:>14}{'' if equal else '   DIFFERENT'}")

    def fail(self, text):
        self.differences += 1
        print(text)

    def conclude(self):
        """Prints the verdict and returns the exit status."""
        print("equal" if self.differences == 0 else f"{self.differences} differences")
        return 0 if self.differences == 0 else 1
