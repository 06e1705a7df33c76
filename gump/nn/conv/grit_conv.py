"""The layer of GRIT: vertices and pairs of vertices inform each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver, normalization_resolver

from gump.nn.arguments import check_counts
from gump.nn.unaltered import is_unaltered


def signed_sqrt(x: Tensor, eps: float = 1e-6) -> Tensor:
    r"""Takes the root of what is positive and minus the root of what is negative.

    .. math::
        \rho(x) = \sqrt{\max(x, 0)} - \sqrt{\max(-x, 0)}

    The slope grows without bound towards zero. Where :math:`|x| < \epsilon`, therefore, a line of slope :math:`1 / \sqrt{\epsilon}` stands
    in, so that neither gradients nor rounding errors are magnified by more than that.

    Example:
        >>> signed_sqrt(torch.tensor([-4.0, 0.0, 9.0]))
        tensor([-2., 0., 3.])
    """
    out: Tensor = _SignedSqrt.apply(x, eps)
    return out


class _SignedSqrt(torch.autograd.Function):
    """Its slope in closed form; that of the operations of which it is made would pass ten times over all pairs."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, eps: float) -> Tensor:
        return x * x.abs().clamp_min_(eps).rsqrt_()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        x, ctx.eps = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        size = x.abs()
        factor = torch.where(size > ctx.eps, 0.5, 1.0).to(x.dtype)
        return grad * factor.mul_(size.clamp_min_(ctx.eps).rsqrt_()), None


