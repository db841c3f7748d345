"""What the scheduler may do to save tokens. The default is everything; less is for measuring what each part saves."""

from dataclasses import dataclass

LONGEST_SEGMENT = 24


@dataclass(frozen=True)
class SchedulePolicy:
    """`live_only`: registers that nothing reads later are not returned. `recompute`: a value may be computed again
    in each machine block that uses it. `longest`: operations of a block's line that one machine block may take.
    `ordered`: blocks stand where lanes that part meet again. `shuffled`: random orders of a block's operations are
    tried as well.
    """

    live_only: bool = True
    recompute: bool = True
    longest: int = LONGEST_SEGMENT
    ordered: bool = True
    shuffled: bool = True


EVERYTHING = SchedulePolicy()
QUICK = SchedulePolicy(recompute=False, shuffled=False)
"""Never finds a better cut of a block than EVERYTHING does, in a fraction of the time."""
