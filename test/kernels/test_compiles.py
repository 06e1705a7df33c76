"""Kernels are compiled for a GPU where there is none, which their interpreter, that the other tests run, does not do."""

import json
import os
import subprocess
import sys

SCRIPT = """
import json, sys
import torch, triton
from torch_geometric.data import Data
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction, mangle_type

import gump.kernels, gump.kernels.linear
from gump.experiment.padded import PaddedStore
from gump.experiment.replicas import Replicas
from gump.nn import GUMP, MPNN, GraphPredictor

compiled = {}


def compile_only(kernel, *args, grid, warmup, **settings):
    names = kernel.signature.parameters
    bound = kernel.signature.bind(*args, **{key: value for key, value in settings.items() if key in names})
    fixed = {(p.num,): bound.arguments[p.name] for p in kernel.params if p.is_constexpr}
    types = {p.name: "constexpr" if p.is_constexpr else mangle_type(bound.arguments[p.name]) for p in kernel.params}
    options = {key: value for key, value in settings.items() if key not in names}
    key = kernel.__name__, str(fixed), str(types), str(options)
    if key not in compiled:
        binary = triton.compile(ASTSource(kernel, types, fixed), target=GPUTarget("cuda", 90, 32), options=options)
        compiled[key] = kernel.__module__, len(binary.asm["cubin"])


JITFunction.run = compile_only
gump.kernels.linear.holds = lambda *sizes: True
for module in [module for name, module in sys.modules.items() if name.startswith("gump.")]:
    if hasattr(module, "runs_kernels"):
        module.runs_kernels = lambda *tensors: True

star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
store = PaddedStore([Data(x=torch.rand(4, 3), edge_index=star, y=torch.tensor([0])) for _ in range(4)])
index = torch.tensor([[0, 1], [2, 3]])
for make in (
    lambda: GUMP(3, 16, num_layers=2, conv="gin", base="gin"),
    lambda: GUMP(3, 16, num_layers=2, coin="newton_schulz"),
    lambda: MPNN(3, 16, num_layers=2, norm="batch"),
):
    replicas = Replicas([GraphPredictor(make(), out_channels=2) for _ in index])
    replicas(store.batch(index, store.layout(index))).sum().backward()
print(json.dumps([[*key[:1], *value] for key, value in compiled.items()]))
"""


def test_every_kernel_compiles_for_a_gpu() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert all(size > 0 for _, _, size in found)
    modules = {module.removeprefix("gump.kernels.") for _, module, _ in found}
    assert modules == {"arcs", "batch_norm", "coin_shift", "linear", "neighbor_sum", "pair_score", "polar"}
