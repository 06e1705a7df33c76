"""How to read a report, in its own words."""

_OURS = """\
- **Ours** is the mean over runs on the test set, as `mean ± interval (standard deviation) [corrected interval]`. In the overview it is `mean ±
  interval`, with the published number in parentheses. Accuracy and ROC-AUC are in percent, average precision (ap) and mean absolute error
  (mae) are not."""

_OURS_IN_SHORT = """\
- **Ours** is the mean over runs on the test set, as `mean ± interval [corrected interval]`, by the rule of selection that the configuration names,
  which never reads the test set: the epoch with the best validation loss (*loss*) or metric (*metric*), or the last one (*last*). Accuracy and
  ROC-AUC are in percent, average precision (ap) and mean absolute error (mae) are not. **Runs**: *10 of 100* are fewer than the
  configuration asks for. Long curves show means alone; their intervals are on the page with every number.
- **Published** numbers stand in the configurations with their source, and *(-0.81)* behind one is ours less it. Where datasets are columns,
  they stand in parentheses with the verdict."""

_RULES = """\
- **By loss, by metric, by last**: the epoch of a run that counts is that with the best validation loss, with the best validation metric, or the
  last one. **Selected by** is the rule that the configuration names, as the benchmark or the published code has it; ours, differences,
  verdicts, ranks, figures and paired differences go by it. Epochs are medians over runs."""

_INTERVALS = """\
- **Intervals** are half the width of a 95 % interval. The plain one is Student's, t · s / √n, and takes the n runs for independent. The
  corrected one, t · s · √(1/n + n_test / n_train) after Nadeau and Bengio (2003), allows for splits that overlap; n_test / n_train is that
  of the shares that the protocol asks for, before they are rounded to whole graphs. It is given where every run has a test set of its own;
  where all runs share one (official splits, a test set fixed beforehand, seeds of one task), there is no such correction and the plain
  interval is silent about the choice of the test set. Published intervals are as printed, and some of them are standard deviations."""

_VERDICT = """\
- **Verdict** compares ours with the best of the published numbers: *at or above* it, *within* our plain interval of it, or *short* of it. For
  errors, *at or above* means at or below. A verdict is no test: it leaves out the interval of the published number and the correction for splits
  that overlap, and with few runs nearly everything is *within*."""

_RANK = """\
- **Rank** is the mean place of a method over the datasets of the table, among methods with the same base GNN and by our numbers. Methods
  without a number for every dataset have none."""

_PAIRED = """\
- **Paired differences** are taken run by run on equal test sets. *Graphs won* counts the graphs that one of the two has right more often than
  the other, and its p is that of the exact sign test. No p-value is corrected for the number of comparisons."""

_TIME = """\
- **Time** is the sum over all runs of a row, whatever ran at once. Runs that were trained side by side as
  one program each count with an equal share of its time, so that the sum is the program's, and one run by itself would take longer than
  its share. Several programs may have shared a device, which made each of them slower; times of programs alone are in `benchmarks/results`."""

_SHARE = """\
- A number without a record is not here. *(share of 100)* behind a time per epoch: 100 runs were trained side by side as one program, and this
  is an equal share of its epoch, not what one run takes by itself. *(all 100)* behind a peak of memory: it is that of the whole program."""

_NOT_RUN = """\
- **Runs missing**: of so many numbers not all runs are made that the configuration asks for, and the first table leaves out their verdicts.
- **Not run** are configurations, or points of a sweep that was begun, that have no record. A number without a record is not here."""

PAGE = "\n".join([_OURS, _RULES, _INTERVALS, _VERDICT, _RANK, _PAIRED, _TIME, _SHARE])
"""Of a page with every number."""

SUMMARY = "\n".join([_OURS_IN_SHORT, _INTERVALS, _VERDICT, _TIME, _NOT_RUN])
"""Of the summary."""
