"""The peers: which package each comes from and how it is built. Data only."""

import dataclasses

# tool -> Debian package that has it
TOOLS = {
    "cargo": "cargo",
    "cmake": "cmake",
    "make": "make",
    "cc": "gcc",
    "c++": "g++",
    "readelf": "binutils",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
}


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str  # the library is lib<name>.so
    title: str
    package: str  # in its registry
    version: str  # "" = the one the registry offers
    recipe: str
    source: str = ""  # folder inside the package
    target: str = ""  # of CMake
    options: tuple[str, ...] = ()  # of CMake or configure; definitions for the sources recipe
    files: str = ""  # sources: files, or "" for the crate's list; debian, cmake: the library
    includes: tuple[str, ...] = ()
    flags: str = ""
    environment: tuple[tuple[str, str], ...] = ()  # that its users are told to run it with
    default: bool = True  # part of the comparison when none is named


MIMALLOC_OPTIONS = ("-DMI_BUILD_TESTS=OFF", "-DMI_BUILD_STATIC=OFF", "-DMI_BUILD_OBJECT=OFF")

PEERS = (
    Peer(
        name="mimalloc",
        title="mimalloc v3",
        package="libmimalloc-sys2",
        version="0.1.65",
        recipe="cmake",
        source="c_src/mimalloc3",
        target="mimalloc",
        options=MIMALLOC_OPTIONS,
    ),
    Peer(
        name="mimalloc2",
        title="mimalloc v2",
        package="libmimalloc-sys2",
        version="0.1.65",
        recipe="cmake",
        source="c_src/mimalloc",
        target="mimalloc",
        options=MIMALLOC_OPTIONS,
    ),
    # an older v3, many of whose users have not moved on; its crate leaves out CMake's helper files
    Peer(
        name="mimalloc33",
        title="mimalloc 3.3",
        package="libmimalloc-sys",
        version="0.1.49",
        recipe="sources",
        source="c_src/mimalloc/v3",
        options=(
            *("MI_MALLOC_OVERRIDE", "MI_SHARED_LIB", "MI_SHARED_LIB_EXPORT"),
            *("MI_BUILD_RELEASE", "NDEBUG"),
        ),
        files="src/static.c",
        includes=("include",),
        flags="-fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc",
        default=False,
    ),
    Peer(
        name="snmalloc",
        title="snmalloc",
        package="snmalloc-sys",
        version="0.7.6",
        recipe="cmake",
        source="upstream",
        target="snmallocshim",
        options=("-DSNMALLOC_BUILD_TESTING=OFF",),
    ),
    Peer(
        name="jemalloc",
        title="jemalloc",
        package="tikv-jemalloc-sys",
        version="0.7.1+5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8",
        recipe="configure",
        source="jemalloc",
        options=("--disable-doc",),
    ),
    Peer(
        name="gperftools",
        title="gperftools",
        package="libtcmalloc-minimal4",
        version="",
        recipe="debian",
    ),
    # What Debian's users have; when named
    Peer(
        name="jemalloc-debian",
        title="jemalloc (Debian)",
        package="libjemalloc2",
        version="",
        recipe="debian",
        default=False,
    ),
    Peer(
        name="mimalloc-debian",
        title="mimalloc (Debian)",
        package="libmimalloc2.0",
        version="",
        recipe="debian",
        default=False,
    ),
    # Hardened allocators, for `lab misuse`
    Peer(
        name="mimalloc-secure",
        title="mimalloc v3 secure",
        package="libmimalloc-sys2",
        version="0.1.65",
        recipe="cmake",
        source="c_src/mimalloc3",
        target="mimalloc",
        files="mimalloc-secure",
        options=(*MIMALLOC_OPTIONS, "-DMI_SECURE=ON"),
        default=False,
    ),
    Peer(
        name="scudo",
        title="scudo (LLVM 16)",
        package="libclang-rt-16-dev",
        version="",
        recipe="debian",
        files="libclang_rt.scudo_standalone-x86_64.so",
        default=False,
    ),
    Peer(
        name="hardened-malloc",
        title="hardened_malloc",
        package="hardened-malloc-sys",
        version="16.0.2026071503",
        recipe="sources",
        source="vendor/hardened-malloc",
        files="chacha.c h_malloc.c memory.c pages.c random.c util.c",
        options=(
            *("_GNU_SOURCE", "NDEBUG", "N_ARENA=4", "CONFIG_EXTENDED_SIZE_CLASSES=true"),
            *("CONFIG_SEAL_METADATA=false", "ZERO_ON_FREE=true", "WRITE_AFTER_FREE_CHECK=true"),
            *("SLOT_RANDOMIZE=true", "SLAB_CANARY=true", "CONFIG_LARGE_SIZE_CLASSES=true"),
            *("SLAB_QUARANTINE_RANDOM_LENGTH=1", "SLAB_QUARANTINE_QUEUE_LENGTH=1"),
            *("GUARD_SLABS_INTERVAL=1", "GUARD_SIZE_DIVISOR=2", "CONFIG_STATS=false"),
            *("REGION_QUARANTINE_RANDOM_LENGTH=256", "REGION_QUARANTINE_QUEUE_LENGTH=1024"),
            *("REGION_QUARANTINE_SKIP_THRESHOLD=33554432", "CONFIG_SELF_INIT=true"),
            *("FREE_SLABS_QUARANTINE_RANDOM_LENGTH=32", "CONFIG_CLASS_REGION_SIZE=34359738368"),
        ),
        includes=("include", "third_party"),
        # what C23 has as words, for older compilers
        flags="-fvisibility=hidden -fno-builtin -Dalignas=_Alignas -Dstatic_assert=_Static_assert "
        "-Dthread_local=_Thread_local -Dnullptr=NULL",
        default=False,
    ),
    # Google's tcmalloc, with the page size of its default build; its caches are per CPU only
    # when glibc leaves restartable sequences to it, as its documentation asks for
    Peer(
        name="tcmalloc",
        title="tcmalloc",
        package="libtcmalloc-sys",
        version="0.1.14",
        recipe="sources",
        source=".",
        options=("TCMALLOC_INTERNAL_8K_PAGES", "NOMINMAX", "NDEBUG"),
        includes=("c_src/abseil-cpp", "c_src/tcmalloc"),
        flags="-fno-omit-frame-pointer",
        environment=(("GLIBC_TUNABLES", "glibc.pthread.rseq=0"),),
    ),
)

NEEDED_TOOLS = {
    "cmake": ("cargo", "cmake", "make", "cc", "c++", "readelf"),
    "sources": ("cargo", "cmake", "make", "cc", "c++", "readelf"),
    "configure": ("cargo", "make", "cc", "c++", "readelf"),
    "debian": ("apt-get", "dpkg-deb", "readelf"),
}
