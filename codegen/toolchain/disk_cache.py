"""Disk cache of compiler results, shared between processes.

An entry is a file named by the hash of all its inputs. It is written to a temporary file and renamed, so that no
process sees a partial entry; an entry whose checksum fails is a miss, and is removed. The least recently used entries
are evicted when the folder exceeds its bound. Nothing here raises for a disk that is full, read-only or gone: results
that cannot be stored are compiled again. XETILE_CACHE=0 turns it off; XETILE_CACHE_DIR moves and XETILE_CACHE_SIZE, in
MB, bounds it.
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
"""Fraction of the bound to which eviction trims the folder, so that not every later write evicts again."""
_STALE_SECONDS = 3600  # a temporary file older than this belongs to a process that died
_UNFINISHED = ".part"


@dataclass(frozen=True)
class Entry:
    """Cache entry: kind, size in bytes, and time of last use (seconds since the epoch)."""

    path: Path
    kind: str
    size: int
    used: float


def is_on() -> bool:
    """Whether the cache is on: yes, unless XETILE_CACHE is 0."""
    return os.environ.get("XETILE_CACHE", "1") not in ("0", "")


def folder() -> Path:
    """Folder of the cache: XETILE_CACHE_DIR, else the user's cache folder."""
    if named := os.environ.get("XETILE_CACHE_DIR"):
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("xetile", appauthor=False))


def bound() -> int:
    """Size bound of the cache in bytes.

    Raises:
        ToolError: XETILE_CACHE_SIZE is no number of megabytes.
    """
    size = os.environ.get("XETILE_CACHE_SIZE", str(_DEFAULT_MB))
    try:
        megabytes = float(size)
    except ValueError:
        megabytes = -1.0
    if not 0 <= megabytes < float("inf"):
        raise ToolError("XT5120", f"XETILE_CACHE_SIZE is {size!r}, which is no number of megabytes",
                        f"set it to one, such as {_DEFAULT_MB}, or XETILE_CACHE=0 to keep nothing")
    return int(megabytes * 2**20)


def kept(kind: str, parts: Callable[[], tuple[str | bytes, ...]], make: Callable[[], bytes]) -> bytes:
    """Look up a result, or compute it with ``make`` and store it.

    Args:
        kind: kind of the entry, a word.
        parts: all inputs of the result; called only if the cache is on.
        make: computes the result; its exceptions propagate, and nothing is stored.
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
    """Hash of all inputs of an entry."""
    digest = hashlib.sha256(_FORMAT)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def find(kind: str, key: str) -> bytes | None:
    """Look up the data of an entry; None on a miss or a corrupt entry."""
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
    """Store data under a key; failures of the disk are logged only."""
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
    """Remove an entry that turned out to be unusable."""
    _remove(_path(kind, key))


def entries() -> list[Entry]:
    """Entries, the least recently used first."""
    return sorted(_entries(), key=lambda entry: entry.used)


def clear() -> int:
    """Remove all entries and return their number."""
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
