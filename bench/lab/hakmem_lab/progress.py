"""Progress with the time left: a bar on a terminal, a line now and then elsewhere."""

import time

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

LINE_EVERY = 15.0  # seconds between lines when stderr is not a terminal


class Meter:
    """start, step, done, more, say, note, end; on `console` (stderr).

    `left()` of start says how many seconds are left; without it the mean of the runs so far does.
    """

    def __init__(self, console):
        self.console = console
        self.bar = self.left = None
        self.total = self.finished = 0
        self.begun = self.last_line = time.monotonic()

    def start(self, total, left=None):
        self.total, self.begun, self.left = total, time.monotonic(), left
        if not self.console.is_terminal:
            return
        self.bar = Progress(
            SpinnerColumn(), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[left]}  {task.description}"),
            console=self.console, transient=True,
        )  # fmt: skip
        self.bar.start()
        self.task = self.bar.add_task("", total=total, left="")

    def step(self, text):
        if self.bar is not None:
            self.bar.update(self.task, description=text, left=self._left())
        elif time.monotonic() - self.last_line > LINE_EVERY:
            self.last_line = time.monotonic()
            self.console.print(f"{self.finished}/{self.total}, {self._left()}: {text}")

    def _left(self):
        if self.left is not None:
            left = self.left()
        elif self.finished:
            spent = time.monotonic() - self.begun
            left = spent / self.finished * (self.total - self.finished)
        else:
            return "time left not known yet"
        return f"{int(left // 60)}:{int(left % 60):02d} left"

    def done(self):
        self.finished += 1
        if self.bar is not None:
            self.bar.advance(self.task)

    def more(self, count):
        self.total += count
        if self.bar is not None:
            self.bar.update(self.task, total=self.total)

    def say(self, text):
        self.console.print(text, highlight=False, soft_wrap=True)

    def note(self, text):
        self.console.print(text, style="yellow", highlight=False, soft_wrap=True)

    def end(self, seconds):
        if self.bar is not None:
            self.bar.stop()
        if self.finished:
            self.console.print(f"{self.finished} runs in {seconds / 60:.1f} min", highlight=False)
