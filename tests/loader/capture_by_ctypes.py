"""Captures an allocation, a fill and a free through ctypes, replays them three times and checks the
values. Argument: the path of the runtime."""

import ctypes
import sys

BYTES = 4096
PAIRS = 3
hip = ctypes.CDLL(sys.argv[1])
pointer, size, word = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
hip.hipMalloc.argtypes = [pointer, size]
hip.hipFree.argtypes = [pointer]
hip.hipMallocAsync.argtypes = [pointer, size, pointer]
hip.hipFreeAsync.argtypes = [pointer, pointer]
hip.hipMemsetAsync.argtypes = [pointer, word, size, pointer]
hip.hipMemcpyAsync.argtypes = [pointer, pointer, size, word, pointer]
hip.hipMemcpy.argtypes = [pointer, pointer, size, word]
hip.hipStreamCreateWithFlags.argtypes = [pointer, ctypes.c_uint]
hip.hipStreamBeginCapture.argtypes = [pointer, word]
hip.hipStreamEndCapture.argtypes = [pointer, pointer]
hip.hipStreamSynchronize.argtypes = [pointer]
hip.hipGraphInstantiate.argtypes = [pointer, pointer, pointer, pointer, size]
hip.hipGraphLaunch.argtypes = [pointer, pointer]
TO_HOST, IN_DEVICE = 2, 3


def call(function, *arguments):
    error = function(*arguments)
    if error != 0:
        sys.exit(f"{function.__name__} gave {error}")


def created(function, *arguments):
    handle = pointer()
    call(function, ctypes.byref(handle), *arguments)
    return handle


result = created(hip.hipMalloc, BYTES)
stream = created(hip.hipStreamCreateWithFlags, 1)
call(hip.hipStreamBeginCapture, stream, 0)
for i in range(PAIRS):
    block = created(hip.hipMallocAsync, BYTES, stream)
    call(hip.hipMemsetAsync, block, 0x40 + i, BYTES, stream)
    call(hip.hipMemcpyAsync, result, block, BYTES, IN_DEVICE, stream)
    call(hip.hipFreeAsync, block, stream)
graph = pointer()
call(hip.hipStreamEndCapture, stream, ctypes.byref(graph))
executable = created(hip.hipGraphInstantiate, graph, None, None, 0)
for _ in range(3):
    call(hip.hipGraphLaunch, executable, stream)
call(hip.hipStreamSynchronize, stream)
values = (ctypes.c_ubyte * BYTES)()
call(hip.hipMemcpy, values, result, BYTES, TO_HOST)
call(hip.hipFree, result)
print("result", "ok" if set(values) == {0x40 + PAIRS - 1} else "WRONG")
