"""A notebook: a network that is defined in a cell, a run with agents, and its policy."""

import pytest

pytestmark = pytest.mark.processes
CELLS = [
    """
import ga3c
from torch import nn

class Net(nn.Sequential):
    def __init__(self, shape):
        super().__init__(nn.Flatten(), nn.Linear(shape[0] * shape[1], 16), nn.Tanh())

rows = []

def callback(row):
    rows.append(row)
    return row["steps"] < 100

config = ga3c.Config(game="CartPole-v1", agents=2, envs_per_agent=2, min_batch=10, network=Net, run="here",
                     log_seconds=0.3, max_seconds=200, device="cpu", tensorboard=False)
summary = ga3c.train(config, callback)
print(summary["exit_reason"], rows[-1]["steps"] >= 100, summary["unaccounted_steps"])
""",
    """
policy = ga3c.load("here")
env = policy.make_env()
observation, _ = env.reset(seed=0)
_, reward, *_ = env.step(policy.act(observation))
print(reward, policy.config.network)
""",
    """
import multiprocessing, signal
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, multiprocessing.active_children())
""",
]


def test_it_trains_in_a_notebook(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=place).execute()
    said = [
        "".join(output["text"] for output in cell.outputs if output.get("name") == "stdout") for cell in notebook.cells
    ]
    assert said == ["callback True 0\n", "1.0 __main__:Net\n", "True []\n"]
