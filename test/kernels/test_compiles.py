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
        values = {p.name: bound.arguments[p.name] for p in kernel.params if p.is_constexpr and isinstance(bound.arguments[p.name], (int, bool))}
        compiled[key] = kernel.__module__.removeprefix("gump.kernels.") + "." + kernel.__name__, values, len(binary.asm["cubin"])


JITFunction.run = compile_only
gump.kernels.linear.holds = lambda *sizes: True
for module in [module for name, module in sys.modules.items() if name.startswith("gump.")]:
    if hasattr(module, "runs_kernels"):
        module.runs_kernels = lambda *tensors: True

leaves = torch.arange(1, 18)
star = torch.stack([torch.cat([0 * leaves, leaves]), torch.cat([leaves, 0 * leaves])])
store = PaddedStore([Data(x=torch.rand(18, 3), edge_index=star, y=torch.tensor([0])) for _ in range(4)])
index = torch.tensor([[0, 1], [2, 3]])
for make in (
    lambda: GUMP(3, 16, num_layers=2, conv="gin", base="gin"),
    lambda: GUMP(3, 16, num_layers=2, coin="newton_schulz"),
    lambda: GUMP(3, 16, num_layers=2, conv="graph", base="graph", coin="newton_schulz", num_steps=2),
    lambda: MPNN(3, 16, num_layers=2, norm="batch"),
):
    replicas = Replicas([GraphPredictor(make(), out_channels=2) for _ in index])
    replicas(store.batch(index, store.layout(index))).sum().backward()
print(json.dumps(list(compiled.values())))
"""


KERNELS = {
    *("arcs._collect", "arcs._spread", "batch_norm._moments", "batch_norm._normalize", "batch_norm._pull", "batch_norm._sums"),
    *("coin_shift._backward", "coin_shift._forward", "linear._linear_backward", "linear._linear_forward"),
    *("neighbor_sum._neighbor_sum", "pair_score._backward", "pair_score._forward", "polar._backward", "polar._forward"),
}


def test_every_kernel_compiles_for_a_gpu() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert all(size > 0 for _, _, size in found)
    assert {name for name, _, _ in found} == KERNELS
    for kernel in ("polar._forward", "polar._backward"):  # bounded coins and the paper's, in tiles of both sizes
        assert {(1, 16), (1, 32), (2, 16), (2, 32)} <= {
            (values["START"], values["SIDE"]) for name, values, _ in found if name == kernel
        }
    sums = {(values["SCALED"], values["OWN"], values["PORTS"]) for name, values, _ in found if name == "neighbor_sum._neighbor_sum"}
    assert {(True, True, 1), (True, True, 16), (False, True, 1), (False, True, 16), (False, False, 1), (False, False, 16)} <= sums
