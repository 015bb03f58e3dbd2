# mypy: disable-error-code="valid-type, name-defined, no-untyped-def, no-untyped-call"
"""Compiles the core with Warp, whose types of arguments are values that mypy cannot follow.

Warp's import is late and its words are kept off the screen: who does not use the emulator pays nothing for it.
"""

import contextlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STATE_BYTES = 480  # of a game; the core refuses to compile if it needs more
MISSING = "the emulator needs Warp: install ga3c[emulator], or play with ALE"

GLUE = """
    Environment m;
    m.rom = (const u8*)rom.data;
    m.rom_size = (u32)rom.shape[0];
    m.fact = (const i32*)facts.data;
    m.use_comb = (u8)m.fact[Environment::COMB];
    m.superchip = 0;
    m.first_line = m.fact[Environment::FIRST_LINE];
    m.height = Environment::HEIGHT;
    m.screen = nullptr;
    struct Kept { Environment::Extra e; Atari2600::State s; };
    static_assert(sizeof(Environment::Extra) == 32, "batched.py looks for RAM after 32 bytes");
    static_assert(sizeof(Kept) <= STATE_BYTES, "the state of a game has outgrown STATE_BYTES");
    Kept* kept = (Kept*)((u8*)states.data + (u64)i * STATE_BYTES);
"""

WORK = """
    if (what == 0) {  // begin
        u8* bytes = (u8*)kept;
        for (u32 k = 0; k < STATE_BYTES; k++) bytes[k] = 0;
        m.e = kept->e;
        i32 timer = ((const i32*)numbers.data)[3 * i];
        m.begin((const u8*)memory.data, timer, (const i32*)boot.data, (i32)boot.shape[0] / 2);
        m.e.random = (u32)((const i32*)numbers.data)[3 * i + 1] | 1u;
    } else {
        m.s = kept->s;
        m.e = kept->e;
    }
    m.attach();
    u8 screens[2][160 * 210];
    i32 wait = what == 0 ? ((const i32*)numbers.data)[3 * i + 2] : 0;  // and then FIRE, for ``skip`` frames
    i32 earned = 0, played = 0, frames = wait + skip;
    i32 drawn = frames - 2;  // Frames before these are seen only if the game ends early, and then it plays them again.
    for (;;) {
        for (i32 k = 0; k < frames && (what == 0 || !m.e.over || k == 0); k++) {
            i32 action = what == 0 ? k >= wait : ((const i32*)actions.data)[i];
            if (sticky > 0.0f && (m.draw_random() >> 8) * (1.0f / 16777216.0f) < sticky) action = m.e.last_action;
            m.e.last_action = action;
            m.screen = look && k >= drawn ? screens[k & 1] : nullptr;
            if (what == 2) m.screen = (u8*)pictures.data + (u64)i * 160 * 210;
            earned += m.play(action);
            played++;
        }
        if (!look || played == frames || drawn <= 0) break;
        m.s = kept->s;
        m.e = kept->e;
        m.attach();
        earned = played = drawn = 0;
    }
    if (look && what < 2 && played) {
        // ``look`` is how many pictures an observation has: the oldest goes, the newest is the last.
        const u8* last = screens[(played - 1) & 1];
        const u8* other = played > 1 ? screens[played & 1] : last;
        u8* stack = (u8*)pictures.data + (u64)i * look * 84 * 84;
        for (i32 k = 0; k < (look - 1) * 84 * 84; k++) stack[k] = stack[k + 84 * 84];
        Environment::shrink(other, last, (const u8*)gray.data, stack + (look - 1) * 84 * 84);
    }
    ((float*)rewards.data)[i] = (float)earned;
    ((i32*)lives.data)[i] = m.e.lives;
    ((u8*)ended.data)[i] = m.e.over;
    kept->s = m.s;
    kept->e = m.e;
"""


BEGIN, STEP, SHOW = 0, 1, 2  # what a launch does: new games, steps with small pictures, or with whole screens


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Native code, as Warp's without a driver for CUDA, warns on the file behind stderr, whatever its log level is."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nothing)
        os.close(kept)


@cache
def warp() -> Any:
    """Warp, without its words."""
    try:
        import warp as wp
    except ImportError as missing:
        raise RuntimeError(MISSING) from missing
    wp.config.log_level = wp.LOG_ERROR
    with silence():
        wp.init()
    return wp


def source(banks: int, glue: str) -> str:
    """The core as a local struct of one native function."""
    text = "\n".join((HERE / name).read_text() for name in ("core.h", "environment.h"))
    lines = [f"#undef BANKS\n#define BANKS {banks}", f"#undef STATE_BYTES\n#define STATE_BYTES {STATE_BYTES}u"]
    undo = {line.split()[1].split("(")[0] for line in text.splitlines() if line.lstrip().startswith("#define")}
    return "\n".join([*lines, text, GLUE, glue, *(f"#undef {name}" for name in sorted(undo)), ""])


@cache
def kernel(banks: int) -> Any:
    """The kernel for one way to address a cartridge; compiled once, and then kept on disk by Warp."""
    wp = warp()
    u8 = wp.array(dtype=wp.uint8)
    i32 = wp.array(dtype=wp.int32)
    f32 = wp.array(dtype=wp.float32)

    @wp.func_native(source(banks, WORK))  # type: ignore[untyped-decorator]
    def work(
        i: wp.int32, what: wp.int32, states: u8, rom: u8, facts: i32, memory: u8, boot: i32, numbers: i32, actions: i32,
        skip: wp.int32, sticky: wp.float32, look: wp.int32, gray: u8, pictures: u8, rewards: f32, lives: i32, ended: u8,
    ): ...  # fmt: skip

    def atari(
        what: wp.int32, states: u8, rom: u8, facts: i32, memory: u8, boot: i32, numbers: i32, actions: i32,
        skip: wp.int32, sticky: wp.float32, look: wp.int32, gray: u8, pictures: u8, rewards: f32, lives: i32, ended: u8,
    ):  # fmt: skip
        work(
            wp.tid(), what, states, rom, facts, memory, boot, numbers, actions,
            skip, sticky, look, gray, pictures, rewards, lives, ended,
        )  # fmt: skip

    module = wp.get_module(f"ga3c_atari_{banks}")
    module.options["enable_backward"] = False
    return wp.Kernel(func=atari, key=f"atari_{banks}", module=module)
