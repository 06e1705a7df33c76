"""Trains GCN-GUMP on a large graph with hubs whose coins are never held: batches of a few vertices and the arcs sampled around them.

The graph is made up: vertices of five kinds are joined mostly to their own kind, and a few are hubs. Features tell the kind, but under so much
noise that one does better to ask the neighbors. A tenth of the vertices have known kinds to learn from; a tenth is asked about in the end, over
samples as well. Chance is 20 %.
"""

import argparse

import torch
from torch.nn.functional import cross_entropy, one_hot
from torch_geometric.data import Data

from gump import EulerianLineGraph
from gump.loader import ArcNeighborLoader
from gump.nn import GUMP, NodePredictor
from gump.transforms import AddLineGraph

NUM_KINDS, NUM_PARTNERS, PURITY, NOISE = 5, 10, 0.8, 2.0


def make_graph(num_nodes: int, seed: int) -> Data:
    """Every vertex chooses ten partners, by popularity, four of five among its own kind."""
    random = torch.Generator().manual_seed(seed)
    kind = torch.randint(NUM_KINDS, (num_nodes,), generator=random)
    popularity = 1 / torch.rand(num_nodes, generator=random).clamp(min=1 / num_nodes).sqrt()
    source = torch.arange(num_nodes).repeat_interleave(NUM_PARTNERS)
    target = torch.multinomial(popularity, source.numel(), replacement=True, generator=random)
    for k in range(NUM_KINDS):
        alike = (kind[source] == k) & (torch.rand(source.numel(), generator=random) < PURITY)
        drawn = torch.multinomial(popularity * (kind == k), int(alike.sum()), replacement=True, generator=random)
        target[alike] = drawn
    x = one_hot(kind, NUM_KINDS) + NOISE * torch.randn(num_nodes, NUM_KINDS, generator=random)
    part = torch.rand(num_nodes, generator=random)
    return Data(x=x, edge_index=torch.stack([source, target]), y=kind, train_mask=part < 0.1, test_mask=part > 0.9)


def answers(model: torch.nn.Module, batch: Data) -> torch.Tensor:
    """The model's answers about the input vertices of a batch, which come first."""
    return model(batch.x, batch.edge_index, line_graph=EulerianLineGraph.from_data(batch))[: batch.batch_size]


def main(arguments: list[str] | None = None) -> None:
    """Makes the graph, trains, asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vertices", type=int, default=100_000, help="the size of the graph (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=2, help="how often to go through what is known (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=128, help="input vertices of a batch (default: %(default)s)")
    parser.add_argument(
        "--neighbors",
        type=int,
        nargs="+",
        default=[5, 3, 2, 2],
        help="arcs that a vertex draws, for every hop; four are what two layers and a GCN look at (default: %(default)s)",
    )
    parser.add_argument("--workers", type=int, default=0, help="processes that sample (default: %(default)s)")
    options = parser.parse_args(arguments)
    if min(options.epochs, options.batch_size) < 1 or options.vertices < 100:
        parser.error("--epochs and --batch-size must be at least 1, --vertices at least 100")

    data = make_graph(options.vertices, seed=0)
    print(f"the whole graph:  {EulerianLineGraph.from_edge_index(data.edge_index, data.num_nodes)}")
    settings = {"batch_size": options.batch_size, "transform": AddLineGraph(), "num_workers": options.workers}
    train = ArcNeighborLoader(data, options.neighbors, input_nodes=data.train_mask, shuffle=True, **settings)
    test = ArcNeighborLoader(data, options.neighbors, input_nodes=data.test_mask, **settings)

    torch.manual_seed(0)
    model = NodePredictor(GUMP(NUM_KINDS, hidden_channels=32, num_layers=2), NUM_KINDS)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(options.epochs):
        total = 0.0
        for step, batch in enumerate(train):
            if epoch == step == 0:
                print(f"the first batch:  {EulerianLineGraph.from_data(batch)}")
            optimizer.zero_grad()
            loss = cross_entropy(answers(model, batch), batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1}: mean loss {total / len(train):.3f}", flush=True)

    model.eval()
    with torch.no_grad():
        right = torch.cat([answers(model, batch).argmax(-1) == batch.y[: batch.batch_size] for batch in test])
    print(f"right about {100 * right.float().mean():.1f} % of {right.numel()} vertices")
    guessed = data.x[data.test_mask].argmax(-1) == data.y[data.test_mask]
    print(f"by their own features alone one would be right about {100 * guessed.float().mean():.1f} %")


if __name__ == "__main__":
    main()
