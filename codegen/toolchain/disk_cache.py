"""Disk cache of compiler results, shared between processes of one user.

An entry is a file named by the hash of its inputs, and holds them: one that was made of other inputs is a miss,
wherever it came from. It is written to a temporary file and renamed, so that no process sees a partial entry; an entry
whose checksum fails is a miss, and is removed. The least recently used entries are evicted when the folder exceeds its
bound. Nothing here raises for a disk that is full, read-only or gone: results that cannot be stored are compiled again.

Entries are code that runs, so only what the user alone can write is read: the folder is made with mode 0700 and must
belong to the user; an entry must be a regular file of the user's that nobody else may write, and no link.

XETILE_CACHE=0 turns the cache off; XETILE_CACHE_DIR moves and XETILE_CACHE_SIZE, in MB, bounds it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from codegen.toolchain.logger import LOGGER
from xegpu.support.errors import ToolError

_FORMAT = b"xetile 2\n"
_HASH = 32
_LENGTH = 8
_DEFAULT_MB = 1024
_MAX_BYTES = 2**28
"""Bound of an entry, inflated: device programs have some 100 KB, and a forged entry may claim any size."""
_ROOM = 0.8
"""Fraction of the bound to which eviction trims the folder, so that not every later write evicts again."""
_STALE_SECONDS = 3600  # a temporary file older than this belongs to a process that died
_UNFINISHED = ".part"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Key:
    """Key of an entry: its kind, a word, and all inputs of its result; binary inputs are named by their hash."""

    kind: str
    inputs: tuple[str, ...]

    @cached_property
    def packed(self) -> bytes:
        """The inputs as an entry holds them."""
        return json.dumps([self.kind, *self.inputs]).encode()

    @cached_property
    def digest(self) -> str:
        """Hash of kind, inputs and the format of entries."""
        return hashlib.sha256(_FORMAT + self.packed).hexdigest()


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
        raise ToolError("XT5120", f"XETILE_CACHE_SIZE is {size!r}, which is not a number of megabytes",
                        f"set it to one, such as {_DEFAULT_MB}, or XETILE_CACHE=0 to keep nothing")
    return int(megabytes * 2**20)


def distrust() -> str | None:
    """Reason for which the folder's entries are not used, its owner or mode; None if it is fine, or is not there."""
    path = folder()
    try:
        statuses = [path.stat(), *([path.lstat()] if path.is_symlink() else [])]
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path}: {error.strerror}"
    if not stat.S_ISDIR(statuses[0].st_mode):
        return f"{path} is not a folder"
    if not all(map(_is_own, statuses)):
        return f"{path} belongs to another user"
    if statuses[0].st_mode & _OTHERS_WRITE:
        return f"others may write to {path}; chmod go-w it, or set XETILE_CACHE_DIR to a folder of your own"
    return None


def get_or_compute(kind: str, inputs: Callable[[], tuple[str | bytes, ...]], make: Callable[[], bytes]) -> bytes:
    """Look up a result, or compute it with ``make`` and store it.

    Args:
        kind: kind of the entry, a word.
        inputs: all inputs of the result; called only if the cache is on.
        make: computes the result; its exceptions propagate, and nothing is stored.
    """
    if not is_on():
        return make()
    key = key_of(kind, *inputs())
    found = find(key)
    if found is None:
        found = make()
        keep(key, found)
    return found


def key_of(kind: str, *inputs: str | bytes) -> Key:
    """Key of the result of these inputs."""
    return Key(kind, tuple(each if isinstance(each, str) else f"\0sha256:{hashlib.sha256(each).hexdigest()}"
                           for each in inputs))


def find(key: Key) -> bytes | None:
    """Look up the data of an entry; None on a miss, for a corrupt entry, and where the folder is not trusted."""
    if _is_untrusted():
        return None
    path = _path(key)
    stored = _read_own(path)
    if stored is None:
        return None
    data = _unpacked(stored, key)
    try:
        if data is None:
            path.unlink()
        else:
            os.utime(path)
    except OSError:  # another process was faster, or the folder may only be read
        pass
    if data is not None:
        LOGGER.info("the cache has this %s: %s", key.kind, key.digest[:12])
    return data


