"""Networks, RMSProp, and versions that never change."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from ga3c.algorithms.rule import make_learning
from ga3c.games.spec import Discrete, EnvSpec
from ga3c.memory.experience import Experience
from ga3c.models.batches import Batches
from ga3c.models.model import Loss, Model
from ga3c.settings.config import Resolved
from ga3c.settings.declare import ConfigError

ATARI = EnvSpec(frame=(84, 84), stack=4, dtype="uint8", action=Discrete(6))
CARTPOLE = EnvSpec(frame=(4,), stack=1, dtype="float32", action=Discrete(2))
COLORS = EnvSpec(frame=(3, 84, 84), stack=4, dtype="uint8", action=Discrete(6))
BOARD = EnvSpec(frame=(5, 9, 7), stack=1, dtype="uint8", action=Discrete(6))
GRAY_BOARD = EnvSpec(frame=(9, 7), stack=1, dtype="uint8", action=Discrete(6))
TINY = EnvSpec(frame=(1,), stack=1, dtype="float32", action=Discrete(2))

# (kernel, stride) of each convolution and its channels, as section 3.2 and footnote 2 of the paper have them.
NETWORKS = {
    "small": [(16, 8, 4), (32, 4, 2)],
    **{f"large-{stride}": [(32, 8, stride), (32, 4, 2), (64, 4, 2)] for stride in (4, 3, 2, 1)},
    "tiny": [(16, 3, 1), (32, 3, 1)],
    "nature": [(32, 8, 4), (64, 4, 2), (64, 3, 1)],  # of Mnih et al. 2015
}
PICTURES = [(name, ATARI) for name in NETWORKS if name != "tiny"]
IMAGES = [*PICTURES, ("small", COLORS), ("large-4", COLORS), ("tiny", BOARD), ("tiny", GRAY_BOARD)]


def make_model(spec, **settings):
    config = Resolved(**{"game": "Pong", "device": "cpu", "normalize": False, **settings})
    return Model(config, make_learning(config, spec).network)


def parts(prediction):
    """Policies (n, actions) and values (n)."""
    return prediction.outputs[:, :-1], prediction.outputs[:, -1]


def some_observations(spec, count, seed=0):
    """Observations, one brighter than the other."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand((count, *spec.observation), generator=generator)
    for i in range(count):
        noise[i] *= (i + 1) / count
    return (256 * noise).to(torch.uint8) if spec.dtype == "uint8" else noise


# Networks


@pytest.mark.parametrize(
    ("name", "features", "size"),
    [
        # Without padding a side s becomes (s − kernel)//stride + 1. All large networks share their convolutions,
        # 32·4·8² + 32 + 32·32·4² + 32 + 64·32·4² + 64 = 8224 + 16416 + 32832 = 57472, and all have the heads
        # 256·6 + 6 + 256 + 1 = 1799; the fully connected layer is features·256 + 256.
        # small: 84 → 20 → 9; 16·4·8² + 16 + 32·16·4² + 32 = 4112 + 8224 = 12336; 663808
        ("small", 9 * 9 * 32, 12336 + 663808 + 1799),
        # large-4: 84 → 20 → 9 → 3; 576·256 + 256 = 147712
        ("large-4", 3 * 3 * 64, 57472 + 147712 + 1799),
        # large-3: 84 → 26 → 12 → 5; 1600·256 + 256 = 409856
        ("large-3", 5 * 5 * 64, 57472 + 409856 + 1799),
        # large-2: 84 → 39 → 18 → 8; 4096·256 + 256 = 1048832
        ("large-2", 8 * 8 * 64, 57472 + 1048832 + 1799),
        # large-1: 84 → 77 → 37 → 17; 18496·256 + 256 = 4735232
        ("large-1", 17 * 17 * 64, 57472 + 4735232 + 1799),
        # nature: 84 → 20 → 9 → 7; 32·4·8² + 32 + 64·32·4² + 64 + 64·64·3² + 64 = 8224 + 32832 + 36928; 3136·256 + 256
        ("nature", 7 * 7 * 64, 77984 + 803072 + 1799),
    ],
)
def test_sizes_of_the_papers_networks(name, features, size):
    network = make_model(ATARI, network=name, init="paper").network
    assert network.linears[0].inputs == features
    assert network.size == size


