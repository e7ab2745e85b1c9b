"""Simulation of schedules by SimGrid, a program of its own: a simulation on standard input, seconds on standard output.

It runs by any Python that has SimGrid, and so imports nothing of the project. A rank is an actor that does what the
executor does: a launch takes no time of the host, a buffer is used again when its messages and products have ended.
Each rank has a wire to its node and one to others, for each direction; messages share them evenly. A broadcast goes in
segments from each rank to the next of its group.

    {"ranks": [[step, ...], ...], "node": ranks of a node, "inside": bytes/s, "outside": bytes/s, "latency": s}
"""

from __future__ import annotations

import json
import sys
from typing import Any

import simgrid  # type: ignore[import-not-found]

_SEGMENTS = 8
"""Parts of a broadcast that follow each other."""
_NODE = 1e15
"""Bytes a second between nodes, of which the wires of ranks use only a part."""


def platform(engine: Any, ranks: int, node: int, inside: float, outside: float, latency: float) -> list[Any]:
    """Hosts of all ranks: a zone for each node."""
    whole, hosts = engine.netzone_root or simgrid.NetZone.create_star_zone("whole"), []
    for first in range(0, ranks, node):
        zone = simgrid.NetZone.create_full_zone(f"node {first}")
        zone.set_parent(whole)
        gate, here = zone.create_router(f"gate {first}"), []
        for rank in range(first, min(first + node, ranks)):
            host = zone.create_host(str(rank), 1.0)
            wires = []
            for name, rate in (("inside", inside), ("outside", outside)):
                wire = zone.create_split_duplex_link(f"{name} {rank}", rate)
                wire.set_latency(latency / 2).seal()
                wires.append(wire)
            here.append((host, *wires))
            zone.add_route(host.netpoint, gate, None, None, [_up(wires[1])], False)
            zone.add_route(gate, host.netpoint, None, None, [_down(wires[1])], False)
        for source, up, _ in here:
            for target, down, _ in here:
                if source is not target:
                    zone.add_route(source.netpoint, target.netpoint, None, None, [_up(up), _down(down)], False)
        zone.seal()
        trunk = whole.create_link(f"trunk {first}", _NODE)
        trunk.seal()
        whole.add_route(zone.netpoint, None, gate, None, [simgrid.LinkInRoute(trunk)], True)
        hosts += [host for host, *_ in here]
    whole.seal()
    return hosts


def _up(link: Any) -> Any:
    return simgrid.LinkInRoute(link, simgrid.LinkInRoute.Direction.UP)


def _down(link: Any) -> Any:
    return simgrid.LinkInRoute(link, simgrid.LinkInRoute.Direction.DOWN)


