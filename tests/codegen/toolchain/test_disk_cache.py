"""The cache on disk: what is kept, what counts as a miss, and several processes at once."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import time
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.runtime import program_cache
from codegen.runtime.launcher import build_program, find_kernel, launch
from codegen.runtime.program_cache import binary_of, build_kernel, can_keep, program_of
from codegen.runtime.usm import copy_in, copy_out
from codegen.toolchain import disk_cache, ocloc, sycl
from tests.conftest import ROOT, require_device, require_ocloc, require_sycl_compiler
from xegpu.support.errors import ToolError
from xetile.tools.cli import main

ADD = "kernel void add(global int *a) { a[get_global_id(0)] += VALUE; }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of its own."""
    monkeypatch.setenv("XETILE_CACHE", "1")
    monkeypatch.setenv("XETILE_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("XETILE_CACHE_SIZE", raising=False)
    return tmp_path / "kept"


def never(*_: Any, **__: Any) -> Any:
    pytest.fail("it was made once more")


def test_what_is_kept_and_what_is_a_miss(folder: Path) -> None:
    parts = ("kernel void f() {}", b"\x00\x01")
    data = bytes(range(256)) * 100
    assert disk_cache.get_or_compute("thing", lambda: parts, lambda: data) == data
    assert disk_cache.get_or_compute("thing", lambda: parts, never) == data
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    broken = [b"", whole[:20], whole[:-1], whole[:60] + b"\xff" + whole[61:], b"other 1\n" + whole[8:], b"x" * 99,
              whole + b"x"]
    for stored in broken:
        file.write_bytes(stored)
        assert disk_cache.find(disk_cache.key_of("thing", *parts)) is None
        assert not file.exists()
        assert disk_cache.get_or_compute("thing", lambda: parts, lambda: data) == data
        assert file.read_bytes() == whole
    keys = [disk_cache.key_of("thing", *inputs).digest for inputs in (("ab", "c"), ("a", "bc"), ("abc",), (b"abc",))]
    assert len(set(keys)) == len(keys)


def test_what_cannot_be_kept_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("no folder")
    assert disk_cache.get_or_compute("thing", lambda: ("a",), lambda: b"made") == b"made"
    assert disk_cache.entries() == []
    folder.unlink()
    monkeypatch.setenv("XETILE_CACHE", "0")
    assert disk_cache.get_or_compute("thing", never, lambda: b"made") == b"made"
    assert not folder.exists()
    monkeypatch.setenv("XETILE_CACHE", "1")
    with pytest.raises(ZeroDivisionError):
        disk_cache.get_or_compute("thing", lambda: ("a",), lambda: bytes(1 // 0))
    assert not folder.exists()


def test_the_least_recently_used_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XETILE_CACHE_SIZE", "0.01")
    noise = np.random.default_rng(1).bytes
    now = time.time()
    for i in range(9):
        disk_cache.keep(disk_cache.key_of("thing", str(i)), noise(1000))
        os.utime(folder / f"thing-{disk_cache.key_of('thing', str(i)).digest}", (now + i - 100,) * 2)
    assert disk_cache.find(disk_cache.key_of("thing", "0")) is not None  # used again
    (folder / "old.part").write_text("half")
    os.utime(folder / "old.part", (now - 10000,) * 2)
    disk_cache.keep(disk_cache.key_of("thing", "last"), noise(2000))
    there = {i for i in range(9) if (folder / f"thing-{disk_cache.key_of('thing', str(i)).digest}").exists()}
    assert 0 in there
    assert there == {0} | set(range(min(there - {0}), 9)), "the older ones went"
    assert 1 not in there
    assert sum(entry.size for entry in disk_cache.entries()) <= disk_cache.bound()
    assert not (folder / "old.part").exists()
    disk_cache.keep(disk_cache.key_of("thing", "huge"), noise(20000))
    assert disk_cache.find(disk_cache.key_of("thing", "huge")) is None
    for wrong in ("much", "-1", "inf"):
        monkeypatch.setenv("XETILE_CACHE_SIZE", wrong)
        with pytest.raises(ToolError, match="XT5120"):
            disk_cache.keep(disk_cache.key_of("thing", "a"), b"")


KEY = disk_cache.key_of("program", "source of this", "-options")
OTHER = disk_cache.key_of("program", "source of another", "-options")
DATA = bytes(range(250)) * 40


def path_of(key: disk_cache.Key) -> Path:
    return disk_cache.folder() / f"{key.kind}-{key.digest}"


def test_only_the_user_may_read_and_write(folder: Path) -> None:
    before = os.umask(0)
    try:
        disk_cache.keep(KEY, DATA)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path_of(KEY).stat().st_mode) == 0o600


def test_an_entry_under_the_name_of_another_is_a_miss(folder: Path) -> None:
    disk_cache.keep(OTHER, DATA)
    os.rename(path_of(OTHER), path_of(KEY))
    assert disk_cache.find(KEY) is None
    disk_cache.keep(KEY, DATA)
    assert disk_cache.find(KEY) == DATA


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "others write", "endless"])
def test_only_files_of_the_user_are_read(kind: str, folder: Path, tmp_path: Path,
                                         caplog: pytest.LogCaptureFixture) -> None:
    disk_cache.keep(KEY, DATA)
    path = path_of(KEY)
    if kind == "others write":
        path.chmod(0o620)
    else:
        path.rename(tmp_path / "elsewhere")
        if kind == "link":
            path.symlink_to(tmp_path / "elsewhere")
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")
    assert disk_cache.find(KEY) is None
    assert all(entry.path != path for entry in disk_cache.entries()) or kind == "others write"
    if kind != "folder":
        disk_cache.keep(KEY, DATA)  # in its place
        assert disk_cache.find(KEY) == DATA


