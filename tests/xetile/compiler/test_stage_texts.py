"""Stages as text: one is printed when it is first looked at, once, and none for the names."""

from __future__ import annotations

import pytest

import xetile as xt
from xetile.compiler import stage_texts


@xt.kernel
def doubled(A, B):  # type: ignore[no-untyped-def]
    xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))) * 2, xt.init_tile(B, (0, 0), (8, 16)))


def test_a_stage_is_printed_when_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    printed, module_text = [], stage_texts.printed
    monkeypatch.setattr(stage_texts, "printed", lambda module: printed.append(module) or module_text(module))
    matrix = xt.Spec((None, None), xt.f32)
    lowered = doubled.lower(matrix, matrix, target="pvc")
    names = [*lowered.stages]
    assert (names[0], next(reversed(lowered.stages)), len(lowered.stages)) == ("xetile", names[-1], len(names))
    assert "blocking" in lowered.stages
    assert "peel-bounds" not in lowered.stages
    assert printed == []
    text = lowered.stages["blocking"]
    lowered.forget_stages()
    assert lowered.stages["blocking"] is text
    assert len(printed) == 1
    assert lowered.stages["to-xegpu"] == module_text(lowered.modules["to-xegpu"])
    with pytest.raises(KeyError):
        lowered.stages["no such stage"]
