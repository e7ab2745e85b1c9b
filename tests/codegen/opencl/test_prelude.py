"""The emulated builtins, run on the OpenCL CPU device, against models written in NumPy from the extensions' texts."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from codegen.opencl.prelude import emulated_builtins, prelude_for
from codegen.runtime.devices import added_options
from xegpu.support.errors import TargetError

SENTINEL = 0xA5
OPTIONS = "-cl-std=CL3.0"
MARGIN = 4096  # bytes of sentinel before and after every surface


# --- the device ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def queue() -> Any:
    """A queue on the OpenCL CPU device; skips when there is none."""
    driver = Path(sys.prefix) / "lib" / "libintelocl.so"
    if driver.exists():
        os.environ.setdefault("OCL_ICD_FILENAMES", str(driver))
    dpctl = pytest.importorskip("dpctl", reason="dpctl is not installed")
    try:
        return dpctl.SyclQueue("opencl:cpu")
    except dpctl.SyclQueueCreationError:
        pytest.skip("dpctl sees no OpenCL CPU device (intel-opencl-rt, OCL_ICD_FILENAMES)")


def build(queue: Any, text: str) -> Any:
    from dpctl.program import create_program_from_source

    return create_program_from_source(queue, prelude_for(text) + text, f"{OPTIONS} {added_options()}")


def run(queue: Any, program: Any, kernel: str, arguments: list[Any], lanes: int, items: int | None = None) -> list[Any]:
    """Runs one work-group of ``items``; arrays are copied to the device and returned as they are afterwards."""
    from dpctl.memory import MemoryUSMShared

    held: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            memory = MemoryUSMShared(argument.nbytes, alignment=64, queue=queue)
            memory.copy_from_host(np.ascontiguousarray(argument).reshape(-1).view(np.uint8))
            held.append(memory)
        else:
            held.append(argument)
    queue.submit(program.get_sycl_kernel(kernel), held, [items or lanes], [items or lanes])
    queue.wait()
    pairs = zip(arguments, held, strict=False)
    return [m.copy_to_host().view(a.dtype).reshape(a.shape) for a, m in pairs if isinstance(a, np.ndarray)]


# --- DPAS ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dpas:
    """One builtin with one accumulator type, for one subgroup size and repeat count."""

    a: str
    b: str
    accumulator: str
    lanes: int
    rows: int

    @property
    def bits(self) -> int:
        return 32 if self.a == "tf32" else int(self.a.lstrip("bfiu"))

    @property
    def depth(self) -> int:
        return 256 // self.bits

    @property
    def builtin(self) -> str:
        return f"intel_sub_group_{self.a}_{self.b}_matrix_mad_k{self.depth}"

    @property
    def kernel(self) -> str:
        return f"k_{self.a}_{self.b}_{self.accumulator}_{self.lanes}_{self.rows}"

    @property
    def packed_rows(self) -> int:
        return (self.rows + 1) // 2 if self.a == "tf32" else self.rows

    @property
    def text(self) -> str:
        unsigned_a, unsigned_b = (("u" if t.startswith("u") else "") for t in (self.a, self.b))
        type_a = "float" if self.a == "tf32" else unsigned_a + ("short" if self.lanes == 16 else "int")
        type_b = "float" if self.a == "tf32" else unsigned_b + "int"
        type_c = {"f32": "float", "f16": "half", "bf16": "short", "i32": "int"}[self.accumulator]
        width_a, width_c = (str(n) if n > 1 else "" for n in (self.packed_rows, self.rows))
        return (
            f"__attribute__((intel_reqd_sub_group_size({self.lanes})))\n"
            f"kernel void {self.kernel}(global {type_a}{width_a} *a, global {type_b}8 *b,"
            f" global {type_c}{width_c} *c) {{\n  int l = get_sub_group_local_id();\n"
            f"  c[l] = {self.builtin}(a[l], b[l], c[l]);\n}}\n"
        )


def every_dpas() -> Iterator[Dpas]:
    integers = [(f"{s}{n}", f"{t}{n}") for n in (8, 4) for s, t in product("iu", "iu")]
    for rows in (1, 2, 4, 8):
        for a, b, accumulator in (("f16", "f16", "f32"), ("bf16", "bf16", "f32"), *((*ab, "i32") for ab in integers)):
            yield Dpas(a, b, accumulator, 16, rows)
            yield Dpas(a, b, accumulator, 8, rows)
        for a, accumulator in (("f16", "f16"), ("bf16", "bf16"), ("tf32", "f32")):
            yield Dpas(a, a, accumulator, 16, rows)


NUMPY_TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "i32": np.int32}


def to_bits(values: np.ndarray, element: str) -> np.ndarray:
    """The bit patterns of ``values`` as unsigned integers; 4-bit elements come as one nibble a byte."""
    if element.endswith("4"):
        return (values & 15).astype(np.uint8)
    if element in ("i8", "u8"):
        return values.astype(np.uint8)
    if element == "tf32":
        return values.astype(np.float32).view(np.uint32)
    return values.astype(NUMPY_TYPES[element]).view(np.uint16)


def random_matrix(rng: np.random.Generator, shape: tuple[int, int], element: str, whole: bool) -> np.ndarray:
    """Random values; floats are small whole numbers or not, integers span their type's whole range."""
    if element[0] in "iu":
        bits = int(element[1:])
        low = -(2 ** (bits - 1)) if element[0] == "i" else 0
        return rng.integers(low, low + 2**bits, shape)
    if whole:
        return rng.integers(-8, 9, shape).astype(np.float32)
    values = rng.standard_normal(shape).astype(np.float32) * np.exp2(rng.integers(-6, 7, shape)).astype(np.float32)
    return values if element == "tf32" else values.astype(NUMPY_TYPES[element]).astype(np.float32)


