"""The code snapshot: what its comparison calls worse and better, and what a record keeps of a pair that fails."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.code_snapshot import kernels
from benchmarks.code_snapshot.cases import Pair, all_pairs
from benchmarks.code_snapshot.command_line import main
from benchmarks.code_snapshot.compare import compare, diff, text_changes
from benchmarks.code_snapshot.record import Entry, entry_of, text_of, without_locations

LOOP = {"instructions": 424, "sends": 40, "dpas": 256, "load_block2d": 24, "prefetch": 16, "sync": 40}
WHOLE = {"instructions": 1000, "sends": 60, "dpas": 256, "load_block2d": 24, "store_block2d": 16}
COUNTS = {"registers": 256, "spill": 0, "private": 0, "slm": 0, "steps": 8, "density": 0.6, "loop": LOOP,
          "whole": WHOLE}


def recorded(**pairs: Entry) -> dict[str, Any]:
    return {"pairs": pairs}


def counted(**changes: Any) -> Entry:
    """An entry with other counts than COUNTS: names of the form ``loop__dpas`` reach into a mix."""
    counts: dict[str, Any] = deepcopy(COUNTS)
    for name, value in changes.items():
        *mix, field = name.split("__")
        (counts[mix[0]] if mix else counts)[field] = value
    return {"sha": "0", "counts": counts}


def verdicts(old: Entry, new: Entry) -> dict[str, str]:
    return {change.what: change.verdict for change in compare(recorded(gemm=old), recorded(gemm=new))}


def test_equal_records_have_no_changes() -> None:
    assert verdicts(counted(), counted()) == {}


@pytest.mark.parametrize(("change", "expected"), [
    ({"loop__dpas": 248}, {"loop dpas": "worse"}),
    ({"loop__dpas": 264}, {"loop dpas": "worse"}),
    ({"loop__load_block2d": 32}, {"loop load_block2d": "worse"}),
    ({"loop__load_block2d": 16}, {"loop load_block2d": "better"}),
    ({"loop__load": 8}, {"loop load": "worse"}),
    ({"loop__instructions": 425}, {"loop instructions": "worse"}),
    ({"loop__instructions": 416}, {"loop instructions": "better"}),
    ({"spill": 64}, {"spill bytes": "worse"}),
    ({"private": 64}, {"private bytes": "worse"}),
    ({"registers": 128}, {"registers": "worse"}),
    ({"whole__dpas": 512}, {"dpas of the kernel": "worse"}),
    ({"whole__instructions": 1005}, {"instructions of the kernel": "changed"}),
    ({"whole__instructions": 1011}, {"instructions of the kernel": "worse"}),
    ({"whole__instructions": 999}, {"instructions of the kernel": "better"}),
    ({"loop__branch": 3}, {}),  # only through the sum of all instructions
], ids=str)
def test_verdicts(change: dict[str, int], expected: dict[str, str]) -> None:
    assert verdicts(counted(), counted(**change)) == expected


def test_a_loop_that_is_unrolled_differently_is_compared_by_its_steps() -> None:
    half = {name: count // 2 for name, count in LOOP.items()}
    assert verdicts(counted(), counted(steps=4, loop=half, whole__dpas=128)) == {"steps a pass of the loop": "changed"}
    denser = {**half, "instructions": half["instructions"] - 4}
    assert verdicts(counted(), counted(steps=4, loop=denser))["loop instructions"] == "better"


def test_errors() -> None:
    good, failed = counted(), {"error": "XT4101"}
    assert verdicts(good, failed) == {"error": "worse"}
    assert verdicts(failed, good) == {"error": "better"}
    assert verdicts(failed, failed) == {}
    assert verdicts(failed, {"error": "KeyError: 'x'"}) == {"error": "changed"}
    assert verdicts(good, {"sha": "0", "machine_error": "XT8001"}) == {"machine_error": "worse"}


def test_missing_and_new_pairs() -> None:
    both, one = recorded(a=counted(), b=counted()), recorded(a=counted())
    assert [(change.key, change.verdict) for change in compare(both, one)] == [("b", "worse")]
    assert [(change.key, change.verdict) for change in compare(one, both)] == [("b", "changed")]
    assert text_changes(both, one) == ["b"]
    assert compare(both, {**one, "filtered": True}) == []
    assert text_changes(both, {**one, "filtered": True}) == []


def copy_entry(dtype: str, target: str = "pvc") -> Entry:
    spec = xt.Spec((None, None), dtype)
    return entry_of(Pair("padded_loads", target, lambda name: kernels.padded_loads.lower(spec, spec, target=name)),
                    machine_code=False)


def test_a_pair_is_compiled_and_its_text_compared() -> None:
    f32, i32 = copy_entry("f32"), copy_entry("i32")
    assert "kernel void padded_loads(" in text_of(f32)
    assert "kernels.py:" not in text_of(f32)
    assert text_changes(recorded(a=f32, b=f32), recorded(a=f32, b=i32)) == ["b"]
    lines = diff("b", f32, i32).splitlines()
    assert lines[:2] == ["--- before/b", "+++ after/b"]
    assert diff("a", f32, copy_entry("f32")) == ""


def test_a_pair_that_fails_keeps_the_code_of_its_error() -> None:
    def broken(target: str) -> Any:
        raise KeyError(target)

    assert copy_entry("f32", "no_target") == {"error": "XT4104"}
    assert entry_of(Pair("broken", "pvc", broken), machine_code=False) == {"error": "KeyError: 'pvc'"}


def test_locations_are_left_out() -> None:
    text = '  // gemm.py:12\n  float x = 0; // kept\n  printf("gemm.py:14: failed");\n'
    assert without_locations(text) == '  float x = 0; // kept\n  printf("gemm.py: failed");\n'


def test_a_call_of_the_library_is_captured_and_runs_nothing() -> None:
    on, empty = xt.Kernel.on, np.empty
    sums = all_pairs()["library.matmul.shared_k.1@pvc"]  # the second launch adds up the parts of K
    text = sums.lower("pvc").opencl
    assert "dpas" not in text
    assert "kernel void" in text
    assert xt.Kernel.on is on
    assert np.empty is empty


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    main(["record", str(before), "--opencl-only", "--only", "^padded_loads.f32@dg2$", "--processes", "1"])
    document = json.loads(before.read_text())
    assert list(document["pairs"]) == ["padded_loads.f32@dg2"]
    document["pairs"]["padded_loads.f32@dg2"]["error"] = "XT4101"
    after.write_text(json.dumps(document))
    for arguments, status in (([before, before], False), ([before, after], True), ([before, before, "--text"], False),
                              ([before, after, "--text"], True)):
        with pytest.raises(SystemExit) as caught:
            main(["compare", *map(str, arguments)])
        assert caught.value.code == status
    out = capsys.readouterr().out
    assert "| worse | padded_loads.f32@dg2 | error | none | XT4101 |" in out
    assert "1 pairs: 1 worse, 0 changed, 0 better" in out
