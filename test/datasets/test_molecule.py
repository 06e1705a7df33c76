import csv
import gzip
import os
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from gump.datasets.molecule import (
    ATOM_SIZES,
    BOND_SIZES,
    DESCRIPTORS,
    canonical_smiles,
    murcko_scaffold,
    read_molecule,
    read_molecules,
)

pytest.importorskip("rdkit")


def test_vinyl_alcohol_by_hand() -> None:
    molecule = read_molecule("C=CO")
    assert molecule.atoms.tolist() == [
        [5, 0, 3, 5, 2, 0, 1, 0, 0],  # carbon, three neighbors of which two hydrogens, charge 0, SP2
        [5, 0, 3, 5, 1, 0, 1, 0, 0],
        [7, 0, 2, 5, 1, 0, 1, 0, 0],  # oxygen, conjugated with the double bond
    ]
    assert molecule.bonds.tolist() == [[0, 1], [1, 2]]
    assert molecule.bond_features[:, 0].tolist() == [1, 0]  # double, single


def test_aromatic_ring_charge_and_chirality() -> None:
    benzene = read_molecule("c1ccccc1")
    assert benzene.atoms[:, 7].tolist() == benzene.atoms[:, 8].tolist() == [1] * 6
    assert benzene.bond_features.tolist() == [[3, 0, 1]] * 6
    assert read_molecule("[NH4+]").atoms.tolist() == [[6, 0, 4, 6, 4, 0, 2, 0, 0]]
    alanine = read_molecule("C[C@H](N)C(=O)O"), read_molecule("C[C@@H](N)C(=O)O")
    assert {int(molecule.atoms[1, 1]) for molecule in alanine} == {1, 2}
    assert read_molecule("F/C=C/F").bond_features[1, 1] == 2  # STEREOE


def test_what_has_no_category_gets_the_last_one() -> None:
    assert read_molecule("*").atoms[0, 0] == ATOM_SIZES[0] - 1
    assert read_molecule("[Cu]<-N").bond_features[0, 0] == BOND_SIZES[0] - 1


def test_sizes_are_ogbs() -> None:
    assert ATOM_SIZES == (119, 5, 12, 12, 10, 6, 6, 2, 2)
    assert BOND_SIZES == (5, 6, 2)


def test_distances_are_those_of_networkx() -> None:
    molecule = read_molecule("CC(C)C[C@H](NC(=O)CN)C(=O)N1CCC[C@H]1C=O")
    graph = nx.Graph(molecule.bonds.tolist())
    values = dict(zip(DESCRIPTORS, molecule.descriptors, strict=True))
    assert values["diameter"] == nx.diameter(graph)
    assert values["mean distance"] == pytest.approx(nx.average_shortest_path_length(graph))


def test_descriptors_by_hand() -> None:
    assert read_molecule("CCC.CC").descriptors[3:].tolist() == [2.0, pytest.approx((4 * 1 + 2 * 2 + 2 * 1) / 8)]
    assert read_molecule("[Na+]").descriptors[3:].tolist() == [0, 0]
    assert read_molecule("O").descriptors[1] == pytest.approx(31.5)  # the polar surface of water, as tabulated


def test_scaffolds_are_rings_without_side_chains() -> None:
    assert murcko_scaffold("CC(=O)Nc1ccc(O)cc1") == murcko_scaffold("Cc1ccccc1") == "c1ccccc1"
    assert murcko_scaffold("CC(=O)O") == murcko_scaffold("[Na+]") == ""
    with pytest.raises(ValueError, match=r"'smiles' must be a molecule"):
        murcko_scaffold("C(C")


def test_a_molecule_is_the_same_however_it_is_written_and_its_mirror_image_is_another() -> None:
    assert canonical_smiles("OCC") == canonical_smiles("C(O)C") == canonical_smiles("[CH3][CH2]O") == "CCO"
    assert canonical_smiles("C1=CC=CC=C1") == canonical_smiles("c1ccccc1")
    assert len({canonical_smiles(s) for s in ("C[C@H](N)O", "C[C@@H](N)O", "CC(N)O", "CC([NH3+])O", "[13CH3]C(N)O")}) == 5
    with pytest.raises(ValueError, match=r"got 'C\(C'"):
        canonical_smiles("C(C")


def test_descriptors_are_left_out_where_they_are_not_asked_for() -> None:
    alone, described = read_molecule("CCO", describe=False), read_molecule("CCO")
    assert alone.descriptors.shape == (0,)
    assert all(np.array_equal(a, b) for a, b in zip(alone[:3], described[:3], strict=True))


def test_refuses_what_is_no_molecule() -> None:
    with pytest.raises(ValueError, match=r"'smiles' must be a molecule that RDKit understands \(got 'C\(C'\)"):
        read_molecule("C(C")


def test_without_rdkit_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ImportError, match=r"pip install 'torch-gump\[mol\]'"):
        read_molecule("C")


@pytest.mark.parametrize("num_cores", [1, 2])
def test_cores_change_nothing(num_cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gump.datasets.molecule.num_cores", lambda: num_cores)
    smiles = ["C" * (1 + i % 7) for i in range(1000)]
    molecules = read_molecules(smiles, read_molecule)
    assert len(molecules) == 1000
    assert all(len(molecule.atoms) == len(text) for molecule, text in zip(molecules, smiles, strict=True))


def die(_: str) -> None:
    os._exit(1)


@pytest.mark.skipif(sys.platform != "linux", reason="molecules may be read in this process")
def test_a_process_that_is_lost_while_molecules_are_read_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gump.datasets.molecule.num_cores", lambda: 2)
    with pytest.raises(ChildProcessError, match="one of 2 processes was ended from outside"):
        read_molecules(["C"] * 1000, die)


def test_features_of_molhiv_come_out_again(data_root: Path) -> None:
    """Nearly all of them: versions of RDKit differ on some metal complexes, and refuse a few."""
    folder, number = data_root / "ogbg_molhiv", 300
    with gzip.open(folder / "mapping/mol.csv.gz", "rt") as file:
        smiles = [row["smiles"] for _, row in zip(range(number), csv.DictReader(file), strict=False)]

    def rows(part: str, count: int) -> list[list[int]]:
        with gzip.open(folder / f"raw/{part}.csv.gz", "rt") as file:
            return [[int(value) for value in row] for _, row in zip(range(count), csv.reader(file), strict=False)]

    num_atoms, num_bonds = np.array(rows("num-node-list", number))[:, 0], np.array(rows("num-edge-list", number))[:, 0]
    atoms = np.split(rows("node-feat", num_atoms.sum()), num_atoms.cumsum()[:-1])
    bonds = np.split(rows("edge", num_bonds.sum()), num_bonds.cumsum()[:-1])
    bond_features = np.split(rows("edge-feat", num_bonds.sum()), num_bonds.cumsum()[:-1])
    equal, refused = 0, 0
    for text, *published in zip(smiles, atoms, bonds, bond_features, strict=True):
        try:
            molecule = read_molecule(text)
        except ValueError:
            refused += 1
            continue
        assert np.array_equal(molecule.bonds, published[1].reshape(-1, 2))
        equal += np.array_equal(molecule.atoms, published[0]) and np.array_equal(
            molecule.bond_features, published[2].reshape(-1, 3)
        )
    assert refused <= 2
    assert equal >= number - 6
