"""Names of games: one rule for the emulator and for the table of scores, which does without it."""

import pytest

from ga3c.games.ale import find_rom
from ga3c.games.human_scores import RANDOM_AND_HUMAN, human_normalized
from ga3c.games.names import find_name


@pytest.mark.parametrize("form", ["{}", "ALE/{}-v5", "{}NoFrameskip-v4", "{}-v0"])
def test_games_with_known_scores_are_the_emulators(form):
    for rom in RANDOM_AND_HUMAN:
        game = form.format(rom.title().replace("_", ""))
        assert find_name(game, RANDOM_AND_HUMAN) == find_rom(game) == rom
        assert human_normalized(game, RANDOM_AND_HUMAN[rom][1]) == 1


@pytest.mark.parametrize("game", ["CartPole-v1", "my_games:Pong-v0", "Pong-v3", ""])
def test_other_names_are_no_game_of_the_table(game):
    assert find_name(game, RANDOM_AND_HUMAN) is None
    assert human_normalized(game, 1.0) is None
