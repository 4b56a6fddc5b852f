"""A clock for the time budget of a turn. A test sets it, or it advances at each reading."""

MS_NS = 1_000_000


class Ticking:
    """A clock that advances by ``step_ns`` at each reading."""

    def __init__(self, step_ns: int = 0) -> None:
        self.now_ns = 0
        self.step_ns = step_ns
        self.looks = 0

    def __call__(self) -> int:
        self.now_ns += self.step_ns
        self.looks += 1
        return self.now_ns
