# Front door. CMakeLists.txt is the build definition; this file only gives its steps short names.
# `make help` lists them.

PREFIX      ?= /usr/local
JOBS        ?= $(shell scripts/jobs.sh)
# Many tests wait most of their time.
TEST_JOBS   ?= $(shell echo $$(($(JOBS) * 2)))
T           ?=
DOSE        ?= -LE long
PRESET      ?= release
CMAKE_FLAGS ?=
CMD         ?=
ARGS        ?=
FROM        ?=
SINCE       ?= origin/main
SECONDS     ?= 60

SITE_PACKAGES := 'mkdocs-material>=9.5,<10'

# Each preset is a build folder below build/.
PRESETS      := release debug asan tsan
TEST_PRESETS ?= $(PRESETS)

LINKS := libhakmem.so libhakmem.so.1 libhakmem.a hakmem \
         bench_random_mixed_hakmem bench_random_mixed_system bench_random_mixed_mimalloc

# The generator counts for a fresh build folder only; CMake keeps the one it began with.
export CMAKE_GENERATOR ?= $(if $(shell command -v ninja),Ninja,Unix Makefiles)

# A make started by CMake gets -j from us, not from the make that runs this file.
CMAKE  := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake
VENV   := build/venv
PYTHON := $(VENV)/bin/python
# What most commands and tests load is compiled when it is installed, also where Python is told to write no
# bytecode: otherwise each process compiles it anew, for 2 to 4 s. The rest (20,000 files) is not.
VENV_LOADED := rich.progress, rich.table, psutil, jinja2, scipy.stats, matplotlib.pyplot, \
               matplotlib.backends.backend_svg, plotly.offline, plotly.graph_objects, pytest, xdist.remote, \
               playwright.sync_api, PIL.Image

# It reads its words first, then builds what it needs.
LAB = HAKMEM_BENCH_NAME='make $@' scripts/lab

C_FILES = $(shell find include src tools bench tests -type f \( -name '*.[ch]' -o -name '*.cc' -o \
            -name '*.cpp' -o -name '*.hpp' \))
TIDY_FILES = $(shell find src tools -type f -name '*.c')
CLANG_FORMAT = $(or $(shell command -v clang-format-16),clang-format)
CLANG_TIDY   = $(or $(shell command -v clang-tidy-16),clang-tidy)

# The settings of the one who tests are not those of the tests.
ifneq ($(filter test test-full test-changed lab-test,$(MAKECMDGOALS)),)
  unexport $(filter-out HAKMEM_BENCH_%,$(filter HAKMEM_%,$(.VARIABLES)))
endif

# One line, before anything is built.
ifneq ($(filter bench-report,$(MAKECMDGOALS)),)
  ifneq ($(FROM),)
    ifeq ($(wildcard $(FROM)/summary.json),)
      $(error bench-report: FROM=$(FROM) is not the folder of a run: there is no summary.json)
    endif
  endif
endif

.DEFAULT_GOAL := all
.PHONY: all $(PRESETS) nolto pgo build-deps lint-deps test-build-deps test-deps test-built test test-full test-changed check suites \
        package-test lab-test run bench bench-report deb site install format lint analyze fuzz clean help

# The root's names are those of one build: of release, or of debug where that alone was asked for.
LINK = @for file in $(LINKS); do if [ -e build/$(1)/$$file ]; then ln -sfn build/$(1)/$$file .; fi; done
LINK_DEBUG = $(call LINK,debug); echo "the links in the root are the debug build's; 'make' makes them release's"

all: release ## Build release and link its results into the root (the default)
	$(call LINK,release)

release: ## Build build/release: optimised, with LTO where the tools can
debug: ## Build build/debug and its tests: asserts, verification and timing; alone, link it into the root
asan: ## Build build/asan: AddressSanitizer and UBSan, hakmem_* names only
tsan: ## Build build/tsan: ThreadSanitizer, hakmem_* names only

nolto: ## Build build/nolto: as release, without LTO (the lab's allocator hakmem-nolto)

# Tests need a package that a plain build does not: a fresh folder has them only for a test goal, and
# keeps them from then on; debug, which is for those who change the engine, always has them.
TEST_GOALS := $(filter test-built check suites,$(MAKECMDGOALS))
TESTS = $(if $(TEST_GOALS)$(filter debug,$@),ON,$(or $(shell sed -n \
          's/^HAKMEM_BUILD_TESTS:BOOL=//p' build/$@/CMakeCache.txt 2>/dev/null),OFF))

# What there is to build is shown; that there is nothing to build is not. Warnings go to stderr.
QUIET = | sed -u '/Built target/d; /no work to do/d; /^Consolidate compiler/d; /Re-checking globbed/d'
define BUILD
@$(CMAKE) --preset $(1) --log-level=NOTICE $(2) $(CMAKE_FLAGS) >/dev/null
@{ $(CMAKE) --build --preset $(1) --parallel $(JOBS) $(3) || touch build/$(1)/.failed; } $(QUIET); \
 ! rm build/$(1)/.failed 2>/dev/null
