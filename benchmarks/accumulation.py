"""How residual non-unitarity adds up with depth when Newton-Schulz stops after K steps: the question that the paper leaves open.

    GUMP_DATA=/path/to/datasets python benchmarks/accumulation.py

Three laws, each fitted and printed with its error.

1. How many steps a block needs until its residual is below 1e-6, against ln(||B||_F / sigma_min): blocks of degree 2 to 16 and condition
   10 to 1e6, singular values in equal ratios.
2. The loss of one step, 1 - ||U||_F^2 / N, against the residual r: always between r^2 and r, fitted by r^p.
3. The energy ||U^L||_F^2 / N at depth L, from the loss of the first step alone: (1 - loss)^L, and the law with a tail of
   gump.diagnostics.predicted_energy. On random regular graphs whose blocks have a chosen condition; and on TU graphs with the paper's
   setting, on random features as in its appendix and on the datasets' own, behind a GIN of the paper's depth: fresh weights, torch's
   default initialization of the scores, the first graphs of each dataset as one batch. In float64; depths 2 to 100, energies above 1e-6.

The last line is one JSON object.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch

from gump import EulerianLineGraph
from gump.datasets import load_tu
from gump.diagnostics import StepLoss, blocks_of_condition, energy_kept, fit_decay, step_loss
from gump.linalg import polar_factor, unitarity_error
from gump.nn import GUMP, PRESETS, Coin, Propagation

BASE_LAYERS = {"MUTAG": 5, "PROTEINS": 3, "ENZYMES": 1, "NCI1": 1, "NCI109": 1}
"""The paper's depths of the base GNN."""
DEGREES, CONDITIONS, STEPS = (2, 3, 4, 8, 16), (1e1, 1e2, 1e3, 1e4, 1e5, 1e6), (3, 5, 7, 10, 15, 20)
DEPTH, NUM_VERTICES, NUM_GRAPHS, NUM_PROBES = 100, 64, 100, 64
SHOWN = (1, 10, 20, 50, 100)


def regular_graph(degree: int, generator: torch.Generator) -> Tensor:
    """Draws a graph in which all vertices have a degree: perfect matchings that share no edge."""
    edges: set[tuple[int, int]] = set()
    while len(edges) < degree * NUM_VERTICES // 2:
        matching = torch.randperm(NUM_VERTICES, generator=generator).view(-1, 2).sort(1)[0].tolist()
        edges |= {(u, v) for u, v in matching} if not edges & {(u, v) for u, v in matching} else set()
    return torch.tensor(sorted(edges)).t()


def steps_needed(generator: torch.Generator) -> dict[str, float]:
    """Fits the number of steps until r < 1e-6."""
    size, count = [], []
    for degree in DEGREES:
        for condition in CONDITIONS:
            block = blocks_of_condition(1, degree, condition, generator)
            size.append(math.log(float(block.norm()) * condition))
            count.append(next(k for k in range(100) if float(unitarity_error(polar_factor(block, num_steps=k))) < 1e-6))
    slope, intercept = np.polyfit(size, count, 1)
    error = np.array(count) - (slope * np.array(size) + intercept)
    result = {"slope": slope, "intercept": intercept, "rms": np.sqrt((error**2).mean()), "largest": np.abs(error).max()}
    print(
        f"steps until r < 1e-6: {slope:.3f} ln(||B||_F / sigma_min) + {intercept:.2f}, error {result['rms']:.2f}, at most "
        f"{result['largest']:.2f} steps; the growth of a small singular value alone gives a slope of {1 / math.log(15 / 8):.3f}"
    )
    return result


def report(name: str, energies: list[Tensor]) -> dict[str, Any]:
    """Fits one family of operators and prints how well; the shape is null where the exponential law fits best."""
    fit = fit_decay(torch.stack(energies))
    law = f"{'exponential':>13s}" if math.isinf(fit.shape) else f"gamma {fit.shape:7.2f}"
    bound = ", the best shape at the bound of the fit" if fit.at_bound else ""
    print(
        f"{name:18s} {law}, error of ln E {fit.error:.3f}, of the exponential {fit.exponential_error:.3f} "
        f"({fit.num_points} energies{bound})"
    )
    return {**fit._asdict(), "shape": None if math.isinf(fit.shape) else fit.shape}


def scores_of(name: str, features: str, batch: Batch, line_graph: EulerianLineGraph) -> list[Tensor]:
    """Fresh scores on a dataset's own features, or on random ones of 64 columns."""
    torch.manual_seed(0)
    if features == "random":
        return Coin(128).double().scores(torch.randn(batch.num_nodes, 64).double(), line_graph)
    settings = {"conv": "gin", "base": "gin", "num_base_layers": BASE_LAYERS[name], **PRESETS["paper"]}
    model = GUMP(batch.num_features, 64, 1, **settings).double()
    return model.coin.scores(*model.start(batch.x.double(), batch.edge_index, line_graph=line_graph))


@torch.no_grad()
def main() -> None:
    """Measures, fits and prints."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    results: dict[str, Any] = {"steps": steps_needed(generator)}
    losses: list[StepLoss] = []

    def measured(blocks: list[Tensor], line_graph: EulerianLineGraph, num_probes: int | None = None) -> Tensor:
        losses.append(step_loss(blocks))
        return energy_kept(Propagation(blocks, line_graph).matrix(), DEPTH, num_probes, generator)

    for degree in DEGREES:
        line_graph = EulerianLineGraph.from_edge_index(regular_graph(degree, generator), NUM_VERTICES)
        energies = []
        for condition in CONDITIONS:
            for steps in STEPS:
                blocks = blocks_of_condition(NUM_VERTICES, degree, condition, generator)
                energies.append(measured([polar_factor(blocks, num_steps=steps)], line_graph))
        results[f"degree {degree}"] = report(f"degree {degree}", energies)
    for name in BASE_LAYERS:
        batch = Batch.from_data_list(load_tu(name, os.environ["GUMP_DATA"])[:NUM_GRAPHS])
        line_graph = EulerianLineGraph.from_edge_index(batch.edge_index, batch.num_nodes)
        for features in ("random", "real"):
            scores, energies = scores_of(name, features, batch, line_graph), []
            for steps in (5, 10, 20):
                energy = measured([polar_factor(block, num_steps=steps) for block in scores], line_graph, NUM_PROBES)
                energies.append(energy)
                kept = "  ".join(f"L={depth} {energy[depth]:.3f}" for depth in SHOWN)
                residual, loss = losses[-1]
                print(f"  {name:9s} {features:6s} K={steps:2d}: r {residual:.2e}, loss {loss:.2e}; energy left {kept}")
                shown = {"residual": residual, "loss": loss, "energy": [float(energy[depth]) for depth in SHOWN]}
                results[f"{name} {features} K={steps}"] = shown
            results[f"{name} {features}"] = report(f"{name} {features}", energies)
    residual, loss = np.array([pair for pair in losses if pair.loss > 1e-9]).T
    power = float(np.log(residual) @ np.log(loss) / (np.log(residual) @ np.log(residual)))
    error = float(np.sqrt(((np.log(loss) - power * np.log(residual)) ** 2).mean()))
    inside = int(((residual**2 <= loss * (1 + 1e-6)) & (loss <= residual * (1 + 1e-6))).sum())
    results["loss"] = {"power": power, "error": error, "inside": inside, "cases": len(loss)}
    print(f"loss of a step: r^{power:.3f}, error of ln loss {error:.3f}; between r^2 and r in {inside} of {len(loss)} cases")
    print(json.dumps(_rounded(results)))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
