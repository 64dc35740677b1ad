"""The Python module, in a process that runs on HAKMEM and in one that does not.

python_module.py LIBRARY takes the module from the tree; without LIBRARY it is the one that is
installed, with the library and the command of the wheel.
"""

import ctypes
import os
import subprocess
import sys
import unittest

import hakmem

MIB = 1 << 20


class Outside(unittest.TestCase):
    """In a process on the system's allocator."""

    def test_inactive(self):
        self.assertFalse(hakmem.is_active())
        for ask in (hakmem.stats, hakmem.version, hakmem.limit, hakmem.trim,
                    lambda: hakmem.options["LIMIT"]):
            with self.assertRaisesRegex(hakmem.NotActive, "hakmem run -- python"):
                ask()


class Inside(unittest.TestCase):
    """In a process on HAKMEM."""

    def test_active(self):
        self.assertTrue(hakmem.is_active())
        self.assertRegex(hakmem.version(), r"^\d+\.\d+\.\d+$")

    def test_statistics(self):
        before = hakmem.stat("total.live_bytes")
        block = bytearray(8 * MIB)
        self.assertGreaterEqual(hakmem.stat("total.live_bytes"), before + 8 * MIB)
        self.assertGreaterEqual(hakmem.stats()["total"]["live_bytes"], before + 8 * MIB)
        del block
        self.assertLess(hakmem.stat("total.live_bytes"), before + 4 * MIB)
        self.assertEqual(hakmem.stats()["schema"], "hakmem-stats/1")
        with self.assertRaises(KeyError):
            hakmem.stat("total.nothing")

    def test_heaps(self):
        self.assertEqual(list(hakmem.heaps()), [])
        process = ctypes.CDLL(None)
        for name, arguments in (("hakmem_heap_new", [ctypes.c_size_t]),
                                ("hakmem_heap_malloc", [ctypes.c_void_p, ctypes.c_size_t]),
                                ("hakmem_heap_destroy", [ctypes.c_void_p])):
            function = getattr(process, name)
            function.restype, function.argtypes = ctypes.c_void_p, arguments
        handles = [process.hakmem_heap_new(limit) for limit in (0, MIB)]
        self.assertTrue(process.hakmem_heap_malloc(handles[1], 1000))
        empty, used = hakmem.heaps()
        self.assertEqual(empty, (handles[0], 0, 0, 0, None))
        self.assertEqual(used, (handles[1], 1, 1008, 65536, MIB))
        self.assertEqual(hakmem.stat("heaps.count"), 2)
        for handle in handles:
            process.hakmem_heap_destroy(handle)
        self.assertEqual(list(hakmem.heaps()), [])

    def test_figures(self):
        figures = {figure.name: figure for figure in hakmem.figures()}
        self.assertGreater(len(figures), 100)
        live = figures["total.live_bytes"]
        self.assertEqual((live.unit, live.is_counter), ("bytes", False))
        self.assertGreater(live.value, 0)

    def test_options(self):
        described = {option.name: option for option in hakmem.options.describe()}
        self.assertEqual(len(hakmem.options), len(described))
        self.assertEqual(described["HAKMEM_PURGE_DELAY_MS"].default, "500")
        hakmem.options["PURGE_DELAY_MS"] = 1234
        self.assertEqual(hakmem.options["HAKMEM_PURGE_DELAY_MS"], "1234")
        sources = {option.name: option.source for option in hakmem.options.describe()}
        self.assertEqual(sources["HAKMEM_PURGE_DELAY_MS"], "program")
        self.assertEqual(hakmem.options["PROFILE"], os.environ["HAKMEM_PROFILE"])

    def test_bad_options(self):
        with self.assertRaises(KeyError):
            hakmem.options["NOTHING"]
        with self.assertRaises(KeyError):
            hakmem.options["NOTHING"] = 1
        with self.assertRaisesRegex(ValueError, "PURGE_DELAY_MS does not accept 'soon'"):
            hakmem.options["PURGE_DELAY_MS"] = "soon"
        with self.assertRaisesRegex(PermissionError, "SS_SIZE cannot change"):
            hakmem.options["SS_SIZE"] = "2M"
        with self.assertRaisesRegex(NotImplementedError, "debug build"):
            hakmem.options["TIMING"] = 1

    def test_limit(self):
        self.assertIsNone(hakmem.limit())
        hakmem.set_limit("256M")
        self.assertEqual(hakmem.limit(), 256 * MIB)
        with self.assertRaises(MemoryError):
            bytearray(512 * MIB)
        hakmem.set_limit(None)
        self.assertIsNone(hakmem.limit())
        self.assertEqual(len(bytearray(512 * MIB)), 512 * MIB)

    def test_soft_limit(self):
        hakmem.set_soft_limit(64 * MIB)
        self.assertEqual(hakmem.soft_limit(), 64 * MIB)
        hakmem.set_soft_limit(None)
        self.assertIsNone(hakmem.soft_limit())

    def test_trim(self):
        hakmem.options["PURGE_DELAY_MS"] = -1
        blocks = [bytearray(100000) for _ in range(1000)]
        del blocks
        self.assertTrue(hakmem.trim())


def main():
    """The first process runs Outside, and starts the one that runs Inside."""
    if "inside" in sys.argv:
        unittest.main(argv=sys.argv[:1], defaultTest="Inside")
    program = unittest.main(argv=sys.argv[:1], defaultTest="Outside", exit=False)
    environment = dict(os.environ, HAKMEM_PROFILE="LOWMEM")
    words = [os.path.abspath(__file__), "inside"]
    if len(sys.argv) > 1:  # the system's Python is often at a fixed address, and dlsym finds malloc in it
        environment["LD_PRELOAD"] = sys.argv[1]
        pythons = {os.path.realpath(path) for path in (sys.executable, "/usr/bin/python3") if os.path.exists(path)}
        runs = [[python, *words] for python in sorted(pythons)]
    else:
        runs = [["hakmem", "run", "--", sys.executable, *words]]
    inside = [subprocess.run(run, env=environment, check=False).returncode for run in runs]
    sys.exit(0 if program.result.wasSuccessful() and not any(inside) else 1)


if __name__ == "__main__":
    main()