endef
# What else a build has for the goal: tests for test goals, and always those of debug. The short doses are a part of
# them: `make test` builds what they need and no more.
WITH_TESTS = $(if $(filter short,$(BUILT)),$(if $(filter release,$(1)),all) \
                 $$(python3 tests/support/targets.py build/$(1) . --short),all $(if $(filter ON,$(TESTS)),tests))
FOR_GOAL = $(if $(filter debug,$(1))$(TEST_GOALS),--target $(call WITH_TESTS,$(1)))

debug: test-build-deps
$(PRESETS) nolto: build-deps
	$(call BUILD,$@,-DHAKMEM_BUILD_TESTS=$(TESTS),$(if $(filter nolto,$@),,$(call FOR_GOAL,$@)))
	$(if $(filter debug,$(if $(filter debug,$@),$(MAKECMDGOALS))),$(if $(word 2,$(MAKECMDGOALS)),,$(LINK_DEBUG)))

# The lab trains the instrumented library on its own rows; what was instrumented never stays behind.
PGO_STEP = $(CMAKE) --preset pgo --log-level=NOTICE -DHAKMEM_PGO=$(1) $(CMAKE_FLAGS) && \
           $(CMAKE) --build --preset pgo --parallel $(JOBS)

pgo: all ## Build build/pgo: profile-guided, trained on the lab's rows (hakmem-pgo)
	@rm -rf build/pgo
	@$(call PGO_STEP,generate)
	@$(LAB) train --library build/pgo/libhakmem.so || { rm -rf build/pgo; exit 1; }
	@rm -f build/pgo/libhakmem.so*
	@$(call PGO_STEP,use)
	@python3 tests/hotpath/disassembly.py build/pgo/libhakmem.so

# One job installs what the tests need, which is mostly waiting; the other builds one preset after the other.
GET_READY = +@$(MAKE) --no-print-directory -j2 $(BUILT) $(DEPS) test-built

ifneq ($(filter test-built,$(MAKECMDGOALS)),)
test-built: test-deps all $(TEST_PRESETS)
$(VENV)/.ready $(VENV)/.site: | test-deps
debug: | release
asan: | release $(filter debug,$(TEST_PRESETS))
tsan: | release $(filter debug asan,$(TEST_PRESETS))
endif

test: BUILT := BUILT=short
test: build-deps test-build-deps ## Run the short doses of all tests, on every preset
	$(GET_READY) $(VENV)/.ready
	@tests/run.sh '$(TEST_PRESETS)' '$(PYTHON)' -LE 'long|repeat' -j $(TEST_JOBS)

test-full test-changed: DEPS := DEPS=long

test-full: build-deps test-build-deps ## Run all tests with their full doses
	$(GET_READY) $(VENV)/.site
	@tests/run.sh '$(TEST_PRESETS)' '$(PYTHON)' -j $(TEST_JOBS)

test-changed: build-deps test-build-deps ## Run the long doses that the changes since SINCE ask for (default: origin/main)
	$(GET_READY) $(VENV)/.site
	@python3 tests/changed.py '$(SINCE)' >build/long-doses
	@failed=''; while read -r preset tests; do echo "== long doses: $$preset"; \
	    if [ $$preset = lab ]; then $(PYTHON) -m pytest -q -m long bench; \
	    else ctest --preset $$preset -L '^(long|repeat)$$' -R "$$tests" -j $(TEST_JOBS); fi </dev/null || failed="$$failed $$preset"; \
	 done <build/long-doses; [ -z "$$failed" ] || { echo "FAILED:$$failed"; exit 1; }

check: test-build-deps ## Build what some tests need, and run them: make check T=unit.cache [PRESET=debug]
	@[ -n '$(value T)' ] || { echo "make check T=name: which tests? 'unit.cache', or any regular expression" >&2; exit 1; }
	@if [ -e build/$(PRESET)/CMakeCache.txt ]; then where='-B build/$(PRESET)'; \
	 else where='--preset $(PRESET) -DHAKMEM_BENCH_PEERS=OFF'; fi; \
	 $(CMAKE) $$where --log-level=NOTICE -DHAKMEM_BUILD_TESTS=ON $(CMAKE_FLAGS) >/dev/null
	@targets=$$(python3 tests/support/targets.py build/$(PRESET) '$(value T)') || exit 1; \
	 { $(CMAKE) --build --preset $(PRESET) --parallel $(JOBS) --target $$targets || touch build/$(PRESET)/.failed; } $(QUIET); \
	 ! rm build/$(PRESET)/.failed 2>/dev/null
	@ctest --preset $(PRESET) -R '$(value T)' $(DOSE) -j $(TEST_JOBS)

suites: test-deps release ## Run test suites of real programs on HAKMEM and on the system's malloc: hours [ARGS='redis']
	@$(CMAKE) --build --preset release --parallel $(JOBS) --target hakmem_shared test_witness $(QUIET)
	@python3 tests/programs/suites.py build/release/libhakmem.so build/release/tests/libtest_witness.so all \
	    --kept build/suites --table build/suites.md $(ARGS)

package-test: ## Build, install and use every package and binding, each from a clean folder: minutes
	@tests/install_deps.sh packages
	@$(MAKE) --no-print-directory check T='^packages[.]' DOSE= TEST_JOBS=1

