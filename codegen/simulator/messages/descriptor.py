"""Message descriptors: the unit and the operation of a ``send``, and the registers that it reads and writes.

Sources: fields as IGA's and IGC's headers lay them out. LSC (units ugm, slm, tgm)::

    descriptor  5:0 operation    8:7 address size    11:9 data size    14:12 elements, or 15:12 mask of components
                15 transposed    19:16 cache    24:20 registers returned    28:25 registers of addresses
                30:29 surface: 0 flat, 1 bindless, 2 scratch ("ss"), 3 binding table
    extended    flat: 31:12 offset    binding table: 31:24 index, 23:12 offset    scratch: 31:15 offset
                2D blocks of xe2: 31:22 row offset, 21:12 column offset
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codegen.simulator.findings import Finding

LSC_UNITS = ("ugm", "slm", "tgm")
_OPERATIONS = {
    0: "load", 2: "load_cmask", 3: "load_block2d", 4: "store", 6: "store_cmask", 7: "store_block2d",
    8: "iinc", 9: "idec", 10: "atomic_load", 11: "atomic_store", 12: "iadd", 13: "isub", 14: "smin", 15: "smax",
    16: "umin", 17: "umax", 18: "icas", 19: "fadd", 20: "fsub", 21: "fmin", 22: "fmax", 23: "fcas", 24: "and",
    25: "or", 26: "xor", 31: "fence",
}
"""LSC operations by their number."""
_FIRST_ATOMIC, _FENCE = 8, 31
_ADDRESS_BYTES = {1: 2, 2: 4, 3: 8}
_DATA = {0: (1, 1, 0), 1: (2, 2, 0), 2: (4, 4, 0), 3: (8, 8, 0), 4: (1, 4, 0), 5: (2, 4, 0), 6: (2, 4, 16)}
"""Bytes of an element in memory and in a register, and bits that it is shifted by there, by the data size's number."""
_ELEMENTS = (1, 2, 3, 4, 8, 16, 32, 64)
SURFACES = ("flat", "bss", "ss", "bti")
ARGUMENTS = 255
"""Index in the binding table of the data that arguments are loaded from."""
_BARRIER, _END_OF_THREAD = 4, 0x10
_MOST_ENCODED = 31
"""Largest count of registers in a descriptor; for 2D blocks, which have powers of two, it stands for 32."""


@dataclass(frozen=True)
class Message:
    """Decoded message.

    Attributes:
        unit: shared function: ``ugm``, ``slm``, ``tgm``, ``dc0``, ``gtwy``.
        operation: its kind: ``load``, ``store_block2d``, ``iadd``, ``fence``, ``barrier``, ``eot`` ...
        kind: category of its traffic: ``load``, ``store``, ``atomic``, ``load_block2d``, ``store_block2d``,
            ``prefetch``, ``slm_load``, ``slm_store``, ``slm_atomic``, ``scratch_load``, ``scratch_store``,
            ``arguments`` or ``sync``.
        lanes: execution size.
        result, result_registers: first register of the result, None for none; and their number.
        address, address_registers: registers of the addresses.
        data, data_registers: registers of the stored data, None for none.
        descriptor: its bits.
        surface: ``flat``, ``bss``, ``ss`` or ``bti``.
        surface_register: word of a0 that has the surface's offset, None for none.
        binding: index in the binding table.
        offset: bytes that are added to each address.
        block_offset: columns and rows that are added to a 2D block's position.
        address_bytes, data_bytes, slot_bytes, slot_shift: of an element: its address, in memory, in a register, and
            the bits that it is shifted by there.
        components: of each lane, numbers of the elements that are moved.
        transposed: whether one lane's elements lie side by side in registers.
        vnni: whether a 2D block is returned with rows interleaved for dpas.
        end_of_thread: whether the thread ends.
    """

    unit: str
    operation: str
    kind: str
    lanes: int
    result: int | None
    result_registers: int
    address: int
    address_registers: int
    data: int | None
    data_registers: int
    descriptor: int
    surface: str = "flat"
    surface_register: int | None = None
    binding: int = 0
    offset: int = 0
    block_offset: tuple[int, int] = (0, 0)
    address_bytes: int = 8
    data_bytes: int = 4
    slot_bytes: int = 4
    slot_shift: int = 0
    components: tuple[int, ...] = (0,)
    transposed: bool = False
    vnni: bool = False
    end_of_thread: bool = False

    @property
    def reads(self) -> tuple[range, ...]:
        """Registers that it reads."""
        found = [range(self.address, self.address + self.address_registers)]
        if self.data is not None:
            found.append(range(self.data, self.data + self.data_registers))
        return tuple(found)

    @property
    def writes(self) -> range | None:
        """Registers that it writes."""
        return None if self.result is None else range(self.result, self.result + self.result_registers)

    @property
    def is_atomic(self) -> bool:
        """Whether it is an atomic operation on memory."""
        return self.kind in ("atomic", "slm_atomic")


