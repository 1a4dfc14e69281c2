"""How much of an Edit goes into hashing and into encodings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.editing import ONE_MB, contents, editor
from benchmarks.measure import Line, Scale, Times, contest, share, size
from handrail import Session, Settings
from handrail.text.document import detect_encoding


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    for length in scale.edits[1:]:
        data = contents(length)
        accented = data.replace(b"lazy", "läzy".encode())
        chinese = ("中文的一行文字，没有别的。\n" * (length // 28 + 1)).encode("gbk")[: length // 28 * 28]
        (folder / "shares.txt").write_bytes(data)
        with Session(folder, settings=Settings(state=str(folder / "state"))) as session:
            session.call("Read", {"file_path": "shares.txt", "limit": 5})
            contestants: dict[str, Callable[[], object]] = {
                "edit": editor(session, "shares.txt", length),
                "hash": partial(hashlib.sha256, data),
                "ascii": partial(detect_encoding, data),
                "utf-8": partial(detect_encoding, accented),
                "gbk": partial(detect_encoding, chinese),
                "decode": partial(accented.decode, "utf-8"),
            }
            times = contest(scale.rounds if length <= ONE_MB else scale.few, contestants)
        about = size(length)
        twice = Times(2 * times["hash"].median, 2 * times["hash"].least)
        yield share(f"SHA-256 of {about} twice, as a part of its Edit", twice, times["edit"])
        yield share(
            f"Finding out the encoding of {about} of ASCII, as a part of its Edit", times["ascii"], times["edit"]
        )
        yield share(
            f"the same for UTF-8 with accents, next to the Edit of {about} of ASCII", times["utf-8"], times["edit"]
        )
        yield share(f"the same for GBK, next to the Edit of {about} of ASCII", times["gbk"], times["edit"])
        yield share(f"Decoding {about} of UTF-8 with accents, next to that Edit", times["decode"], times["edit"])
        (folder / "shares.txt").unlink()
