"""gpt-oss among the models of make.py: what MXFP4 groups are worth, and the checkpoints whose experts are in them."""
import os

import numpy as np

VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def expand(blocks, scales):
    """[..., groups, 16] bytes and [..., groups] scales -> [..., 32 · groups] float64."""
    nibbles = np.stack([blocks & 15, blocks >> 4], -1).reshape(*blocks.shape[:-1], 32)
    values = VALUES[nibbles] * 2.0 ** (scales.astype(int) - 127)[..., None]
    return values.reshape(*values.shape[:-2], -1)


def write_groups(path, with_oracle):
    """Every scale that bfloat16 holds the products of, with all sixteen values in both halves of a byte."""
    rng = np.random.default_rng(77)
    scales = np.concatenate([np.arange(253), rng.integers(100, 140, 59)]).astype("u1")
    every = np.stack([np.arange(16) * 16 + np.roll(np.arange(16), s) for s in range(16)]).astype("u1")
    blocks = np.stack([every[i % 16] if i < 253 else rng.integers(0, 256, 16) for i in range(len(scales))]).astype("u1")
    wide = expand(blocks, scales).reshape(len(scales), 32)
    if with_oracle:
        import torch
        from transformers.integrations.mxfp4 import convert_moe_packed_tensors

        theirs = convert_moe_packed_tensors(torch.tensor(blocks)[None, :, None], torch.tensor(scales)[None, :, None],
                                            dtype=torch.bfloat16)[0].T
        assert np.array_equal(theirs.double().numpy(), wide)
        bits = theirs.contiguous().view(torch.int16).numpy().astype("<i2")
    else:
        bits = (wide.astype("<f4").view("<u4") >> 16).astype("<u2")
    with open(path, "wb") as f:
        f.write(blocks.tobytes() + scales.tobytes() + bits.tobytes())


if __name__ == "__main__":
    data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
    write_groups(data + "/mxfp4.bin", True)