def test_size_of_the_network_for_vectors():
    # 4·256 + 256 + 256·256 + 256 + 256·2 + 2 + 256 + 1 = 1280 + 65792 + 514 + 257
    assert make_model(CARTPOLE).network.size == 67843
    # HIDDEN=10: 4·10 + 10 + 10·10 + 10 + 10·2 + 2 + 10 + 1
    assert make_model(CARTPOLE, hidden=10).network.size == 193


def plain_network(name, network, flat):
    """The same network of torch's own layers with the same weights, for observations (n, stack, *frame)."""
    parameters = iter(network.unflatten(flat))
    layers, sides, channels = [], network.spec.frame[-2:], network.spec.channels
    for outputs, kernel, stride in NETWORKS.get(name, []):
        weight, bias = next(parameters)
        conv = nn.Conv2d(channels, outputs, kernel, stride)
        conv.weight.data, conv.bias.data = weight.permute(0, 3, 1, 2).contiguous(), bias
        layers += [conv, nn.ReLU()]
        sides, channels = tuple((side - kernel) // stride + 1 for side in sides), outputs
    layers.append(nn.Flatten())
    convolved = name in NETWORKS
    for _ in range(1 if convolved else 2):
        weight, bias = next(parameters)
        if convolved:  # kept as (rows, columns, channels), while Flatten gives (channels, rows, columns)
            weight = weight.view(256, *sides, channels).permute(0, 3, 1, 2).flatten(1)
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.weight.data, linear.bias.data = weight, bias
        layers += [linear, nn.ReLU()]
    body = nn.Sequential(*layers)
    (policy_weight, policy_bias), (value_weight, value_bias) = parameters

    def run(observations):
        hidden = body(observations.flatten(1, -3) / 255.0 if convolved else observations)
        policies = torch.softmax(hidden @ policy_weight.T + policy_bias, dim=1)
        return policies, (hidden @ value_weight.T + value_bias)[:, 0]

    return run


@pytest.mark.parametrize(("name", "spec"), [*IMAGES, ("mlp", CARTPOLE)])
@torch.no_grad()
def test_forward_is_that_of_torchs_own_layers(name, spec):
    model = make_model(spec, network=name, init="paper", seed=1)
    weights = 2 * model.version.weights.numpy()  # larger, so that outputs depend on the observation
    zeros = np.zeros_like(weights)
    arrays = {"weights": weights, "mean_square": zeros, "mean_weights": zeros, "pixels": np.zeros(1, np.float32)}
    model.load(0, arrays)
    observations = some_observations(spec, 3)
    policies, values = plain_network(name, model.network, model.version.weights)(observations.to(torch.float32))
    predicted_policies, predicted_values = parts(model.predict(observations))
    np.testing.assert_allclose(predicted_policies, policies, atol=1e-5)
    np.testing.assert_allclose(predicted_values, values, atol=1e-5)
    # So that the comparison means something:
    assert values.std() > 1e-2
    assert policies.std(dim=0).max() > 1e-2
    np.testing.assert_allclose(predicted_policies.sum(axis=1), 1, rtol=1e-5)


def as_trained(observations):
    """The same numbers in the order in memory that training batches have: as those of one experience for each."""
    frames = observations.numpy()
    spec = EnvSpec(frame=frames.shape[2:], stack=frames.shape[1], dtype="uint8", action=Discrete(6))
    experiences = [
        Experience(agent=0, env=0, first_step=0, version=0, frames=stack, fields={"actions": np.zeros(1)})
        for stack in frames
    ]
    return Batches(spec, torch.device("cpu")).training(experiences).observations


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("name", "spec"), IMAGES)
def test_the_order_in_memory_changes_nothing(name, spec, normalize):
    model = make_model(spec, network=name, init="paper", normalize=normalize)
    weights = model.version.weights
    pixels = weights[model.network.weights :]  # means and scales, a different one for each pixel of each colour
    pixels.copy_(torch.arange(len(pixels)) / len(pixels))
    observations = some_observations(spec, 3)
    stack_last = as_trained(observations)
    assert torch.equal(stack_last, observations)
    for one, other in zip(parts(model.predict(observations)), parts(model.predict(stack_last)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_gradient_is_that_of_torchs_own_layers():
    # The gradient by the first convolution, which sees the pixels' scale, and by all that comes after it.
    model = make_model(ATARI, init="paper")
    observations = some_observations(ATARI, 2)

    def loss(weights):
        policies, values = model.network.forward(weights, observations)
        return Loss((policies[:, 0] * 3 + values).sum(), {})

    def plain_loss(weights):
        convolutions = model.network.unflatten(weights)
        x = observations.to(torch.float32) / 255.0
        for (weight, bias), stride in zip(convolutions[:2], (4, 2), strict=True):
            x = torch.relu(nn.functional.conv2d(x, weight.movedim(-1, 1), bias, stride))
        x = x.movedim(1, -1).flatten(1)
        for weight, bias in convolutions[2:3]:
            x = torch.relu(x @ weight.T + bias)
        (policy_weight, policy_bias), (value_weight, value_bias) = convolutions[3:]
        policies = torch.softmax(x @ policy_weight.T + policy_bias, dim=1)
        return (policies[:, 0] * 3 + (x @ value_weight.T + value_bias)[:, 0]).sum()

    version, gradient, _ = model.gradient(loss)
    weights = model.version.weights.clone().requires_grad_()
    (plain,) = torch.autograd.grad(plain_loss(weights), weights)
    assert version == 0
    torch.testing.assert_close(gradient, plain, atol=1e-5, rtol=1e-4)


def test_auto_goes_by_the_observations():
    assert make_model(ATARI).network.size == make_model(ATARI, network="small").network.size
    assert make_model(CARTPOLE).network.size == make_model(CARTPOLE, network="mlp").network.size
    assert make_model(BOARD).network.size == make_model(BOARD, network="tiny").network.size


def test_images_can_go_through_the_network_for_vectors():
    # 84·84·4 inputs: 28224·8 + 8 + 8·8 + 8 + 8·6 + 6 + 8 + 1
    model = make_model(ATARI, network="mlp", hidden=8)
    assert model.network.size == 28224 * 8 + 143
    assert parts(model.predict(some_observations(ATARI, 2)))[0].shape == (2, 6)


@pytest.mark.parametrize(
    ("spec", "network", "instead"),
    [
        (CARTPOLE, "small", "large images, but GAME=Pong has vectors of 4: use mlp"),
        (CARTPOLE, "tiny", "images of at most 25 pixels a side, but GAME=Pong has vectors of 4: use mlp"),
        (BOARD, "large-4", "large images, but GAME=Pong has images of 5×9×7: use tiny or mlp"),
        (ATARI, "tiny", "at most 25 pixels a side, but GAME=Pong has images of 84×84: use small or mlp"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(spec, network, instead):
    with pytest.raises(ConfigError, match=f"NETWORK={network} is for .*{instead}"):
        make_model(spec, network=network)


def test_mean_and_scale_belong_to_each_pixel_of_each_colour():
    model = make_model(COLORS, network="mlp", hidden=8, normalize=True)
    mean, scale = model.version.weights[model.network.weights :].view(2, 3, 84, 84)
    mean[2], scale[2] = 100, 0.5
    seen = model.network._input(model.version.weights, torch.full((1, 4, 3, 84, 84), 102, dtype=torch.uint8))
    colors = seen.view(4, 3, 84 * 84)
    torch.testing.assert_close(colors[:, 0], torch.full((4, 84 * 84), 102 / 255))
    assert (colors[:, 2] == 1).all()


@pytest.mark.parametrize("device", ["cuda:77", "nonsense"])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(ConfigError, match=f"DEVICE={device}"):
        make_model(TINY, device=device)


def test_the_seed_decides_the_first_weights():
    weights = make_model(CARTPOLE, seed=4).version.weights
    assert torch.equal(weights, make_model(CARTPOLE, seed=4).version.weights)
    assert not torch.equal(weights, make_model(CARTPOLE, seed=5).version.weights)


def test_first_weights_of_the_paper_are_uniform_within_one_over_root_of_the_inputs():
    network = make_model(ATARI, init="paper").network
    for inputs, (weight, bias) in zip(
        (4 * 8 * 8, 16 * 4 * 4, 2592, 256, 256), network.unflatten(network.initial(0, "paper")), strict=True
    ):
        bound = inputs**-0.5
        assert 0.9 * bound < weight.abs().max() <= bound
        assert weight.std() == pytest.approx(bound / 3**0.5, rel=0.15)  # of a uniform distribution
        assert 0 < bias.abs().max() <= bound


def test_first_orthogonal_weights():
    network = make_model(ATARI).network
    gains = (2**0.5, 2**0.5, 2**0.5, 0.01, 1.0)
    for gain, (weight, bias) in zip(gains, network.unflatten(network.initial(0, "orthogonal")), strict=True):
        rows = weight.flatten(1)
        torch.testing.assert_close(rows @ rows.T, gain**2 * torch.eye(len(rows)), atol=1e-4, rtol=0)
        assert not bias.any()


# RMSProp: g ← αg + (1−α)Δ², θ ← θ − ηΔ/√(g+ε); by hand with α = 0.9, ε = 0.1, η = 0.5 and gradients 2, then −1


def moved(initial, *gradients):
    """How far each update of all weights by the same gradient moves them."""
    model = make_model(TINY, hidden=1, rmsprop_decay=0.9, rmsprop_epsilon=0.1, rmsprop_initial=initial)
    moves = []
    for gradient in gradients:
        before = model.version.weights
        model.apply(torch.full_like(before, gradient), 0.5)
        move = (model.version.weights - before).tolist()
        assert move == pytest.approx([move[0]] * len(move), abs=1e-6)
        moves.append(move[0])
    return moves


def test_rmsprop_from_zero():
    # g = 0.1·4 = 0.4:             θ moves by −0.5·2/√0.5    = −1.4142136
    # g = 0.9·0.4 + 0.1·1 = 0.46:  θ moves by +0.5·1/√0.56   = +0.6681531
    assert moved(0.0, 2.0, -1.0) == pytest.approx([-1.4142136, 0.6681531], abs=1e-6)


def test_rmsprop_from_one():
    # g = 0.9·1 + 0.1·4 = 1.3:     θ moves by −0.5·2/√1.4    = −0.8451543
    # g = 0.9·1.3 + 0.1·1 = 1.27:  θ moves by +0.5·1/√1.37   = +0.4271788
    assert moved(1.0, 2.0, -1.0) == pytest.approx([-0.8451543, 0.4271788], abs=1e-6)


def test_rmsprop_is_not_that_of_torch():
    # torch has ε outside the root: θ moves by −0.5·2/(√0.4 + 0.1) = −1.3652705, another algorithm with ε = 0.1.
    theta = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.RMSprop([theta], lr=0.5, alpha=0.9, eps=0.1)
    theta.grad = torch.tensor([2.0])
    optimizer.step()
    assert theta.item() == pytest.approx(-1.3652705, abs=1e-6)
    assert moved(0.0, 2.0)[0] != pytest.approx(theta.item(), abs=1e-2)


def test_a_small_gradient_shows_where_epsilon_stands():
    # Δ = 0.01: g = 1e-5 and the step is 0.005/√0.10001 = 0.0158106; outside the root it were 0.005/0.1031623 = 0.0485.
    assert moved(0.0, 0.01)[0] == pytest.approx(-0.0158106, abs=1e-6)


# Versions


def test_versions_are_counted_and_never_change():
    model = make_model(CARTPOLE)
    versions, copies = [model.version], [model.version.weights.clone()]
    for i in range(1, 4):
        number = model.apply(torch.full((model.network.size,), float(i)), 0.1)
        assert number == model.version.number == i
        versions.append(model.version)
        copies.append(model.version.weights.clone())
    for version, copy in zip(versions, copies, strict=True):
        assert torch.equal(version.weights, copy)
    assert not torch.equal(copies[0], copies[1])


def test_predictions_and_gradients_tell_their_version():
    model = make_model(CARTPOLE)
    observations = some_observations(CARTPOLE, 2)
    for number in range(3):
        prediction = model.predict(observations)
        version, gradient, _ = model.gradient(lambda weights: Loss((weights**2).sum(), {}))
        assert (prediction.version, version) == (number, number)
        torch.testing.assert_close(gradient, 2 * model.version.weights)
        assert not gradient.requires_grad
        assert not model.version.weights.requires_grad  # a version stays a plain snapshot
        model.apply(gradient, 0.1)


def test_what_a_prediction_gave_does_not_change_with_the_model():
    model = make_model(CARTPOLE)
    observations = some_observations(CARTPOLE, 2)
    prediction = model.predict(observations)
    before = prediction.outputs.copy()
    model.apply(torch.ones(model.network.size), 1.0)
    model.predict(some_observations(CARTPOLE, 2, seed=1))
    np.testing.assert_array_equal(prediction.outputs, before)


def test_a_prediction_is_of_exactly_the_version_it_names():
    """Three threads predict while a fourth updates; each prediction is recomputed from the version that it names."""
    model = make_model(CARTPOLE, init="paper")
    observations = some_observations(CARTPOLE, 8)
    versions = [model.version]
    predictions = [[], [], []]
    stop = threading.Event()

    def predict(mine):
        while not stop.is_set():
            mine.append(model.predict(observations))

    threads = [threading.Thread(target=predict, args=(mine,)) for mine in predictions]
    for thread in threads:
        thread.start()
    for i in range(200):
        direction = torch.randn(model.network.size, generator=torch.Generator().manual_seed(i))
        model.apply(direction, 0.01)
        versions.append(model.version)
    stop.set()
    for thread in threads:
        thread.join(timeout=10)
    numbers = {prediction.version for mine in predictions for prediction in mine}
    assert len(numbers) > 5  # the threads did run beside the updates
    for mine in predictions:
        assert [prediction.version for prediction in mine] == sorted(prediction.version for prediction in mine)
        for prediction in mine[:: max(1, len(mine) // 100)]:
            with torch.no_grad():
                policies, values = model.network.forward(versions[prediction.version].weights, observations)
            predicted_policies, predicted_values = parts(prediction)
            np.testing.assert_allclose(predicted_policies, policies, atol=1e-6)
            np.testing.assert_allclose(predicted_values, values, atol=1e-5)


def test_a_saved_state_goes_on_exactly():
    gradients = [torch.full((make_model(CARTPOLE).network.size,), value) for value in (0.5, -2.0, 1.0)]
    model = make_model(CARTPOLE)
    model.apply(gradients[0], 0.1)
    model.apply(gradients[1], 0.1)
    number, arrays = model.state()
    model.apply(gradients[2], 0.1)  # must not change what was saved

    resumed = make_model(CARTPOLE, seed=99)
    resumed.load(number, arrays)
    assert resumed.version.number == 2
    assert resumed.apply(gradients[2], 0.1) == 3
    assert torch.equal(resumed.version.weights, model.version.weights)


def test_a_state_of_another_network_is_refused():
    number, arrays = make_model(CARTPOLE).state()
    with pytest.raises(ConfigError, match="do not fit"):
        make_model(CARTPOLE, hidden=10).load(number, arrays)


# Normalized pixels


def small_images(count, low, high, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(low, high, (count, 84, 84), dtype=np.uint8))


def test_pixels_are_plain_until_they_are_measured():
    observations = some_observations(ATARI, 2)
    models = (make_model(ATARI, seed=1, normalize=on) for on in (False, True))
    plain, normalizing = (parts(model.predict(observations)) for model in models)
    np.testing.assert_allclose(normalizing[0], plain[0], atol=1e-6)
    np.testing.assert_allclose(normalizing[1], plain[1], atol=1e-5)


def test_pixels_are_centred_and_scaled_by_what_was_trained_on():
    model = make_model(ATARI, normalize=True)
    frames = small_images(30, 0, 200)
    frames[:, 0, 0] = 77  # never changes
    frames[:, 0, 1] = torch.tensor([100, 102] * 15)  # hardly changes: a deviation of 1 counts as one of 5
    before = model.version
    no_gradient = torch.zeros(model.network.size)
    model.apply(no_gradient, 0.1, frames[:10])
    model.apply(no_gradient, 0.1, frames[10:])
    mean, scale = model.version.weights[model.network.weights :].view(2, 84, 84)
    everything = frames.double()
    torch.testing.assert_close(mean.double(), everything.mean(dim=0), atol=1e-3, rtol=1e-5)
    deviation = everything.std(dim=0, correction=0)
    torch.testing.assert_close(scale[1:].double(), 1 / deviation[1:], atol=1e-5, rtol=1e-4)
    assert scale[0, 0] == pytest.approx(1 / 255)
    assert scale[0, 1] == pytest.approx(1 / 5)
    # The layers' weights and the versions before are as they were.
    assert torch.equal(model.version.weights[: model.network.weights], before.weights[: model.network.weights])
    assert before.weights[model.network.weights] == 0
    # What the first layer sees: (x − mean)·scale, at most 5 either way.
    observation = torch.full((1, 4, 84, 84), 255, dtype=torch.uint8)
    for memory_format in (torch.contiguous_format, torch.channels_last):
        seen = model.network._input(model.version.weights, observation.contiguous(memory_format=memory_format))
        torch.testing.assert_close(seen[0, 2, 1:], (255 - mean[1:]) * scale[1:])
        assert seen[0, 0, 0, 1] == 5


def test_the_constants_have_no_gradient_and_their_measuring_ends():
    model = make_model(ATARI, normalize=True)
    observations = some_observations(ATARI, 2)
    _, gradient, _ = model.gradient(lambda weights: Loss(model.network.forward(weights, observations)[1].sum(), {}))
    assert gradient[: model.network.weights].abs().max() > 0
    assert not gradient[model.network.weights :].any()
    assert model.measures_pixels
    frames = small_images(1, 0, 255).expand(20_000, 84, 84)
    model.apply(gradient, 0.1, frames[:10_000])
    assert model.measures_pixels
    model.apply(gradient, 0.1, frames[10_000:])
    assert not model.measures_pixels
    assert not make_model(CARTPOLE, normalize=True).measures_pixels


def test_the_measured_pixels_are_part_of_a_checkpoint():
    model = make_model(ATARI, normalize=True)
    model.apply(torch.zeros(model.network.size), 0.1, small_images(5, 0, 255))
    number, arrays = model.state()
    other = make_model(ATARI, normalize=True, seed=9)
    other.load(number, arrays)
    for one in (model, other):
        one.apply(torch.ones(one.network.size), 0.1, small_images(7, 100, 255, seed=1))
    assert torch.equal(model.version.weights, other.version.weights)
