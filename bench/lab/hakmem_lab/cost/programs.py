"""What is counted: ten real programs on inputs short enough for a simulator, rows, or any command.

A program's input is one of bench/workloads with some of its numbers made smaller. It runs in a
folder of its own, always the same one, and names its files relatively: lengths of paths are costs.
"""

import random
import shutil
import sys
from dataclasses import dataclass

from ..errors import BadInput, LabError
from ..paths import WORKLOADS, readable
from ..workloads import PYTHON_ENVIRONMENT, choose_rows

FREE_ENVIRONMENT = (("HAKMEM_BENCH_PREFAULT", "1"),)  # of our own programs: a fixed warm-up


@dataclass(frozen=True)
class Program:
    """`input` is a file of bench/workloads, `smaller` what is replaced in it: (text, by, times)."""

    name: str
    title: str
    words: tuple
    input: str = ""
    smaller: tuple = ()
    environment: tuple = ()
    needs: tuple = ()  # (command, Debian package) pairs
    linked: bool = False  # with an allocator; the system's is then preloaded as the others are
    makes: object = None  # writes further input into the run's folder
    folder: str = ""  # a program of the user's runs there, with its environment, time and chance

    @property
    def key(self) -> str:
        return self.name

    def prepare(self, folder) -> None:
        """Fills the empty folder that the program runs in."""
        if self.input:
            text = (WORKLOADS / self.input).read_text()
            for old, new, times in self.smaller:
                if text.count(old) != times:
                    raise LabError(f"{self.input}: '{old}' is there {text.count(old)} times")
                text = text.replace(old, new)
            (folder / self.input).write_text(text)
        if self.makes:
            self.makes(folder)


def _redis_command(*words) -> bytes:
    parts = [str(word).encode() for word in words]
    lines = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"*%d\r\n%s" % (len(parts), lines)


def _redis_log(folder) -> None:
    """A log that redis-server replays when it starts; its last command ends the server."""
    numbers = random.Random(4141)
    below = numbers.randrange
    with open(folder / "appendonly.aof", "wb") as log:
        for _ in range(12_000):
            key = f"key:{below(4000)}"
            log.write(_redis_command("SET", key, "x" * below(20, 300)))
            log.write(_redis_command("LPUSH", f"list:{below(60)}", "v" * below(10, 100)))
            log.write(_redis_command("HSET", f"hash:{below(300)}", f"f{below(40)}", "h" * below(90)))
            log.write(_redis_command("ZADD", f"set:{below(20)}", below(10_000), f"m{below(3000)}"))
            if below(4) == 0:
                log.write(_redis_command("RPOP", f"list:{below(60)}"))
                log.write(_redis_command("APPEND", key, "y" * below(60)))
                log.write(_redis_command("DEL", f"key:{below(4000)}", f"hash:{below(300)}"))
        log.write(_redis_command("SHUTDOWN", "NOSAVE", "NOW"))


def _debian(command, package) -> tuple:
    return ((command, package),)


