/* walk.c: superslabs and ranges of a heap that this test makes up are found, in few looks. */
#include "unit.h"

#include <string.h>
#include <sys/mman.h>

#include "os/os.h"
#include "region/region.h"
#include "region/thp.h"
#include "region/walk.h"

enum { FIRST_ZONE = 32, RANGES_MAX = 4096, MOST = 512 };

static hak_region_walk_t
    walk; /* the records of its superslabs have pages only where somebody looked */
static size_t records_size;

static hak_thp_range_t zone_of(unsigned zone) {
    hak_thp_range_t units = hak_thp_range(zone);
    return (hak_thp_range_t){units.first >> hak_map.super_shift, units.end >> hak_map.super_shift};
}

static bool is_mapped(size_t super) { return hak_load_relaxed(&walk.supers[super].mapped); }

static void set_mapped(size_t super) {
    size_t unit = super << hak_map.super_shift;
    hak_thp_mapped(NULL, (hak_thp_range_t){unit, unit + hak_superslab_units()}, HAK_THP_NONE);
    hak_store_relaxed(&walk.supers[super].mapped, true);
}

/* A zone none of whose superslabs has a look. */
static void set_zone(unsigned zone) { hak_thp_mapped(NULL, hak_thp_range(zone), HAK_THP_NONE); }

/* A heap that ends with a zone. Below FIRST_ZONE it is as long as the engine's own. */
static void begin(unsigned zones) {
    walk = (hak_region_walk_t){.carved = zone_of(zones).first, .limit = zone_of(zones).first};
    records_size = hak_align_up(walk.limit * sizeof *walk.supers, hak_os_page_size());
    walk.supers = mmap(NULL, records_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE((void *)walk.supers != MAP_FAILED, "no addresses");
    for (unsigned zone = 0; zone < FIRST_ZONE; zone++)
        for (size_t i = 0; i < hak_thp_mapped_units(zone) >> hak_map.super_shift; i++)
            hak_store_relaxed(&walk.supers[zone_of(zone).first + i].mapped, true);
}

static void end(unsigned zones) {
    for (unsigned zone = FIRST_ZONE; zone < zones; zone++) {
        size_t units = hak_thp_mapped_units(zone), first = hak_thp_range(zone).first;
        if (units) hak_thp_unmapped((hak_thp_range_t){first, first + units});
    }
    munmap(walk.supers, records_size);
}

static size_t seen_pages(void) {
    static unsigned char pages[1 << 18];
    size_t count = records_size / hak_os_page_size(), seen = 0;
    REQUIRE(count <= sizeof pages && mincore(walk.supers, records_size, pages) == 0, "no look");
    for (size_t i = 0; i < count; i++) seen += pages[i] & 1;
    return seen;
}

static struct {
    size_t first, end;
} ranges[RANGES_MAX];
static unsigned range_count;

static void note(void *context, hak_range_kind_t kind, const void *start, size_t size) {
    (void)context;
    assert_int_equal(kind, HAK_RANGE_HEAP);
    REQUIRE(range_count < RANGES_MAX, "too many ranges");
    ranges[range_count].first = (uintptr_t)start / hak_superslab_size();
    ranges[range_count++].end = ((uintptr_t)start + size) / hak_superslab_size();
}

static unsigned walk_all(void) {
    hak_region_cursor_t cursor = {0};
    unsigned pieces = 1;
    range_count = 0;
    while (hak_region_walk_each_range(&walk, &cursor, note, NULL)) pieces++;
    return pieces;
}

/* Each superslab of a heap with holes is in one range, and no hole is. */
static void ranges_have_no_holes(void **state) {
    (void)state;
    enum { ZONES = 150 };
    begin(ZONES);
    for (unsigned zone = FIRST_ZONE; zone < ZONES; zone++) {
        hak_thp_range_t supers = zone_of(zone);
        if (zone % 5 == 0) continue;
        for (size_t i = supers.first; i < supers.end; i++)
            if (zone % 3 == 1 || i % 64 < 60) set_mapped(i);
    }
    unsigned pieces = walk_all(), at = 0;
    REQUIRE(pieces > 1, "%u pieces", pieces);
    for (size_t i = 0; i < walk.carved; i++) {
        if (at < range_count && i == ranges[at].end) at++;
        bool in_range = at < range_count && i >= ranges[at].first;
        REQUIRE(in_range == is_mapped(i), "superslab %zu is %s", i,
                in_range ? "a hole in a range" : "in no range");
    }
    assert_int_equal(at + (at < range_count), range_count);
    end(ZONES);
}

static void check_sample(hak_superslab_t **found, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        size_t super = (size_t)(found[i] - walk.supers);
        REQUIRE(super < walk.carved && is_mapped(super), "superslab %zu is a hole", super);
        REQUIRE(i == 0 || found[i] > found[i - 1], "superslab %zu comes late", super);
    }
}

