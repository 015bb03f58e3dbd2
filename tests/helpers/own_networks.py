"""Networks as users bring them: some that fit, and some that do not."""

import torch
from torch import nn


class Conv(nn.Sequential):
    def __init__(self, shape):
        super().__init__(
            nn.Conv2d(shape[0], 4, 8, 8), nn.ReLU(inplace=True), nn.Flatten(), nn.LazyLinear(16), nn.ReLU()
        )


class MLP(nn.Module):
    """Returns (n, 1, 16) for vectors; has a weight twice, one that is not trained, and a constant."""

    def __init__(self, shape):
        super().__init__()
        self.first = nn.Linear(shape[-1], 16)
        self.middle = nn.Linear(16, 16)
        self.again = nn.Linear(16, 16)
        self.again.weight = self.middle.weight
        self.frozen = nn.Parameter(torch.randn(16), requires_grad=False)
        self.register_buffer("constant", torch.linspace(0, 1, 16))

    def forward(self, x):
        x = self.first(x).tanh() * self.frozen + self.constant
        return self.again(self.middle(x).relu_()).tanh()


class Normed(nn.Sequential):
    def __init__(self, shape):
        super().__init__(nn.Flatten(), nn.Linear(shape[0] * shape[1], 8), nn.LayerNorm(8))


class FixedNorm(nn.Sequential):
    """Batch normalization by statistics that stay as they are."""

    def __init__(self, shape):
        super().__init__(nn.Flatten(), nn.Linear(shape[0] * shape[1], 8), nn.BatchNorm1d(8).eval())


class InPlace(nn.Module):
    """Writes to what it is given."""

    def __init__(self, shape):
        super().__init__()
        self.linear = nn.Linear(shape[-1], 8)

    def forward(self, x):
        return self.linear(x.mul_(2)).flatten(1)


def function(shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1], 8), nn.Tanh())


class Nothing(nn.Flatten):
    """Has no weights: the heads alone learn."""

    def __init__(self, shape):
        super().__init__()


# What does not fit

made = nn.Linear(4, 4)
number = 5


class NoShape(nn.Module):
    def __init__(self):
        super().__init__()


class BatchNorm(nn.Sequential):
    def __init__(self, shape):
        super().__init__(nn.Flatten(), nn.Linear(4, 8), nn.BatchNorm1d(8))


class Centred(nn.Flatten):
    def __init__(self, shape):
        super().__init__()

    def forward(self, x):
        x = super().forward(x)
        return x - x.mean(dim=0)


class Dropout(nn.Sequential):
    def __init__(self, shape):
        super().__init__(nn.Flatten(), nn.Linear(4, 32), nn.Dropout(0.5))


class Double(nn.Sequential):
    def __init__(self, shape):
        super().__init__(nn.Flatten(), nn.Linear(4, 8, dtype=torch.float64))

    def forward(self, x):
        return super().forward(x.double()).float()


class Raises(nn.Module):
    def __init__(self, shape):
        super().__init__()

    def forward(self, x):
        raise KeyError("on purpose")


class Gives(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.linear = nn.Linear(4, 8)

    def forward(self, x):
        return self.give(self.linear(x.flatten(1)))


class Two(Gives):
    def give(self, features):
        return features, features


class Integers(Gives):
    def give(self, features):
        return features.long()


class Flat(Gives):
    def give(self, features):
        return features.mean(dim=1)


class Merged(Gives):
    def give(self, features):
        return features.mean(dim=0, keepdim=True)


class NotFinite(Gives):
    def give(self, features):
        return features / 0


class Steep(Gives):
    """Finite, but its slope is not."""

    def give(self, features):
        return (features * 0).sqrt()


class Viewed(nn.Module):
    """``view`` wants the stack first in memory, where a training batch has it last."""

    def __init__(self, shape):
        super().__init__()
        self.linear = nn.Linear(shape[0] * shape[1] * shape[2], 8)

    def forward(self, x):
        return self.linear(x.view(len(x), -1))


def no_module(shape):
    return shape
