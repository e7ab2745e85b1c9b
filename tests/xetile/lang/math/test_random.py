"""Philox4x32-10: the known answers of Random123, and the helpers by a reference of their own."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.kernels import DEVICE, NUMPY, Execution

EXECUTIONS = [NUMPY, Execution("numpy:xegpu", "pvc"), Execution("numpy:program", "pvc"), *DEVICE]
ONES = 0xFFFFFFFF
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]
"""Counter, key and result, from Random123's kat_vectors."""


def philox(counter: tuple[int, ...], key: tuple[int, int]) -> list[int]:
    """Philox4x32-10 on Python's integers, as the paper's figure 2 has it: S-boxes of a product, then a permutation."""
    words, k0, k1 = list(counter), *key
    for _ in range(10):
        p0, p1 = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [p1 >> 32 ^ words[1] ^ k0, p1 % 2**32, p0 >> 32 ^ words[3] ^ k1, p0 % 2**32]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return words


def test_reference_has_the_known_answers() -> None:
    for counter, key, result in KNOWN:
        assert tuple(philox(counter, key)) == result


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("known", range(len(KNOWN)))
def test_words(known: int, execution: Execution) -> None:
    """Words of a vector's counters and of run-time numbers; the key is a constant or a run-time number."""
    @xt.kernel
    def words(A, B, C, seed, *, KEY):
        offsets = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
        c1, c2, c3 = (xt.load_scalar(B, (0, i)) for i in range(3))
        results = [*xt.random.philox(KEY, offsets, c1, c2, c3), *xt.random.philox(seed, offsets, c1, c2, c3),
                   xt.full((8, 16), xt.random.randint(seed, c1), xt.u32)]
        for i, value in enumerate(results):
            xt.store_tile(value, xt.init_tile(C, (8 * i, 0), (8, 16)))

    rng = np.random.default_rng(4)
    counter, key, _ = KNOWN[known]
    a = rng.integers(0, 2**32, (8, 16), np.uint32)
    a[0, 0] = counter[0]
    c, seed = np.zeros((72, 16), np.uint32), key[0] | key[1] << 32
    execution.bind(words)[1](a, np.array([counter[1:]], np.uint32), c, np.uint64(seed), KEY=seed)
    expected = [[philox((int(x), *counter[1:]), key) for x in row] for row in a]
    for i in range(8):
        assert (c[8 * i:8 * i + 8] == np.array(expected)[..., i % 4]).all()
    assert (c[64:] == philox((counter[1], 0, 0, 0), key)[0]).all()


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_negative_seed_is_one_key_whatever_holds_it(execution: Execution) -> None:
    """A constant, an index, i32, i8 and i64; an unsigned number is extended by zeros. Numbers, which lower quickly."""
    @xt.kernel
    def draw(A, C, index, wide, *, KEY):
        held, offset = xt.load_scalar(A, (0, 0)), xt.load_scalar(A, (0, 1))
        for i, seed in enumerate((KEY, index, held, held.to(xt.i8), wide, held.to(xt.u32))):
            xt.store_tile(xt.full((1, 16), xt.random.randint(seed, offset), xt.u32), xt.init_tile(C, (i, 0), (1, 16)))

    c = np.zeros((6, 16), np.uint32)
    execution.bind(draw)[1](np.array([[-5, 7]], np.int32), c, -5, np.int64(-5), KEY=-5)
    for i, key in enumerate([(2**32 - 5, ONES)] * 5 + [(2**32 - 5, 0)]):
        assert (c[i] == philox((7, 0, 0, 0), key)[0]).all()


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_uniform_and_normal(execution: Execution) -> None:
    @xt.kernel
    def helpers(C, seed):
        offsets = xt.iota((8, 16), 0) * 16 + xt.iota((8, 16), 1)
        xt.store_tile(xt.random.rand(seed, offsets), xt.init_tile(C, (0, 0), (8, 16)))
        xt.store_tile(xt.random.randn(seed, offsets), xt.init_tile(C, (8, 0), (8, 16)))

    c = np.zeros((16, 16), np.float32)
    execution.bind(helpers)[1](c, 77)
    words = np.array([philox((i, 0, 0, 0), (77, 0))[:2] for i in range(8 * 16)], np.uint32).view(np.int32)
    uniform = (np.where(words < 0, -words - 1, words).astype(np.float32) * np.float32(4.6566127342e-10))
    assert (c[:8].ravel() == uniform[:, 0]).all()
    assert uniform.max() < 1
    wide = uniform.astype(np.float64)
    normal = np.sqrt(-2 * np.log(np.maximum(wide[:, 0], 1e-7))) * np.cos(2 * np.pi * wide[:, 1])
    np.testing.assert_allclose(c[8:].ravel(), normal, rtol=2e-5, atol=2e-5)


def test_seeds_and_offsets_are_integers() -> None:
    @xt.kernel
    def draw(A, *, seed, offset):
        xt.random.rand(seed, offset)

    for seed, offset in ((1.5, 3), (3, 1.5), ("1", 3)):
        with pytest.raises(xt.ElementTypeError) as caught:
            draw[1](np.zeros((8, 16), np.float32), seed=seed, offset=offset)
        assert caught.value.code == "XT1271"
