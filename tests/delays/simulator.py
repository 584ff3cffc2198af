"""The four rules straight from their definitions: slow, obvious, one packet at a time.

Every decision is a packet with the time it was decided at and the time it lands. The initial queue
is M packets decided at -M .. -1 that each take M steps. Nothing is ever forgotten, and every
question is answered by looking through all packets.
"""

from typing import NamedTuple


class Packet(NamedTuple):
    decided: int
    landing: int


class Simulator:
    """What runs, what is pending, dropped and repeated, by definition."""

    def __init__(self, rule: str, max_delay: int) -> None:
        self.rule = rule
        self.max_delay = max_delay
        self.packets = [Packet(time, time + max_delay) for time in range(-max_delay, 0)]
        self.ran: list[int] = []  # the decision that ran at each step so far

    @property
    def time(self) -> int:
        return len(self.ran)

    def push(self, delay: int) -> int:
        self.packets.append(Packet(self.time, self.time + delay))
        self.ran.append(self.runs_at(self.time, delay))
        return self.ran[-1]

    def runs_at(self, time: int, delay: int) -> int:
        """The decision that runs at a time, given the packets that exist now.

        ``delay`` is the delay drawn at that time, which only the rule lag-index looks at.
        """
        landed = [packet for packet in self.packets if packet.landing <= time]
        match self.rule:
            case "latest-generated":
                return max(packet.decided for packet in landed)
            case "latest-arrival":
                return max(landed, key=lambda packet: (packet.landing, packet.decided)).decided
            case "lag-index":
                return time - delay
            case "fixed":
                return time - self.max_delay
        raise ValueError(self.rule)

    def pending(self, steps: int) -> list[int]:
        """What would run at t .. t + steps - 1 if nothing more were decided.

        For lag-index, with each of these steps drawing the delay ``steps``.
        """
        return [self.runs_at(self.time + ahead, steps) for ahead in range(steps)]

    @property
    def decisions(self) -> list[Packet]:
        """The decisions of the episode: all but the initial queue."""
        return [packet for packet in self.packets if packet.decided >= 0]

    @property
    def never_ran(self) -> list[int]:
        return [packet.decided for packet in self.decisions if packet.decided not in self.ran]

    @property
    def dropped(self) -> int:
        """Decisions given up by now."""
        match self.rule:
            case "latest-generated":  # a newer decision has run, and none is older after that
                return sum(decided < max(self.ran) for decided in self.never_ran)
            case "latest-arrival":  # a newer decision lands at the same time
                return sum(self._shares_landing(packet) for packet in self.decisions)
            case _:  # too old: after the step t, no later one runs what was decided at t - M
                return sum(decided <= self.time - 1 - self.max_delay for decided in self.never_ran)

    def _shares_landing(self, packet: Packet) -> bool:
        return any(
            other.landing == packet.landing and other.decided > packet.decided
            for other in self.packets
        )

    @property
    def repeated(self) -> int:
        """Steps that ran a decision that an earlier step had run."""
        return sum(decided in self.ran[:time] for time, decided in enumerate(self.ran))
