/* thp.c: every unit lies in one zone, and the zones have few borders, however they change. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "os/os.h"
#include "region/region.h"
#include "region/thp.h"
#include "region/walk.h"

#define UNITS_MOST ((size_t)8 << 40 >> HAK_UNIT_SHIFT) /* of the largest heap */

static void zones_follow_each_other(void **state) {
    (void)state;
    size_t end = 0;
    for (unsigned zone = 0; zone < HAK_THP_ZONES_MAX; zone++) {
        hak_thp_range_t range = hak_thp_range(zone);
        REQUIRE(range.first == end && range.end > range.first, "zone %u begins at %zu, not %zu",
                zone, range.first, end);
        end = range.end;
        REQUIRE(hak_thp_of(range.first) == zone && hak_thp_of(range.end - 1) == zone,
                "zone %u: its ends are of zones %u and %u", zone, hak_thp_of(range.first),
                hak_thp_of(range.end - 1));
        REQUIRE(zone < 16 || (range.end - range.first) * 16 <= range.first, "zone %u is long",
                zone);
    }
    assert_true(end >= UNITS_MOST);
    assert_true(hak_thp_of(UNITS_MOST - 1) < HAK_THP_ZONES_MAX);
}

/* The kernel's own count of the mappings in a range. */
static unsigned lines_of_maps(const char *start, const char *end) {
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned count = 0;
    unsigned long first, last;
    char line[512];
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &first, &last) == 2)
            count += first < (uintptr_t)end && last > (uintptr_t)start;
    if (maps) fclose(maps);
    return count;
}

/* Mapped addresses for a range of units, as the heap's that they would be in. */
static char *map_units(hak_thp_range_t units) {
    char *start = mmap(NULL, (units.end - units.first) << HAK_UNIT_SHIFT, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(start != MAP_FAILED, "no addresses");
    return start - (units.first << HAK_UNIT_SHIFT);
}
static void unmap_units(char *heap, hak_thp_range_t units) {
    munmap(heap + (units.first << HAK_UNIT_SHIFT), (units.end - units.first) << HAK_UNIT_SHIFT);
}

/* The kernel is told; all units below `end` are mapped. */
static void refuse(char *heap, size_t unit, size_t end) {
    const hak_region_walk_t walk = {.heap = heap, .limit = end >> hak_map.super_shift};
    hak_thp_refuse(&walk, unit);
}

/* A heap of 64 GiB grows and wants something else at every step; then every superslab of every second zone
 * is purged in part, one after the other. */
static void borders_are_the_kernels(void **state) {
    (void)state;
    static const hak_thp_wish_t wishes[] = {HAK_THP_ALL, HAK_THP_NONE, HAK_THP_PROBE,
                                            HAK_THP_AGAINST, HAK_THP_PROBE};
    const size_t size = (size_t)64 << 30, units = size >> HAK_UNIT_SHIFT, step = 1024;
    char *heap = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(heap != MAP_FAILED, "no addresses");
    for (size_t unit = 0; unit < units; unit += step)
        hak_thp_mapped(heap, (hak_thp_range_t){unit, unit + step},
                       wishes[unit / step % (sizeof wishes / sizeof *wishes)]);
    unsigned wished = 0;
    for (size_t unit = 0; unit < units; unit += step) wished += hak_thp_wishes(unit);
    assert_true(wished > 0 && wished < units / step);
    for (int refused = 0; refused < 2; refused++) {
        unsigned seen = lines_of_maps(heap, heap + size), told = hak_thp_borders(units);
        REQUIRE(seen <= told + 1, "%u mappings, and %u borders", seen, told);
        REQUIRE(seen <= HAK_THP_ZONES_MAX + HAK_THP_ZONES_MAX / HAK_THP_PROBE_EVERY, "%u mappings",
                seen);
        for (size_t unit = 0; unit < units; unit += 16)
            if (hak_thp_of(unit) % 2) refuse(heap, unit, units);
    }
    munmap(heap, size);
}

/* The flags of the mapping that contains an address, as the kernel shows them. */
static bool has_flag(const char *address, const char *flag) {
    FILE *smaps = fopen("/proc/self/smaps", "r");
    unsigned long first, last;
    bool inside = false, found = false;
    char line[512];
    while (smaps && fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2)
            inside = first <= (uintptr_t)address && last > (uintptr_t)address;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, flag) != NULL;
    }
    if (smaps) fclose(smaps);
    return found;
}

