"""Can the far side of a ring be heard? Trains a GCN and GCN-GUMP on rings of growing size, from configuration to figure.

Source and target are opposite vertices of a ring of n vertices, n/2 hops apart; both models have n/2 + 1 layers of width 32, and the same
head, optimizer and budget. The settings are those of ``configs/transfer/ring_gcn.toml`` and ``ring_gcn_gump.toml``, with fewer sizes and epochs;
an epoch goes ten times through the five graphs of the task. Chance is 20 %. A run whose record is there is not trained again.
"""

import argparse
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress
from rich.table import Table

from gump.experiment.config import load_config
from gump.experiment.run import Runner, run_all
from gump.report import curve_figure, save_figure, table

CONFIGS = Path(__file__).parents[1] / "configs" / "transfer"
FILES = ("ring_gcn.toml", "ring_gcn_gump.toml")
SIZE, DEPTH, EPOCHS = "dataset.num_nodes", "model.num_layers", "train.epochs"


def main(arguments: list[str] | None = None) -> None:
    """Trains, prints a table, writes records and a picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 8, 12, 16, 20, 24, 28], help="numbers of vertices, even")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds to average over (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=30, help="the most epochs for either model (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="how many runs at a time (default: %(default)s)")
    parser.add_argument("--records", type=Path, default=Path("out/records"), help="the folder of records (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out/ring_transfer.png"), help="the picture (default: %(default)s)")
    options = parser.parse_args(arguments)
    sizes = sorted(set(options.sizes))
    if min(options.seeds, options.epochs, options.jobs) < 1:
        parser.error("--seeds, --epochs and --jobs must be at least 1")
    if len(sizes) < 2 or any(size < 4 or size % 2 for size in sizes):
        parser.error("--sizes must be two or more, even and at least 4")

    points = [{SIZE: size, DEPTH: size // 2 + 1, EPOCHS: options.epochs} for size in sizes]
    configs = [config for point in points for file in FILES for config in load_config(CONFIGS / file, point)]
    runner = Runner(options.records, overwrite=True)
    console, records = Console(), []
    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=console) as progress:
        bar = progress.add_task("training", total=len(configs) * options.seeds)
        for record in run_all(runner, configs, range(options.seeds), options.jobs):
            records.append(record)
            title, size = record.settings["title"], record.settings["dataset"]["num_nodes"]
            progress.update(bar, advance=1, description=f"{title}, {size} vertices")

    frame = table(records)
    frame["line"] = frame["method"]  # all points have the same epochs, which the note tells
    accuracy = frame.pivot(index="x", columns="method", values="loss_mean")
    shown = Table("vertices", "hops", *accuracy.columns, title="Ring: mean accuracy")
    for size, row in accuracy.iterrows():
        shown.add_row(f"{size:.0f}", f"{size / 2:.0f}", *(f"{value:.0f}%" for value in row))
    usual = load_config(CONFIGS / FILES[0])[0].training.epochs
    console.print(shown, f"(over {options.seeds} seeds; at most {options.epochs} epochs, where the configurations have {usual})")
    save_figure(curve_figure(frame, SIZE, chance=20), options.out, png=True)
    console.print(f"Picture: {options.out.with_suffix('.png')}\nRecords: {options.records}, for `gump report {options.records}`")


if __name__ == "__main__":
    main()
