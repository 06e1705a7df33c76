"""Where graphs come from."""

from gump.datasets.dataset import LEVELS, TASKS, Dataset
from gump.datasets.fake import fake_dataset
from gump.datasets.molecule import read_smiles
from gump.datasets.molhiv import load_molhiv
from gump.datasets.peptides import load_peptides
from gump.datasets.planetoid import load_planetoid
from gump.datasets.smiles import load_smiles
from gump.datasets.statistics import statistics
from gump.datasets.transfer import TRANSFER_TASKS, load_transfer, transfer_task
from gump.datasets.tu import load_tu

__all__ = [
    "LEVELS",
    "TASKS",
    "TRANSFER_TASKS",
    "Dataset",
    "fake_dataset",
    "load_molhiv",
    "load_peptides",
    "load_planetoid",
    "load_smiles",
    "load_transfer",
    "load_tu",
    "read_smiles",
    "statistics",
    "transfer_task",
]
