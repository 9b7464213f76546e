#!/usr/bin/env python3
"""Writes the traces in this folder: what programs of well-known shapes ask of the arena in one capture.

usage: tests/data/traces.py

A line is one event: `k STREAM` a kernel, `a STREAM BLOCK BYTES` an allocation, `f STREAM BLOCK` a
free, `w STREAM OTHER` STREAM waits for what OTHER has captured. These are models, with the sizes and
the lifetimes of the real thing: no program was recorded."""

import pathlib

KI = 1024
MI = 1024 * KI
HALF = 2  # bytes of an fp16
FLOAT = 4


class Trace:
    def __init__(self):
        self.lines = []
        self.blocks = 0

    def kernel(self, stream=0, count=1):
        self.lines += [f"k {stream}"] * count

    def alloc(self, size, stream=0):
        self.blocks += 1
        self.lines.append(f"a {stream} {self.blocks} {int(size)}")
        return self.blocks

    def free(self, *blocks, stream=0):
        self.lines += [f"f {stream} {block}" for block in blocks]

    def wait(self, stream, other):
        self.lines.append(f"w {stream} {other}")

    def scratch(self, size, stream=0, kernels=1):
        block = self.alloc(size, stream)
        self.kernel(stream, kernels)
        self.free(block, stream=stream)


def simulator_step(t):
    """tests/apps/step_plan.cpp: eight phases of fork, three branches, join."""
    sizes = [4, 96, 1, 160, 48, 24, 512, 2, 64, 112, 96, 3, 320, 6, 132, 5, 200, 16, 1, 148, 9, 256, 2, 180]
    ends = ["join later branch", "branch join fork", "other later join"]
    ends = [e.split() for e in ends]
    phases = 8
    living = {}

    def end_of(phase, stream):
        end = ends[stream][phase % 3]
        return "join" if phase + 1 == phases and end != "branch" else end

    def free_at_join(phase, end):
        for stream in (2, 1, 0):
            if phase >= 0 and end_of(phase, stream) == end:
                t.kernel(0)
                t.free(living.pop((phase, stream)), stream=0)

    for phase in range(phases):
        for stream in (1, 2):
            t.wait(stream, 0)
        for stream in range(3):
            if phase == 0:
                continue
            end = end_of(phase - 1, stream)
            if end == "fork":
                t.free(living.pop((phase - 1, stream)), stream=stream)
            if end == "other":
                t.free(living.pop((phase - 1, stream)), stream=2 if stream == 1 else 1)
        for stream in range(3):
            size = 65536 * sizes[phase * 3 + stream] // 32 + 1 + (phase * 3 + stream) % 5
            living[phase, stream] = t.alloc(size * FLOAT, stream)
            t.kernel(stream, 5)
        for stream in range(3):
            t.kernel(stream, 4)
            if end_of(phase, stream) == "branch":
                t.free(living.pop((phase, stream)), stream=stream)
        for stream in (1, 2):
            t.wait(0, stream)
        free_at_join(phase - 1, "later")
        free_at_join(phase, "join")
        t.kernel(0, 2)


def transformer(t, layers=12, tokens=512, width=1024, heads=16):
    """Inference: the residual stays, a layer's activations come and go."""
    row = tokens * width * HALF
    x = t.alloc(row)
    t.kernel()
    for _ in range(layers):
        norm = t.alloc(row)
        t.kernel()
        qkv = t.alloc(3 * row)
        t.scratch(8 * MI)  # the matrix library's workspace
        t.free(norm)
        scores = t.alloc(heads * tokens * tokens * HALF)
        t.kernel()
        probabilities = t.alloc(heads * tokens * tokens * HALF)
        t.kernel()
        t.free(scores)
        attention = t.alloc(row)
        t.kernel()
        t.free(probabilities, qkv)
        projected = t.alloc(row)
        t.scratch(8 * MI)
        t.free(attention)
        summed = t.alloc(row)
        t.kernel()
        t.free(x, projected)
        norm = t.alloc(row)
        t.kernel()
        up = t.alloc(4 * row)
        t.scratch(8 * MI)
        t.free(norm)
        active = t.alloc(4 * row)
        t.kernel()
        t.free(up)
        down = t.alloc(row)
        t.scratch(8 * MI)
        t.free(active)
        x = t.alloc(row)
        t.kernel()
        t.free(summed, down)
    logits = t.alloc(tokens * 50304 * HALF)
    t.kernel()
    t.free(x, logits)


def training(t):
    """A multilayer perceptron, forward and back: activations are kept until their gradient."""
    widths = [784, 2048, 2048, 1536, 1024, 768, 512, 256, 128, 10]
    batch = 1024
    kept = []
    x = t.alloc(batch * widths[0] * FLOAT)
    t.kernel()
    for width in widths[1:]:
        linear = t.alloc(batch * width * FLOAT)
        t.scratch(4 * MI)
        active = t.alloc(batch * width * FLOAT)
        t.kernel()
        mask = t.alloc(batch * width)
        t.kernel()
        t.free(linear)
        kept.append((x, mask, width))
        x = active
    gradient = t.alloc(batch * widths[-1] * FLOAT)
    t.kernel()
    t.free(x)
    for (before, mask, width), width_before in zip(reversed(kept), reversed(widths[:-1])):
        masked = t.alloc(batch * width * FLOAT)
        t.kernel()
        t.free(gradient, mask)
        weights = t.alloc(width_before * width * FLOAT)
        t.scratch(4 * MI)
        gradient = t.alloc(batch * width_before * FLOAT)
        t.scratch(4 * MI)
        t.free(masked, before)
        t.scratch(width_before * width * FLOAT, kernels=2)  # the optimiser's step
        t.free(weights)
    t.free(gradient)


