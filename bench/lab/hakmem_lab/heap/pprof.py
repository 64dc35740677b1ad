"""Writes a profile as pprof's profile.proto."""

import gzip

from .read import build_id

VALUES = (
    ("alloc_objects", "count", lambda site: site.all),
    ("alloc_space", "bytes", lambda site: site.all_bytes),
    ("freed_elsewhere", "count", lambda site: site.remote),
    ("lifetime", "milliseconds", lambda site: site.lifetime_ms),
    ("peak_objects", "count", lambda site: site.peak),
    ("peak_space", "bytes", lambda site: site.peak_bytes),
    ("inuse_given", "bytes", lambda site: site.given),
    ("inuse_objects", "count", lambda site: site.live),
    ("inuse_space", "bytes", lambda site: site.live_bytes),
)


def _varint(number) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(tag, number) -> bytes:
    return _varint(tag << 3) + _varint(number) if number else b""


def _bytes(tag, data) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(data)) + data


def _packed(tag, numbers) -> bytes:
    return _bytes(tag, b"".join(map(_varint, numbers)))


class _Table:
    """Numbers for things, from `first` on, in the order in which they are asked for."""

    def __init__(self, first):
        self.ids, self.first = {}, first

    def __call__(self, key):
        return self.ids.setdefault(key, len(self.ids) + self.first)


def encode(profile) -> bytes:
    """The message, without gzip."""
    strings, functions = _Table(0), _Table(1)
    strings("")
    out = [_bytes(1, _number(1, strings(name)) + _number(2, strings(unit)))
           for name, unit, _ in VALUES]  # fmt: skip
    locations = {address: i for i, address in enumerate(sorted(profile.frames), 1)}
    mappings = {id(mapping): i for i, mapping in enumerate(profile.mappings, 1)}
    for site in profile.sites:
        sample = _packed(1, [locations[address] for address in site.frames])
        sample += _packed(2, [value(site) for _, _, value in VALUES])
        sample += _bytes(3, _number(1, strings("bytes")) + _number(3, site.size)
                         + _number(4, strings("bytes")))  # fmt: skip
        out.append(_bytes(2, sample))
    for mapping in profile.mappings:
        out.append(_bytes(3, b"".join((
            _number(1, mappings[id(mapping)]), _number(2, mapping.start), _number(3, mapping.end),
            _number(4, mapping.offset), _number(5, strings(mapping.path)),
            _number(6, strings(build_id(mapping.path))), _number(7, 1), _number(8, 1),
            _number(9, 1), _number(10, 1)))))  # fmt: skip
    for address, number in locations.items():
        frame = profile.frames[address]
        location = _number(1, number) + _number(2, mappings.get(id(frame.mapping), 0))
        location += _number(3, address - 1)
        for name, file, line in frame.lines:
            location += _bytes(4, _number(1, functions((name, file))) + _number(2, line))
        out.append(_bytes(4, location))
    for (name, file), number in functions.ids.items():
        out.append(_bytes(5, _number(1, number) + _number(2, strings(name))
                          + _number(3, strings(name)) + _number(4, strings(file))))  # fmt: skip
    out.append(_bytes(11, _number(1, strings("space")) + _number(2, strings("bytes"))))
    out.append(_number(12, profile.rate) + _number(14, strings("inuse_space")))
    out += [_bytes(6, text.encode(errors="surrogateescape")) for text in strings.ids]
    return b"".join(out)


def packed(profile) -> bytes:
    """The content of a file."""
    return gzip.compress(encode(profile), mtime=0)
