"""A decode loop that captures each step anew and updates one exec, for long.

Environment: HIPGRAFT_LIBRARY, DECODE_PROGRAM, DECODE_TWINS.
"""

import os
import subprocess
import unittest

# A quarter of what the runtimes that pile up updates (6.4, 7.2) take in 5,000 steps of 20 launches.
BOUND = 3 << 20


class Updates(unittest.TestCase):
    def test_device_memory_does_not_grow(self):
        environment = {**os.environ, "LD_PRELOAD": os.environ["HIPGRAFT_LIBRARY"],
                       "SOFTAGENT_TWINS": os.environ["DECODE_TWINS"]}
        run = subprocess.run(
            [os.environ["DECODE_PROGRAM"], "--recapture", "--tokens", "10000", "--launches", "20",
             "--memory-every", "5000"],
            env=environment, stdout=subprocess.PIPE, check=True, text=True, timeout=100)
        rows = dict(line.split(" ", 1) for line in run.stdout.splitlines())
        self.assertEqual((rows["result"], rows["updates"]), ("ok", "9999"))
        grown = int(rows["step_10000_device_bytes"]) - int(rows["step_5000_device_bytes"])
        self.assertLess(grown, BOUND)


if __name__ == "__main__":
    unittest.main()
