"""Molecules as graphs, with the features of the Open Graph Benchmark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_all_start_methods
from typing import Any, NamedTuple, TypeVar

import numpy as np
from torch_geometric.data import Data

from gump.datasets.cache import Arrays, to_graphs
from gump.datasets.workers import num_cores, process_pool, show_progress

T = TypeVar("T")

ATOM_FEATURES: dict[str, tuple[Any, ...]] = {
    "atomic number": (*range(1, 119), "other"),
    "chirality": ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER", "other"),
    "degree": (*range(11), "other"),
    "formal charge": (*range(-5, 6), "other"),
    "number of hydrogens": (*range(9), "other"),
    "number of radical electrons": (*range(5), "other"),
    "hybridization": ("SP", "SP2", "SP3", "SP3D", "SP3D2", "other"),
    "is aromatic": (False, True),
    "is in a ring": (False, True),
}
BOND_FEATURES: dict[str, tuple[Any, ...]] = {
    "type": ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "other"),
    "stereo": ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY"),
    "is conjugated": (False, True),
}
ATOM_SIZES = tuple(map(len, ATOM_FEATURES.values()))
BOND_SIZES = tuple(map(len, BOND_FEATURES.values()))


class Molecule(NamedTuple):
    """A molecule as arrays.

    Args:
        atoms: The categories of every atom, columns as in ``ATOM_FEATURES``.
        bonds: The two atoms of every bond, each bond once.
        bond_features: The categories of every bond, columns as in ``BOND_FEATURES``.
        descriptors: Numbers that belong to the molecule as a whole; none if they were not asked for.
    """

    atoms: np.ndarray
    bonds: np.ndarray
    bond_features: np.ndarray
    descriptors: np.ndarray


DESCRIPTORS = ("logP", "polar surface area", "molar refractivity", "diameter", "mean distance")
"""The descriptors of a molecule: Crippen's logP and molar refractivity, the topological polar surface area, and, of its graph, the longest and
the mean number of bonds on the shortest way between two atoms (of those that are connected)."""


def read_molecule(smiles: str, describe: bool = True) -> Molecule:
    """Makes a graph of a SMILES string: atoms with the nine features of OGB, bonds with its three, hydrogen left implicit.

    The features are those of `Hu et al. 2020 <https://arxiv.org/abs/2005.00687>`_, in their order: each is a category, counted from zero, and
    what has no category of its own gets the last one. Needs RDKit.

    Args:
        smiles: The molecule.
        describe: Whether to compute its ``DESCRIPTORS``, too.
    """
    molecule = _parsed(smiles)
    atoms = [
        (
            atom.GetAtomicNum(),
            str(atom.GetChiralTag()),
            atom.GetTotalDegree(),
            atom.GetFormalCharge(),
            atom.GetTotalNumHs(),
            atom.GetNumRadicalElectrons(),
            str(atom.GetHybridization()),
            atom.GetIsAromatic(),
            atom.IsInRing(),
        )
        for atom in molecule.GetAtoms()
    ]
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    features = [(str(bond.GetBondType()), str(bond.GetStereo()), bond.GetIsConjugated()) for bond in molecule.GetBonds()]
    edges = np.array(bonds, dtype=np.int64).reshape(-1, 2)
    descriptors = _descriptors(molecule, edges, len(atoms)) if describe else np.zeros(0)
    return Molecule(_categories(atoms, ATOM_FEATURES), edges, _categories(features, BOND_FEATURES), descriptors)


def murcko_scaffold(smiles: str) -> str:
    """The rings of a molecule with the chains between them, as SMILES: what is left without side chains; empty where there is no ring.

    It is the scaffold of `Bemis and Murcko 1996 <https://doi.org/10.1021/jm9602928>`_ as RDKit has it, without chirality.

    Args:
        smiles: The molecule.
    """
    molecule = _parsed(smiles)
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    scaffold: str = MurckoScaffoldSmiles(mol=molecule)
    return scaffold


def canonical_smiles(smiles: str) -> str:
    """A molecule as RDKit itself writes it, the same however it was written; stereochemistry, charges and isotopes count.

    Args:
        smiles: The molecule.
    """
    canonical: str = import_rdkit().MolToSmiles(_parsed(smiles))
    return canonical


def _parsed(smiles: str) -> Any:
    """A molecule of RDKit, which is kept from saying on its own what is wrong."""
    chem = import_rdkit()
    from rdkit.rdBase import BlockLogs

    molecule = None
    if isinstance(smiles, str) and smiles.isascii():  # RDKit passes over other signs
        _, *after = smiles.split(maxsplit=1) or [""]
        if not after or after[0].startswith("|"):  # and over what follows a space, unless it is an extension
            with BlockLogs():
                molecule = chem.MolFromSmiles(smiles)
    if molecule is None:
        raise ValueError(f"'smiles' must be a molecule that RDKit understands (got {smiles!r})")
    return molecule


def bare_molecule(smiles: str) -> Molecule:
    """Reads a molecule that must have an atom at least, without its descriptors."""
    molecule = read_molecule(smiles, describe=False)
    if not len(molecule.atoms):
        raise ValueError(f"'smiles' must have an atom at least (got {smiles!r})")
    return molecule


def read_molecules(smiles: Sequence[str], read: Callable[[str], T], show: bool = True) -> list[T]:
    """Reads molecules on all cores, where processes can be forked.

    Args:
        smiles: The molecules.
        read: What is done with each, such as :func:`read_molecule`.
        show: Whether to show how far it is.
    """
    import_rdkit()
    num_processes = min(num_cores(), 16)
    can_fork = "fork" in get_all_start_methods() and sys.platform != "darwin"  # where processes that were forked may crash
    if num_processes == 1 or len(smiles) < 1000 or not can_fork:
        return list(show_progress(map(read, smiles), len(smiles), "reading molecules", show))
    with process_pool(num_processes, "fork") as pool:
        return list(show_progress(pool.map(read, smiles, chunksize=64), len(smiles), "reading molecules", show))


def read_smiles(smiles: str) -> Data:
    """Makes a graph of a SMILES string as the loaders of molecules have it, for a model that was trained on them.

    Args:
        smiles: The molecule.

    Shapes:
        - **x:** :math:`(N, 9)` categories
        - **edge_index:** :math:`(2, E)`, every bond in both orientations
        - **edge_attr:** :math:`(E, 3)` categories
    """
    [graph] = to_graphs(molecule_arrays([bare_molecule(smiles)]))
    return graph


def molecule_arrays(molecules: Sequence[Molecule]) -> Arrays:
    """All molecules as the arrays of one dataset, every bond in both orientations, one after the other."""
    bonds = np.concatenate([molecule.bonds for molecule in molecules])
    return {
        "num_nodes": np.array([len(molecule.atoms) for molecule in molecules]),
        "num_edges": np.array([2 * len(molecule.bonds) for molecule in molecules]),
        "x": np.concatenate([molecule.atoms for molecule in molecules]).astype(np.int64),
        "edge_index": np.stack([bonds, bonds[:, ::-1]], axis=1).reshape(-1, 2).T.copy(),
        "edge_attr": np.repeat(np.concatenate([molecule.bond_features for molecule in molecules]).astype(np.int64), 2, axis=0),
        "descriptors": np.stack([molecule.descriptors for molecule in molecules]),
    }


def import_rdkit() -> Any:
    """Returns ``rdkit.Chem``, which is imported only where molecules are read."""
    try:
        from rdkit import Chem
    except ImportError as error:
        raise ImportError("molecules need RDKit: pip install 'torch-gump[mol]'") from error
    return Chem


def rdkit_version() -> str | None:
    """The version of RDKit, which is not imported for it; ``None`` if it is not installed."""
    try:
        return version("rdkit")
    except PackageNotFoundError:
        return None


def _categories(rows: Sequence[tuple[Any, ...]], features: dict[str, tuple[Any, ...]]) -> np.ndarray:
    """The number of every value among those that its column can have, the last where it is none of them."""
    places = [{value: place for place, value in enumerate(values)} for values in features.values()]
    last = [len(values) - 1 for values in features.values()]
    table = [[place.get(value, other) for place, value, other in zip(places, row, last, strict=True)] for row in rows]
    return np.array(table, dtype=np.uint8).reshape(-1, len(features))


def _descriptors(molecule: Any, bonds: np.ndarray, num_atoms: int) -> np.ndarray:
    from rdkit.Chem import rdMolDescriptors
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import shortest_path

    graph = coo_matrix((np.ones(len(bonds)), (bonds[:, 0], bonds[:, 1])), shape=(num_atoms, num_atoms))
    distance = shortest_path(graph.tocsr(), directed=False, unweighted=True)
    connected = distance[np.isfinite(distance) & (distance > 0)]
    hops = (connected.max(), connected.mean()) if connected.size else (0.0, 0.0)
    log_p, refractivity = rdMolDescriptors.CalcCrippenDescriptors(molecule)
    return np.array([log_p, rdMolDescriptors.CalcTPSA(molecule), refractivity, *hops])