def keep(key: Key, data: bytes) -> None:
    """Store data under a key; failures of the disk are logged only."""
    limit = bound()
    packed = _packed(key, data)
    if len(packed) > limit:
        return
    path = _path(key)
    try:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if _is_untrusted():
            return
        _write(path, packed)
        _trim(limit)
    except OSError as error:
        LOGGER.info("the cache in %s keeps nothing: %s", path.parent, error)


def drop(key: Key) -> None:
    """Remove an entry that is unusable."""
    _remove(_path(key))


def entries() -> list[Entry]:
    """Entries, the least recently used first."""
    return sorted(_entries(), key=lambda entry: entry.used)


def clear() -> int:
    """Remove all entries and return their number; temporary files go, too."""
    removed = [entry for entry in _entries() if _remove(entry.path)]
    for path, _ in _unfinished():
        _remove(path)
    return len(removed)


def _is_untrusted() -> bool:
    reason = distrust()
    if reason is not None:
        _warn(reason)
    return reason is not None


@cache  # once per reason and process
def _warn(reason: str) -> None:
    LOGGER.warning("the cache of compiled programs is not used: %s", reason)


def _is_own(status: os.stat_result) -> bool:
    # Windows has no user ids; the user's folder for caches is private there.
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _path(key: Key) -> Path:
    return folder() / f"{key.kind}-{key.digest}"


def _read_own(path: Path) -> bytes | None:
    """Read a regular file of the user's own that nobody else may write; None for anything else."""
    # Neither a link is followed nor a FIFO waited for; Windows has neither flag.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except OSError:
        return None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or not _is_own(status) or status.st_mode & _OTHERS_WRITE \
            or status.st_size > _MAX_BYTES:
        os.close(handle)
        _warn(f"{path} is not a file of your own that nobody else may write")
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read(status.st_size)


def _packed(key: Key, data: bytes) -> bytes:
    """Serialize an entry: format, checksum, size of the rest; then, compressed: size of the inputs, inputs, data."""
    content = len(key.packed).to_bytes(_LENGTH, "little") + key.packed + data
    return b"".join((_FORMAT, hashlib.sha256(content).digest(), len(content).to_bytes(_LENGTH, "little"),
                     zlib.compress(content, 1)))


def _unpacked(stored: bytes, key: Key) -> bytes | None:
    """Data of an entry; None unless it is whole and was made of the key's inputs."""
    checksum, size = len(_FORMAT), len(_FORMAT) + _HASH
    start = size + _LENGTH
    length = int.from_bytes(stored[size:start], "little")
    if stored[:checksum] != _FORMAT or length > _MAX_BYTES:
        return None
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(stored[start:], length + 1)  # one byte more shows that there are more
    except zlib.error:
        return None
    if len(content) != length or not inflater.eof or inflater.unused_data:
        return None
    if hashlib.sha256(content).digest() != stored[checksum:size]:
        return None
    end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    return content[end:] if content[_LENGTH:end] == key.packed else None


def _write(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(_UNFINISHED, dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        _remove(Path(name))
        raise


def _files() -> Iterator[tuple[Path, os.stat_result]]:
    """Regular files of the folder; links are not followed."""
    try:
        files = list(os.scandir(folder()))
    except OSError:
        return
    for file in files:
        try:
            status = file.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield Path(file.path), status


def _entries() -> Iterator[Entry]:
    for path, status in _files():
        kind, dash, digest = path.name.partition("-")
        if dash and len(digest) == 2 * _HASH:
            yield Entry(path, kind, status.st_size, status.st_mtime)


def _unfinished() -> Iterator[tuple[Path, os.stat_result]]:
    """Temporary files: of processes that write now, and of those that died."""
    return ((path, status) for path, status in _files() if path.suffix == _UNFINISHED)


def _trim(limit: int) -> None:
    found, size = entries(), 0
    for path, status in _unfinished():
        if status.st_mtime < time.time() - _STALE_SECONDS:
            _remove(path)
        else:
            size += status.st_size
    size += sum(entry.size for entry in found)
    if size <= limit:
        return
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
