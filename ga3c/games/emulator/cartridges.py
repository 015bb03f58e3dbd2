"""What is known of each game: its ROM's fingerprint, and the numbers that experiments with ALE found.

How each was found stands in docs/emulator-facts.md. The ROMs are those of the installed ale-py.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

# RAM when the power comes on in ALE, and the gray of each of the 128 colours.
POWER_ON = bytes.fromhex(
    "b896c049cb55c87ffbb445662b3410cab9ceff8f4f44a18a04c5cdfc75e70aad"
    "2d9b609eaa171e54f984513e34977c5e50b68685be77458b6d04b5ee4239c14b"
    "9c33524749b3ee6b70ac246bd4fefed617dc389a498e21acd61c0d5cdaad0b77"
    "a36c283851c5895c5a169855955baf4aaf990d4bec0aba5ea7bde6f7ab146fc0"
)
GRAY = bytes.fromhex(
    "004a6f8eaac0d6ec405f7a94acc1d6e93f576e8396a7b8c73b556b8194a7b7c7"
    "2c445a6e8092a1b0334a5f738495a4b2273f556b7d8f9fae16314960748899a9"
    "1129405568798999203c556d8296a8ba28455f788da2b6c82b4a657f97adc1d4"
    "2847627c93a9bdcf294a68849db5cbdf2f4f6b859db3c8dc2f4f6b859db3c8dc"
)

FLAT, SWITCHED, PARKER, ACTIVISION = 0, 1, 2, 3  # 2K and 4K; F8 and F6; E0; FE
SUM, DIFFERENCE = 0, 1  # of the bytes of a score: decimal digits from the highest, or the first less the second
NO_LIVES, AT_21 = 0, 1  # when a game is over
ALL = tuple(range(18))
RESET, SELECT, NOTHING = 0x3E, 0x3D, 0x3F  # what SWCHB reads


@dataclass(frozen=True)
class Lives:
    """A byte of RAM, and which of its bits."""

    byte: int
    mask: int = 0xFF
    shift: int = 0
    more: int = 0


@dataclass(frozen=True)
class Rule:
    """How score, lives and the end follow from RAM."""

    score: tuple[int, ...]
    unit: int = 1
    kind: int = SUM
    lives: Lives | None = None
    end: int = NO_LIVES


@dataclass(frozen=True)
class Cartridge:
    """A ROM and its ways."""

    md5: str
    actions: tuple[int, ...]  # ALE's minimal ones
    banks: int = FLAT
    boot: tuple[tuple[int, int], ...] = ((RESET, 8),)  # what SWCHB reads for so many frames, or less an action
    comb: bool = True  # HMOVE blanks eight pixels
    first_line: int = 34
    paddle: int = 0  # 1: the first paddle is ours, 2: the second
    rule: Rule | None = None

    def facts(self) -> list[int]:
        """The row of numbers that ``environment.h`` reads."""
        rule = self.rule or Rule(())
        lives = rule.lives or Lives(-1)
        score = (*rule.score, *(0,) * (4 - len(rule.score)))
        return [
            int(self.comb), self.first_line, self.paddle, rule.kind, len(rule.score), *score, rule.unit,
            lives.byte, lives.mask, lives.shift, lives.more, 0, rule.end,
        ]  # fmt: skip


CARTRIDGES = {
    "assault": Cartridge(
        "de78b3a064d374390ac0710f95edde92", (0, 1, 2, 3, 4, 11, 12), rule=Rule((0, 1, 2), lives=Lives(101))
    ),
    "asterix": Cartridge(
        "89a68746eff7f266bbf08de2483abe55", (0, 2, 3, 4, 5, 6, 7, 8, 9), banks=SWITCHED, boot=((RESET, 8), (-1, 1))
    ),
    "asteroids": Cartridge(
        "ccbd36746ed4525821a8083b0d6d2c2c",
        (0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15),
        banks=SWITCHED,
        boot=((RESET, 12),),
        comb=False,
        rule=Rule((61, 62), unit=10, lives=Lives(60, 0xF0, 4)),
    ),
    "atlantis": Cartridge("9ad36e699ef6f45d9eb6c4cf90475c9f", (0, 1, 11, 12), boot=((RESET, 12),)),
    "bank_heist": Cartridge(
        "00ce0bdd43aed84a983bef38fe7f5ee3", ALL, boot=((RESET, 12),), rule=Rule((88, 89, 90), lives=Lives(85))
    ),
    "battle_zone": Cartridge("41f252a66c6301f1e8ab3612c19bc5d4", ALL, banks=SWITCHED, boot=((RESET, 12),), comb=False),
    "beam_rider": Cartridge(
        "79ab4123a83dc11d468fb2108ea09e2e", (0, 1, 2, 3, 4, 6, 7, 11, 12), banks=SWITCHED, boot=((RESET, 8), (-3, 1))
    ),
    "berzerk": Cartridge(
        "136f75c4dd02c29283752b7e5799f978", ALL, boot=((RESET, 4), *((SELECT, 1), (NOTHING, 1)) * 12, (RESET, 4))
    ),
    "bowling": Cartridge("c9b7afad3bfd922e006a6bfc1d4f3fe7", (0, 1, 2, 5, 10, 13), boot=((RESET, 12),)),
    "boxing": Cartridge("c3ef5c4653212088eda54dc91d787870", ALL),
    "breakout": Cartridge(
        "f34f08e5eb96e500e851a80be3277a56",
        (0, 1, 3, 4),
        boot=((RESET, 12),),
        paddle=1,
        rule=Rule((76, 77), lives=Lives(57)),
    ),
    "centipede": Cartridge("91c2098e88a6b13f977af8c003e0bca5", ALL, banks=SWITCHED, boot=((RESET, 12),)),
    "crazy_climber": Cartridge(
        "55ef7b65066428367844342ed59f956c", (0, 2, 3, 4, 5, 6, 7, 8, 9), banks=SWITCHED, boot=((RESET, 12),)
    ),
    "demon_attack": Cartridge("f0e0addc07971561ab80d9abe1b8d333", (0, 1, 3, 4, 11, 12), boot=((RESET, 11),)),
    "enduro": Cartridge("94b92a882f6dbaa6993a46e2dcc58402", (0, 1, 3, 4, 5, 8, 9, 11, 12), boot=((RESET, 8), (-1, 1))),
    "fishing_derby": Cartridge("b8865f05676e64f3bec72b9defdacfa7", ALL),
    "freeway": Cartridge("8e0ab801b1705a740b476b7f588c6d16", (0, 2, 5), boot=((RESET, 12),)),
    "frostbite": Cartridge("4ca73eb959299471788f0b685c3ba0b5", ALL, boot=((RESET, 12),)),
    "gopher": Cartridge("c16c79aad6272baffb8aae9a7fff0864", (0, 1, 2, 3, 4, 10, 11, 12), boot=((RESET, 16), (-1, 1))),
    "hero": Cartridge("fca4a5be1251927027f2c24774a02160", ALL, banks=SWITCHED, boot=((RESET, 11),)),
    "ice_hockey": Cartridge("a4c08c4994eb9d24fb78be1793e82e26", ALL, boot=((RESET, 12),)),
    "jamesbond": Cartridge("e51030251e440cffaab1ac63438b44ae", ALL, banks=PARKER),
    "kangaroo": Cartridge("4326edb70ff20d0ee5ba58fa5cb09d60", ALL, banks=SWITCHED, boot=((RESET, 12),)),
    "krull": Cartridge("4baada22435320d185c95b7dd2bcdb24", ALL, banks=SWITCHED),
    "kung_fu_master": Cartridge(
        "5b92a93b23523ff16e2789b820e2a4c5", (0, 2, 3, 4, 5, 8, 9, 11, 12, 13, 14, 15, 16, 17), banks=SWITCHED
    ),
    "montezuma_revenge": Cartridge("3347a6dd59049b15a38394aa2dafa585", ALL, banks=PARKER),
    "ms_pacman": Cartridge(
        "87e79cd41ce136fd4f72cc6e2c161bee", (0, 2, 3, 4, 5, 6, 7, 8, 9), banks=SWITCHED, boot=((RESET, 12),), comb=False
    ),
    "phoenix": Cartridge("7e52a95074a66640fcfde124fffd491a", (0, 1, 3, 4, 5, 11, 12, 13), banks=SWITCHED),
    "pitfall": Cartridge("3e90cf23106f2e08b2781e41299de556", ALL, boot=((RESET, 8), (-2, 1))),
    "pong": Cartridge(
        "60e0ea3cbe0913d39803477945e9e5ec",
        (0, 1, 3, 4, 11, 12),
        boot=((RESET, 12),),
        paddle=2,
        rule=Rule((14, 13), kind=DIFFERENCE, end=AT_21),
    ),
    "private_eye": Cartridge("ef3a4f64b6494ba770862768caf04b86", ALL, banks=SWITCHED, boot=((RESET, 12), (-2, 1))),
    "qbert": Cartridge("484b0076816a104875e00467d431c2d2", (0, 1, 2, 3, 4, 5), first_line=40),
    "riverraid": Cartridge("393948436d1f4cc3192410bb918f9724", ALL),
    "road_runner": Cartridge("ce5cc62608be2cd3ed8abd844efb8919", ALL, banks=SWITCHED),
    "seaquest": Cartridge("240bfbac5163af4df5ae713985386f92", ALL),
    "solaris": Cartridge("e72eb8d4410152bdcb69e7fba327b420", ALL, banks=SWITCHED),
    "space_invaders": Cartridge(
        "72ffbef6504b75e69ee1045af9075f66",
        (0, 1, 3, 4, 11, 12),
        boot=((RESET, 12),),
        rule=Rule((102, 104), lives=Lives(73)),
    ),
    "star_gunner": Cartridge("a3c1c70024d7aabb41381adbfb6d3b25", ALL),
    "tennis": Cartridge("42cdd6a9e42a3639e190722b8ea3fc51", ALL, boot=((RESET, 12),)),
    "time_pilot": Cartridge("fc2104dd2dadf9a6176c1c1c8f87ced9", (0, 1, 2, 3, 4, 5, 10, 11, 12, 13), banks=SWITCHED),
    "up_n_down": Cartridge(
        "a499d720e7ee35c62424de882a3351b6",
        (0, 1, 2, 5, 10, 13),
        banks=SWITCHED,
        first_line=30,
        boot=((RESET, 8), (-1, 1)),
    ),
    "venture": Cartridge("3e899eba0ca8cd2972da1ae5479b4f0d", ALL),
    "video_pinball": Cartridge("107cc025334211e6d29da0b6be46aec7", (0, 1, 2, 3, 4, 5, 10, 11, 12), boot=((RESET, 12),)),
    "yars_revenge": Cartridge(
        "c5930d0e8cdae3e037349bfa08e871be",
        ALL,
        boot=((RESET, 4), *((SELECT, 1), (NOTHING, 1)) * 7, (RESET, 8), (-1, 1)),
    ),
    "zaxxon": Cartridge(
        "eea0da9b987d661264cce69a7c13c3bd", ALL, banks=SWITCHED, boot=((RESET, 4), (NOTHING, 4), (RESET, 4))
    ),
}


def cartridge_of(game: str) -> Cartridge:
    if game not in CARTRIDGES:
        raise ValueError(f"the emulator does not know {game}: play it with ALE")
    return CARTRIDGES[game]


def rom_of(game: str) -> bytes:
    """The ROM in the installed ale-py; another one than was proven is refused."""
    from ale_py import roms

    path = roms.get_rom_path(game)
    rom = Path(str(path)).read_bytes() if path else b""
    if hashlib.md5(rom).hexdigest() != cartridge_of(game).md5:
        raise ValueError(f"the ROM of {game} in ale-py is not the one that the emulator was proven with: play with ALE")
    return rom
