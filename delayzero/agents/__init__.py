"""How an agent acts: what it sees, and what it decides."""

from delayzero.agents.acting import act, first_stack

__all__ = ["act", "first_stack"]
