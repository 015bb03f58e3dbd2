"""The TIA and the RIOT against ALE, asked by ROMs of our own."""

import numpy as np
import pytest

from tests.games.emulator.needs_warp import WITHOUT_WARP
from tests.games.emulator.oracle import Oracle

pytestmark = WITHOUT_WARP

GROUPS = (
    ["HMOVE", "HMP0", "HMP1", "HMM0", "HMM1", "HMBL", "HMCLR"],
    ["PF0", "PF1", "PF2"],
    ["RESM0", "RESM1"],
    ["RESP0", "RESP1"],
    ["RESBL"],
    ["GRP0", "GRP1", "VDELP0", "VDELP1"],
    ["ENAM0", "ENAM1"],
    ["NUSIZ0"],
    ["CTRLPF"],
    ["REFP0"],
    ["RESMP0", "NUSIZ0"],
    ["COLUP0", "COLUPF", "COLUBK"],
    ["VBLANK"],
)


@pytest.mark.parametrize("registers", GROUPS, ids="-".join)
def test_a_register_written_in_any_cycle_draws_what_ale_draws(registers, tmp_path):
    from tests.games.emulator.laboratory import both, random_picture

    for seed in range(2):
        (_, theirs), (_, ours) = both(random_picture(registers, seed), tmp_path)
        assert np.unique(theirs).size > 3
        assert (theirs == ours).all(), f"seed {seed}: {_where(theirs, ours)}"


def test_the_timer_past_zero(tmp_path):
    """It counts cycles until it is read, and then its intervals again."""
    from tests.games.emulator.laboratory import Program, both

    program = Program()
    program(0xAD, 0x84, 0x02, 0x85, 0x80, 0xA2, 0)
    loop = program.here
    program(0xAD, 0x84, 0x02, 0x95, 0x81, 0xA0, 100)
    program(0x88, 0xD0, 0xFD, 0xE8, 0xE0, 100)
    program(0xD0, loop - program.here - 2)
    start = program.here
    program.store(0, 2).lines(3).store(0, 0)
    program.repeat(250, lambda: program.lines(1)).jump(start)
    (theirs, _), (ours, _) = both(program.rom(), tmp_path)
    assert len(set(theirs[:100].tolist())) > 50
    assert (theirs == ours).all()


@pytest.mark.parametrize("outer", [30, 66, 130])
def test_a_frame_without_a_write_ends_after_25_000_instructions(outer, tmp_path):
    """And one without VSYNC with the first write in its 344th line."""
    from tests.games.emulator.laboratory import Program, both

    program = Program()
    start = program.here
    program.store(0, 2).lines(3).store(0, 0)(0xE6, 0x90, 0xA9, 0, 0x85, 0x91, 0x85, 0x92, 0xA0, outer)
    loop = program.here
    program.repeat(0, lambda: program(0xE6, 0x92))
    program(0x88, 0xD0, loop - program.here - 3)
    program.repeat(0, lambda: program(0x85, 0x2B, 0xE6, 0x91)).jump(start)
    for frames in (1, 2, 3, 4):
        (theirs, _), (ours, _) = both(program.rom(), tmp_path, frames)
        assert (theirs == ours).all(), frames


def test_the_palette():
    from ga3c.games.emulator.cartridges import GRAY

    oracle = Oracle("breakout")
    assert (np.frombuffer(GRAY, np.uint8)[oracle.screen() >> 1] == oracle.gray()).all()


def _where(theirs, ours):
    y, x = np.argwhere(theirs != ours)[0]
    return f"line {y}, pixel {x}: ALE has {theirs[y, x]:#x} and we {ours[y, x]:#x}"