/* A zone of 64 superslabs: one is a hole with memory of somebody else, the last ones are not mapped yet. */
static void others_memory_keeps_its_advice(void **state) {
    (void)state;
    enum { ZONE = 150, SUPERS = 64, FOREIGN = 20, CARVED = 40, LIMIT = 50 };
    const hak_thp_range_t zone = hak_thp_range(ZONE);
    const size_t size = hak_superslab_size(), units = hak_superslab_units();
    const size_t first = zone.first >> hak_map.super_shift;
    hak_superslab_t *supers = calloc(CARVED, sizeof *supers);
    char *start = mmap(NULL, LIMIT * size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const hak_region_walk_t walk = {start - first * size, supers - first, first + CARVED,
                                    first + LIMIT};
    REQUIRE(supers && start != MAP_FAILED && zone.end - zone.first >= SUPERS * units, "no memory");
    hak_thp_mapped(walk.heap, (hak_thp_range_t){zone.first, zone.first + LIMIT * units},
                   HAK_THP_ALL);
    for (unsigned i = 0; i < CARVED; i++) hak_store_relaxed(&supers[i].mapped, i != FOREIGN);
    hak_thp_unmapped(
        (hak_thp_range_t){zone.first + FOREIGN * units, zone.first + (FOREIGN + 1) * units});
    char *foreign = start + FOREIGN * size;
    if (madvise(foreign, size, MADV_HUGEPAGE) != 0) skip(); /* a kernel without huge pages */
    assert_true(has_flag(foreign, " hg"));
    hak_thp_refuse(&walk, zone.first + units);
    assert_true(hak_thp_refuses(zone.first));
    assert_true(has_flag(foreign, " hg") && has_flag(foreign + size - 1, " hg"));
    assert_true(has_flag(start, " nh") && has_flag(foreign - 1, " nh"));
    assert_true(has_flag(foreign + size, " nh") && has_flag(start + LIMIT * size - 1, " nh"));
    hak_thp_unmapped((hak_thp_range_t){zone.first, zone.first + (LIMIT - 1) * units});
    munmap(start, LIMIT * size);
    free(supers);
}

/* Where the kernel does not take the advice the zone is asked for again, after a while: until then a purge makes
 * no call. One page of the heap is not there: to the kernel that is the same answer as too many mappings. */
static void what_the_kernel_does_not_take_is_not_refused(void **state) {
    (void)state;
    enum { ZONE = 151, PURGES = 1000, AGAIN_LEAST_MS = 250, TRIES = 500 };
    const hak_thp_range_t zone = hak_thp_range(ZONE);
    char *heap = map_units(zone), *start = heap + (zone.first << HAK_UNIT_SHIFT);
    const size_t page = hak_os_page_size();
    hak_thp_mapped(heap, zone, HAK_THP_ALL);
    munmap(start, page);
    bool answers = madvise(start, page, MADV_NOHUGEPAGE) != 0 && errno != EINVAL;
    refuse(heap, zone.first, zone.end);
    assert_true(hak_thp_wishes(zone.first) == answers);
    uint64_t calls = hak_load_relaxed(&hak_os_stats.madvise), began = hak_os_now_ms();
    for (unsigned purges = 0; answers && purges < PURGES; purges++)
        refuse(heap, zone.first, zone.end);
    calls = hak_load_relaxed(&hak_os_stats.madvise) - calls;
    REQUIRE(calls <= (hak_os_now_ms() - began) / AGAIN_LEAST_MS, "%u purges, %zu calls of madvise",
            PURGES, (size_t)calls);
    mmap(start, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (unsigned tries = 0; hak_thp_wishes(zone.first) && tries < TRIES; tries++) {
        hak_os_sleep_ms(10);
        refuse(heap, zone.first, zone.end);
    }
    assert_false(hak_thp_wishes(zone.first));
    hak_thp_unmapped(zone);
    unmap_units(heap, zone);
}

/* A zone that was purged in part gets huge pages again when all of it has been unmapped, and only
 * then. */
static void a_zone_without_mappings_is_decided_anew(void **state) {
    (void)state;
    hak_thp_range_t zone = hak_thp_range(HAK_THP_ZONES_MAX - 1);
    size_t step = (zone.end - zone.first) / 4;
    char *heap = map_units(zone);
    hak_thp_mapped(heap, zone, HAK_THP_ALL);
    assert_true(hak_thp_wishes(zone.first) && !hak_thp_refuses(zone.first));
    refuse(heap, zone.first + 1, zone.end);
    assert_true(!hak_thp_wishes(zone.first) && hak_thp_refuses(zone.end - 1));
    for (size_t unit = zone.first; unit < zone.end; unit += step) {
        hak_thp_range_t part = {unit, unit + step};
        assert_true(hak_thp_refuses(unit));
        hak_thp_unmapped(part);
        if (unit > zone.first) continue;
        hak_thp_mapped(heap, part, HAK_THP_ALL);
        REQUIRE(hak_thp_refuses(unit), "a zone that is mapped in part has changed its advice");
        hak_thp_unmapped(part);
    }
    assert_true(!hak_thp_wishes(zone.first) && !hak_thp_refuses(zone.first));
    hak_thp_mapped(heap, (hak_thp_range_t){zone.first, zone.first + step}, HAK_THP_ALL);
    hak_thp_mapped(heap, (hak_thp_range_t){zone.end - step, zone.end}, HAK_THP_NONE);
    assert_true(hak_thp_wishes(zone.end - 1) && hak_thp_wishes(zone.first));
    hak_thp_unmapped((hak_thp_range_t){zone.first, zone.first + step});
    hak_thp_unmapped((hak_thp_range_t){zone.end - step, zone.end});
    hak_thp_mapped(heap, zone, HAK_THP_NONE);
    assert_true(!hak_thp_wishes(zone.first) && !hak_thp_refuses(zone.first));
    unmap_units(heap, zone);
}

/* Where a probe is wanted at least one zone in four has it: the first 2 MiB, and nothing else, have small
 * pages. All of a zone has them that wants no huge pages. */
static void probes_keep_small_pages(void **state) {
    (void)state;
    const unsigned first = 200, count = 16;
    hak_thp_range_t all = {hak_thp_range(first).first, hak_thp_range(first + count).first};
    char *heap = map_units(all);
    unsigned probes = 0;
    hak_thp_mapped(heap, all, HAK_THP_PROBE);
    for (unsigned zone = first; zone < first + count; zone++) {
        hak_thp_range_t small = hak_thp_small_pages(zone);
        assert_true(hak_thp_wishes(hak_thp_range(zone).first));
        if (small.end == small.first) continue;
        probes++;
        assert_int_equal(small.first, hak_thp_range(zone).first);
        assert_int_equal(small.end - small.first, HAK_THP_UNITS);
    }
    assert_int_equal(probes, count / HAK_THP_PROBE_EVERY);
    refuse(heap, all.first, all.end); /* a gap in the probe, where the kernel makes no huge page */
    assert_true(hak_thp_wishes(all.first) && hak_thp_small_pages(first).end != 0);
    refuse(heap, all.first + HAK_THP_UNITS, all.end); /* its large pages were no probe */
    assert_true(!hak_thp_wishes(all.first) && hak_thp_small_pages(first).end == 0);
    for (unsigned zone = first; zone < first + count; zone++) hak_thp_unmapped(hak_thp_range(zone));
    for (hak_thp_wish_t wish = HAK_THP_NONE; wish <= HAK_THP_AGAINST; wish++) {
        hak_thp_range_t zone = hak_thp_range(first);
        bool small = wish == HAK_THP_NONE || wish == HAK_THP_AGAINST;
        if (wish == HAK_THP_PROBE) continue;
        assert_false(hak_thp_is_decided(zone.first));
        hak_thp_mapped(heap, zone, wish);
        assert_true(hak_thp_is_decided(zone.first));
        assert_int_equal(hak_thp_small_pages(first).end, small ? zone.end : 0);
        assert_true(hak_thp_wishes(zone.first) == (wish == HAK_THP_ALL));
        assert_false(hak_thp_refuses(zone.first));
        hak_thp_unmapped(zone);
    }
    unmap_units(heap, all);
}

/* Zones of a heap of 64 GiB that was unmapped are decided anew, in any order: of four that follow each other
 * at most one is a probe, and the kernel counts as few mappings as of a heap that grows. */
static void probes_are_rare_in_any_order(void **state) {
    (void)state;
    enum { FIRST = 16, ZONES = 176 };                    /* the program's own heap lies below */
    static const unsigned strides[] = {1, ZONES - 1, 7}; /* upward, downward, strewn */
    const size_t units = hak_thp_range(FIRST + ZONES).first, size = units << HAK_UNIT_SHIFT;
    for (unsigned i = 0; i < sizeof strides / sizeof *strides; i++) {
        char *heap = mmap(NULL, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(heap != MAP_FAILED, "no addresses");
        for (unsigned k = 0; k < ZONES; k++)
            hak_thp_mapped(heap, hak_thp_range(FIRST + k * strides[i] % ZONES), HAK_THP_PROBE);
        unsigned probes = 0, last = 0;
        for (unsigned zone = FIRST; zone < FIRST + ZONES; zone++) {
            hak_thp_range_t small = hak_thp_small_pages(zone);
            assert_true(hak_thp_wishes(hak_thp_range(zone).first));
            assert_true(hak_thp_asks(hak_thp_range(zone).first) == (small.end == small.first));
            if (small.end == small.first) continue;
            REQUIRE(!probes || zone - last >= HAK_THP_PROBE_EVERY,
                    "stride %u: zones %u and %u are probes", strides[i], last, zone);
            assert_true(!hak_thp_asks(small.end - 1));
            assert_true(zone < 32 || hak_thp_asks(small.end));
            probes++;
            last = zone;
        }
        REQUIRE(probes >= ZONES / 3 / HAK_THP_PROBE_EVERY, "stride %u: %u probes", strides[i],
                probes);
        unsigned seen = lines_of_maps(heap, heap + size), told = hak_thp_borders(units);
        REQUIRE(seen <= told + 1, "%u mappings, and %u borders", seen, told);
        REQUIRE(told <= 2 * (ZONES / HAK_THP_PROBE_EVERY), "%u borders", told);
        for (unsigned zone = FIRST; zone < FIRST + ZONES; zone++)
            hak_thp_unmapped(hak_thp_range(zone));
        munmap(heap, size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones_follow_each_other),
        cmocka_unit_test(others_memory_keeps_its_advice),
        cmocka_unit_test(what_the_kernel_does_not_take_is_not_refused),
        cmocka_unit_test(a_zone_without_mappings_is_decided_anew),
        cmocka_unit_test(probes_keep_small_pages),
        cmocka_unit_test(probes_are_rare_in_any_order),
        cmocka_unit_test(borders_are_the_kernels),
    };
    return cmocka_run_group_tests_name("zone", tests, NULL, NULL);
}