lab-test: $(VENV)/.site
	@$(PYTHON) -m pytest -q bench

run: ## Run a real program on both allocators: make run [CMD='prog args']
	@$(LAB) run $(ARGS) $(if $(CMD),-- $(CMD))

bench: ## Compare HAKMEM with its peers: make bench [ARGS='...']
	@$(LAB) bench $(ARGS)

bench-report: $(if $(FROM)$(ARGS),,nolto pgo) ## Write docs/PERF_COMPARISON_ALLOCATORS.md: runs, or takes FROM=folder of a run
	@$(LAB) page $(if $(FROM),--from '$(FROM)') $(ARGS)

site: ## Make the documentation site from the tree, in build/site/html; a dead link fails
	@scripts/install_deps.sh python3=python3 py:ensurepip=python3-venv groff=groff-base
	@test -x build/site-venv/bin/mkdocs || { echo "preparing build/site-venv"; python3 -m venv build/site-venv && \
	    build/site-venv/bin/pip install --quiet --disable-pip-version-check $(SITE_PACKAGES); }
	@rm -rf build/site/pages
	@scripts/site.py build/site
	@NO_MKDOCS_2_WARNING=1 build/site-venv/bin/mkdocs build --strict --quiet --config-file build/site/mkdocs.yml
	@echo 'build/site/html/index.html; with search: python3 -m http.server -d build/site/html'

deb: build-deps ## Build the Debian packages, in build/deb/packages
	@scripts/install_deps.sh dpkg-shlibdeps=dpkg-dev dpkg-deb=dpkg file=file h:zlib.h=zlib1g-dev
	@rm -rf build/deb/packages
	$(call BUILD,deb)
	@cd build/deb && cpack >cpack.log 2>&1 || { cat cpack.log >&2; exit 1; }
	@ls build/deb/packages/*.deb

install: release ## Install: make install PREFIX=/usr/local [DESTDIR=...]
	@$(CMAKE) --install build/release --prefix "$(PREFIX)"

format: lint-deps ## Format all C and C++ files
	@$(CLANG_FORMAT) -i $(C_FILES)

fuzz: ## Fuzz the engine and the parsers: make fuzz [SECONDS=60]; needs clang and its libFuzzer
	@CC=$(or $(shell command -v clang-16),clang) CXX=$(or $(shell command -v clang++-16),clang++) \
	    $(CMAKE) --preset fuzz --log-level=NOTICE >/dev/null
	@$(CMAKE) --build --preset fuzz --parallel $(JOBS) $(QUIET)
	@tests/fuzz/run.sh $(SECONDS)

lint: lint-deps debug ## Check the format, then clang-tidy over the engine
	@$(CLANG_FORMAT) --dry-run -Werror $(C_FILES)
	@printf '%s\n' $(TIDY_FILES) | xargs -P $(JOBS) -n 4 $(CLANG_TIDY) --quiet -p build/debug

# One file at a time; clang's own analyzer is among the checks of lint.
ANALYZE = gcc -std=gnu11 -O1 -fanalyzer -Werror -D_GNU_SOURCE -DHAKMEM_CHECKS=1 -DHAKMEM_PREFIXED_ONLY=0 \
          -Isrc -Iinclude -c -o /dev/null

analyze: build-deps ## Run gcc's analyzer over the engine, as release and as debug: no finding is left
	@for debug in 0 1; do printf '%s\n' $(filter src/%,$(TIDY_FILES)) | \
	    xargs -P $(JOBS) -n 1 $(ANALYZE) -DHAKMEM_DEBUG=$$debug || exit 1; done

clean: ## Remove build/ and the links in the root
	@rm -rf build $(LINKS)

help: ## Show this table
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  Variables: PREFIX DESTDIR JOBS CC CXX CMAKE_FLAGS TEST_JOBS TEST_PRESETS T PRESET CMD ARGS FROM SINCE SECONDS"

build-deps:
	@scripts/install_deps.sh cmake=cmake $(or $(filter-out cc,$(CC)),cc)=gcc \
	    $(or $(filter-out g++,$(CXX)),c++)=g++ python3=python3

lint-deps:
	@command -v $(CLANG_FORMAT) >/dev/null && command -v $(CLANG_TIDY) >/dev/null || \
	    scripts/install_deps.sh clang-format-16=clang-format-16 clang-tidy-16=clang-tidy-16

test-build-deps:
	@tests/install_deps.sh build

test-deps:
	@tests/install_deps.sh $(DEPS)

$(VENV)/.ready: bench/pyproject.toml
	@scripts/install_deps.sh python3=python3 py:ensurepip=python3-venv
	@echo "preparing $(VENV): Python packages, a minute or more, once"
	@python3 -m venv $(VENV)
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile --editable 'bench[test]'
	@env -u PYTHONDONTWRITEBYTECODE $(PYTHON) -c 'import $(VENV_LOADED)'
	@touch $@

# 15,000 files that only a long test of the lab needs.
$(VENV)/.site: bench/pyproject.toml $(VENV)/.ready
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile $(SITE_PACKAGES)
	@touch $@
