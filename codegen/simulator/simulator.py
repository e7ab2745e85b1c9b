"""Functional simulator: runs a kernel of a device binary on a grid of work-groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from codegen.simulator import messages
from codegen.simulator.alu.arith import BUILDERS
from codegen.simulator.alu.execution import UnknownInstruction, flag_bits
from codegen.simulator.alu.operands import Binding
from codegen.simulator.control_flow import NO_OPERATION, Block, basic_blocks, is_branch, taken, target
from codegen.simulator.decoder import decode
from codegen.simulator.findings import Finding
from codegen.simulator.instruction import ImmediateOperand, Instruction, RegisterOperand
from codegen.simulator.memory import Memory
from codegen.simulator.messages.descriptor import Message
from codegen.simulator.messages.descriptor import decode as decode_message
from codegen.simulator.scheduler import BoundBlock, Scheduler, new_execution
from codegen.simulator.scoreboard import ScoreboardChecker, ThreadStates
from codegen.simulator.threads import LANES, Threads
from codegen.simulator.zebin import KernelRecord, read_kernels
from xegpu.support.errors import ToolError
from xegpu.target.targets import TARGETS

_Built = TypeVar("_Built")
Sizes = tuple[int, int, int]
MOST_THREADS = 256
"""Threads that run side by side, by measurement: with more, the working set exceeds the CPU's caches."""
UNDEFINED = 0xA5
"""Byte that registers hold before anything is written."""
_ROUNDING_BITS = 0x30  # of cr0.0
_BY_OPCODE = {"dpas": "dpas", "sync": "sync", "jmpi": "branch", "goto": "branch", "join": "branch", "math": "vector"}
_BY_MESSAGE = {"arguments": "load", "slm_load": "slm", "slm_store": "slm", "slm_atomic": "slm",
               "scratch_load": "scratch", "scratch_store": "scratch", "scratch_atomic": "scratch"}


@dataclass(frozen=True)
class Program:
    """Kernel of a device binary, decoded.

    Attributes:
        messages: the messages by the index of their instruction.
    """

    kernel: KernelRecord
    target: str
    instructions: tuple[Instruction, ...] = field(repr=False)
    messages: Mapping[int, Message] = field(repr=False)

    @property
    def register_bytes(self) -> int:
        """Bytes of a general register."""
        return TARGETS[self.target].register_bytes

    @cached_property
    def entry(self) -> int:
        """Index of the first instruction that runs."""
        return next(each.index for each in self.instructions if each.offset == self.kernel.entry)

    @cached_property
    def blocks(self) -> dict[int, Block]:
        """Basic blocks by the index of their first instruction."""
        return basic_blocks(self.instructions, self.entry)

    @cached_property
    def scoreboard(self) -> ScoreboardChecker:
        """Scoreboard: state machine of registers in flight."""
        return ScoreboardChecker(self.instructions, self.messages, self.register_bytes)

    @cached_property
    def changes_rounding(self) -> bool:
        """Whether it sets the rounding mode, other than by bits that leave it alone."""
        return any(_sets_rounding(each) for each in self.instructions)


def _sets_rounding(instruction: Instruction) -> bool:
    destination = instruction.destination
    if not isinstance(destination, RegisterOperand) or destination.register.file != "cr":
        return False
    constants = [each.bits for each in instruction.sources if isinstance(each, ImmediateOperand)]
    return instruction.op != "or" or not constants or any(bits & _ROUNDING_BITS for bits in constants)


@lru_cache(maxsize=64)
def load(binary: bytes, kernel: str, target: str) -> Program:
    """Decode a kernel of a device binary; memoized per process.

    Raises:
        TargetError: code of the target cannot be decoded.
        ToolError: iga64 is missing, or the binary has no such kernel.
    """
    kernels = read_kernels(binary)
    if kernel not in kernels:
        raise ToolError("XT5144", f"the device binary has no kernel {kernel}", f"it has {', '.join(kernels)}")
    record = kernels[kernel]
    if record.undefined:
        raise ToolError("XT5144", f"kernel {kernel} refers to {', '.join(record.undefined)}, which nothing defines",
                        "define it in the program")
    instructions = decode(record.code, target)
    found = {each.index: decode_message(each.element, TARGETS[target].register_bytes)
             for each in instructions if each.op in ("send", "sends", "sendc", "sendsc")}
    return Program(record, target, instructions, found)