def test_a_large_file_is_not_read(folder: Path) -> None:
    disk_cache.keep(KEY, DATA)
    with open(path_of(KEY), "r+b") as file:
        file.truncate(2**40)  # sparse
    assert disk_cache.find(KEY) is None


def inflating(size: int, declared: int) -> bytes:
    """An entry of zeros: its checksum is right, its size perhaps not."""
    content = len(KEY.packed).to_bytes(8, "little") + KEY.packed + bytes(size)
    return (b"xetile 2\n" + hashlib.sha256(content).digest() + (len(content) + declared - size).to_bytes(8, "little")
            + zlib.compress(content))


def test_sizes_are_bounded_before_inflating(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_MAX_BYTES", 2**23)
    disk_cache.keep(KEY, DATA)
    path = path_of(KEY)
    path.write_bytes(inflating(1000, 1000))
    assert disk_cache.find(KEY) == bytes(1000), "as the package writes it"
    for stored in (inflating(2**24, 2**24), inflating(2**24, 1000), inflating(1000, 2**24)):
        path.write_bytes(stored)
        tracemalloc.start()
        try:
            assert disk_cache.find(KEY) is None
            assert tracemalloc.get_traced_memory()[1] < 2**23
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("wrong", ["others write", "another owner", "a file",
                                   *["another's link"] * (os.geteuid() == 0)])  # only root gives a link away
def test_a_folder_that_others_reach_is_not_used(wrong: str, folder: Path, tmp_path: Path, capfd: Any,
                                                monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    disk_cache.keep(KEY, DATA)
    if wrong == "others write":
        folder.chmod(0o770)
    elif wrong == "another owner":
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    elif wrong == "another's link":
        folder.rename(tmp_path / "real")
        folder.symlink_to(tmp_path / "real")
        os.chown(folder, 12345, 12345, follow_symlinks=False)
    else:
        shutil.rmtree(folder)
        folder.write_text("no folder")
    for _ in range(3):
        assert disk_cache.find(KEY) is None
        assert disk_cache.get_or_compute("program", lambda: ("a",), lambda: b"made") == b"made"
    said = [record.message for record in caplog.records if "is not used" in record.message]
    assert len(said) == 1
    assert str(folder) in said[0]
    if wrong == "others write":
        folder.chmod(0o700)
        assert disk_cache.find(KEY) == DATA


def test_a_link_of_the_users_own_is_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "large disk")
    disk_cache.keep(KEY, DATA)
    assert disk_cache.find(KEY) == DATA


def test_unfinished_files_count_and_are_cleared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XETILE_CACHE_SIZE", "0.01")
    disk_cache.keep(KEY, DATA)
    (folder / "new.part").write_bytes(bytes(10_000))
    disk_cache.keep(OTHER, DATA)
    assert disk_cache.find(KEY) is None, "the oldest entry went, since the file counts"
    assert (folder / "new.part").exists(), "its process may still write"
    disk_cache.clear()
    assert list(folder.iterdir()) == []


def added(queue: Any, kernel: Any) -> list[int]:
    values = np.arange(4, dtype=np.int32)
    (out,) = copy_in([values], queue)
    launch(queue, kernel, [out], (4,), 1)
    copy_out(out, values)
    return values.tolist()


def test_a_built_program_comes_back(folder: Path, monkeypatch: pytest.MonkeyPatch, cpu_queue: Any) -> None:
    assert can_keep(cpu_queue)
    for value in (3, 5):
        assert added(cpu_queue, build_kernel(cpu_queue, ADD, f"-DVALUE={value}", "add"))[0] == value
    build = program_cache.build_program
    monkeypatch.setattr(program_cache, "build_program", never)
    for value in (5, 3):
        kernel = build_kernel(cpu_queue, ADD, f"-DVALUE={value}", "add")
        assert added(cpu_queue, kernel) == [value, value + 1, value + 2, value + 3]
    monkeypatch.setattr(program_cache, "build_program", build)
    for value in (3, 5):  # reads well, and is no program
        disk_cache.keep(program_cache._key(cpu_queue, ADD, f"-DVALUE={value}"), b"\x7fELF nonsense")
    assert added(cpu_queue, build_kernel(cpu_queue, ADD, "-DVALUE=3", "add"))[0] == 3
    monkeypatch.setattr(program_cache, "build_program", never)
    assert added(cpu_queue, build_kernel(cpu_queue, ADD, "-DVALUE=3", "add"))[0] == 3


GROWTH = """
import os
from pathlib import Path
import xetile as xt
from codegen.runtime.devices import find_queue
from codegen.runtime.program_cache import build_kernel
from codegen.runtime.program_source import opencl_for_cpu
from tests.kernels import gemm

spec = xt.Spec((None, None), xt.bf16)
lowered = gemm.lower(spec, spec, xt.Spec((None, None), xt.f32), target="pvc")
queue = find_queue("opencl:cpu")
text = opencl_for_cpu(lowered.emitted.text, queue.sycl_device)
for value in range(12):
    build_kernel(queue, text, f"-cl-std=CL3.0 -cl-opt-disable -DVALUE={value}", lowered.emitted.name)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    before = resident if value == 1 else before if value else 0
print(resident - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_programs_end_with_their_kernels(folder: Path, cpu_queue: Any) -> None:
    """The driver holds megabytes for each program until it is released: 64 MB for ten."""
    done = subprocess.run([sys.executable, "-c", GROWTH], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 30e6


def test_a_program_of_a_queue_with_a_context_of_its_own(cpu_queue: Any) -> None:
    dpctl = pytest.importorskip("dpctl")
    device = cpu_queue.sycl_device
    other = dpctl.SyclQueue(dpctl.SyclContext(device), device, property="in_order")
    binary = binary_of(cpu_queue, find_kernel(build_program(cpu_queue, ADD, "-DVALUE=7"), "add"))
    assert binary
    program = program_of(other, binary)
    assert program is not None
    assert added(other, program.get_sycl_kernel("add")) == [7, 8, 9, 10]
    assert program_of(other, b"") is None


def test_what_the_compilers_of_machine_code_and_spirv_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_ocloc()
    require_sycl_compiler()
    ocloc._compiled.cache_clear()
    ocloc.disassemble.cache_clear()
    source = ADD.replace("VALUE", "get_num_groups(0)")
    first = ocloc.compile_device(source, "bmg", "-cl-std=CL3.0")
    text = str(ocloc.disassemble(first))
    ocloc._compiled.cache_clear()
    ocloc.disassemble.cache_clear()
    monkeypatch.setattr(ocloc, "_compile", never)
    monkeypatch.setattr(ocloc, "_disassembled", never)
    assert ocloc.compile_device(source, "bmg", "-cl-std=CL3.0") == first
    assert str(ocloc.disassemble(first)) == text
    monkeypatch.setattr(sycl, "_compiled", lambda *_: b"\x03\x02\x23\x07" + bytes(16))
    with pytest.raises(ToolError, match="0 kernels instead of one"):
        sycl.compile_sycl("int a;")
    assert {entry.kind for entry in disk_cache.entries()} == {"ocloc", "disassembly", "spirv"}


HAMMER = """
import random, sys
from codegen.toolchain import disk_cache
numbers = random.Random(sys.argv[1])
for _ in range(400):
    i = numbers.randrange(30)
    wanted = (str(i) * (200 + 37 * i)).encode() + random.Random(i).randbytes(3000)
    assert disk_cache.get_or_compute("thing", lambda: (str(i),), lambda: wanted) == wanted
    if numbers.random() < 0.01:
        disk_cache.clear()
"""
RUN = """
import numpy as np, xetile as xt

@xt.kernel
def twice(X, Y):
    xt.store_tile(xt.load_tile(xt.init_tile(X, (0, 0), (8, 16))) * 2, xt.init_tile(Y, (0, 0), (8, 16)))

x, y = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros((8, 16), np.float32)
twice.on("opencl:cpu", target="pvc")[1](x, y)
assert (y == 2 * x).all()
"""


def processes(folder: Path, *commands: list[str], **variables: str) -> list[str]:
    """Runs Python programs at the same time; what each wrote to standard error."""
    environment = {**os.environ, "XETILE_CACHE_DIR": str(folder), "XETILE_CACHE": "1", "PYTHONPATH": str(ROOT),
                   **variables}
    running = [subprocess.Popen([sys.executable, *command], env=environment, stderr=subprocess.PIPE, text=True)
               for command in commands]
    said = [process.communicate(timeout=300)[1] for process in running]
    assert [process.returncode for process in running] == [0] * len(commands), said
    return said


def test_processes_at_once(folder: Path, tmp_path: Path) -> None:
    processes(folder, *(["-c", HAMMER, str(seed)] for seed in range(3)), XETILE_CACHE_SIZE="0.05")
    assert not list(folder.glob("*.part"))


@pytest.mark.everything
def test_processes_that_build_the_same_kernel_at_once(folder: Path, tmp_path: Path) -> None:
    require_device()
    program = tmp_path / "program.py"
    program.write_text(RUN)
    processes(folder, [str(program)], [str(program)])
    assert [entry.kind for entry in disk_cache.entries()] == ["program"]
    (said,) = processes(folder, [str(program)], XETILE_LOG="1")
    assert "the cache has this program" in said


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache"]) == 0
    assert "in all  0" in capsys.readouterr().out
    disk_cache.keep(disk_cache.key_of("program", "a"), bytes(10))
    disk_cache.keep(disk_cache.key_of("spirv", "a"), bytes(10))
    assert main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert str(folder) in shown
    assert [line.split()[:2] for line in shown.splitlines()[2:4]] == [["program", "1"], ["spirv", "1"]]
    assert main(["cache", "--clear"]) == 0
    assert "2 entries removed" in capsys.readouterr().out
    assert disk_cache.entries() == []
