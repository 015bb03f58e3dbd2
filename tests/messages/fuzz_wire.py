"""Atheris on the messages, guided by the branches that an input reaches.

python tests/messages/fuzz_wire.py -runs=300000 DIRECTORY: good messages are put there first, and then what it finds.
"""

import struct
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
with atheris.instrument_imports(include=["ga3c.messages.wire"]):
    from ga3c.messages import wire  # noqa: F401 (first, so that it is the instrumented one that all others import)

from tests.helpers.fuzzing import good_messages, taken
from tests.messages.test_wire import BYTES, IMAGES, VECTORS

SPECS = [IMAGES, VECTORS, BYTES]
SPLIT = struct.Struct("<BH")  # which spec, and bytes of the head; the rest is the body


def test_one_input(data: bytes) -> None:
    if len(data) < SPLIT.size:
        return
    spec, length = SPLIT.unpack_from(data)
    rest = data[SPLIT.size :]
    taken(rest[:length], rest[length:], SPECS[spec % len(SPECS)])


def write_corpus(directory: Path) -> None:
    """Good messages to begin with: from nothing, it would spend its time on finding the first four letters."""
    for number, spec in enumerate(SPECS):
        for kind, (head, body) in enumerate(good_messages(spec, run=1, agent=2)):
            (directory / f"{number}-{kind}").write_bytes(SPLIT.pack(number, len(head)) + head + body)


if __name__ == "__main__":
    write_corpus(Path(sys.argv[-1]))
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
