"""Programs that rows and measures need besides ours: are they there, can they be had?"""

import shutil
import subprocess

from .errors import LabError
from .paths import ROOT

INSTALLER = ROOT / "scripts" / "install_deps.sh"


def lacking(needs) -> str:
    """"" when all (command, Debian package) pairs are there or could be installed, else why not."""
    if all(shutil.which(command) for command, _ in needs):
        return ""
    words = [f"{command}={package}" for command, package in needs]
    done = subprocess.run(
        ["sh", str(INSTALLER), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return ""
    missing = [pair for pair in needs if shutil.which(pair[0]) is None] or needs
    commands = ", ".join(command.removeprefix("py:") for command, _ in missing)
    packages = " ".join(package for _, package in missing)
    return f"needs {commands} (Debian: apt-get install {packages})"


def split_rows(rows) -> tuple:
    """(rows that can run, {key: reason} of those whose programs cannot be had)."""
    reasons = {row.key: lacking(row.needs) for row in rows}
    there = [row for row in rows if not reasons[row.key]]
    return there, {key: reason for key, reason in reasons.items() if reason}


def require(command, package, what) -> None:
    """For a measure that cannot do without."""
    if lacking(((command, package),)):
        raise LabError(f"{what} needs {command} (Debian: apt-get install {package})")
