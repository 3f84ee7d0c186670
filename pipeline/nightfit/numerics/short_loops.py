"""A Numba pipeline that tells LLVM that our loops are short. Imports numba, llvmlite.

Most loops run over the columns of a row, which are few. LLVM would interleave four vectors of eight numbers in one step: of fifty
columns the first 32 go through that step, and the other 18 by fours or one by one. The metadata `llvm.loop.interleave.count = 1` of a
loop forbids it for this loop; LLVM's option of the same meaning would hold for every Numba user in the process. Without it some kernels
take up to 40 per cent longer at 50 columns (rounded rows 18, private sampling 40). Results do not depend on it, except where a function
asks for `fastmath`.
"""

from typing import Any

from llvmlite import ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering


class ShortLoops(CompilerBase):  # type: ignore[misc]
    """Numba's pipeline with our lowering in the place of its own."""

    def define_pipelines(self) -> list[Any]:
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [(_ShortLoopLowering if step is NativeLowering else step, text) for step, text in pipeline.passes]
        pipeline.finalize()
        return [pipeline]


class _ShortLoopLower(Lower):  # type: ignore[misc]
    """Lowering to LLVM that marks the branch which closes a loop."""

    def pre_lower(self) -> None:
        super().pre_lower()
        loops = compute_cfg_from_blocks(self.blocks).loops()
        labels = {label for header, loop in loops.items() for label in loop.body if header in self.blocks[label].terminator.get_targets()}
        self._latches = [self.blocks[label] for label in labels]

    def lower_block(self, block: Any) -> None:
        super().lower_block(block)
        if any(block is latch for latch in self._latches):
            self.builder.block.terminator.set_metadata("llvm.loop", _loop_metadata(self.module))


@register_pass(mutates_CFG=True, analysis_only=False)
class _ShortLoopLowering(BaseNativeLowering):  # type: ignore[misc]
    _name = "short_loop_lowering"
    lowering_class = _ShortLoopLower


def _loop_metadata(module: Any) -> Any:
    """!n = !{!n, !{"llvm.loop.interleave.count", 1}}: LLVM knows the metadata of a loop by its first operand, itself."""
    count = module.add_metadata(["llvm.loop.interleave.count", ir.Constant(ir.IntType(32), 1)])
    node = ir.values.MDValue(module, [], name=str(len(module.metadata)))
    node.operands = (node, count)
    return node
