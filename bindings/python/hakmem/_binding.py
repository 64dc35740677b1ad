"""Calls the functions of hakmem.h in the library that serves this process."""

import ctypes
import errno
import functools
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Optional, Union


class NotActive(RuntimeError):
    """This process does not run on HAKMEM."""


class Option(NamedTuple):
    """What is known of an option; see `hakmem options`."""

    name: str
    value: str
    source: str  # "default", "profile", "conf", "environment" or "program"
    accepted: str
    default: str
    unit: str
    help: str
    is_changeable: bool


class Figure(NamedTuple):
    """One figure of the statistics; see docs/STATISTICS.md."""

    name: str
    value: int
    unit: str
    help: str
    is_counter: bool


class Heap(NamedTuple):
    """One of the heaps that libraries of this process have made; see hakmem_heap_new."""

    handle: int
    blocks: int
    live_bytes: int
    committed_bytes: int
    limit: Optional[int]  # most committed bytes; None: no limit


class _DlInfo(ctypes.Structure):
    """The Dl_info of dladdr(3)."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]


class _OptionInfo(ctypes.Structure):
    """struct hakmem_option"""

    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_char_p), ("unit", ctypes.c_char_p),
                ("accepted", ctypes.c_char_p), ("help", ctypes.c_char_p),
                ("tier", ctypes.c_char_p), ("source", ctypes.c_char_p),
                ("is_changeable", ctypes.c_int), ("default_value", ctypes.c_char * 64)]


class _StatInfo(ctypes.Structure):
    """struct hakmem_stat"""

    _fields_ = [("name", ctypes.c_char * 48), ("unit", ctypes.c_char_p), ("help", ctypes.c_char_p),
                ("is_counter", ctypes.c_int)]


class _HeapStat(ctypes.Structure):
    """struct hakmem_heap_stat"""

    _fields_ = [("blocks", ctypes.c_size_t), ("live_bytes", ctypes.c_size_t),
                ("committed_bytes", ctypes.c_size_t), ("limit", ctypes.c_size_t)]


_SIGNATURES = {
    "hakmem_heap_next": (ctypes.c_void_p, [ctypes.c_void_p]),
    "hakmem_heap_stats": (ctypes.c_int,
                          [ctypes.c_void_p, ctypes.POINTER(_HeapStat), ctypes.c_size_t]),
    "hakmem_version": (ctypes.c_int, []),
    "hakmem_malloc_trim": (ctypes.c_int, [ctypes.c_size_t]),
    "hakmem_option_get": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]),
    "hakmem_option_set": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p]),
    "hakmem_option_info": (ctypes.c_int,
                           [ctypes.c_size_t, ctypes.POINTER(_OptionInfo), ctypes.c_size_t]),
    "hakmem_stats_get": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)]),
    "hakmem_stats_info": (ctypes.c_int,
                          [ctypes.c_size_t, ctypes.POINTER(_StatInfo), ctypes.c_size_t]),
    "hakmem_stats_json": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
}


_AT_PHDR, _PAGE_LEAST = 3, 4096
_MALLOC_FAMILY = ("malloc", "realloc", "calloc", "posix_memalign", "malloc_usable_size")


def _object_of(process: ctypes.CDLL, name: str) -> Optional[int]:
    """The place of the object that a name of the process resolves to."""
    info = _DlInfo()
    try:
        function = ctypes.cast(getattr(process, name), ctypes.c_void_p)
    except AttributeError:
        return None
    return info.base if process.dladdr(function, ctypes.byref(info)) else None


def _malloc_of(process: ctypes.CDLL) -> Optional[int]:
    """The place of the object whose malloc the process calls. A program at a fixed address that takes a
    function's address has an entry for it, which the lookup finds: then another function tells."""
    process.getauxval.restype = ctypes.c_ulong
    program = process.getauxval(ctypes.c_ulong(_AT_PHDR)) & -_PAGE_LEAST
    places = (_object_of(process, name) for name in _MALLOC_FAMILY)
    return next((place for place in places if place not in (None, program)), None)


@functools.lru_cache(maxsize=None)
def _find() -> Optional[ctypes.CDLL]:
    """The library, if malloc of this process is its malloc. That never changes."""
    process = ctypes.CDLL(None)
    place = _object_of(process, "hakmem_version")
    if place is None or place not in (_object_of(process, "malloc"), _malloc_of(process)):
        return None
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(process, name)
        function.restype, function.argtypes = result, arguments
    return process


def _library() -> ctypes.CDLL:
    found = _find()
    if found is None:
        raise NotActive("this process does not run on HAKMEM: "
                        "start it with `hakmem run -- python ...`")
    return found


def is_active() -> bool:
    """Whether malloc of this process is HAKMEM's."""
    return _find() is not None


