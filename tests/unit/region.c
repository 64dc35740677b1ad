/* region.c: the window, its growth and its holes, the map, and look-up by any address.
 *
 * The engine makes the region before main. For a small address space the program executes itself again
 * with SMALL in the environment: a constructor that runs before the engine's then limits the address
 * space to a few MiB above its present size. There calls that map memory or change its protection can
 * fail, too. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commit/commit.h"
#include "os/range.h"
#include "region/verify.h"
#include "region/region.h"

enum {
    SMALL_ROOM = 96 * 1024 * 1024,
    USUAL_ROOM =
        640 * 1024 * 1024, /* the three smallest windows have 512 MiB or less for the heap */
    SUPERSLABS_MAX = 512,
    SECONDS = 30,
};

/* ---- Calls that are refused ------------------------------------------------------------------- */

static unsigned call_count, refuse_from, refuse_count;

static bool is_refused(void) {
    unsigned number = ++call_count;
    if (!refuse_count || number < refuse_from || number - refuse_from >= refuse_count) return false;
    errno = ENOMEM;
    return true;
}

int __real_mprotect(void *address, size_t size, int protection);
int __wrap_mprotect(void *address, size_t size, int protection);
void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);

/* The linker sends the engine's calls here (--wrap). */
int __wrap_mprotect(void *address, size_t size, int protection) {
    return is_refused() ? -1 : __real_mprotect(address, size, protection);
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    return is_refused() ? MAP_FAILED : __real_mmap(address, size, protection, flags, file, offset);
}

/* ---- Superslabs and look-up ------------------------------------------------------------------- */

static size_t unit_of(const void *address) {
    return ((uintptr_t)address - (uintptr_t)hak_map.entries) >> HAK_UNIT_SHIFT;
}

static void a_superslab_is_fresh(void **state) {
    (void)state;
    for (unsigned turn = 0; turn < 20; turn++) {
        hak_superslab_t *super = hak_region_take_superslab(false);
        assert_non_null(super);
        assert_int_equal(super->free, UINT32_MAX >> (32 - hak_superslab_units()));
        assert_int_equal(super->dirty, 0);
        char *base = super->units[0].base;
        REQUIRE((uintptr_t)base % hak_superslab_size() == 0, "a superslab begins at %p",
                (void *)base);
        for (unsigned i = 0; i < hak_superslab_units(); i++) {
            assert_ptr_equal(super->units[i].base, base + i * (size_t)HAK_UNIT_SIZE);
            assert_int_equal(super->units[i].owner, 0);
            assert_ptr_equal(hak_region_superslab_of(&super->units[i]), super);
        }
        for (size_t i = 0; i < hak_superslab_size(); i += 512)
            REQUIRE(base[i] == 0, "a fresh superslab is not zero at %zu", i);
        memset(base, 1, hak_superslab_size());
    }
}

static void every_address_of_a_unit_finds_its_slab(void **state) {
    (void)state;
    hak_superslab_t *super = hak_region_take_superslab(false);
    assert_non_null(super);
    for (size_t offset = 0; offset < hak_superslab_size(); offset += 13) {
        hak_unit_t *slab = &super->units[offset >> HAK_UNIT_SHIFT];
        char *address = super->units[0].base + offset;
        REQUIRE(hak_region_unit_of(address) == slab, "%p is not found in its unit",
                (void *)address);
        REQUIRE(hak_unit_of(address) == slab, "%p is not found in its unit", (void *)address);
    }
}

