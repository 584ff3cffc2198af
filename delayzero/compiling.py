"""How compiled functions are launched on a GPU."""

from __future__ import annotations

import jax

GRAPHS = "xla_gpu_enable_command_buffer"
"""What XLA puts into CUDA graphs, which the GPU runs without being told step by step."""
BODIES = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,CONVOLUTION"
"""Everything but loops; by default convolutions are not in it, and each breaks a graph."""


def in_graphs(*, loops: bool) -> dict[str, bool | str]:
    """Compiler options for a function whose kernels are many and small; none but for a GPU.

    Args:
        loops: Whether loops are part of the graphs too. A loop then runs to its end before
            anything else does; otherwise other threads' work comes between its iterations.
    """
    if jax.default_backend() != "gpu":
        return {}
    return {GRAPHS: f"{BODIES},CONDITIONAL,WHILE" if loops else BODIES}