def solver(t, worlds=256, variables=35, rows=180):
    """A physics step as MuJoCo's: constraints built, then Newton iterations with a line search."""
    forces = t.alloc(worlds * variables * FLOAT)
    t.kernel(count=4)
    contacts = t.alloc(worlds * 64 * 96)
    t.kernel(count=6)
    jacobian = t.alloc(worlds * rows * variables * FLOAT)
    t.kernel(count=3)
    residual = t.alloc(worlds * rows * FLOAT)
    t.kernel()
    t.free(contacts)
    for iteration in range(8):
        gradient = t.alloc(worlds * variables * FLOAT)
        t.kernel(count=2)
        hessian = t.alloc(worlds * variables * variables * FLOAT)
        t.kernel()
        if iteration % 3 == 0:
            t.scratch(worlds * rows * variables * FLOAT // 2)
        factor = t.alloc(worlds * variables * variables * FLOAT)
        t.kernel()
        t.free(hessian)
        search = t.alloc(worlds * variables * FLOAT)
        t.kernel()
        t.free(factor, gradient)
        moved = t.alloc(worlds * rows * FLOAT)
        t.kernel()
        for _ in range(4):
            costs = t.alloc(worlds * 3 * FLOAT)
            t.kernel(count=2)
            t.free(costs)
        t.free(search, moved)
    t.free(residual, jacobian)
    t.kernel(count=3)
    t.free(forces)


def recurrent(t, steps=32, batch=64, width=512):
    """A gated recurrent network: gates of one step at a time, all outputs kept."""
    state = t.alloc(batch * width * FLOAT)
    t.kernel()
    outputs = []
    for step in range(steps):
        gates = t.alloc(4 * batch * width * FLOAT)
        t.scratch(batch * width * FLOAT * (1 + step % 3))
        cell = t.alloc(batch * width * FLOAT)
        t.kernel()
        after = t.alloc(batch * width * FLOAT)
        t.kernel()
        t.free(gates, state, cell)
        output = t.alloc(batch * 100 * FLOAT)
        t.kernel()
        outputs.append(output)
        state = after
    joined = t.alloc(steps * batch * 100 * FLOAT)
    t.kernel()
    t.free(*outputs, state)
    t.kernel()
    t.free(joined)


def convolutions(t, batch=32):
    """A residual network: every convolution has a workspace of its own size."""
    side, channels = 112, 64
    x = t.alloc(batch * side * side * channels * HALF)
    t.scratch(38 * MI)
    for stage in range(4):
        for block in range((3, 4, 6, 3)[stage]):
            if block == 0:
                side //= 2
            narrow = batch * side * side * channels * HALF
            a = t.alloc(narrow)
            t.scratch((6 + 5 * stage) * MI)
            b = t.alloc(narrow)
            t.scratch((72 - 9 * stage - block) * MI + 4096 * block)
            t.free(a)
            c = t.alloc(4 * narrow)
            t.scratch((10 + 3 * stage) * MI)
            t.free(b)
            if block == 0:
                shortcut = t.alloc(4 * narrow)
                t.scratch(12 * MI)
                t.free(x)
                x = shortcut
            y = t.alloc(4 * narrow)
            t.kernel()
            t.free(c, x)
            x = y
        channels *= 2
    pooled = t.alloc(batch * channels * 2 * HALF)
    t.kernel()
    t.free(x)
    t.kernel()
    t.free(pooled)


def sparse(t, levels=7, rows=1 << 20):
    """A multigrid cycle with a sparse library: matrices of all levels, scratch for each product."""
    vectors = []
    for level in range(levels):
        n = rows >> (2 * level)
        residual = t.alloc(n * 8)
        t.scratch(n * 4 + 65536 + 256 * level)
        t.scratch(n // 2 + 1000)
        coarse = t.alloc(n // 4 * 8)
        t.scratch(n * 6)
        t.free(residual)
        vectors.append(coarse)
        for _ in range(2):
            t.scratch(n * 8, kernels=2)
    for level in reversed(range(levels)):
        n = rows >> (2 * level)
        fine = t.alloc(n * 8)
        t.scratch(n * 3 + 4096)
        t.free(vectors.pop())
        t.scratch(n * 8)
        t.scratch(16 * KI)
        t.free(fine)


def branches(t, rounds=6):
    """Four branches of unequal work on four streams; their results meet in pairs."""
    common = t.alloc(6 * MI)
    t.kernel()
    for turn in range(rounds):
        for stream in (1, 2, 3):
            t.wait(stream, 0)
        results = []
        for stream in range(4):
            state = t.alloc((1 + (stream + turn) % 4) * MI + 3000, stream)
            t.kernel(stream)
            for part in range(2 + stream):
                after = t.alloc((1 + (stream * part + turn) % 5) * MI, stream)
                t.scratch((part + 1) * 700 * KI, stream)
                t.free(state, stream=stream)
                state = after
            results.append(state)
        for left, right in ((0, 1), (2, 3), (0, 2)):
            t.wait(left, right)
            merged = t.alloc(4 * MI + 512 * left, left)
            t.kernel(left)
            t.free(results[left], results[right], stream=left)
            results[left] = merged
        fresh = t.alloc(6 * MI)
        t.kernel(0, 2)
        t.free(common, results[0])
        common = fresh
    t.free(common)


SHAPES = [simulator_step, transformer, training, solver, recurrent, convolutions, sparse, branches]


def main():
    folder = pathlib.Path(__file__).resolve().parent
    for shape in SHAPES:
        trace = Trace()
        shape(trace)
        (folder / f"{shape.__name__}.trace").write_text("\n".join(trace.lines) + "\n")


if __name__ == "__main__":
    main()