static void other_addresses_find_no_slab(void **state) {
    (void)state;
    int on_stack = 0;
    static int in_data;
    hak_superslab_t *super = hak_region_take_superslab(false);
    assert_non_null(super);
    char *base = (char *)hak_map.entries;
    char *last_end = super->units[hak_superslab_units() - 1].base + HAK_UNIT_SIZE;
    size_t size = hak_map.unit_end << HAK_UNIT_SHIFT;
    void *mapping = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct {
        const char *what;
        const void *address;
    } rows[] = {
        {"NULL", NULL},
        {"one", (void *)1},
        {"the stack", &on_stack},
        {"data", &in_data},
        {"code", (void *)(uintptr_t)&other_addresses_find_no_slab},
        {"a mapping", mapping},
        {"below the region", base - 1},
        {"the map", base},
        {"the descriptors", super->units},
        {"the superslab records", super},
        {"a unit that is not in use yet", last_end},
        {"behind the region", base + size},
        {"the highest address", (void *)UINTPTR_MAX},
        {"a tagged address", (void *)((uintptr_t)super->units[0].base | (uintptr_t)1 << 60)},
        {"an address of 57 bits", (void *)((uintptr_t)1 << 56)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        REQUIRE(hak_region_unit_of(rows[i].address) == NULL, "%s (%p) finds a slab", rows[i].what,
                rows[i].address);
    munmap(mapping, 65536);
}

static void the_map_holds_what_was_entered(void **state) {
    (void)state;
    hak_superslab_t *super = hak_region_take_superslab(false);
    assert_non_null(super);
    size_t unit = unit_of(super->units[0].base);
    for (unsigned first = 0; first < hak_superslab_units(); first++) {
        for (unsigned count = 1; first + count <= hak_superslab_units(); count++) {
            unsigned class_index = 1 + (first * 16 + count) % HAK_CLASS_LARGE;
            hak_region_set_class(&super->units[first], count, class_index);
            for (unsigned i = 0; i < hak_superslab_units(); i++) {
                bool inside = i >= first && i < first + count;
                unsigned expected = inside ? class_index << HAK_MAGAZINE_SHIFT : 0;
                REQUIRE(hak_map.entries[unit + i] == expected,
                        "units %u..%u of class %u: the entry of unit %u is %u", first,
                        first + count - 1, class_index, i, hak_map.entries[unit + i]);
            }
            hak_region_set_class(&super->units[first], count, HAK_CLASS_NONE);
        }
    }
}

/* So a pointer below the first unit, into the map or a descriptor, is foreign. */
static void units_of_the_head_have_no_class(void **state) {
    (void)state;
    hak_superslab_t *super = hak_region_take_superslab(false);
    size_t end = unit_of(super->units[0].base), first = 0;
    while (first < end && !hak_region_unit_of((char *)hak_map.entries + (first << HAK_UNIT_SHIFT)))
        assert_int_equal(hak_map.entries[first++], 0);
    assert_true(first > 0 && first < end);
}

typedef struct {
    hak_superslab_t *wanted;
    unsigned seen, count;
} search_t;

static void look_for(hak_superslab_t *super, void *context) {
    search_t *search = context;
    search->seen += super == search->wanted;
    search->count++;
}

static void each_superslab_is_visited_once(void **state) {
    (void)state;
    search_t before = {0}, after = {0};
    hak_region_each_superslab(look_for, &before);
    after.wanted = hak_region_take_superslab(false);
    hak_region_each_superslab(look_for, &after);
    assert_int_equal(after.count, before.count + 1);
    assert_int_equal(after.seen, 1);
}

/* ---- Holes ------------------------------------------------------------------------------------ */

enum {
    FOREIGN_COUNT = 8,
    FOREIGN_STEP = 24 * 1024 * 1024,
    FOREIGN_SIZE = 256 * 1024, /* less than the smallest superslab */
    TAKEN_COUNT = 400,
    MANY = 1500,
};

static hak_superslab_t *supers[MANY];

static char *start_of(const hak_superslab_t *super) { return super->units[0].base; }

/* Somebody else's memory at an address, NULL where there is something already. */
static char *map_foreign(char *address) {
    void *got = mmap(address, FOREIGN_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) return NULL;
    memset(got, 0x5A, FOREIGN_SIZE);
    return got;
}

static void check_range(void *context, hak_range_kind_t kind, const void *start, size_t size) {
    const char *foreign = context;
    REQUIRE(foreign - (const char *)start >= (ptrdiff_t)size || foreign < (const char *)start,
            "somebody else's memory at %p is in a range of kind %d", (void *)foreign, (int)kind);
}

static void check_foreign(const char *foreign) {
    hak_region_each_range(check_range, (void *)(uintptr_t)foreign);
    for (size_t i = 0; foreign && i < FOREIGN_SIZE; i++)
        REQUIRE(foreign[i] == 0x5A, "somebody else's memory has changed at %p", foreign + i);
    REQUIRE(!hak_region_unit_of(foreign), "somebody else's memory at %p is a slab", foreign);
}

static void the_heap_goes_on_behind_others_memory(void **state) {
    (void)state;
    char *foreign[FOREIGN_COUNT];
    unsigned found = 0;
    char *end = (char *)hak_map.entries + (hak_map.unit_end << HAK_UNIT_SHIFT);
    for (unsigned i = 0; i < FOREIGN_COUNT; i++) {
        foreign[i] = map_foreign(end + (size_t)i * FOREIGN_STEP);
        REQUIRE(foreign[i] != NULL, "there is something behind the heap");
    }
    for (unsigned i = 0; i < TAKEN_COUNT; i++) {
        supers[i] = hak_region_take_superslab(false);
        REQUIRE(supers[i] != NULL, "no superslab after %u", i);
        memset(start_of(supers[i]), (int)i, hak_superslab_size());
        hak_region_set_class(supers[i]->units, hak_superslab_units(), HAK_CLASS_LARGE);
    }
    for (unsigned i = 0; i < TAKEN_COUNT; i++) {
        char *start = start_of(supers[i]);
        REQUIRE(start[0] == (char)i && start[hak_superslab_size() - 1] == (char)i, "overlap");
        REQUIRE(hak_unit_of(start) == supers[i]->units, "superslab %u is lost", i);
        REQUIRE(unit_of(start) < hak_map.unit_end, "superslab %u is not in the map", i);
        found += start > foreign[FOREIGN_COUNT - 1];
    }
    for (unsigned i = 0; i < FOREIGN_COUNT; i++) {
        check_foreign(foreign[i]);
        munmap(foreign[i], FOREIGN_SIZE);
    }
    assert_true(found > 0);
    size_t last = 0;
    for (unsigned i = 1; i < TAKEN_COUNT; i++) {
        bool follows = start_of(supers[i]) == start_of(supers[i - 1]) + hak_superslab_size();
        REQUIRE(hak_region_is_mapped(supers[i - 1] + 1) == follows, "superslab %u", i - 1);
        last += !follows;
    }
    assert_true(last >= FOREIGN_COUNT - 1);
}

/* Run with HAKMEM_LIMIT=2M. The records of a hole as long as this are 9.6 MiB, and nobody writes to them;
 * the search for its end doubles its steps, and so makes the hole up to twice as long. */
static void behind_a_long_hole(void) {
    const size_t length = (size_t)8 << 30, records = 3 * 64 * 1024;
    char *end = (char *)hak_map.entries + (hak_map.unit_end << HAK_UNIT_SHIFT);
    char *foreign = mmap(end, length, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(foreign == end, "there is something behind the heap");
    size_t before = hak_commit_bytes(), refused = (size_t)hak_commit_refused();
    hak_superslab_t *super;
    do {
        super = hak_region_take_superslab(false);
        CHECK(super != NULL, "no superslab behind a hole");
    } while (start_of(super) < foreign);
    size_t charged = hak_commit_bytes() - before;
    CHECK(charged <= records, "a hole costs %zu bytes of committed memory", charged);
    CHECK(hak_commit_refused() == refused, "the limit has refused something");
    CHECK(hak_region_uncharged() > length >> 10, "%zu bytes are not charged",
          hak_region_uncharged());
    CHECK(hak_commit_bytes() == hak_areas_committed(), "%zu bytes are charged, %zu for records",
          hak_commit_bytes(), hak_areas_committed());
    memset(start_of(super), 1, hak_superslab_size());
    munmap(foreign, length);
}

static void an_unmapped_superslab_is_mapped_again(void **state) {
    (void)state;
    enum { COUNT = 40 };
    size_t before = hak_region_mapped_superslabs(), mapped;
    for (unsigned i = 0; i < COUNT; i++) {
        assert_non_null(supers[i] = hak_region_take_superslab(false));
        memset(start_of(supers[i]), 7, hak_superslab_size());
    }
    mapped = hak_region_mapped_superslabs();
    assert_true(mapped >= before);
    for (unsigned i = 0; i < COUNT; i += 2) {
        REQUIRE(hak_region_unmap(supers[i]) == HAK_REGION_UNMAPPED,
                "superslab %u cannot be unmapped", i);
        REQUIRE(!hak_region_unit_of(start_of(supers[i])), "an unmapped superslab is found");
        REQUIRE(hak_region_unit_of(start_of(supers[i + 1])) != NULL, "its neighbour is not");
    }
    assert_int_equal(hak_region_mapped_superslabs(), mapped - COUNT / 2);
    char *foreign = map_foreign(start_of(supers[4]));
    assert_non_null(foreign);
    for (unsigned i = 0; i < COUNT / 2 - 1; i++) {
        hak_superslab_t *super = hak_region_take_unmapped(false);
        REQUIRE(super != NULL, "%u of %u are mapped again", i, COUNT / 2 - 1);
        assert_ptr_not_equal(super, supers[4]);
        for (size_t at = 0; at < hak_superslab_size(); at += 512)
            REQUIRE(start_of(super)[at] == 0, "it is not zero");
        assert_ptr_equal(hak_region_unit_of(start_of(super)), super->units);
    }
    assert_null(hak_region_take_unmapped(false));
    check_foreign(foreign);
    munmap(foreign, FOREIGN_SIZE);
}

static void holes_make_no_more_pieces_than_allowed(void **state) {
    (void)state;
    unsigned refused = 0;
    for (unsigned i = 0; i < MANY; i++)
        assert_non_null(supers[i] = hak_region_take_superslab(false));
    for (unsigned i = 0; i < MANY; i += 2)
        refused += hak_region_unmap(supers[i]) == HAK_REGION_KEEPS;
    REQUIRE(refused > MANY / 2 - HAK_PIECES_MAX - 8 && refused < MANY / 2, "%u refused", refused);
    REQUIRE(hak_region_mappings() < HAK_PIECES_MAX + 64, "%zu mappings", hak_region_mappings());
    while (hak_region_take_unmapped(false)) continue;
}

/* ---- A small address space -------------------------------------------------------------------- */

static size_t address_space_used(void) {
    char text[64] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0) return 0;
    close(file);
    return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

__attribute__((constructor(101))) static void limit_address_space(void) {
    if (!getenv("SMALL")) return;
    size_t limit = address_space_used() + SMALL_ROOM;
    struct rlimit both = {limit, limit};
    CHECK(setrlimit(RLIMIT_AS, &both) == 0, "the address space cannot be limited");
}

/* The engine's constructor finds the system like that. */
__attribute__((constructor(101))) static void refuse_at_start(void) {
    const char *refuse = getenv("REFUSE");
    if (refuse) sscanf(refuse, "%u %u", &refuse_from, &refuse_count);
}

/* All that the limit allows; then each unit is written to, and looked up. */
static unsigned take_all(void) {
    unsigned count = 0, failures = 0;
    while (count < SUPERSLABS_MAX && failures < 3) {
        supers[count] = hak_region_take_superslab(false);
        if (supers[count])
            count++;
        else
            failures++;
    }
    for (unsigned i = 0; i < count; i++) {
        for (unsigned unit = 0; unit < hak_superslab_units(); unit++)
            memset(supers[i]->units[unit].base, (int)i, 100);
        hak_region_set_class(supers[i]->units, hak_superslab_units(), HAK_CLASS_LARGE);
    }
    for (unsigned i = 0; i < count; i++) {
        for (unsigned unit = 0; unit < hak_superslab_units(); unit++) {
            hak_unit_t *slab = &supers[i]->units[unit];
            CHECK(*slab->base == (char)i, "superslab %u overlaps another one", i);
            CHECK(hak_region_unit_of(slab->base + 100) == slab, "unit %u of superslab %u is lost",
                  unit, i);
            CHECK(hak_unit_of(slab->base + 100) == slab, "unit %u of superslab %u is lost", unit,
                  i);
            CHECK(hak_region_superslab_of(slab) == supers[i], "superslab %u is lost", i);
        }
        CHECK(!hak_region_unit_of((char *)supers[i]->units), "descriptors look like a unit");
    }
    return count;
}

/* A sanitizer needs some addresses at the end. */
static void leave_some(unsigned count) {
    for (unsigned i = 0; i < 8 && i < count; i++)
        CHECK(hak_region_unmap(supers[count - 1 - i]) == HAK_REGION_UNMAPPED,
              "the last superslabs cannot be unmapped");
}

static void small_space(void) {
    unsigned count = take_all();
    leave_some(count);
    CHECK((size_t)count * hak_superslab_size() >= (size_t)SMALL_ROOM / 10 * 9, "only %u MiB of %d",
          (unsigned)(count * hak_superslab_size() >> 20), SMALL_ROOM >> 20);
}

/* `refuse_count` refusals from the one that is numbered on, at most those that there are. */
static void small_space_refused(const void *context) {
    const unsigned *refuse = context;
    call_count = 0;
    refuse_from = refuse[0];
    refuse_count = refuse[1];
    unsigned count = take_all();
    refuse_count = 0;
    CHECK(count + take_all() > 0, "no superslab at all");
}

static void refused_everywhere(void) {
    for (unsigned count = 1; count <= 3; count++) {
        for (unsigned from = 1; from <= 40; from++) {
            unsigned refuse[2] = {from, count};
            char what[80];
            snprintf(what, sizeof what, "calls %u..%u refused", from, from + count - 1);
            child_must_succeed(small_space_refused, refuse, SECONDS, what);
        }
    }
}

/* The heap can grow beyond the smallest windows, however many calls the system refused at its start. */
static void usual_window(void) {
    size_t bytes = 0;
    for (unsigned failures = 0; bytes < USUAL_ROOM; bytes += hak_superslab_size())
        while (!hak_region_take_superslab(false))
            CHECK(failures++ < refuse_count, "the heap ends after %zu MiB", bytes >> 20);
}

/* The system has refused a region at the start. A thread that read the begin of the map then may read its
 * end after another thread has made the region. */
static void late_region(void) {
    const uintptr_t begin = (uintptr_t)hak_map.entries;
    CHECK(!hak_map.unit_end, "a region that was refused is there");
    refuse_count = 0;
    CHECK(hak_region_take_superslab(false) != NULL, "no superslab at all");
    for (uintptr_t foreign = 1; foreign < (uintptr_t)1 << 47; foreign *= 2)
        CHECK((foreign - begin) >> HAK_UNIT_SHIFT >= hak_map.unit_end,
              "address %#zx has an entry in a map that begins at %#zx", (size_t)foreign,
              (size_t)begin);
}

static void rerun(const char *what, const char *setting) {
    const char *const environment[] = {setting, NULL};
    struct child_end end;
    unit_rerun(what, environment, SECONDS, &end);
    REQUIRE(end.in_time && end.status == 0, "%s: status %#x, stderr: %s", what,
            (unsigned)end.status, end.err);
}

static void a_small_address_space_is_used_up(void **state) {
    (void)state;
    rerun("space", "SMALL=1");
}

static void a_refused_call_loses_nothing(void **state) {
    (void)state;
    rerun("refusals", "SMALL=1");
}

static void refusals_at_the_start_cost_no_window(void **state) {
    (void)state;
    for (unsigned from = 1; from <= 8; from++)
        for (unsigned count = 5; count <= 11; count += 6) {
            char setting[40];
            snprintf(setting, sizeof setting, "REFUSE=%u %u", from, count);
            rerun("window", setting);
        }
}

static void a_late_region_has_no_foreign_address(void **state) {
    (void)state;
    rerun("late", "REFUSE=1 1000000");
}

static void a_hole_is_not_charged(void **state) {
    (void)state;
    rerun("hole", "HAKMEM_LIMIT=2M");
}

int main(int argc, char **argv) {
    if (argc > 1) {
        strcmp(argv[1], "space") == 0    ? small_space()
        : strcmp(argv[1], "hole") == 0   ? behind_a_long_hole()
        : strcmp(argv[1], "window") == 0 ? usual_window()
        : strcmp(argv[1], "late") == 0   ? late_region()
                                         : refused_everywhere();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_superslab_is_fresh),
        cmocka_unit_test(every_address_of_a_unit_finds_its_slab),
        cmocka_unit_test(other_addresses_find_no_slab),
        cmocka_unit_test(the_map_holds_what_was_entered),
        cmocka_unit_test(units_of_the_head_have_no_class),
        cmocka_unit_test(each_superslab_is_visited_once),
        cmocka_unit_test(the_heap_goes_on_behind_others_memory),
        cmocka_unit_test(an_unmapped_superslab_is_mapped_again),
        cmocka_unit_test(holes_make_no_more_pieces_than_allowed),
        cmocka_unit_test(a_small_address_space_is_used_up),
        cmocka_unit_test(a_refused_call_loses_nothing),
        cmocka_unit_test(refusals_at_the_start_cost_no_window),
        cmocka_unit_test(a_late_region_has_no_foreign_address),
        cmocka_unit_test(a_hole_is_not_charged),
    };
    return cmocka_run_group_tests_name("region", tests, NULL, NULL);
}
