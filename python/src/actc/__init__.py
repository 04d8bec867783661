"""Exports PyTorch models as ONNX training graphs for actc.

    import actc
    report = actc.export(model, (images,), "model.onnx", loss="cross-entropy", labels=(classes,))
    print(report)
"""

from ._check import check_step
from ._errors import ExportError
from ._export import export
from ._losses import LOSSES
from ._report import ExportReport
from ._verdict import CheckResult

__all__ = ["CheckResult", "ExportError", "ExportReport", "LOSSES", "check_step", "export"]
__version__ = "0.1.0"