class GRITConv(torch.nn.Module):
    r"""The layer of `GRIT <https://arxiv.org/abs/2305.17589>`_, in which vertices attend to all vertices of their graph and pairs of
    vertices have states of their own.

    .. math::
        \hat{\mathbf{e}}_{ij} &= \sigma(\rho((\mathbf{W}_Q \mathbf{x}_i + \mathbf{W}_K \mathbf{x}_j) \odot \mathbf{W}_{Ew} \mathbf{e}_{ij})
        + \mathbf{W}_{Eb} \mathbf{e}_{ij}), \quad \rho(x) = \mathrm{sign}(x) \sqrt{|x|}, \\
        \alpha_{ij} &= \mathrm{softmax}_j(\mathrm{clamp}(\mathbf{w}_A^{\top} \hat{\mathbf{e}}_{ij}, \pm 5)), \quad
        \hat{\mathbf{x}}_i = \sum_j \alpha_{ij} (\mathbf{W}_V \mathbf{x}_j + \mathbf{W}_{Ev} \hat{\mathbf{e}}_{ij}), \\
        \mathbf{e}'_{ij} &= \mathrm{norm}(\mathbf{e}_{ij} + \mathbf{W}_{Eo} \hat{\mathbf{e}}_{ij}), \quad
        \mathbf{x}'_i = \mathrm{norm}(\mathbf{x}_i + (\boldsymbol{\theta}_1 + \log(1 + d_i) \boldsymbol{\theta}_2) \odot
        \mathbf{W}_O \hat{\mathbf{x}}_i), \\
        \mathbf{x}''_i &= \mathrm{norm}(\mathbf{x}'_i + \mathrm{MLP}(\mathbf{x}'_i))

    Each head has its own :math:`\mathbf{w}_A` and :math:`\mathbf{W}_{Ev}` for its share of the channels. The degree enters as in the
    paper; the `public code <https://github.com/LiamMa/GRIT/blob/2ecf5c3/grit/layer/grit_layer.py>`_ scales before :math:`\mathbf{W}_O`
    (``deg_coef``, then ``O_h``). Softmax averages and so forgets degrees, hence that term; layer norm would undo it, hence batch norm by
    default.

    Args:
        channels: Width of the states of vertices and of pairs.
        heads: The number of attention heads, which divides ``channels``.
        dropout: Probability of dropping an entry of what is added to a state.
        attention_dropout: Probability of dropping an attention weight.
        act: The nonlinearity, by its name in torch.
        norm: The norm, by its name in PyG, or none.
        norm_kwargs: Its arguments.
        clamp: Bound on the scores before the softmax.
        update_pairs: Whether pairs get new states; a last layer need not compute what nobody reads.

    Shapes:
        - **x:** :math:`(N, C)`
        - **pair_index:** :math:`(2, P)`, from source :math:`j` to target :math:`i`
        - **pair_attr:** :math:`(P, C)`
        - **degree:** :math:`(N)`
        - **output:** :math:`(N, C)` and :math:`(P, C)`
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        act: str = "relu",
        norm: str | None = "batch_norm",
        norm_kwargs: dict[str, Any] | None = None,
        clamp: float = 5.0,
        update_pairs: bool = True,
    ) -> None:
        super().__init__()
        check_counts(1, channels=channels, heads=heads)
        if channels % heads != 0:
            raise ValueError(f"'channels' must be a multiple of 'heads', {heads} (got {channels})")
        if not 0 < clamp <= 40:
            raise ValueError(f"'clamp' must be above 0 and at most 40, where its exponential still is a number (got {clamp})")
        self.channels, self.heads, self.clamp = channels, heads, clamp
        self.act, self.dropout = activation_resolver(act), torch.nn.Dropout(dropout)
        self.attention_dropout = torch.nn.Dropout(attention_dropout)
        self.lin_query = torch.nn.Linear(channels, channels)
        self.lin_key = torch.nn.Linear(channels, channels, bias=False)
        self.lin_value = torch.nn.Linear(channels, channels, bias=False)
        self.lin_pair = torch.nn.Linear(channels, 2 * channels)
        width = channels // heads
        self.score = torch.nn.Parameter(torch.empty(heads, width, 1))
        self.pair_value = torch.nn.Parameter(torch.empty(heads, width, width))
        self.lin_out = torch.nn.Linear(channels, channels)
        self.degree_scale = torch.nn.Parameter(torch.empty(2, channels))
        self.lin_pair_out = torch.nn.Linear(channels, channels) if update_pairs else None
        norms = [
            torch.nn.Identity() if norm is None else normalization_resolver(norm, channels, **(norm_kwargs or {})) for _ in range(3)
        ]
        self.norm1, self.norm2, self.pair_norm = norms[0], norms[1], norms[2] if update_pairs else None
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(channels, 2 * channels),
            activation_resolver(act),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(2 * channels, channels),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights, those of the attention by Glorot & Bengio's normal rule, each head's by its own shape."""
        for lin in (self.lin_query, self.lin_key, self.lin_value, self.lin_pair):
            lin.reset_parameters()
            torch.nn.init.xavier_normal_(lin.weight)
        for head in (*self.score, *self.pair_value):
            torch.nn.init.xavier_normal_(head)
        torch.nn.init.normal_(self.degree_scale, std=(self.channels + 1) ** -0.5)
        for module in (self.lin_out, self.lin_pair_out, self.pair_norm, self.norm1, self.norm2, self.act, self.mlp):
            reset(module)

    def forward(self, x: Tensor, pair_index: Tensor, pair_attr: Tensor, degree: Tensor) -> tuple[Tensor, Tensor]:
        """Computes new states of vertices and of pairs.

        Args:
            x: States of vertices.
            pair_index: The pairs.
            pair_attr: States of the pairs.
            degree: The degree of every vertex in the graph.
        """
        source, target = pair_index
        of_pairs = self._of_pairs(pair_attr)
        query, key = self.lin_query(x).index_select(0, target), self.lin_key(x).index_select(0, source)
        e = signed_sqrt(query.add_(key) * next(of_pairs))
        e = self.act(e.add_(next(of_pairs)))  # [num_pairs, channels]
        out = self._attend(self.lin_value(x), e, source, target)
        out = self.lin_out(self.dropout(out.flatten(1)))
        scale = self.degree_scale[0] + torch.log1p(degree.to(x.dtype)).unsqueeze(-1) * self.degree_scale[1]
        x = self.norm1(x + scale * out)
        x = self.norm2(x + self.mlp(x))
        if self.lin_pair_out is not None and self.pair_norm is not None:
            pair_attr = self.pair_norm(pair_attr + self.lin_pair_out(self.dropout(e)))
        return x, pair_attr

    def _of_pairs(self, pair_attr: Tensor) -> Iterator[Tensor]:
        """What states of pairs multiply with, then what they add: one after the other, as memory is scarce, unless the layer has to be called."""
        if not is_unaltered(self.lin_pair, torch.nn.Linear):
            yield from self.lin_pair(pair_attr).chunk(2, dim=-1)
            return
        for weight, bias in zip(self.lin_pair.weight.chunk(2), self.lin_pair.bias.chunk(2), strict=True):
            yield torch.nn.functional.linear(pair_attr, weight, bias)

    def _attend(self, value: Tensor, e: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Averages over the sources of every target what they and the pairs have to say."""
        score = e @ torch.block_diag(*self.score)  # [num_pairs, heads]
        alpha = score.clamp(-self.clamp, self.clamp).exp()  # bounded, so the largest need not be subtracted before
        total = alpha.new_zeros(value.size(0), self.heads).index_add(0, target, alpha).unsqueeze(-1)
        alpha = self.attention_dropout(alpha).unsqueeze(-1)  # [num_pairs, heads, 1]
        value, e = self._heads(value), self._heads(e)
        from_pairs = torch.zeros_like(value).index_add(0, target, alpha * e)
        from_sources = torch.zeros_like(value).index_add(0, target, alpha * value.index_select(0, source))
        out = from_sources + torch.einsum("nhc,hcd->nhd", from_pairs, self.pair_value)
        return out / total.clamp_min(torch.finfo(total.dtype).tiny)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, heads={self.heads})"
