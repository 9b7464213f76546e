#!/usr/bin/env python3
"""Writes a GGUF model of the llama architecture with two small layers and random weights: what
llama.cpp needs in order to run, not to say anything."""

import argparse
import pathlib
import random
import struct

LAYERS = 2
EMBEDDING = 256
FEED_FORWARD = 512
HEADS = 4
CONTEXT = 2048

ALIGNMENT = 32
# Value types of the metadata.
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
# Tensor types, and the file type that says "mostly Q4_0".
F32, Q4_0 = 0, 2
MOSTLY_Q4_0 = 2
# Kinds of tokens.
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

TOKENS = ([("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
          + [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
          + [(letter, NORMAL) for letter in "\u2581etaoinshrdlu"])


def string(text):
    content = text.encode()
    return struct.pack("<Q", len(content)) + content


def number(kind, value):
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], value)


def value_of(kind, value):
    return string(value) if kind == STRING else number(kind, value)


def entry(key, kind, value):
    return string(key) + struct.pack("<I", kind) + value_of(kind, value)


def array_entry(key, kind, values):
    return (string(key) + struct.pack("<IIQ", ARRAY, kind, len(values))
            + b"".join(value_of(kind, value) for value in values))


def metadata():
    return [
        entry("general.architecture", STRING, "llama"),
        entry("general.name", STRING, "tiny"),
        entry("general.file_type", UINT32, MOSTLY_Q4_0),
        entry("general.alignment", UINT32, ALIGNMENT),
        entry("llama.block_count", UINT32, LAYERS),
        entry("llama.context_length", UINT32, CONTEXT),
        entry("llama.embedding_length", UINT32, EMBEDDING),
        entry("llama.feed_forward_length", UINT32, FEED_FORWARD),
        entry("llama.attention.head_count", UINT32, HEADS),
        entry("llama.attention.head_count_kv", UINT32, HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        entry("llama.rope.dimension_count", UINT32, EMBEDDING // HEADS),
        entry("llama.vocab_size", UINT32, len(TOKENS)),
        entry("tokenizer.ggml.model", STRING, "llama"),
        array_entry("tokenizer.ggml.tokens", STRING, [text for text, _ in TOKENS]),
        array_entry("tokenizer.ggml.scores", FLOAT32, [-float(i) for i in range(len(TOKENS))]),
        array_entry("tokenizer.ggml.token_type", INT32, [kind for _, kind in TOKENS]),
        entry("tokenizer.ggml.unknown_token_id", UINT32, 0),
        entry("tokenizer.ggml.bos_token_id", UINT32, 1),
        entry("tokenizer.ggml.eos_token_id", UINT32, 2),
    ]


def tensor_shapes():
    """Name and shape; the innermost dimension is first."""
    yield "token_embd.weight", (EMBEDDING, len(TOKENS))
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", (EMBEDDING,)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"{block}.{name}.weight", (EMBEDDING, EMBEDDING)
        yield f"{block}.ffn_norm.weight", (EMBEDDING,)
        for name in ("ffn_gate", "ffn_up"):
            yield f"{block}.{name}.weight", (EMBEDDING, FEED_FORWARD)
        yield f"{block}.ffn_down.weight", (FEED_FORWARD, EMBEDDING)
    yield "output_norm.weight", (EMBEDDING,)
    yield "output.weight", (EMBEDDING, len(TOKENS))


def weights(shape, generator):
    """Norms are ones. A Q4_0 block is a half-precision scale and 32 weights of 4 bits."""
    if len(shape) == 1:
        return F32, struct.pack(f"<{shape[0]}f", *[1.0] * shape[0])
    blocks = shape[0] * shape[1] // 32
    return Q4_0, b"".join(struct.pack("<e", 0.01) + generator.randbytes(16) for _ in range(blocks))


def padded(content):
    return content + b"\0" * (-len(content) % ALIGNMENT)


def make_model(seed):
    generator = random.Random(seed)
    infos, contents = [], b""
    for name, shape in tensor_shapes():
        kind, content = weights(shape, generator)
        infos.append(string(name) + struct.pack("<I", len(shape))
                     + b"".join(struct.pack("<Q", size) for size in shape)
                     + struct.pack("<IQ", kind, len(contents)))
        contents += padded(content)
    keys = metadata()
    header = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys))
    return padded(header + b"".join(keys) + b"".join(infos)) + contents


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the weights")
    parser.add_argument("output", type=pathlib.Path)
    options = parser.parse_args()
    options.output.write_bytes(make_model(options.seed))


if __name__ == "__main__":
    main()
