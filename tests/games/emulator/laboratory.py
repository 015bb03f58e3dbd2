"""ROMs of our own: small programs that ask the hardware one thing, for ALE and for the emulator alike.

A program draws a picture of blocks of lines, and in each block registers of the TIA are written in known cycles.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ga3c.games.emulator import batched
from ga3c.games.emulator.batched import BatchedAtari
from ga3c.games.emulator.cartridges import ALL, Cartridge
from tests.games.emulator.oracle import Oracle

NAME = "montezuma_revenge"  # as what ALE takes a ROM of ours: a game in which neither start nor end hang on RAM
TOP = 40  # lines before the first block
REGISTERS = {
    "NUSIZ0": 0x04, "NUSIZ1": 0x05, "COLUP0": 0x06, "COLUP1": 0x07, "COLUPF": 0x08, "COLUBK": 0x09, "CTRLPF": 0x0A,
    "REFP0": 0x0B, "PF0": 0x0D, "PF1": 0x0E, "PF2": 0x0F, "RESP0": 0x10, "RESP1": 0x11, "RESM0": 0x12, "RESM1": 0x13,
    "RESBL": 0x14, "GRP0": 0x1B, "GRP1": 0x1C, "ENAM0": 0x1D, "ENAM1": 0x1E, "ENABL": 0x1F, "HMP0": 0x20, "HMP1": 0x21,
    "HMM0": 0x22, "HMM1": 0x23, "HMBL": 0x24, "VDELP0": 0x25, "VDELP1": 0x26, "VDELBL": 0x27, "RESMP0": 0x28,
    "HMOVE": 0x2A, "HMCLR": 0x2B, "VBLANK": 0x01,
}  # fmt: skip
VSYNC, VBLANK, WSYNC = 0, 1, 2


class Program:
    """Machine code, put together call by call."""

    def __init__(self) -> None:
        self.code = bytearray()
        self(0x78, 0xD8, 0xA2, 0xFF, 0x9A, 0xA9, 0)  # SEI, CLD, a stack, and then all of page zero is cleared
        self.repeat(0, lambda: self(0x95, 0))

    def __call__(self, *code: int) -> Program:
        self.code += bytes(byte & 0xFF for byte in code)
        return self

    @property
    def here(self) -> int:
        return 0xF000 + len(self.code)

    def store(self, register: int, value: int) -> Program:
        """Five cycles, of which the last one writes."""
        return self(0xA9, value, 0x85, register)

    def lines(self, count: int) -> Program:
        for _ in range(count):
            self(0x85, WSYNC)
        return self

    def wait(self, cycles: int) -> Program:
        assert cycles >= 0
        assert cycles != 1  # there is no instruction of one cycle
        if cycles % 2:
            self(0xA5, 0xFF)
            cycles -= 3
        return self(*[0xEA] * (cycles // 2))

    def repeat(self, count: int, what: Callable[[], object]) -> Program:
        """With X as the counter; 0 is 256 times."""
        self(0xA2, count)
        start = self.here
        what()
        return self(0xCA, 0xD0, start - self.here - 3)

    def jump(self, to: int) -> Program:
        return self(0x4C, to & 0xFF, to >> 8)

    def rom(self) -> bytes:
        assert len(self.code) < 4090
        return bytes(self.code).ljust(4092, b"\xea") + b"\x00\xf0\x00\xf0"


def picture(draw: Callable[[Program], None], lines: int) -> bytes:
    """A ROM that draws the same in each frame."""
    program = Program()
    start = program.here
    program.store(VSYNC, 2).lines(3).store(VSYNC, 0)
    program.repeat(TOP, lambda: program.lines(1))
    draw(program)
    program.store(VBLANK, 2).lines(1).store(VBLANK, 0)
    program.repeat(262 - 3 - TOP - lines - 1, lambda: program.lines(1))
    return program.jump(start).rom()


def random_picture(registers: list[str], seed: int, blocks: int = 40) -> bytes:
    """All objects are there; in blocks of three lines some registers are written at random."""
    chance = random.Random(seed)

    def draw(program: Program) -> None:
        for register, value in ((6, 0x1E), (7, 0x3E), (8, 0x5E), (9, 0x80)):
            program.store(register, value)
        program.lines(1)
        for register, value in ((0x1B, 0xA5), (0x1C, 0xC3), (0x1D, 2), (0x1E, 2), (0x1F, 2), (4, 0x10)):
            program.store(register, value)
        program.lines(1).store(5, 0x20).store(10, 0x30).lines(2)
        for _ in range(blocks):
            for _ in range(2):
                write_at_random(program, chance, registers)
            program.lines(1)

    return picture(draw, 4 + 3 * blocks)


def write_at_random(program: Program, chance: random.Random, registers: list[str]) -> None:
    """One line, with up to three writes."""
    before = 0
    for cycle in sorted(chance.sample(range(5, 73), 3)):
        if cycle - before >= 5 and cycle - before != 6 and len(program.code) < 3900:
            program.wait(cycle - before - 5)
            program.store(REGISTERS[chance.choice(registers)], chance.choice([0, 255, 2, 8, chance.randrange(256)]))
            before = cycle
    program.lines(1)


def both(rom: bytes, place: Path, frames: int = 3) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """RAM and screen after some frames: those of ALE, and ours."""
    path = place / f"{NAME}.bin"
    path.write_bytes(rom)
    oracle, ours = Oracle(NAME, path), machine(rom)
    for _ in range(frames):
        oracle.act(0)
        screens = ours.show(ours.lives * 0)
    return (oracle.ram(), oracle.screen()), (ours.ram()[0].numpy(), screens[0].numpy())


def machine(rom: bytes) -> BatchedAtari:
    """The emulator with a ROM that is no game."""
    kept = batched.cartridge_of, batched.rom_of
    batched.cartridge_of, batched.rom_of = lambda _: Cartridge("", ALL), lambda _: rom
    try:
        ours = BatchedAtari(NAME, only_frames=True)
    finally:
        batched.cartridge_of, batched.rom_of = kept
    ours.start(64)
    return ours
