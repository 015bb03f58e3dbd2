"""ALE as a black box: a ROM and actions in; RAM, screen, reward, lives and the end out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

from ga3c.games.emulator.carrier import silence

# fmt: off
STANDARD = [
    "alien", "amidar", "assault", "asterix", "asteroids", "atlantis", "bank_heist", "battle_zone",
    "beam_rider", "berzerk", "bowling", "boxing", "breakout", "centipede", "chopper_command", "crazy_climber",
    "defender", "demon_attack", "double_dunk", "enduro", "fishing_derby", "freeway", "frostbite", "gopher",
    "gravitar", "hero", "ice_hockey", "jamesbond", "kangaroo", "krull", "kung_fu_master", "montezuma_revenge",
    "ms_pacman", "name_this_game", "phoenix", "pitfall", "pong", "private_eye", "qbert", "riverraid",
    "road_runner", "robotank", "seaquest", "skiing", "solaris", "space_invaders", "star_gunner", "surround",
    "tennis", "time_pilot", "tutankham", "up_n_down", "venture", "video_pinball", "wizard_of_wor", "yars_revenge",
    "zaxxon",
]
# fmt: on


class Oracle:
    """One game in ALE without sticky actions, frame by frame, after its second reset."""

    def __init__(self, game: str, rom: Path | None = None) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale = ALEInterface()
        self._ale.setFloat("repeat_action_probability", 0.0)
        self._ale.setInt("frame_skip", 1)
        with silence():
            self._ale.loadROM(str(rom or roms.get_rom_path(game)))
        self._ale.reset_game()
        self.actions = [int(action.value) for action in self._ale.getMinimalActionSet()]

    def act(self, action: int) -> int:
        return int(self._ale.act(action))

    def ram(self) -> np.ndarray:
        return np.array(self._ale.getRAM())

    def screen(self) -> np.ndarray:
        return np.array(self._ale.getScreen())

    def gray(self) -> np.ndarray:
        return np.array(self._ale.getScreenGrayscale())

    def lives(self) -> int:
        return int(self._ale.lives())

    def over(self) -> bool:
        return bool(self._ale.game_over())
