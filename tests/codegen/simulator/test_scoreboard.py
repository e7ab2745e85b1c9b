"""Scoreboard check: silent on what the compiler made, and loud where one of its annotations is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from codegen.simulator.control_flow import Block
from codegen.simulator.findings import Finding
from codegen.simulator.instruction import (
    DATA_TYPES,
    Instruction,
    LabelOperand,
    Region,
    Register,
    RegisterOperand,
    Scoreboard,
)
from codegen.simulator.scoreboard import ScoreboardChecker
from codegen.simulator.scoreboard_state import leave
from codegen.simulator.simulator import Program, load
from codegen.toolchain.ocloc import compile_device
from tests.codegen.simulator.run_opencl import SIMD, TARGETS
from tests.conftest import require_simulator

_SOURCE = """
kernel __attribute__((intel_reqd_sub_group_size(SIZE))) void f(global const float *a, global const int *b,
                                                                        global float *o) {
    int i = get_global_id(0);
    float x = a[i] * 3.0f + 1.0f, y = native_exp2(x);
    int k = (b[i] * 5 + 7) ^ b[i + 64];
    o[i] = y + x; o[i + 64] = (float)k; o[i + 128] = y * a[i + 64];
}"""


def _program(target: str) -> Program:
    require_simulator()
    return load(compile_device(_SOURCE.replace("SIZE", str(SIMD[target])), target).data, "f", target)


def _check(program: Program, instructions: Sequence[Instruction]) -> None:
    """Check straight-line code from its entry to its end."""
    checker = ScoreboardChecker(instructions, program.messages, program.register_bytes)
    state = checker.started(6)
    for instruction in instructions[program.entry:]:
        state = checker.execute(state, instruction)
        if "EOT" in instruction.options:
            return
    raise AssertionError("no end of thread")


def _changed(program: Program, position: int, instruction: Instruction) -> list[Instruction]:
    listed = list(program.instructions)
    listed[position] = instruction
    return listed


def _findings(program: Program, chosen: str) -> list[str]:
    """Findings when the annotations of a kind are dropped, one at a time."""
    found = []
    for instruction in program.instructions[program.entry:]:
        old = instruction.scoreboard
        if chosen == "distance" and old.distance:
            new = replace(old, pipe="", distance=0)
        elif old.token is not None and old.token_use == chosen:
            new = replace(old, token=None, token_use="")
        else:
            continue
        try:
            _check(program, _changed(program, instruction.index, replace(instruction, scoreboard=new)))
        except Finding as finding:
            found.append(f"[{finding.code}] {finding.message}")
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_compiled_code_waits_for_everything(target: str) -> None:
    program = _program(target)
    _check(program, program.instructions)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("chosen", "words"), [
    ("distance", "pipe has delivered it"), ("dst", "has delivered it")])
def test_a_wait_that_is_dropped_is_found(target: str, chosen: str, words: str) -> None:
    found = _findings(_program(target), chosen)
    assert all(each.startswith("[XT6121]") for each in found)
    assert any(words in each for each in found)


@pytest.mark.parametrize("target", TARGETS)
def test_a_register_that_a_message_has_yet_to_read(target: str) -> None:
    """Right behind a store, its data are overwritten without a wait."""
    program = _program(target)
    stores = [index for index, message in program.messages.items() if message.kind == "store" and index > program.entry]
    store = program.instructions[stores[0]]
    data = program.messages[store.index].data
    assert data is not None
    checker = ScoreboardChecker(program.instructions, program.messages, program.register_bytes)
    state = checker.started(6)
    for instruction in program.instructions[program.entry:store.index + 1]:
        state = checker.execute(state, instruction)
    overwrite = replace(_move(len(program.instructions), data, 0), scoreboard=Scoreboard("A", 1))
    with pytest.raises(Finding, match=r"before send\.ugm has read it") as error:
        checker.execute(state, overwrite)
    assert error.value.code == "XT6121"
    waits = replace(overwrite, scoreboard=Scoreboard("", 0, store.scoreboard.token, "src"))
    checker.execute(checker.execute(state, replace(waits, op="sync", subop="nop", destination=None, sources=())),
                    overwrite)


@pytest.mark.parametrize("target", TARGETS)
def test_lanes_that_wait_elsewhere_for_a_message(target: str) -> None:
    """Their message is no hazard of the lanes that run, unless these touch more than their own bytes."""
    program = _program(target)
    load = next(program.instructions[index] for index, message in program.messages.items()
                if message.kind == "load" and not program.instructions[index].no_mask)
    result = program.messages[load.index].result
    assert result is not None
    issued = replace(load, scoreboard=Scoreboard("A", 1, load.scoreboard.token, ""))
    listed = [*_changed(program, load.index, issued), _move(len(program.instructions), 100, result)]
    checker = ScoreboardChecker(listed, program.messages, program.register_bytes)
    jump = Instruction(0, 0, "goto", "", SIMD[target], sources=(LabelOperand(7), LabelOperand(50)))
    start = checker.started(128)
    state = checker.execute(start, issued, load.index)
    away = leave(state, Block(load.index, load.index + 1, jump))
    masked = replace(listed[-1], execution_size=SIMD[target], no_mask=False)
    checker.execute(away, masked, 7)
    source = masked.sources[0]
    assert isinstance(source, RegisterOperand)
    for touches, at in ((replace(masked, no_mask=True), 7), (masked, 50), (masked, load.index),
                        (replace(masked, sources=(replace(source, region=Region(0, 1, 0)),)), 7)):
        with pytest.raises(Finding, match="has delivered it"):
            checker.execute(state if at == load.index else away, touches, at)


@pytest.mark.parametrize("target", TARGETS)
def test_a_register_that_nothing_wrote(target: str) -> None:
    program = _program(target)
    position = program.entry + 1
    copy = _move(position, 100, 101)
    _check(program, _changed(program, position, copy))  # copies pass on what is undefined
    with pytest.raises(Finding, match="reads r101, which nothing has written") as error:
        _check(program, _changed(program, position, replace(copy, op="not")))
    assert error.value.code == "XT6120"
    compared = replace(copy, op="cmp", condition="eq", sources=copy.sources * 2)
    _check(program, _changed(program, position, compared))  # equal, whatever it is
    other = RegisterOperand(Register("r", 102), Region(1, 1, 0), DATA_TYPES["ud"])
    with pytest.raises(Finding, match="nothing has written"):
        _check(program, _changed(program, position, replace(compared, sources=(*copy.sources, other))))


def _move(position: int, destination: int, source: int) -> Instruction:
    kind = DATA_TYPES["ud"]
    return Instruction(position, 0, "mov", "", 8, no_mask=True, scoreboard=Scoreboard(),
                       destination=RegisterOperand(Register("r", destination), Region(None, 1, 1), kind),
                       sources=(RegisterOperand(Register("r", source), Region(1, 1, 0), kind),))
