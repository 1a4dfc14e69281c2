"""Pictures of images, made in a child process (`image_decoder.py`).

An image that an API refuses breaks every later request of a conversation, because it stays in the history. So no byte
of the file is passed on, not even of a valid one: the result is always written by our encoder, without metadata.
"""

from __future__ import annotations

from handrail.frozen import frozen
from handrail.media import BadImage, MediaLimits, separate_process


@frozen
class Picture:
    """Facts about an image, for the text beside it."""

    mime_type: str
    """image/png, image/jpeg, image/gif or image/webp: the type of the file, if it is small enough."""
    raw: bytes
    width: int
    height: int
    original_width: int
    """As the file is meant to be looked at, so after it was turned as it says."""
    original_height: int
    frames: int
    """How many pictures the file holds; the first one is shown."""
    changed: bool
    """Whether something is lost that can be seen: size, or the frames behind the first."""


def read_picture(source: int | bytes, size: int, limits: MediaLimits | None = None) -> Picture:
    """The picture that an open file holds, or some bytes; raises `BadImage`."""
    limits = limits or MediaLimits()
    if size > limits.image_bytes:
        raise BadImage(size=size, most_bytes=limits.image_bytes)
    frames, end = separate_process.ask("image", source, size, limits)
    if end == "late":
        raise BadImage(seconds=limits.seconds)
    if not frames:
        raise BadImage(crashed=True)
    return from_frame(frames[0])


def from_frame(frame: separate_process.WorkerFrame) -> Picture:
    """The picture that the child process sent."""
    return Picture(raw=frame.raw, **frame.head["picture"])
