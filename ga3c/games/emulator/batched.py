"""Many games of one kind, stepped together: torch tensors in and out, over the same memory that the core works on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from ga3c.games.emulator.carrier import BEGIN, SHOW, STATE_BYTES, STEP, kernel, warp
from ga3c.games.emulator.cartridges import GRAY, POWER_ON, cartridge_of, rom_of

if TYPE_CHECKING:
    import torch

Outputs = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor", "torch.Tensor", "torch.Tensor"]
STARTS = 64  # states that a new game is taken from
SIDE = 84
SCREEN = (210, 160)
RANDOM_AT = 16  # where the random number of a game stands among the bytes of its state
RAM_AT = 32
TIMERS = (24, 98)  # of the RIOT, when the power comes on in ALE


class BatchedAtari:
    """``games`` of one ROM. A game that is over begins anew with the step after.

    ``only_frames`` takes also a game whose rewards are not known: for its RAM and its screens.
    """

    def __init__(
        self,
        game: str,
        games: int = 1,
        device: str = "cpu",
        threads: int = 1,
        *,
        frame_skip: int = 4,
        stack_num: int = 4,
        repeat_action_probability: float = 0.0,
        noop_max: int = 30,
        use_fire_reset: bool = True,
        reward_clipping: bool = False,
        full_action_space: bool = False,
        max_num_frames_per_episode: int = 108_000,
        only_frames: bool = False,
        seed: int = 0,
    ) -> None:
        import torch

        self.cartridge = cartridge_of(game)
        if self.cartridge.rule is None and not only_frames:
            raise ValueError(f"how {game} counts rewards and lives is not known yet: play it with ALE")
        self.games, self.device, self.threads = games, device, min(threads, games)
        self.actions = tuple(range(18)) if full_action_space else self.cartridge.actions
        self._skip, self._sticky, self._clip = frame_skip, repeat_action_probability, reward_clipping
        self._noops, self._fire = noop_max, use_fire_reset and 1 in self.cartridge.actions
        self._most_frames = max_num_frames_per_episode
        self._wp, self._kernel = warp(), kernel(self.cartridge.banks)
        rom = rom_of(game)
        given = torch.as_tensor
        self._rom = given(np.frombuffer(rom * (4096 // min(len(rom), 4096)), np.uint8).copy(), device=device)
        self._facts = given(np.array(self.cartridge.facts(), np.int32), device=device)
        self._memory = given(np.frombuffer(POWER_ON, np.uint8).copy(), device=device)
        self._boot = given(np.array(self.cartridge.boot, np.int32).ravel(), device=device)
        self._gray = given(np.repeat(np.frombuffer(GRAY, np.uint8), 2), device=device)
        self._legal = given(np.array(self.actions, np.int32), device=device)

        def zeros(*shape: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self._states = zeros(games, STATE_BYTES)
        self._held = zeros(games, dtype=torch.int32)
        self.observations = zeros(games, stack_num, SIDE, SIDE)
        self._rewards = zeros(games, dtype=torch.float32)
        self._lives = zeros(games, dtype=torch.int32)
        self._ended = zeros(games)
        self._frames = zeros(games, dtype=torch.int32)
        self._new = zeros(games, dtype=torch.bool)
        self._random = torch.Generator(device=device)
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None
        self._seed(seed)

    def reset(self, seed: int | None = None) -> torch.Tensor:
        """Begin all games anew."""
        if seed is not None:
            self._seed(seed)
        import torch

        self._begin(torch.ones_like(self._new))
        return self.observations

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Observations, rewards, terminated, truncated, and the lives that are left."""
        self._held.copy_(self._legal[actions.long()])
        self._launch(STEP, self._states, self._skip, self._sticky, self._outputs())
        self._frames += self._skip
        new = self._new
        rewards = self._rewards.sign() if self._clip else self._rewards.clone()
        terminated = self._ended.bool()
        truncated = (self._frames >= self._most_frames) & ~terminated
        lives = self._lives.clone()
        if bool(new.any()):  # these games were over before: this step only begins them anew
            rewards[new] = 0
            terminated &= ~new
            truncated &= ~new
            self._begin(new)
            lives[new] = self._lives[new]
        self._new = terminated | truncated
        return self.observations, rewards, terminated, truncated, {"lives": lives}

    def show(self, actions: torch.Tensor) -> torch.Tensor:
        """Play one frame, and give the whole screens: (games, 210, 160) palette indices. ``actions`` are ALE's 18."""
        import torch

        screens = torch.zeros((self.games, *SCREEN), dtype=torch.uint8, device=self.device)
        self._held.copy_(actions)
        self._launch(SHOW, self._states, 1, 0.0, (self._held, screens, self._rewards, self._lives, self._ended))
        return screens

    @property
    def rewards(self) -> torch.Tensor:
        """Of the last step or frame, unclipped."""
        return self._rewards

    @property
    def lives(self) -> torch.Tensor:
        return self._lives

    @property
    def ended(self) -> torch.Tensor:
        return self._ended.bool()

    def ram(self) -> torch.Tensor:
        """(games, 128): a view, so what is written there is the RAM of the games."""
        return self._states[:, RAM_AT : RAM_AT + 128]

    def state(self) -> torch.Tensor:
        """A copy of all that the games are; ``load_state`` takes it."""
        return self._states.clone()

    def load_state(self, states: torch.Tensor) -> None:
        self._states.copy_(states)

    def start(self, timer: int) -> None:
        """All games as they are right after RESET, with this number in the timer when the power comes on."""
        import torch

        numbers = torch.tensor([timer, 1, 0], dtype=torch.int32, device=self.device).repeat(self.games, 1)
        self._launch(BEGIN, self._states, 0, 0.0, self._outputs(), numbers)

    def _seed(self, seed: int) -> None:
        """Make the states that games begin with: some frames of doing nothing, and FIRE where a game has it."""
        import torch

        self._random.manual_seed(seed)
        self._starts = torch.zeros((STARTS, STATE_BYTES), dtype=torch.uint8, device=self.device)
        timers = self._draw(*TIMERS, STARTS)
        seeds = self._draw(1, 2**30, STARTS)
        waits = self._draw(1, self._noops, STARTS) if self._noops else torch.zeros_like(timers)
        numbers = torch.stack((timers, seeds, waits), dim=1).int().contiguous()
        # The pictures of the starts are drawn in the first step; until then an observation is black but for its last.
        self._launch(BEGIN, self._starts, self._skip if self._fire else 0, 0.0, self._blank(STARTS), numbers)

    def _draw(self, low: int, high: int, count: int) -> torch.Tensor:
        import torch

        return torch.randint(low, high + 1, (count,), generator=self._random, device=self.device)

    def _begin(self, which: torch.Tensor) -> None:
        """Put these games at one of the starts, and show what is there: one frame is played for the picture."""
        import torch

        count = int(which.sum())
        begun = self._starts[self._draw(0, STARTS - 1, count)]
        begun[:, RANDOM_AT : RANDOM_AT + 4] = self._draw(1, 255, 4 * count).to(torch.uint8).view(count, 4)
        outputs = self._blank(count)
        self._launch(STEP, begun, 1, 0.0, outputs)
        self._states[which] = begun
        self.observations[which] = outputs[1]
        self._lives[which] = outputs[3]
        self._frames[which] = 1

    def _outputs(self) -> Outputs:
        return self._held, self.observations, self._rewards, self._lives, self._ended

    def _blank(self, count: int) -> Outputs:
        """As ``_outputs``, of games that are not among ours yet."""
        held, seen, rewards, lives, ended = (tensor.new_zeros((count, *tensor.shape[1:])) for tensor in self._outputs())
        return held, seen, rewards, lives, ended

    def _launch(
        self,
        what: int,
        states: torch.Tensor,
        skip: int,
        sticky: float,
        outputs: Outputs,
        numbers: torch.Tensor | None = None,
    ) -> None:
        """The kernel over all games, a slice for each thread: a launch on the CPU has one thread and frees the GIL."""
        wp, count = self._wp, len(states)
        threads = min(self.threads, count)
        held, pictures, rewards, lives, ended = outputs
        look = self.observations.shape[1] if what == STEP else 0
        bounds = [count * k // threads for k in range(threads + 1)]

        def part(low: int, high: int) -> None:
            def of(tensor: torch.Tensor) -> Any:
                return wp.from_torch(tensor[low:high].reshape(-1))

            def whole(tensor: torch.Tensor) -> Any:
                return wp.from_torch(tensor)

            wp.launch(
                self._kernel,
                dim=high - low,
                inputs=[
                    what, of(states), whole(self._rom), whole(self._facts), whole(self._memory), whole(self._boot),
                    of(numbers) if numbers is not None else whole(self._boot), of(held), skip, sticky, look,
                    whole(self._gray), of(pictures), of(rewards), of(lives), of(ended),
                ],
                device=self.device,
            )  # fmt: skip

        if self._pool is None:
            part(0, count)
        else:
            list(self._pool.map(part, bounds[:-1], bounds[1:]))
