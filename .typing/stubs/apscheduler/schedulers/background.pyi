from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo

from apscheduler.executors.pool import ThreadPoolExecutor

class BackgroundScheduler:
    def __init__(self, *, executors: Mapping[str, ThreadPoolExecutor], timezone: tzinfo) -> None: ...
    @property
    def running(self) -> bool: ...
    def add_job(
        self,
        func: Callable[[], object],
        trigger: str,
        *,
        seconds: float,
        next_run_time: datetime,
        id: str,  # noqa: A002 - APScheduler's name
        executor: str = ...,
        max_instances: int = ...,
        coalesce: bool = ...,
        misfire_grace_time: int | None = ...,
    ) -> object: ...
    def modify_job(self, job_id: str, *, next_run_time: datetime) -> object: ...
    def pause_job(self, job_id: str) -> object: ...
    def start(self) -> None: ...
    def shutdown(self, wait: bool = ...) -> None: ...
