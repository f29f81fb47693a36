"""All steps in this process, one by one."""

from ...core.cache import Store
from ...core.progress import Bar
from ..bench import Bench
from ..plan import Found, Plan
from .crew import Here
from .schedule import Ledger, Schedule


def in_process(plan: Plan, bench: Bench, store: Store, bar: Bar, ledger: Ledger, before: Found) -> Found:
    here = Here(bench, store, bar)
    return Schedule(plan, here, here, bar, ledger, before).run()