class Rank:
    """An actor that executes the steps of one rank.

    Attributes:
        arriving: what fills each buffer.
        leaving: messages that read it.
        ready: when the copy that wrote it ends.
        events: when the last product or copy that reads or writes it ends.
        written: rows of the sums, and when the product or sum that writes them ends.
        free: when the device has nothing more to do.
    """

    def __init__(self, rank: int, steps: list[list[Any]], hosts: list[Any]) -> None:
        self.rank, self.steps, self.hosts = rank, steps, hosts
        self.arriving: dict[str, Any] = {}
        self.leaving: dict[str, list[Any]] = {}
        self.ready: dict[str, float] = {}
        self.events: dict[str, float] = {}
        self.written: list[tuple[int, int, float]] = []
        self.free = 0.0
        self.broadcasts: dict[str, int] = {}
        self.payloads: dict[str, Any] = {}

    def __call__(self) -> None:
        for name, *rest in self.steps:
            getattr(self, name)(*rest)
        self.wait()

    def pack(self, buffer: str) -> None:
        """Copy of a region to a panel."""
        self._reuse(buffer)
        self.ready[buffer] = self.events[buffer] = self.free

    def send(self, buffer: str, rows: list[int], peer: int, size: int) -> None:
        """Message, when what it carries is there."""
        self._arrive(buffer)
        if buffer == "sums":
            _sleep_until(next((end for first, last, end in reversed(self.written)
                               if first < rows[1] and rows[0] < last), 0.0))
        else:
            _sleep_until(self.ready.get(buffer, 0.0))
        sent = simgrid.Mailbox.by_name(f"{self.rank} to {peer}").put_async(0, size)
        self.leaving.setdefault(buffer, []).append(sent)

    def receive(self, buffer: str, peer: int) -> None:
        """Message from another rank."""
        self._reuse(buffer)
        # The second object owns the memory that the message is written to.
        self.arriving[buffer], self.payloads[buffer] = simgrid.Mailbox.by_name(f"{peer} to {self.rank}").get_async()

    def broadcast(self, buffer: str, root: int, ranks: list[int], size: int) -> None:
        """A chain from the root on: each rank passes a segment on when it has come."""
        chain = ranks[ranks.index(root):] + ranks[:ranks.index(root)]
        position = chain.index(self.rank)
        if position:
            self._reuse(buffer)
        else:
            _sleep_until(self.ready.get(buffer, 0.0))
        key = f"{chain[0]} {min(ranks)} {max(ranks)}"
        self.broadcasts[key] = self.broadcasts.get(key, 0) + 1
        actor = simgrid.Actor.create("broadcast", self.hosts[self.rank], _pass_on,
                                     [f"{key} {self.broadcasts[key]} {each}" for each in chain], position, size)
        if position:
            self.arriving[buffer] = actor
        else:
            self.leaving.setdefault(buffer, []).append(actor)

    def multiply(self, a: str, b: str, rows: list[int], seconds: float) -> None:
        """Launch, when both panels are there."""
        self._arrive(a)
        self._arrive(b)
        self.free = max(self.free, simgrid.Engine.clock) + seconds
        self.events[a] = self.events[b] = self.free
        self.written.append((rows[0], rows[1], self.free))

    def add(self, source: str, target: str, rows: list[int]) -> None:
        """Sum of two buffers, which takes no time."""
        self._arrive(source)
        self._arrive(target)
        self.free = self.events[source] = max(self.free, simgrid.Engine.clock)
        self.written.append((rows[0], rows[1], self.free))

    def wait(self) -> None:
        """Wait for all messages and products."""
        for buffer in {*self.arriving, *self.leaving}:
            self._arrive(buffer)
            self._leave(buffer)
        _sleep_until(self.free)

    def _reuse(self, buffer: str) -> None:
        self._arrive(buffer)
        self._leave(buffer)
        _sleep_until(self.events.get(buffer, 0.0))

    def _arrive(self, buffer: str) -> None:
        if buffer in self.arriving:
            _finish(self.arriving.pop(buffer))

    def _leave(self, buffer: str) -> None:
        for message in self.leaving.pop(buffer, []):
            _finish(message)


def _finish(pending: Any) -> None:
    pending.join() if isinstance(pending, simgrid.Actor) else pending.wait()


def _pass_on(names: list[str], position: int, size: int) -> None:
    """Segments of a broadcast, from the rank before to the rank behind."""
    sent = []
    for segment in range(_SEGMENTS):
        part = size * (segment + 1) // _SEGMENTS - size * segment // _SEGMENTS
        if position:
            simgrid.Mailbox.by_name(names[position]).get()
        if position + 1 < len(names):
            sent.append(simgrid.Mailbox.by_name(names[position + 1]).put_async(0, part))
    for each in sent:
        each.wait()


def _sleep_until(time: float) -> None:
    if time > simgrid.Engine.clock:
        simgrid.this_actor.sleep_until(time)


def main() -> None:
    """Simulate, and print the seconds."""
    problem = json.load(sys.stdin)
    ranks = problem.pop("ranks")
    # CM02 shares wires evenly; without the models of TCP windows and of acknowledgements, which GPU fabrics lack.
    engine = simgrid.Engine([sys.argv[0], "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",
                             "--cfg=network/crosstraffic:0", "--log=root.thres:warning"])
    hosts = platform(engine, len(ranks), **problem)
    for rank, steps in enumerate(ranks):
        simgrid.Actor.create(str(rank), hosts[rank], Rank(rank, steps, hosts))
    engine.run()
    print(simgrid.Engine.clock)


if __name__ == "__main__":
    main()
