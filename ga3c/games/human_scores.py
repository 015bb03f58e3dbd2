"""Scores of a random player and of a human, by which scores of different games can be compared.

The constants are those of the DQN paper (Mnih et al. 2015; no-op starts, as our evaluation has), taken from table 4 of
"Human-Level Control without Server-Grade Hardware" (fast DQN), which reprints them. Table 3 of the GA3C paper has other
ones for nine games (Boxing: −2 and 10); they are not mixed in, since scores compare only by one and the same table.
"""

from __future__ import annotations

from ga3c.games.names import find_name

RANDOM_AND_HUMAN: dict[str, tuple[float, float]] = {
    "alien": (227.8, 6875),
    "amidar": (5.8, 1676),
    "assault": (222.4, 1496),
    "asterix": (210, 8503),
    "asteroids": (719.1, 13157),
    "atlantis": (12850, 29028),
    "bank_heist": (14.2, 734.4),
    "battle_zone": (2360, 37800),
    "beam_rider": (363.9, 5775),
    "bowling": (23.1, 154.8),
    "boxing": (0.1, 4.3),
    "breakout": (1.7, 31.8),
    "centipede": (2091, 11963),
    "chopper_command": (811, 9882),
    "crazy_climber": (10781, 35411),
    "demon_attack": (152.1, 3401),
    "double_dunk": (-18.6, -15.5),
    "enduro": (0, 309.6),
    "fishing_derby": (-91.7, 5.5),
    "freeway": (0, 29.6),
    "frostbite": (65.2, 4335),
    "gopher": (257.6, 2321),
    "gravitar": (173, 2672),
    "hero": (1027, 25763),
    "ice_hockey": (-11.2, 0.9),
    "jamesbond": (29, 406.7),
    "kangaroo": (52, 3035),
    "krull": (1598, 2395),
    "kung_fu_master": (258.5, 22736),
    "montezuma_revenge": (0, 4367),
    "ms_pacman": (307.3, 15693),
    "name_this_game": (2292, 4076),
    "pong": (-20.7, 9.3),
    "private_eye": (24.9, 69571),
    "qbert": (163.9, 13455),
    "riverraid": (1339, 13513),
    "road_runner": (11.5, 7845),
    "robotank": (2.2, 11.9),
    "seaquest": (68.4, 20182),
    "space_invaders": (148, 1652),
    "star_gunner": (664, 10250),
    "tennis": (-23.8, -8.9),
    "time_pilot": (3568, 5925),
    "tutankham": (11.4, 167.6),
    "up_n_down": (533.4, 9082),
    "venture": (0, 1188),
    "video_pinball": (16257, 17298),
    "wizard_of_wor": (563.5, 4757),
    "zaxxon": (32.5, 9173),
}


def human_normalized(game: str, score: float) -> float | None:
    """0 for a random player, 1 for the human; None for a game that is not in the table."""
    known = random_and_human(game)
    if known is None:
        return None
    random, human = known
    return (score - random) / (human - random)


def random_and_human(game: str) -> tuple[float, float] | None:
    """Their scores; None for a game that is not in the table."""
    rom = find_name(game, RANDOM_AND_HUMAN)
    return RANDOM_AND_HUMAN[rom] if rom else None
