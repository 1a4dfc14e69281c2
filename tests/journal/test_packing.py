"""Old contents are compressed with the segments of those before them, and come back as they were."""

from __future__ import annotations

import random
import zlib

import pytest

from handrail.files.versions import hash_bytes
from handrail.journal import packing
from handrail.journal.packing import ImagePacker, unpack_image


def change(raw: bytes, chance: random.Random) -> bytes:
    """Replace, insert or remove some bytes somewhere, or at one of the ends."""
    start = chance.choice([0, len(raw), chance.randrange(len(raw) + 1), chance.randrange(len(raw) + 1)])
    end = min(len(raw), start + chance.choice([0, 1, 40, 2_000]))
    return raw[:start] + chance.randbytes(chance.choice([0, 1, 40, 3_000])) + raw[end:]


@pytest.mark.parametrize("seed", range(20))
def test_contents_of_many_edits_come_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_SEGMENT", 1_000)
    monkeypatch.setattr(packing, "_LEAST", 4_000)
    monkeypatch.setattr(packing, "_MOST_REMEMBERED", 100_000)
    chance, packer = random.Random(seed), ImagePacker()
    files = [b"".join(b"line %d of %d\n" % (n, seed) for n in range(200 * size)) for size in (0, 1, 2, 5, 30)]
    for _ in range(60):
        n = chance.randrange(len(files))
        raw = files[n] = change(files[n], chance)
        digest = hash_bytes(raw)
        packed = packer.pack(digest, raw)
        assert (packed.hash, packed.size) == (digest, len(raw)) and len(packed.data) <= len(raw)
        assert unpack_image(digest, packed.data, packed.packed) == raw
        known = sum(len(one.raw) for segments in packer._remembered for one in segments)
        assert known <= 100_000 and sum(map(len, packer._remembered)) < 200


def test_an_edit_compresses_only_what_is_near_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compressed: list[int] = []
    plain = packing._compress_segment
    monkeypatch.setattr(packing, "_compress_segment", lambda raw: compressed.append(len(raw)) or plain(raw))
    packer, raw = ImagePacker(), b"".join(b"%08d a line of text\n" % n for n in range(40_000))
    packer.pack("first", raw)
    assert sum(compressed) == len(raw)
    compressed.clear()
    edited = raw.replace(b"00020000 a line", b"00020000 another line")
    assert zlib.decompress(packer.pack("second", edited).data) == edited
    assert 0 < sum(compressed) < 3 * packing._SEGMENT
