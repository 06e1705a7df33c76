"""A model and a graph in, numbers out; draws nothing."""

from gump.diagnostics.accumulation import (
    DecayFit,
    StepLoss,
    blocks_of_condition,
    energy_kept,
    fit_decay,
    predicted_energy,
    step_loss,
)
from gump.diagnostics.block_table import BlockTable, block_table
from gump.diagnostics.bottleneck import Bottleneck, bottleneck
from gump.diagnostics.coins import CoinReport, coin_report
from gump.diagnostics.collapse import (
    LayerState,
    arc_dirichlet_energy,
    collapse_by_layer,
    dirichlet_energy,
    mean_cosine,
    rank_one_distance,
)
from gump.diagnostics.cut import Cut
from gump.diagnostics.distances import hop_distances
from gump.diagnostics.expected_jacobian import ExpectedJacobian, expected_jacobian
from gump.diagnostics.jacobian import distant_pair, jacobian, jacobian_by_depth, jacobian_norm
from gump.diagnostics.memory import MemoryEstimate, memory
from gump.diagnostics.origin import origin_shares
from gump.diagnostics.propositions import SupportError, UnitaryAdjacency, equivariance_error, support_error, unitary_adjacency
from gump.diagnostics.reach import energy_by_distance, even_reach, reach, return_probability
from gump.diagnostics.resistance import commute_time, effective_resistance
from gump.diagnostics.row_energy import SpectralRowEnergy, row_energy, spectral_row_energy
from gump.diagnostics.verdict import Verdict, verdict

__all__ = [
    "BlockTable",
    "Bottleneck",
    "CoinReport",
    "Cut",
    "DecayFit",
    "ExpectedJacobian",
    "LayerState",
    "MemoryEstimate",
    "SpectralRowEnergy",
    "StepLoss",
    "SupportError",
    "UnitaryAdjacency",
    "Verdict",
    "arc_dirichlet_energy",
    "block_table",
    "blocks_of_condition",
    "bottleneck",
    "coin_report",
    "collapse_by_layer",
    "commute_time",
    "dirichlet_energy",
    "distant_pair",
    "effective_resistance",
    "energy_by_distance",
    "energy_kept",
    "equivariance_error",
    "even_reach",
    "expected_jacobian",
    "fit_decay",
    "hop_distances",
    "jacobian",
    "jacobian_by_depth",
    "jacobian_norm",
    "mean_cosine",
    "memory",
    "origin_shares",
    "predicted_energy",
    "rank_one_distance",
    "reach",
    "return_probability",
    "row_energy",
    "spectral_row_energy",
    "step_loss",
    "support_error",
    "unitary_adjacency",
    "verdict",
]