def library() -> str:
    """The path of the shared library in this package, for LD_PRELOAD."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native", "lib",
                        "libhakmem.so.1")


def version() -> str:
    """The version of the library that serves this process."""
    number = _library().hakmem_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


# ---- Statistics ----


def stat(name: str) -> int:
    """One figure: stat("total.live_bytes"). KeyError: there is no such figure."""
    value = ctypes.c_uint64()
    if _library().hakmem_stats_get(name.encode(), ctypes.byref(value)) != 0:
        raise KeyError(name)
    return value.value


def figures() -> Iterator[Figure]:
    """All figures, one after the other, with what they mean."""
    info = _StatInfo()
    index = 0
    while _library().hakmem_stats_info(index, ctypes.byref(info), ctypes.sizeof(info)) == 0:
        name = info.name.decode()
        yield Figure(name, stat(name), info.unit.decode(), info.help.decode(),
                     bool(info.is_counter))
        index += 1


def stats() -> dict[str, Any]:
    """All figures and options of one moment, in the form of the JSON "hakmem-stats/1"."""
    found = _library()
    size = 1 << 16
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = found.hakmem_stats_json(buffer, size)
        if length < size:
            return json.loads(buffer.value)
        size = 2 * length


def heaps() -> Iterator[Heap]:
    """The heaps that C, C++ and Rust code of this process has made (hakmem_heap_new), one after the
    other. Blocks of Python's own objects are in none of them."""
    found = _library()
    stat_of = _HeapStat()
    handle = found.hakmem_heap_next(None)
    while handle:
        if found.hakmem_heap_stats(handle, ctypes.byref(stat_of), ctypes.sizeof(stat_of)) == 0:
            yield Heap(handle, stat_of.blocks, stat_of.live_bytes, stat_of.committed_bytes,
                       stat_of.limit or None)
        handle = found.hakmem_heap_next(handle)


def trim() -> bool:
    """Gives free memory back to the system. True: there was some."""
    return bool(_library().hakmem_malloc_trim(0))


# ---- Options ----


class Options(Mapping[str, str]):
    """The options of this process, by name, with or without the HAKMEM_ in front.

    options[name] is the value as text; options[name] = value changes it for all threads from now on.
    KeyError: there is no such option. ValueError: it does not accept the value. PermissionError: it
    cannot change while the process runs. NotImplementedError: it needs the debug build.
    """

    _failures = {
        errno.ENOENT: lambda name, value: KeyError(name),
        errno.EINVAL: lambda name, value: ValueError(f"{name} does not accept {value!r}"),
        errno.EPERM: lambda name, value: PermissionError(
            errno.EPERM, f"{name} cannot change while the process runs"),
        errno.ENOTSUP: lambda name, value: NotImplementedError(
            f"{name}={value} needs the debug build"),
    }

    def __getitem__(self, name: str) -> str:
        size = 256
        while True:
            buffer = ctypes.create_string_buffer(size)
            error = _library().hakmem_option_get(name.encode(), buffer, size)
            if error == errno.ENOENT:
                raise KeyError(name)
            if error == 0:
                return buffer.value.decode()
            size *= 2

    def __setitem__(self, name: str, value: Union[str, int]) -> None:
        error = _library().hakmem_option_set(name.encode(), str(value).encode())
        if error:
            raise self._failures[error](name, value)

    def __iter__(self) -> Iterator[str]:
        return (option.name for option in self.describe())

    def __len__(self) -> int:
        return sum(1 for _ in self.describe())

    def describe(self) -> Iterator[Option]:
        """All options, one after the other, with value, source and what they accept."""
        info = _OptionInfo()
        index = 0
        while _library().hakmem_option_info(index, ctypes.byref(info), ctypes.sizeof(info)) == 0:
            name = info.name.decode()
            yield Option(name, self[name], info.source.decode(), info.accepted.decode(),
                         info.default_value.decode(), info.unit.decode(), info.help.decode(),
                         bool(info.is_changeable))
            index += 1


options = Options()


# ---- Limits ----


def limit() -> Optional[int]:
    """The most bytes that the heap may have committed; None: no limit."""
    return int(options["LIMIT"]) or None


def set_limit(size: Union[str, int, None]) -> None:
    """Sets that limit: bytes, or text like "512M"; None removes it. Beyond it Python raises
    MemoryError."""
    options["LIMIT"] = size or 0


def soft_limit() -> Optional[int]:
    """The committed bytes above which free memory goes back before more is taken; None: no such
    limit, or one that follows the control group ("auto")."""
    size = options["LIMIT_SOFT"]
    return None if size == "auto" else int(size) or None


def set_soft_limit(size: Union[str, int, None]) -> None:
    """Sets that limit, as set_limit does."""
    options["LIMIT_SOFT"] = size or 0
