"""What a campaign would run, and how long that takes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from delayzero.campaigns.campaign import checked_runs, new_record
from delayzero.campaigns.display import summary
from delayzero.campaigns.past import finished_past, packaged_past, projected
from delayzero.campaigns.plan import Campaign
from delayzero.campaigns.record import FILE, read_record, standings
from delayzero.progress import duration


def dry_run(campaign: Campaign, root: Path, jobs: int) -> str:
    """Describe what a campaign would run, and its time by past runs. Starts and writes nothing.

    Raises:
        UsageError: The plan is invalid.
    """
    runs = checked_runs(campaign, root)
    found = standings(root, new_record(campaign, runs, jobs, []), alive=False)
    beside = read_record(root)["jobs"] if (root / FILE).exists() else 1
    past = [*finished_past(runs, beside), *packaged_past()]
    seconds: defaultdict[str, float] = defaultdict(float)
    lines, unknown = [], 0
    for run, standing in zip(runs, found, strict=True):
        if standing.state == "done":
            lines.append(f"{run.name}  done")
            continue
        whole = projected(run.config, past)
        unknown += whole is None
        what = "new" if standing.share is None else f"resume at {standing.share:.0%}"
        time = "time unknown"
        if whole is not None:
            left = whole.seconds * (1 - (standing.share or 0.0))
            seconds[whole.device] += left
            time = f"{duration(left)} of {whole.device}"
        lines.append(f"{run.name}  {what}, {time}")
    lines.append(summary(campaign.name, found, jobs))
    lines += [f"projected: {spent / 3600:.1f} hours of {dev}" for dev, spent in seconds.items()]
    if unknown:
        lines.append(f"unknown: the time of {unknown} of them; no past run is like those")
    return "\n".join(lines)
