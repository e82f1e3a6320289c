"""What a hundred replicas of the paper's 4×4 bars training cost, against one."""

from rapidbm.data import load
from rapidbm.recipe import Recipe
from rapidbm.training import Trainer

from .clock import interleaved

PER_ROUND = 40  # ten epochs of four updates


def trainer(replicas: int) -> Trainer:
    import torch

    recipe = Recipe.made("bars4", {"replicas": replicas, "seed": 1}, "paper-bars")
    data = load("bars4")
    return Trainer(
        recipe.machine(data, torch.device("cpu")),
        data.train.spins,
        recipe.negative_phase(),
        recipe.optimizer_choice(),
        epochs=10**6,
        batch_size=recipe.batch_size,
        positive=None,
        projection=recipe.projection_choice(),
        batch_mean="nominal",
        average=None,
        seed=1,
    )


def run() -> dict[str, float]:
    def updates(count: int):
        made = trainer(count)

        def go() -> None:
            for _ in range(PER_ROUND):
                made.step()

        return go

    seconds = interleaved({"one": updates(1), "hundred": updates(100)}, rounds=15)
    return {
        "ms per update, 1 replica": 1e3 * seconds["one"] / PER_ROUND,
        "ms per update, 100 replicas": 1e3 * seconds["hundred"] / PER_ROUND,
        "100 replicas over 1": seconds["hundred"] / seconds["one"],
    }
