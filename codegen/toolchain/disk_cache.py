"""What compilers made, kept on disk between processes.

An entry is a file named by the hash of all that it depends on. It is written beside its place and then renamed, so
that no process ever sees half of one; what does not read back as it was written is a miss, and is removed. The least
recently used entries go when the folder outgrows its bound. Nothing here raises for a disk that is full, read-only or
gone: what cannot be kept is compiled again. XETILE_CACHE=0 turns it off; XETILE_CACHE_DIR moves and XETILE_CACHE_SIZE,
in MB, bounds it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from codegen.toolchain.logger import LOGGER
from xegpu.support.errors import ToolError

_FORMAT = b"xetile 1\n"
_HASH = 32
_DEFAULT_MB = 1024
_ROOM = 0.8
"""Part of its bound that a folder is brought down to when it outgrows it: each write would else remove something."""
_STALE_SECONDS = 3600  # an unfinished file older than this belongs to a process that died
_UNFINISHED = ".part"


@dataclass(frozen=True)
class Entry:
    """One file of the cache: what it is of, its size in bytes, and when it was last used (seconds since the epoch)."""

    path: Path
    kind: str
    size: int
    used: float


def is_on() -> bool:
    """Whether anything is kept: yes, unless XETILE_CACHE is 0."""
    return os.environ.get("XETILE_CACHE", "1") not in ("0", "")


def folder() -> Path:
    """Where entries are kept: XETILE_CACHE_DIR, else the user's folder for caches."""
    if named := os.environ.get("XETILE_CACHE_DIR"):
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("xetile", appauthor=False))


def bound() -> int:
    """The most bytes that are kept.

    Raises:
        ToolError: XETILE_CACHE_SIZE is no number of megabytes.
    """
    said = os.environ.get("XETILE_CACHE_SIZE", str(_DEFAULT_MB))
    try:
        megabytes = float(said)
    except ValueError:
        megabytes = -1.0
    if not 0 <= megabytes < float("inf"):
        raise ToolError("XT5120", f"XETILE_CACHE_SIZE is {said!r}, which is no number of megabytes",
                        f"set it to one, such as {_DEFAULT_MB}, or XETILE_CACHE=0 to keep nothing")
    return int(megabytes * 2**20)


def kept(kind: str, parts: Callable[[], tuple[str | bytes, ...]], make: Callable[[], bytes]) -> bytes:
    """What ``make`` gives, from the disk if it was made before.

    Args:
        kind: what it is, a word.
        parts: all that it depends on; asked only if the cache is on.
        make: makes it; what it raises goes to the caller, and nothing is kept.
    """
    if not is_on():
        return make()
    key = key_of(*parts())
    found = find(kind, key)
    if found is None:
        found = make()
        keep(kind, key, found)
    return found


def key_of(*parts: str | bytes) -> str:
    """A name for all that an entry depends on."""
    digest = hashlib.sha256(_FORMAT)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def find(kind: str, key: str) -> bytes | None:
    """The data of an entry, None if there is none that reads."""
    path = _path(kind, key)
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    data = _unpacked(stored)
    try:
        if data is None:
            path.unlink()
        else:
            os.utime(path)
    except OSError:  # another process was faster, or the folder may only be read
        pass
    if data is not None:
        LOGGER.info("the cache has this %s: %s", kind, key[:12])
    return data


def keep(kind: str, key: str, data: bytes) -> None:
    """Keep data under a key; on a disk that takes nothing, that is all."""
    limit = bound()
    packed = _FORMAT + hashlib.sha256(data).digest() + zlib.compress(data, 1)
    if len(packed) > limit:
        return
    path = _path(kind, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, packed)
        _trim(limit)
    except OSError as error:
        LOGGER.info("the cache in %s keeps nothing: %s", path.parent, error)


def drop(kind: str, key: str) -> None:
    """Forget an entry that turned out to be of no use."""
    _remove(_path(kind, key))


def entries() -> list[Entry]:
    """All entries, the least recently used first."""
    return sorted(_entries(), key=lambda entry: entry.used)


def clear() -> int:
    """Remove all entries; how many there were."""
    removed = [entry for entry in _entries() if _remove(entry.path)]
    return len(removed)


def _path(kind: str, key: str) -> Path:
    return folder() / f"{kind}-{key}"


def _unpacked(stored: bytes) -> bytes | None:
    head, start = len(_FORMAT), len(_FORMAT) + _HASH
    if stored[:head] != _FORMAT:
        return None
    try:
        data = zlib.decompress(stored[start:])
    except zlib.error:
        return None
    return data if hashlib.sha256(data).digest() == stored[head:start] else None


def _write(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(_UNFINISHED, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        _remove(Path(name))
        raise


def _entries() -> Iterator[Entry]:
    try:
        files = list(os.scandir(folder()))
    except OSError:
        return
    for file in files:
        kind, dash, key = file.name.partition("-")
        if dash and len(key) == 2 * _HASH:
            try:
                status = file.stat()
            except OSError:
                continue
            yield Entry(Path(file.path), kind, status.st_size, status.st_mtime)


def _trim(limit: int) -> None:
    found = entries()
    size = sum(entry.size for entry in found)
    if size <= limit:
        return
    for path in folder().glob(f"*{_UNFINISHED}"):
        if path.stat().st_mtime < time.time() - _STALE_SECONDS:
            _remove(path)
    for entry in found:
        if size <= limit * _ROOM:
            return
        _remove(entry.path)
        size -= entry.size


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:  # another process removed it
        return False
    return True
