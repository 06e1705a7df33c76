"""What a linear model makes of the TU datasets when it sees nothing of a graph but counts.

    GUMP_DATA=/path/to/datasets python benchmarks/counts.py MUTAG PROTEINS

A logistic regression learns from how many vertices and edges a graph has and how many vertices of each label, on the splits of the tables'
hundred runs: as counts, and as logarithms of one more than the count. It has the defaults of scikit-learn; nothing is chosen on any graph.
Beside it is the share of the most frequent class. Accuracy in %, with the plain 95 % interval of the mean and, in brackets, the one that allows for
splits that overlap; validation sets, on which searches of graph networks choose, are beside the test sets. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from gump.datasets.dataset import Dataset
from gump.datasets.tu import load_tu
from gump.experiment.protocol import Fresh
from gump.report.statistics import Estimate

REGRESSION = StandardScaler(), LogisticRegression(max_iter=5000)

MODELS = {
    "majority": DummyClassifier(),
    "counts": make_pipeline(*REGRESSION),
    "logarithms": make_pipeline(FunctionTransformer(np.log1p), *REGRESSION),
}


def main() -> None:
    """Prints a line for every dataset and model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="datasets of the collection", metavar="NAME")
    found = {}
    print(f"{'dataset':10s} {'model':10s} {'validation':>21s} {'test':>21s}")
    for name in parser.parse_args().names:
        dataset = load_tu(name)
        found[name] = {model: _accuracies(dataset, model) for model in MODELS}
        for model, parts in found[name].items():
            shown = (f"{estimate.mean:7.2f} ± {estimate.interval:4.2f} [{estimate.corrected_interval:4.2f}]" for estimate in parts)
            print(f"{name:10s} {model:10s} {' '.join(shown)}", flush=True)
    rounded = {
        name: {model: [round(estimate.mean, 2) for estimate in parts] for model, parts in models.items()}
        for name, models in found.items()
    }
    print(json.dumps(rounded))


def _accuracies(dataset: Dataset, model: str) -> tuple[Estimate, Estimate]:
    """On the validation sets and on the test sets of all splits."""
    x = np.stack([[graph.num_nodes, graph.num_edges / 2, *graph.x.sum(0)] for graph in dataset.graphs])
    y = np.array([int(graph.y) for graph in dataset.graphs])
    rule = Fresh()
    scores = []
    for index in range(rule.num_runs):
        train, val, test = (part.numpy() for part in rule.split(dataset, index))
        fitted = MODELS[model].fit(x[train], y[train])
        scores.append([100 * fitted.score(x[part], y[part]) for part in (val, test)])
    val_scores, test_scores = zip(*scores, strict=True)
    return Estimate.of(val_scores, len(val) / len(train)), Estimate.of(test_scores, len(test) / len(train))


if __name__ == "__main__":
    main()