PROGRAMS = (
    Program("perl", "perl: a report from a log", ("perl", "report.pl"), "report.pl",
            (("1 .. 120000", "1 .. 8000", 1),), (("PERL_HASH_SEED", "0"),), _debian("perl", "perl")),
    Program("sqlite3", "sqlite3: a shop's tables", ("sqlite3", ":memory:", ".read orders.sql"),
            "orders.sql", (("200000)", "16000)", 1), ("i < 20000", "i < 1600", 1),
                           ("i < 4000", "i < 400", 1), ("% 20000", "% 1600", 1),
                           ("% 4000", "% 400", 1), ("<= 5000", "<= 400", 1)),
            needs=_debian("sqlite3", "sqlite3")),
    Program("python3", "python3: a search index", (sys.executable, "index_stdlib.py"),
            "index_stdlib.py", (("FILES = 150", "FILES = 12", 1), ("[:150]", "[:60]", 1)),
            (*PYTHON_ENVIRONMENT, ("PYTHONDONTWRITEBYTECODE", "1"))),
    Program("gs", "ghostscript: pages of curves and text",
            ("gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=pgmraw", "-r36", "-o", "-",
             "page.ps"), "page.ps", (("1 1 12 {", "1 1 1 {", 1),),
            needs=_debian("gs", "ghostscript")),
    Program("gcc", "gcc -O2: functions from macros", ("gcc", "-O2", "-S", "-o", "-", "maps.c"),
            "maps.c", (("        make(prefix##_i32, key, int32_t) make(prefix##_u64, key, uint64_t) \\\n"
                        "            make(prefix##_f, key, float) make(prefix##_d, key, double)\n",
                        "\n", 1),
                       ("    VALUES(make, map_i32, int32_t)  \\\n"
                        "    VALUES(make, map_u32, uint32_t) \\\n", "", 1),
                       ("    VALUES(make, map_i64, int64_t)  \\\n", "", 1)),
            needs=_debian("gcc", "gcc")),
    Program("ruby", "ruby: pages from templates", ("ruby", "--disable-gems", "template.rb"),
            "template.rb", (("Array.new(9000)", "Array.new(900)", 1),),
            needs=_debian("ruby", "ruby")),
    Program("lua", "lua: a world of tables and closures", ("lua5.4", "entities.lua"),
            "entities.lua", (("1, 12000 do", "1, 4000 do", 1), ("1, 20 do", "1, 10 do", 1)),
            needs=_debian("lua5.4", "lua5.4")),
    Program("z3", "z3: factors of a product", ("z3", "factors.smt2"), "factors.smt2",
            (("#x00010000", "#x00001000", 2), ("#x5f6b7df5", "#x0089e0eb", 1)), needs=_debian("z3", "z3")),
    Program("node", "node: buffers, compression, JSON",
            ("node", "--single-threaded", "--predictable-gc-schedule", "--hash-seed=1",
             "--random-seed=1", "service.js"), "service.js",
            (("number < 25000", "number < 1500", 1), ("random(3000)", "random(300)", 2)),
            needs=_debian("node", "nodejs")),
    Program("redis", "redis-server: replays a log of commands",
            ("redis-server", "--port", "0", "--unixsocket", "socket", "--save", "", "--hz", "1",
             "--loglevel", "warning", "--appendonly", "yes", "--appendfilename", "appendonly.aof",
             "--dir", "."), makes=_redis_log, linked=True, needs=_debian("redis-server", "redis-server")),
)  # fmt: skip


def _of_row(row) -> Program:
    if row.kind != "command" and not row.count:
        if any("{s}" in word for word in row.args):
            raise BadInput(f"row '{row.key}' runs for a given time; only counted work has a cost")
    words = tuple(word.replace("{n}", str(row.count)) for word in row.args)
    environment = row.environment if row.kind == "command" else FREE_ENVIRONMENT
    return Program(row.key, row.title, (row.program, *words), environment=environment,
                   needs=row.needs)  # fmt: skip


def choose(text) -> list:
    """Programs by name, rows by key or group, with commas between; None = the ten programs."""
    if text is None:
        return list(PROGRAMS)
    ours, chosen = {program.name: program for program in PROGRAMS}, []
    for word in filter(None, (part.strip() for part in text.split(","))):
        try:
            found = [ours[word]] if word in ours else [_of_row(row) for row in choose_rows(word)]
        except BadInput as error:
            if "unknown row" not in str(error):
                raise
            raise BadInput(
                f"unknown program '{word}'; there are {', '.join(ours)}, and the rows of "
                "'lab bench --list'"
            ) from None
        chosen += [program for program in found if program not in chosen]
    if not chosen:
        raise BadInput("no program is named")
    return chosen


def of_command(words) -> Program:
    """Any command; it sees no file of ours, so paths must be absolute."""
    where = shutil.which(words[0])
    if where is None:
        raise BadInput(f"there is no command '{words[0]}'")
    return Program("command", readable(" ".join(words)), (where, *words[1:]))
