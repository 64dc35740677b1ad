"""`hakmem prof` and `hakmem report`: a profile is read, becomes pprof's form, and a page."""

import gzip

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.heap import page, pprof, read

TEXT = """heap profile: 1000: 48000 [3000: 144000] @ heapprofile
# hakmem rate 524288 process 77 samples 12 live 4 dropped 0
1000: 40000 [3000: 120000] @ 0x1011 0x1021
# size 64 remote 5 lifetime_ms 9
1: 100000 [2: 200000] @ 0x1031 0x1021
# size 0 remote 0 lifetime_ms 0

MAPPED_LIBRARIES:
00001000-00002000 r-xp 00000000 00:00 0                          [code]
"""


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "a.heap"
    path.write_text(TEXT)
    return read.read(path)


def fields(data):
    """[(tag, number or bytes)] of a message."""
    found, at = [], 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        key = varint()
        if key & 7 == 2:
            length = varint()
            found.append((key >> 3, data[at : at + length]))
            at += length
        else:
            found.append((key >> 3, varint()))
    return found


def test_what_was_read(profile):
    assert (profile.rate, profile.process, profile.samples) == (524288, 77, 12)
    small, large = profile.sites
    assert (small.live, small.live_bytes, small.all, small.size, small.remote) == (
        1000, 40000, 3000, 64, 5)  # fmt: skip
    assert (small.given, large.given) == (64000, 100000)
    assert profile.stack(small) == ["0x1020", "0x1010"]


@pytest.mark.parametrize("change", ["MAPPED_LIBRARIES:", "# hakmem rate", "# size 64"])
def test_damaged_files_are_refused(tmp_path, change):
    path = tmp_path / "bad.heap"
    path.write_text(TEXT.replace(change, "?"))
    with pytest.raises(LabError):
        read.read(path)


def test_pprof_has_samples_and_strings(profile, tmp_path):
    out = tmp_path / "a.pb.gz"
    pprof.write(profile, out)
    message = fields(gzip.decompress(out.read_bytes()))
    strings = [value.decode() for tag, value in message if tag == 6]
    assert strings[0] == "" and {"alloc_space", "inuse_space", "bytes", "0x1010"} <= set(strings)
    assert len([1 for tag, _ in message if tag == 2]) == 2
    assert len([1 for tag, _ in message if tag == 4]) == 3
    assert [strings[value] for tag, value in message if tag == 14] == ["inuse_space"]


def test_the_page_tells_what_stands_out(profile):
    told = page.warnings(profile)
    assert "71 % of what is in use" in told[0] and "0x1030" in told[0]
    assert any("lost by rounding" in text and "64 bytes" in text for text in told)
    assert any("only 12 samples" in text for text in told)
    text = page.draw([profile])
    assert text.startswith("<!doctype html>") and "plotly" in text
    assert "src=" not in text.split("<body>")[1]  # nothing is loaded from elsewhere
    assert "0x1010" in text and "What changed" not in text


def test_two_profiles_are_compared(profile, tmp_path):
    path = tmp_path / "b.heap"
    path.write_text(TEXT.replace("1: 100000 [2", "3: 300000 [4"))
    text = page.draw([profile, read.read(path)])
    assert "What changed from a.heap" in text and "195.3 KiB more in use" in text