/* Every so many of the mapped ones, to the last. */
static void a_sample_is_even(void **state) {
    (void)state;
    enum { ZONES = 128 };
    hak_superslab_t *found[MOST];
    size_t stride, passed = 0;
    unsigned at = 0;
    begin(ZONES);
    for (unsigned zone = FIRST_ZONE; zone < ZONES; zone++)
        for (size_t i = zone_of(zone).first; i < zone_of(zone).end; i++)
            if (zone % 4 == 0 || (zone % 4 != 1 && i % 3)) set_mapped(i);
    unsigned count = hak_region_walk_sample(&walk, found, MOST, &stride);
    check_sample(found, count);
    REQUIRE(stride > 1 && count > MOST / 2, "%u with a stride of %zu", count, stride);
    for (size_t i = 0; i < walk.carved; i++) {
        if (!is_mapped(i)) continue;
        if (passed++ % stride) continue;
        REQUIRE(at < count && found[at] == &walk.supers[i], "superslab %zu is not in it", i);
        at++;
    }
    assert_int_equal(at, count);
    unsigned all = hak_region_walk_sample(&walk, found, 1, &stride);
    assert_int_equal(all, 1);
    end(ZONES);
}

/* A heap of a terabyte: as many looks as one of a few gigabytes, whether it has holes or not. */
static void a_long_heap_takes_few_looks(void **state) {
    (void)state;
    enum { ZONES = 256, PAGES_MOST = 2048 }; /* of 50,000 or more with records */
    for (int holes = 0; holes < 2; holes++) {
        hak_superslab_t *found[MOST];
        hak_region_cursor_t cursor = {0};
        size_t stride;
        begin(ZONES);
        assert_true(walk.limit * hak_superslab_size() >= (size_t)1 << 40);
        size_t before = seen_pages();
        for (unsigned zone = FIRST_ZONE; zone < ZONES; zone++) set_zone(zone);
        for (unsigned zone = FIRST_ZONE; holes && zone < ZONES; zone++) {
            size_t unit = hak_thp_range(zone).first;
            hak_thp_unmapped((hak_thp_range_t){unit, unit + hak_superslab_units()});
        }
        range_count = 0;
        bool more = hak_region_walk_each_range(&walk, &cursor, note, NULL);
        assert_true(more == holes);
        REQUIRE(holes || range_count <= FIRST_ZONE, "%u ranges", range_count);
        unsigned count = hak_region_walk_sample(&walk, found, MOST, &stride);
        REQUIRE(holes || count > MOST / 2, "%u superslabs, one of %zu", count, stride);
        size_t pages = seen_pages() - before;
        REQUIRE(pages <= (holes ? PAGES_MOST : FIRST_ZONE), "%zu pages of records were read",
                pages);
        end(ZONES);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_SS_SIZE=512K", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_have_no_holes),
        cmocka_unit_test(a_sample_is_even),
        cmocka_unit_test(a_long_heap_takes_few_looks),
    };
    return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
