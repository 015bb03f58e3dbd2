"""A slice of each game: RAM and screen of each frame as in ALE. The long comparison is ``prove``."""

import pytest

from ga3c.games.emulator.cartridges import CARTRIDGES
from tests.games.emulator.needs_warp import WITHOUT_WARP

pytestmark = WITHOUT_WARP


@pytest.mark.parametrize("game", CARTRIDGES)
def test_ram_and_screen_are_those_of_ale(game):
    from tests.games.emulator.prove import SCREENS_DIFFER, compare

    found = compare(game, frames=60, seed=1)
    assert found.ram is None, f"RAM differs in frame {found.ram}"
    assert found.screen is None or game in SCREENS_DIFFER, f"the screen differs in frame {found.screen}"


@pytest.mark.parametrize("game", [name for name, cartridge in CARTRIDGES.items() if cartridge.rule])
def test_rewards_lives_and_the_end_are_those_of_ale(game):
    from tests.games.emulator.prove import compare

    found = compare(game, frames=400, seed=2, pictures=False)
    assert found.rules is None, f"reward, lives or the end differ in frame {found.rules}"
