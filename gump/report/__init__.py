"""From records to a page: ours beside the published numbers."""

from gump.report.against import Standing, against_first
from gump.report.comparisons import comparisons
from gump.report.figure import bar_figure, curve_figure, save_figure
from gump.report.layout import markdown
from gump.report.page import write_report
from gump.report.paired import PairedDifference, paired_difference
from gump.report.statistics import Estimate, Summary
from gump.report.summary import write_summary
from gump.report.table import table

__all__ = [
    "Estimate",
    "PairedDifference",
    "Standing",
    "Summary",
    "against_first",
    "bar_figure",
    "comparisons",
    "curve_figure",
    "markdown",
    "paired_difference",
    "save_figure",
    "table",
    "write_report",
    "write_summary",
]