def pack(bits: np.ndarray, element_bits: int, word: type) -> np.ndarray:
    """Packs the last axis into words, the first element lowest."""
    per_word = np.dtype(word).itemsize * 8 // element_bits
    groups = bits.astype(np.uint64).reshape(*bits.shape[:-1], -1, per_word)
    shifts = np.arange(per_word, dtype=np.uint64) * np.uint64(element_bits)
    return (groups << shifts).sum(axis=-1, dtype=np.uint64).astype(word)


def fragment_a(a: np.ndarray, case: Dpas) -> np.ndarray:
    """[lane][register] of A."""
    bits = to_bits(a, case.a)
    if case.a != "tf32":
        return np.ascontiguousarray(pack(bits, case.bits, np.uint16 if case.lanes == 16 else np.uint32).T)
    lanes = np.full((16, case.packed_rows), 0x7FC12345, np.uint32)  # lanes that nobody may look at hold NaN
    for row, k in product(range(case.rows), range(8)):
        lanes[(row % 2) * 8 + k, row // 2] = bits[row, k]
    return lanes


def expected_dpas(a: np.ndarray, b: np.ndarray, c: np.ndarray, case: Dpas) -> np.ndarray:
    """C + A x B in the order of k, each step rounded to float; integers exact, wrapped to 32 bits."""
    if case.accumulator == "i32":
        return (c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    if case.a == "tf32":
        a, b = ((m.view(np.uint32) & 0xFFFFE000).view(np.float32) for m in (a, b))
    total = c.astype(np.float32)
    for k in range(case.depth):
        total = total + a[:, k, None].astype(np.float32) * b[None, k, :].astype(np.float32)
    return total.astype(NUMPY_TYPES[case.accumulator])


@pytest.mark.everything
@pytest.mark.unoptimised
def test_dpas_is_the_matrix_product(queue: Any) -> None:
    """Every name, accumulator, subgroup size and repeat count: the very bits of the model."""
    cases = list(every_dpas())
    program = build(queue, "".join(case.text for case in cases))
    rng = np.random.default_rng(1)
    for case, whole in product(cases, (True, False)):
        a = random_matrix(rng, (case.rows, case.depth), case.a, whole)
        b = random_matrix(rng, (case.depth, case.lanes), case.b, whole)
        if case.accumulator == "i32":
            c = rng.integers(-(2**31), 2**31, (case.rows, case.lanes)).astype(np.int32)
        else:
            c = random_matrix(rng, (case.rows, case.lanes), "tf32", whole).astype(NUMPY_TYPES[case.accumulator])
        packed_b = pack(to_bits(b.T, case.b), case.bits, np.uint32)
        arguments = [fragment_a(a, case), packed_b, np.ascontiguousarray(c.T)]
        got = run(queue, program, case.kernel, arguments, case.lanes)[2]
        want = expected_dpas(a, b, c, case)
        np.testing.assert_array_equal(got.astype(np.float64), want.T.astype(np.float64), str(case))


def test_dpas_keeps_nan_and_infinity_in_narrow_accumulators(queue: Any) -> None:
    """A NaN is not rounded into an infinity, and what exceeds the type becomes an infinity."""
    cases = [Dpas("bf16", "bf16", "bf16", 16, 1), Dpas("f16", "f16", "f16", 16, 1)]
    program = build(queue, "".join(case.text for case in cases))
    for case in cases:
        element = NUMPY_TYPES[case.accumulator]
        c = np.zeros((16, 1), element)
        c[:3, 0] = np.nan, np.inf, -np.inf
        b = np.zeros((16, 16), np.float32)
        b[3], b[4] = ml_dtypes.finfo(element).max, -float(ml_dtypes.finfo(element).max)
        a = np.full((1, 16), 2, np.float32)
        packed_b = pack(to_bits(b, case.b), 16, np.uint32)
        got = run(queue, program, case.kernel, [fragment_a(a, case), packed_b, c], 16)[2].astype(np.float32)[:, 0]
        assert np.isnan(got[0])
        assert list(got[1:5]) == [np.inf, -np.inf, np.inf, -np.inf]
        assert not got[5:].any()


# --- 2D block IO -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockIO:
    """One 2D block builtin, taken apart."""

    builtin: str
    operation: str
    bits: int
    rows: int
    columns: int
    blocks: int

    @classmethod
    def parse(cls, builtin: str) -> BlockIO:
        operation, bits, shape = builtin.removeprefix("intel_sub_group_2d_block_").rsplit("_", 2)
        rows, rest = shape.split("r")
        columns, blocks = rest.rstrip("c").split("x")
        return cls(builtin, operation, int(bits.rstrip("b")), int(rows), int(columns), int(blocks))

    @property
    def element(self) -> Any:
        return {8: np.uint8, 16: np.uint16, 32: np.uint32}[self.bits]

    @property
    def register(self) -> Any:
        """Elements of one register that a lane holds."""
        if self.operation in ("read_transform", "read_transpose"):
            return np.uint32
        return np.uint16 if (self.bits, self.columns) == (8, 32) else self.element

    @property
    def registers(self) -> int:
        if self.operation == "read_transpose":
            return self.columns * self.rows // 16
        if self.operation == "read_transform":
            return self.blocks * self.rows * self.bits // 32
        return self.blocks * (-(-self.rows // 2) if self.columns == 8 else self.rows)

    @property
    def text(self) -> str:
        register = {np.uint8: "uchar", np.uint16: "ushort", np.uint32: "uint"}[self.register]
        surface = "base + start, width, height, pitch, (int2)(x, y)"
        fill = f"for (int i = 0; i < {self.registers}; ++i) r[i] = o[l * {self.registers} + i];"
        call = f"{self.builtin}({surface}, (private {register} *)r);"
        if self.operation == "prefetch":
            call = f"{self.builtin}({surface});"
        drain = f"for (int i = 0; i < {self.registers}; ++i) o[l * {self.registers} + i] = r[i];"
        return (
            "__attribute__((intel_reqd_sub_group_size(16)))\n"
            f"kernel void t_{self.builtin}(global uchar *base, int start, int width, int height, int pitch,"
            f" int x, int y, global {register} *o) {{\n  int l = get_sub_group_local_id();\n"
            f"  {register} r[{self.registers}];\n"
            f"  {fill}\n  {call}\n  {drain}\n}}\n"
        )


def block_cases(*operations: str) -> list[BlockIO]:
    cases = [BlockIO.parse(name) for name in emulated_builtins() if "_2d_block_" in name]
    return [case for case in cases if case.operation in operations]


def tile_of(case: BlockIO, matrix: np.ndarray, x: int, y: int) -> np.ndarray:
    """[block][row][column], 0 outside the matrix."""
    tile = np.zeros((case.blocks, case.rows, case.columns), matrix.dtype)
    for block, row, column in np.ndindex(tile.shape):
        at_x, at_y = x + block * case.columns + column, y + row
        if 0 <= at_x < matrix.shape[1] and 0 <= at_y < matrix.shape[0]:
            tile[block, row, column] = matrix[at_y, at_x]
    return tile


def fragment(case: BlockIO, tile: np.ndarray) -> np.ndarray:
    """[lane][register] of a tile that was read or is to be written."""
    if case.operation == "read_transpose":
        lanes = tile[0].T.reshape(8, case.rows // 16, 16)  # column, half, lane
        return np.ascontiguousarray(lanes.reshape(-1, 16).T)
    if case.operation == "read_transform":
        packed = pack(tile.transpose(2, 0, 1), case.bits, np.uint32)  # column, block, row -> words down the rows
        return np.ascontiguousarray(packed.reshape(16, -1))
    if case.columns == 8:
        padded = np.concatenate([tile, np.zeros((case.blocks, case.rows % 2, 8), tile.dtype)], axis=1)
        return np.ascontiguousarray(padded.reshape(-1, 16).T)
    if case.columns == 32:
        return np.ascontiguousarray(pack(tile, 8, np.uint16).reshape(-1, 16).T)
    return np.ascontiguousarray(tile.reshape(-1, 16).T)


Surface = tuple[np.ndarray, np.ndarray, int, int, int, int, int]


def surfaces(rng: np.random.Generator, case: BlockIO) -> Iterator[Surface]:
    """Sentinel memory with a random matrix in it: (memory, matrix, start, width, pitch, x, y), every edge included."""
    across, down = case.columns * case.blocks, case.rows
    for trial in range(10):
        width = 4 * int(rng.integers(16, 48))
        columns, height = width * 8 // case.bits, int(rng.integers(1, 44))
        pitch = -(-width // 16) * 16 + 16 * int(rng.integers(0, 4))
        memory = np.full(MARGIN + pitch * height + MARGIN, SENTINEL, np.uint8)
        matrix = rng.integers(1, 256, (height, width), np.uint8)
        rows = memory[MARGIN : MARGIN + pitch * height].reshape(height, pitch)
        rows[:, :width] = matrix
        near = [(0, 0), (-1, -1), (columns - across // 2, height - 1), (1 - across, 1 - down), (columns - 1, 0)]
        far = [(-across, 0), (columns, 0), (0, height), (0, -down), (2**30, -(2**30))]
        x, y = (near + far)[trial]
        if trial >= 5 and rng.integers(2):
            x, y = int(rng.integers(1 - across, columns)), int(rng.integers(1 - down, height))
        yield memory, matrix.view(case.element), MARGIN, width, pitch, x, y


def run_block(
    queue: Any, program: Any, case: BlockIO, surface: Surface, lanes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(memory, [lane][register]) after the builtin ran."""
    memory, matrix, start, width, pitch, x, y = surface
    numbers = [ctypes.c_int(n) for n in (start, width, matrix.shape[0], pitch, x, y)]
    after = run(queue, program, f"t_{case.builtin}", [memory, *numbers, lanes], 16)
    return after[0], after[1]


@pytest.mark.unoptimised
@pytest.mark.parametrize("operation", ["read", "read_transform", "read_transpose"])
def test_block_reads_give_the_tile_and_zeros_outside(queue: Any, operation: str) -> None:
    """Every name, inside, over each edge and wholly outside; the memory stays as it was."""
    cases = block_cases(operation)
    program = build(queue, "".join(case.text for case in cases))
    rng = np.random.default_rng(2)
    for case in cases:
        for surface in surfaces(rng, case):
            junk = np.full((16, case.registers), 0xEE, np.uint8).astype(case.register)
            memory, lanes = run_block(queue, program, case, surface, junk)
            want = fragment(case, tile_of(case, surface[1], surface[5], surface[6]))
            np.testing.assert_array_equal(lanes, want, f"{case} at {surface[5:]}, {surface[1].shape}")
            np.testing.assert_array_equal(memory, surface[0], str(case))


def test_block_writes_stay_inside(queue: Any) -> None:
    """Every name: what lies inside is written, and not a byte more."""
    cases = block_cases("write")
    program = build(queue, "".join(case.text for case in cases))
    rng = np.random.default_rng(3)
    for case in cases:
        for surface in surfaces(rng, case):
            memory, matrix, start, _, pitch, x, y = surface
            tile = rng.integers(0, 2**case.bits, (1, case.rows, case.columns), np.uint64).astype(case.element)
            want = memory.copy()
            rows = want[start : start + pitch * len(matrix)].reshape(len(matrix), pitch).view(case.element)
            for row, column in product(range(case.rows), range(case.columns)):
                if 0 <= x + column < matrix.shape[1] and 0 <= y + row < matrix.shape[0]:
                    rows[y + row, x + column] = tile[0, row, column]
            got, _ = run_block(queue, program, case, surface, fragment(case, tile))
            np.testing.assert_array_equal(got, want, f"{case} at {(x, y)}, {matrix.shape}")


def test_prefetches_do_nothing(queue: Any) -> None:
    """Prefetch builtins compile under every name; neither memory nor registers change."""
    cases = block_cases("prefetch")
    program = build(queue, "".join(case.text for case in cases))
    rng = np.random.default_rng(4)
    for case in cases:
        surface = next(surfaces(rng, case))
        before = rng.integers(0, 256, (16, case.registers), np.uint8).astype(case.register)
        memory, lanes = run_block(queue, program, case, surface, before)
        np.testing.assert_array_equal(memory, surface[0])
        np.testing.assert_array_equal(lanes, before)


# --- conversions and barriers ----------------------------------------------------------------------------------------

AWKWARD = (0, 0x80000000, 1, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFBFFFFF, 0x7FFFFFFF)


def float_bits(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random bit patterns of floats: ties at both roundings, infinities, NaNs and denormals among them."""
    bits = rng.integers(0, 2**32, count, np.uint32)
    bits[: len(AWKWARD)] = AWKWARD
    bits[16:512] = (bits[16:512] & 0xFFFF0000) | 0x8000
    bits[512:1024] = (bits[512:1024] & 0xFFFFE000) | 0x1000
    return bits


def rounded(bits: np.ndarray, dropped: int) -> np.ndarray:
    """Round to nearest even after dropping low bits, in integers; NaNs are left for the caller."""
    wide = bits.astype(np.uint64)
    bias = np.uint64((1 << (dropped - 1)) - 1) + ((wide >> np.uint64(dropped)) & np.uint64(1))
    return ((wide + bias) >> np.uint64(dropped) << np.uint64(dropped)).astype(np.uint32)


def test_conversions_round_to_nearest_even(queue: Any) -> None:
    """bf16 and tf32, scalars and every vector width; NaNs stay NaNs of their sign."""
    text = ""
    for n in ("", "2", "3", "4", "8", "16"):
        load, store = (f"v{w}{n}" if n else w for w in ("load", "store"))
        read = f"{load}(i, f)" if n else "f[i]"
        half_read = f"{load}(i, u)" if n else "u[i]"
        put = (lambda value, to, store=store: f"{store}({value}, i, {to});") if n else \
            (lambda value, to: f"{to}[i] = {value};")
        text += (
            f"kernel void c{n or 1}(global float *f, global ushort *u, global float *wide, global float *t) {{\n"
            f"  size_t i = get_global_id(0);\n  {put(f'intel_convert_bfloat16{n}_as_ushort{n}({read})', 'u')}\n"
            f"  {put(f'intel_convert_as_bfloat16{n}_float{n}({half_read})', 'wide')}\n"
            f"  {put(f'intel_convert_tfloat32{n}_as_float{n}({read})', 't')}\n}}\n"
        )
    program = build(queue, text)
    bits = float_bits(np.random.default_rng(5), 48 * 64)
    nan = np.isnan(bits.view(np.float32))
    for n in (1, 2, 3, 4, 8, 16):
        empty = np.zeros_like(bits)
        arguments = [bits, np.zeros(bits.size, np.uint16), empty, empty.copy()]
        _, narrow, wide, tf32 = run(queue, program, f"c{n}", arguments, bits.size // n)
        np.testing.assert_array_equal(narrow[~nan], (rounded(bits, 16)[~nan] >> 16).astype(np.uint16), f"bf16 x {n}")
        np.testing.assert_array_equal(tf32[~nan], rounded(bits, 13)[~nan], f"tf32 x {n}")
        np.testing.assert_array_equal(wide, narrow.astype(np.uint32) << 16, f"float x {n}")
        for result in (wide, tf32):
            assert np.isnan(result[nan].view(np.float32)).all()
            np.testing.assert_array_equal(result[nan] >> 31, bits[nan] >> 31)


def test_split_barrier_orders_before_arrive_and_after_wait(queue: Any) -> None:
    """Each item reads what another wrote before the arrive, in shared local and in global memory, many times over."""
    text = """
    __attribute__((intel_reqd_sub_group_size(16))) __attribute__((reqd_work_group_size(128, 1, 1)))
    kernel void relay(global int *g, global int *out) {
      local int s[128];
      int i = get_local_id(0), sum = 0;
      for (int step = 0; step < 50; ++step) {
        s[i] = step * 1000 + i;
        g[i] = step * 7 + i;
        intel_work_group_barrier_arrive(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        sum += step;
        intel_work_group_barrier_wait(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        sum += s[127 - i] + g[(i + 64) % 128];
        intel_work_group_barrier_arrive(CLK_LOCAL_MEM_FENCE, memory_scope_work_group);
        intel_work_group_barrier_wait(CLK_LOCAL_MEM_FENCE, memory_scope_work_group);
      }
      out[i] = sum;
    }
    """
    program = build(queue, text)
    _, out = run(queue, program, "relay", [np.zeros(128, np.int32), np.zeros(128, np.int32)], 128)
    i = np.arange(128)
    want = sum(step + step * 1000 + 127 - i + step * 7 + (i + 64) % 128 for step in range(50))
    np.testing.assert_array_equal(out, want)


# --- a whole kernel --------------------------------------------------------------------------------------------------

GEMM = """
#define DPAS(a, b, c) intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, c)
__attribute__((intel_reqd_sub_group_size(16))) __attribute__((reqd_work_group_size(64, 1, 1)))
kernel void gemm(global float *C, global ushort *A, global ushort *B, int M, int N, int K) {
  int m = 16 * (get_sub_group_id() >> 1), n = 32 * (get_sub_group_id() & 1);
  float8 c00 = 0, c01 = 0, c10 = 0, c11 = 0;
  for (int k = 0; k < K; k += 32) {
    short8 a[4];
    int8 b[4];
    intel_sub_group_2d_block_read_16b_16r16x2c(A, K * 2, M, K * 2, (int2)(k, m), (private ushort *)a);
    intel_sub_group_2d_block_read_transform_16b_32r16x2c(B, N * 2, K, N * 2, (int2)(n, k), (private uint *)b);
    intel_sub_group_2d_block_prefetch_16b_16r16x2c(A, K * 2, M, K * 2, (int2)(k + 32, m));
    c00 = DPAS(a[0], b[0], c00); c10 = DPAS(a[1], b[0], c10); c01 = DPAS(a[0], b[2], c01); c11 = DPAS(a[1], b[2], c11);
    c00 = DPAS(a[2], b[1], c00); c10 = DPAS(a[3], b[1], c10); c01 = DPAS(a[2], b[3], c01); c11 = DPAS(a[3], b[3], c11);
  }
  intel_sub_group_2d_block_write_32b_8r16x1c(C, N * 4, M, N * 4, (int2)(n, m), (private uint *)&c00);
  intel_sub_group_2d_block_write_32b_8r16x1c(C, N * 4, M, N * 4, (int2)(n + 16, m), (private uint *)&c01);
  intel_sub_group_2d_block_write_32b_8r16x1c(C, N * 4, M, N * 4, (int2)(n, m + 8), (private uint *)&c10);
  intel_sub_group_2d_block_write_32b_8r16x1c(C, N * 4, M, N * 4, (int2)(n + 16, m + 8), (private uint *)&c11);
}
"""


@pytest.mark.parametrize(("m", "n", "k"), [(32, 64, 96), (27, 56, 40)])
def test_a_gpu_kernel_runs_as_it_is(queue: Any, m: int, n: int, k: int) -> None:
    """Loads, DPAS and stores of four subgroups together; the second shape hangs over every edge."""
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-8, 9, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    sizes = [ctypes.c_int(size) for size in (m, n, k)]
    arguments = [np.full((m, n), np.nan, np.float32), a.view(np.uint16), b.view(np.uint16), *sizes]
    got = run(queue, build(queue, GEMM), "gemm", arguments, 16, items=64)[0]
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32))


DIVERGENT = """
__attribute__((intel_reqd_sub_group_size(16))) __attribute__((reqd_work_group_size(64, 1, 1)))
kernel void parts(global float *C, const global ushort *restrict A, const global ushort *restrict B, int K) {
  int id = get_sub_group_id();
  float8 c = 1;
  if (id != 2) {
    for (int k = 0; k < 16 * id; k += 16) {
      short8 a;
      int8 b;
      intel_sub_group_2d_block_read_16b_8r16x1c(A, K * 2, 8, K * 2, (int2)(k, 0), (private ushort *)&a);
      intel_sub_group_2d_block_read_transform_16b_16r16x1c(B, 64, K, 64, (int2)(0, k), (private uint *)&b);
      c = intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, c);
    }
    if (id > 0)
      intel_sub_group_2d_block_write_32b_8r16x1c(C + 128 * id, 64, 8, 64, (int2)(0, 0), (private uint *)&c);
  }
}
"""


def test_subgroups_of_a_work_group_may_go_different_ways(queue: Any) -> None:
    """Branches and loops that are uniform in a subgroup but not in the work-group, with pointers to const."""
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-8, 9, shape).astype(ml_dtypes.bfloat16) for shape in ((8, 64), (64, 32)))
    start = np.full((4, 8, 16), np.nan, np.float32)
    arguments = [start, a.view(np.uint16), b.view(np.uint16), ctypes.c_int(64)]
    got = run(queue, build(queue, DIVERGENT), "parts", arguments, 16, items=64)[0]
    want = start.copy()
    for part in (1, 3):
        k = 16 * part
        want[part] = 1 + a[:, :k].astype(np.float32) @ b[:k, :16].astype(np.float32)
    np.testing.assert_array_equal(got, want)


# --- choosing the text -----------------------------------------------------------------------------------------------


def test_text_without_builtins_needs_no_prelude() -> None:
    text = '// intel_convert_x(y)\n/* intel_sub_group_2d_block_x */ kernel void t() { printf("intel_convert_x"); }'
    assert prelude_for(text) == ""


def test_only_what_is_named_is_defined() -> None:
    prelude = prelude_for("intel_sub_group_2d_block_read_16b_8r16x1c(p, w, h, w, at, to);")
    assert "(intel_sub_group_2d_block_read_16b_8r16x1c, 8, 1)" in prelude
    assert not any(name in prelude for name in ("matrix_mad", "intel_convert", "8r16x2c"))


@pytest.mark.parametrize(
    "name",
    [
        "intel_sub_group_2d_block_read_64b_8r8x1c",
        "intel_sub_group_2d_block_read_16b_64r16x1c",
        "intel_sub_group_i8_i4_matrix_mad_k32",
        "intel_convert_bfloat165_as_ushort5",
        "intel_work_group_barrier_leave",
    ],
)
def test_unknown_builtins_are_named(name: str) -> None:
    with pytest.raises(TargetError, match=name):
        prelude_for(f"{name}(x);")