def decode(element: Mapping[str, Any], register_bytes: int) -> Message:
    """Decode a send.

    Args:
        element: its record in the disassembler's JSON.
        register_bytes: bytes of a general register.

    Raises:
        Finding: a message that this simulator does not execute.
    """
    unit = str(element["subop"])
    address, data, extended, descriptor = element["srcs"][:4]
    if descriptor["kind"] != "IM":
        raise _unknown(element, "with a descriptor in a register")
    bits = int(descriptor["value"], 0)
    result, stored = _register(element["dst"]["reg"]), _register(data["reg"])
    common: dict[str, Any] = {
        "unit": unit, "lanes": int(element["es"]), "result": result, "result_registers": int(element["dst"]["len"]),
        "address": int(address["areg"].get("r", 0)), "address_registers": int(address["alen"]), "data": stored,
        "data_registers": int(data["len"]), "descriptor": bits, "end_of_thread": "EOT" in element.get("opts", ())}
    if unit in LSC_UNITS:
        common |= _lsc(element, bits, unit, extended, address, result)
    elif unit == "gtwy":
        names = {_BARRIER: "barrier", _END_OF_THREAD: "eot"}
        common |= {"operation": names.get(bits & 0xFF, ""), "kind": "sync"}
    elif unit == "dc0":
        common |= _dc0(bits, register_bytes)
    if common.get("operation") == "load_block2d" and common["result_registers"] == _MOST_ENCODED:
        common["result_registers"] = _MOST_ENCODED + 1
    if not common.get("operation"):
        raise _unknown(element, f"with the descriptor {bits:#x}")
    return Message(**common)


def _register(register: Mapping[str, Any]) -> int | None:
    return None if register["rn"] == "null" else int(register.get("r", 0))


def _unknown(element: Mapping[str, Any], what: str) -> Finding:
    return Finding("XT6109", f"sends a message to {element['subop']} {what}, which is not simulated",
                   "messages that OpenCL C and the language's operations are compiled to are; report this one with "
                   "the kernel")


def _lsc(element: Mapping[str, Any], bits: int, unit: str, extended: Mapping[str, Any], address: Mapping[str, Any],
         result: int | None) -> dict[str, Any]:
    """Fields of a message to the load-store cache."""
    number = bits & 0x3F
    operation = _OPERATIONS.get(number, "")
    if not operation or number == _FENCE:
        return {"operation": operation, "kind": "sync"}
    surface = SURFACES[bits >> 29 & 3]
    size = bits >> 9 & 7
    if size not in _DATA:
        raise _unknown(element, f"with data size {size}")
    data_bytes, slot_bytes, shift = _DATA[size]
    block = operation.endswith("block2d")
    mask = bits >> 12 & 15
    components = tuple(i for i in range(4) if mask >> i & 1) if operation.endswith("cmask") else \
        tuple(range(_ELEMENTS[bits >> 12 & 7]))
    fields: dict[str, Any] = {
        "operation": operation, "surface": surface, "data_bytes": data_bytes, "slot_bytes": slot_bytes,
        "slot_shift": shift, "address_bytes": _ADDRESS_BYTES.get(bits >> 7 & 3, 8), "transposed": bool(bits >> 15 & 1)
        and not operation.endswith("cmask"), "vnni": block and bool(bits >> 7 & 1),
        "components": (0,) if _FIRST_ATOMIC <= number < _FENCE else components}
    if extended["kind"] == "IM":
        value = int(extended["value"], 0)
        if block:
            fields["block_offset"] = _signed(value >> 12, 10), _signed(value >> 22, 10)
        elif surface == "bti":
            fields |= {"binding": value >> 24, "offset": _signed(value >> 12, 12)}
        elif surface == "flat":
            fields["offset"] = _signed(value >> 12, 20)
    else:
        fields |= {"surface_register": int(extended["reg"].get("sr", 0)), "offset": int(address.get("aoff", 0))}
    return fields | {"kind": _lsc_kind(number, operation, unit, surface, fields.get("binding", 0), result)}


def _lsc_kind(number: int, operation: str, unit: str, surface: str, binding: int, result: int | None) -> str:
    """Category of the traffic of a message to the load-store cache."""
    where = "slm_" if unit == "slm" else "scratch_" if surface == "ss" else ""
    if surface == "bti" and binding == ARGUMENTS:
        return "arguments"
    if _FIRST_ATOMIC <= number < _FENCE:
        return f"{where}atomic"
    if operation.startswith("load") and result is None:
        return "prefetch"
    return operation if operation.endswith("block2d") else f"{where}{operation.removesuffix('_cmask')}"


def _dc0(bits: int, register_bytes: int) -> dict[str, Any]:
    """Fields of a message to the older data port: scratch blocks in HWords (32 bytes), and OWord block reads.

    Scratch: 18 scratch, 17 write, 16 whether lanes mask double words, 13:12 logarithm of the HWords, 11:0 offset.
    OWord block reads: 18:14 operation (0 aligned, 1 unaligned), 10:8 size, 7:0 index in the binding table.
    """
    if bits >> 18 & 1:
        operation = "scratch_store" if bits >> 17 & 1 else "scratch_load"
        return {"operation": operation, "kind": operation, "offset": (bits & 0xFFF) * 32,
                "components": tuple(range(8 << (bits >> 12 & 3)))}
    if bits >> 14 & 0x1F in (0, 1):
        owords = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 16}.get(bits >> 8 & 7)
        if owords is not None:
            return {"operation": "oword_load", "kind": "arguments", "binding": bits & 0xFF,
                    "components": tuple(range(4 * owords))}
    return {}


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