def run(program: Program, memory: Memory, payload: bytes, groups: Sizes, group_size: Sizes) -> dict[str, int]:
    """Run all work-groups.

    Args:
        program: the kernel.
        memory: arrays; shared memory, scratch and barriers are made here.
        payload: cross-thread data: all arguments as the kernel's record lays them out.
        groups: work-groups along x, y, z.
        group_size: work-items of a work-group along x, y, z.

    Returns:
        Executed instructions by category, of all threads.

    Raises:
        Finding: a fault of the kernel.
        ToolError: an instruction, or a form of one, that is not modelled.
    """
    counts: Counter[int] = Counter()
    per_group = -(-prod(group_size) // program.kernel.simd_size)
    batch = max(1, MOST_THREADS // per_group)
    machine: _Machine | None = None
    for first in range(0, prod(groups), batch):
        numbers = np.arange(first, min(first + batch, prod(groups)))
        if machine is None or machine.groups != len(numbers):
            machine = _Machine(program, memory, len(numbers), per_group)
        machine.start(payload, numbers, groups, group_size)
        counts.update(machine.run())
    return _by_category(program, counts)


def _by_category(program: Program, executed: Counter[int]) -> dict[str, int]:
    """Counts of executed blocks as counts of instructions."""
    counts: Counter[str] = Counter()
    for start, times in executed.items():
        for index in range(start, program.blocks[start].end):
            counts[category(program, program.instructions[index])] += times
    return dict(counts)


def category(program: Program, instruction: Instruction) -> str:
    """Category of an instruction, as the instruction mix of machine code has them."""
    message = program.messages.get(instruction.index)
    if message is not None:
        return "other" if message.end_of_thread else _BY_MESSAGE.get(message.kind, message.kind)
    if instruction.op in _BY_OPCODE:
        return _BY_OPCODE[instruction.op]
    if is_branch(instruction):
        return "branch"
    if instruction.op in NO_OPERATION or instruction.destination is None:
        return "other"
    return "scalar" if instruction.execution_size == 1 else "vector"


class _Machine:
    """Threads of a batch of work-groups, with the program bound to their registers."""

    def __init__(self, program: Program, memory: Memory, groups: int, per_group: int) -> None:
        self.program, self.memory, self.groups, self._per_group = program, memory, groups, per_group
        group = np.repeat(np.arange(groups), per_group)
        subgroup = np.tile(np.arange(per_group), groups)
        self._threads = Threads.allocate(program.kernel.grf_count, program.register_bytes, group, subgroup,
                                         np.zeros((len(group), 3), np.int64))
        self._execution = new_execution(self._threads, program.kernel.simd_size)
        self._bound: dict[int, BoundBlock] = {}

    def start(self, payload: bytes, numbers: NDArray[np.int64], groups: Sizes, group_size: Sizes) -> None:
        """Set the threads to their start: r0, local ids, inline arguments; all else is undefined."""
        threads, kernel = self._threads, self.program.kernel
        ids = np.stack([numbers % groups[0], numbers // groups[0] % groups[1], numbers // (groups[0] * groups[1])], 1)
        threads.group_id[...] = np.repeat(ids, self._per_group, axis=0)
        for file in (threads.grf, threads.acc, threads.wide.view(np.uint8)):
            file.fill(UNDEFINED)
        for file in (threads.flag.view(np.uint8), threads.address, threads.control, threads.state):
            file.fill(0)
        threads.number()
        header = threads.grf[0].view(np.uint32)
        header[...] = 0  # .0: the arguments start at offset 0; .5: scratch memory is the thread's own
        header[:, [1, 6, 7]] = threads.group_id
        header[:, 2] = threads.subgroup | self._per_group << 24
        self._dispatched = self._local_ids(group_size)
        inline = np.frombuffer(payload[:kernel.inline_bytes], np.uint8)
        threads.grf[self._inline_register, :, :len(inline)] = inline
        filled = self._inline_register + bool(len(inline))
        self._scoreboard = ThreadStates(self.program.scoreboard, len(threads), filled)
        indirect = np.frombuffer(payload[kernel.inline_bytes:], np.uint8)
        self.memory.begin(threads, kernel.slm_size, kernel.scratch_bytes, indirect)

    def _local_ids(self, group_size: Sizes) -> NDArray[np.bool_]:
        """Fill in local ids behind r0; which lanes exist: (T, 32)."""
        threads, kernel = self._threads, self.program.kernel
        width = kernel.simd_size
        item = threads.subgroup[:, None] * width + np.arange(LANES)
        exists = (item < prod(group_size)) & (np.arange(LANES) < width)
        registers = -(-width * 2 // threads.register_bytes)  # of a dimension's 16-bit ids
        self._inline_register = 1
        for each in kernel.per_thread_payload:
            if each["arg_type"] != "local_id":
                raise ToolError("XT5145", f"kernel {kernel.name} wants {each['arg_type']} in its registers",
                                "this simulator knows local_id")
            ids = (item % group_size[0], item // group_size[0] % group_size[1], item // (group_size[0] * group_size[1]))
            for dimension in range(int(each["size"]) // (registers * threads.register_bytes)):
                low = np.ascontiguousarray(ids[dimension][:, :width].astype(np.uint16)).view(np.uint8)
                raw = np.zeros((len(threads), registers * threads.register_bytes), np.uint8)
                raw[:, :low.shape[1]] = low
                first = self._inline_register
                threads.payload(first, registers)[...] = raw.reshape(len(threads), registers, -1)
                self._inline_register += registers
        return exists

    def run(self) -> Counter[int]:
        """Run to the end; executed blocks."""
        scheduler = Scheduler(self._threads, self._execution, self.memory.barriers, self._block, self._observe,
                              self.program.changes_rounding)
        with np.errstate(all="ignore"):  # overflow, division by zero: as the machine does them
            try:
                scheduler.run(self.program.entry, self._dispatched)
            except Finding as finding:
                if finding.offset is None and finding.thread is not None:  # it waits: the last one was sync.bar
                    waits = self.program.instructions[scheduler.position(finding.thread) - 1]
                    raise self._located(finding, waits.offset) from None
                raise
        return scheduler.executed

    def _observe(self, block: Block, rows: NDArray[np.bool_]) -> None:
        try:
            self._scoreboard.observe(block, rows)
        except Finding as finding:
            raise self._located(finding, finding.offset) from None

    def _block(self, start: int) -> BoundBlock:
        found = self._bound.get(start)
        if found is None:
            found = self._bound[start] = self._bind(self.program.blocks[start])
        return found

    def _bind(self, block: Block) -> BoundBlock:
        instructions = self.program.instructions[block.start:block.end]
        last = instructions[-1]
        steps = tuple(step for each in instructions if (step := self._named(each, self._step)) is not None)
        if block.branch is not None:
            return BoundBlock(block, steps, self._named(last, lambda each: taken(self._binding(each))), target(last))
        return BoundBlock(block, steps, barrier=self._named(last, self._barrier) if block.waits else None)

    def _binding(self, instruction: Instruction) -> Binding:
        return Binding(instruction, self._threads, self._execution)

    def _named(self, instruction: Instruction, build: Callable[[Instruction], _Built]) -> _Built:
        """Result of ``build`` for an instruction; its errors name the instruction.

        Raises:
            ToolError: it is not modelled.
        """
        try:
            return build(instruction)
        except UnknownInstruction as error:
            raise ToolError("XT5145", f"instruction {instruction.name} at {instruction.offset:#x} of "
                            f"{self.program.kernel.name} is not simulated: {error}",
                            "report it with the kernel") from None

    def _step(self, instruction: Instruction) -> Callable[[], None] | None:
        """Function that executes an instruction; None where it has no effect."""
        if instruction.op in NO_OPERATION or instruction.op == "sync" or is_branch(instruction):
            return None
        binding = self._binding(instruction)
        message = self.program.messages.get(instruction.index)
        if message is not None:
            return self._message_step(binding, message)
        if instruction.op not in BUILDERS:
            raise UnknownInstruction("its mnemonic is not known")
        return BUILDERS[instruction.op](binding)

    def _message_step(self, binding: Binding, message: Message) -> Callable[[], None]:
        threads, memory, instruction = self._threads, self.memory, binding.instruction
        mask, shape = binding.write_mask, binding.shape
        everything = np.ones((len(threads), instruction.execution_size), np.bool_)

        def step() -> None:
            lanes = mask()
            active = everything if lanes is None else np.broadcast_to(lanes, shape).reshape(everything.shape)
            try:
                messages.execute(message, threads, active, memory)
            except Finding as finding:
                raise self._located(finding, instruction.offset) from None

        return step

    def _located(self, finding: Finding, offset: int | None) -> Finding:
        """The finding with its instruction's offset and its thread."""
        finding.offset = offset
        if finding.thread is not None:
            x, y, z = (int(each) for each in self._threads.group_id[finding.thread])
            finding.group, finding.subgroup = (x, y, z), int(self._threads.subgroup[finding.thread])
        return finding

    def _barrier(self, instruction: Instruction) -> Callable[[], NDArray[np.int64]]:
        """Reader of the ids of the barriers that ``sync.bar`` waits for: (T,)."""
        count, source = len(self._threads), instruction.sources[0] if instruction.sources else None
        if isinstance(source, RegisterOperand) and source.register.file == "f":
            bits = flag_bits(self._threads, source.register, source.type.bytes)
            weights = 1 << np.arange(bits.shape[1], dtype=np.int64)
            return lambda: bits @ weights
        if isinstance(source, ImmediateOperand):
            return lambda: np.full(count, source.bits)
        if source is None or (isinstance(source, RegisterOperand) and source.register.is_null):
            return lambda: np.zeros(count, np.int64)
        raise UnknownInstruction("with this operand")
