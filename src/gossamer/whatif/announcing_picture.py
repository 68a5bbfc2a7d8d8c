"""The picture of announcing beside permanent subscription: three panels over the rate of events."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure

from gossamer.pipeline.pictures import COLOURS, STYLE, svg
from gossamer.whatif.memberships import RATES, WAYS, Row

PANELS = (
    ("membership", "time in groups", "group-seconds per listener and hour"),
    ("received", "bytes received", "bytes per listener and hour"),
    ("occupied", "groups the network remembers", "groups, on average"),
)
MARKS = "osv"


def picture(rows: Sequence[Row]) -> str:
    """An SVG; a line for each way."""
    with rc_context(STYLE):
        figure = Figure(figsize=(10.5, 3.4), layout="constrained")
        for axes, (name, title, label) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
            for number, way in enumerate(WAYS):
                own = [row for row in rows if row.way == way]
                axes.plot(
                    [RATES[row.rate] for row in own],
                    [getattr(row, name) for row in own],
                    color=COLOURS[number],
                    marker=MARKS[number],
                    markersize=4,
                    lw=1.4,
                    label=way,
                )
            axes.set_xscale("log")
            if name == "received":
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
            axes.set_title(title, fontsize=9)
            axes.set_ylabel(label)
            axes.set_xlabel("events per thread")
            shown = list(dict.fromkeys(row.rate for row in rows))
            axes.set_xticks([RATES[each] for each in shown], shown, rotation=45, ha="right", fontsize=8)
            axes.minorticks_off()
            axes.grid(True, color="#e6e8eb", lw=0.7)
            axes.set_axisbelow(True)
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=len(WAYS), frameon=False)
        return svg(figure)
