/* huge_model.h: what huge.c explores on, and a part of it: the system's addresses, the blocks of the
 * program, and what must hold of both. It stands behind the sources, whose words it looks at. */
#pragma once

enum {
    UNITS = 14,
    UNIT = 1 << 20, /* the least that is lengthened */
    BLOCKS = 5,
    TABLES = 8,
    TABLE_SLOTS = 16,
};

typedef enum { HOLE, OURS, FOREIGN } unit_kind_t;

typedef struct {
    unit_kind_t kind;
    unsigned contents; /* 0: zero */
    unsigned holder;   /* 0, or the block's number plus 1 */
} unit_t;

/* The system's, and what a scenario sets. In lines of its own: it is no part of what is checked. */
static struct HAK_ALIGNED(64) {
    unit_t units[UNITS];
    bool moves;              /* what is lengthened moves always */
    unsigned refused_remaps; /* the first ones */
    unsigned refused_unmaps;
    bool moves_several;
    unsigned refused_moves;
    unsigned foreign;        /* ranges that another library takes when they are given back */
    int64_t cache;           /* HUGE_CACHE */
    size_t committed, limit; /* 0: none */
    bool may_refuse;         /* requests */
    bool forked;
    unsigned tables;     /* made so far */
    unsigned given_back; /* a bit for each of them */
    unsigned places;     /* asked for so far, by the second part */
    bool has_no_records;
} model;

static struct {
    uint64_t calls; /* of the system */
    char rest[56];
    uint64_t charges; /* and releases, where there is a limit */
    char rest_of_line[56];
} kernel HAK_ALIGNED(64);

static hak_mapping_t tables[TABLES][TABLE_SLOTS + HAK_FREED_MAX] HAK_ALIGNED(64);
static hak_stretch_t places[HAK_KEPT_PARTS + 1][HAK_STRETCHES_MAX] HAK_ALIGNED(64);

_Atomic uint32_t hak_budget_notes HAK_ALIGNED(64); /* for whoever purges next */
void hak_tick_hurry(void) {}                       /* who has noted looks at the end of its call */

/* The program's. */
static struct {
    char *start;
    unsigned units;
} blocks[BLOCKS];

/* ---- The system ------------------------------------------------------------------------------ */

static char *address_of(unsigned unit) {
    return (char *)((uintptr_t)1 << 40) + unit * (size_t)UNIT;
}

static unsigned unit_of(const char *address) {
    return (unsigned)((size_t)(address - address_of(0)) / UNIT);
}

/* A step that orders no memory: nothing may rely on the kernel for that. */
static __attribute__((no_sanitize("thread"))) void step(uint64_t *calls, const char *name) {
    memory_atomic_begin(calls, sizeof *calls);
    uint64_t before = (*calls)++;
    memory_atomic_end(calls, name, true, true, __ATOMIC_RELAXED, before, *calls);
}

static void call(const char *name) { step(&kernel.calls, name); }

static bool refuses(unsigned *left) {
    if (*left) return (*left)--, true;
    return false;
}

/* The units of a range, each of which must be ours. */
static void check_ours(const char *what, const char *start, size_t size) {
    EXPLORE_CHECK(size > 0 && size % UNIT == 0 && unit_of(start) + size / UNIT <= UNITS,
                  "%s of %zu bytes at unit %u", what, size, unit_of(start));
    for (unsigned i = unit_of(start); i < unit_of(start) + size / UNIT; i++)
        EXPLORE_CHECK(model.units[i].kind == OURS, "%s of unit %u, which is %s", what, i,
                      model.units[i].kind == HOLE ? "a hole" : "another library's");
}

static bool is_hole(unsigned first, size_t length) {
    if (first + length > UNITS) return false;
    for (unsigned i = first; i < first + length; i++)
        if (model.units[i].kind != HOLE) return false;
    return true;
}

static unsigned find_hole(size_t length) {
    unsigned first = 0;
    while (first < UNITS && !is_hole(first, length)) first++;
    return first;
}

static void set(unsigned first, size_t length, unit_t unit) {
    for (unsigned i = first; i < first + length; i++) model.units[i] = unit;
}

static void give_back(unsigned first, size_t length) {
    bool taken = model.foreign > 0 && explore_choose(2);
    model.foreign -= taken;
    set(first, length, (unit_t){taken ? FOREIGN : HOLE, 0, 0});
}

void *hak_os_map(size_t size, size_t align) {
    (void)align;
    call("map");
    unsigned first = find_hole(size / UNIT);
    if (first == UNITS) return NULL;
    set(first, size / UNIT, (unit_t){OURS, 0, 0});
    return address_of(first);
}

bool hak_os_unmap(void *start, size_t size) {
    call("unmap");
    check_ours("an unmap", start, size);
    for (unsigned i = unit_of(start); i < unit_of(start) + size / UNIT; i++)
        EXPLORE_CHECK(!model.units[i].holder, "unit %u is unmapped, a block of the program", i);
    if (refuses(&model.refused_unmaps)) return false;
    give_back(unit_of(start), size / UNIT);
    return true;
}

static void move_units(unsigned from, size_t length, unsigned to) {
    for (unsigned i = 0; i < length; i++) model.units[to + i] = model.units[from + i];
    give_back(from, length);
}

void *hak_os_remap(void *start, size_t old_size, size_t size) {
    unsigned first = unit_of(start);
    size_t old_length = old_size / UNIT, length = size / UNIT;
    call("remap");
    check_ours("a remap", start, old_size);
    if (refuses(&model.refused_remaps)) return NULL;
    if (length < old_length) give_back(first + (unsigned)length, old_length - length);
    if (length <= old_length) return start;
    if (!model.moves && is_hole(first + (unsigned)old_length, length - old_length)) {
        set(first + (unsigned)old_length, length - old_length, (unit_t){OURS, 0, 0});
        return start;
    }
    unsigned to = find_hole(length);
    if (to == UNITS) return NULL;
    set(to, length, (unit_t){OURS, 0, 0});
    move_units(first, old_length, to);
    return address_of(to);
}

bool hak_os_moves_several(void) { return model.moves_several; }
bool hak_os_wish_huge(void *start, size_t size, bool wish) {
    return check_ours("advice", start, size), wish;
}
bool hak_os_is_sparse(void *start, size_t size) { return check_ours("a look", start, size), false; }

/* One that is refused loses its target. */
bool hak_os_move(void *start, size_t size, void *to) {
    call("move");
    check_ours("a move", start, size);
    check_ours("the target of a move", to, size);
    if (refuses(&model.refused_moves)) {
        give_back(unit_of(to), size / UNIT);
        return false;
    }
    move_units(unit_of(start), size / UNIT, unit_of(to));
    return true;
}

bool hak_os_purge(void *start, size_t size) {
    call("purge");
    check_ours("a purge", start, size);
    for (unsigned i = unit_of(start); i < unit_of(start) + size / UNIT; i++)
        model.units[i].contents = 0;
    return true;
}

void hak_os_name(void *start, size_t size, const char *name) {
    (void)start, (void)size, (void)name;
}
size_t hak_os_page_size(void) { return 4096; }
unsigned hak_os_cpu_count(void) { return HAK_HUGE_TABLE_MAX / 2; }
uint64_t hak_os_now_ms(void) { return 1000; }
uint64_t hak_os_now_ns(void) { return 0; } /* of the debug build's times, which are off */

bool hak_commit_charge(size_t bytes_more) {
    if (model.limit) step(&kernel.charges, "charge");
    if (model.limit && bytes_more > model.limit - model.committed) return false;
    model.committed += bytes_more;
    return true;
}

void hak_commit_release(size_t bytes_less) {
    if (model.limit) step(&kernel.charges, "release");
    EXPLORE_CHECK(bytes_less <= model.committed, "%zu bytes are released of %zu", bytes_less,
                  model.committed);
    model.committed -= bytes_less;
}

int64_t hak_option(hak_option_t option) {
    return option == HAK_OPTION_HUGE_CACHE ? model.cache : 0;
}

/* Slots of a table, and the first places of the second part; for more there is no memory. */
void *hak_meta_alloc(size_t size) {
    if (size == sizeof places[1] && !model.has_no_records)
        return call("records"), places[model.places++ ? 2 : 1];
    if (size > sizeof tables[0] || model.has_no_records) return NULL;
    call("records");
    EXPLORE_CHECK(model.tables < TABLES, "too many tables");
    return tables[model.tables++];
}
void *hak_meta_alloc_zeroed(size_t size) { /* of longer tables than there are here */
    void *table = hak_meta_alloc(size);
    return table ? memset(table, 0, size) : NULL;
}
/* Slots that were given back are nobody's. */
void hak_meta_free(void *block, size_t size) {
    const size_t table = ((uintptr_t)block - (uintptr_t)tables) / sizeof *tables;
    if (table >= TABLES) return;
    EXPLORE_CHECK(!(model.given_back >> table & 1), "table %zu is given back twice", table);
    model.given_back |= 1u << table;
    memory_forbid(block, size);
}
void hak_meta_free_zeroed(void *block, size_t size) { hak_meta_free(block, size); }

/* Of a block: its contents are a model. */
void hak_os_zero(void *start, size_t size) {
    if (size) check_ours("zeroing", start, size);
    for (unsigned i = unit_of(start); i < unit_of(start) + size / UNIT; i++) {
        EXPLORE_CHECK(!model.units[i].holder, "unit %u of another block is zeroed", i);
        model.units[i].contents = 0;
    }
}

/* ---- The program ----------------------------------------------------------------------------- */

static void check_contents(unsigned block) {
    for (unsigned i = 0; i < blocks[block].units; i++) {
        const unit_t *unit = &model.units[unit_of(blocks[block].start) + i];
        EXPLORE_CHECK(unit->kind == OURS && unit->holder == block + 1 &&
                          unit->contents == block + 1,
                      "unit %u of block %u has lost its contents", i, block);
    }
}

static void take_units(unsigned block, char *start, unsigned length, bool zeroed) {
    check_ours("a block", start, length * (size_t)UNIT);
    for (unsigned i = unit_of(start); i < unit_of(start) + length; i++) {
        unit_t *unit = &model.units[i];
        EXPLORE_CHECK(!unit->holder || unit->holder == block + 1, "unit %u is handed out twice", i);
        EXPLORE_CHECK(!zeroed || unit->contents == 0, "unit %u of a zeroed block is not", i);
        unit->holder = unit->contents = block + 1;
    }
    blocks[block].start = start;
    blocks[block].units = length;
}

static void leave_units(unsigned block, unsigned from) {
    for (unsigned i = from; i < blocks[block].units; i++)
        model.units[unit_of(blocks[block].start) + i].holder = 0;
    blocks[block].units = from;
}

static void make(unsigned block, unsigned length, bool zeroed) {
    char *start = hak_huge_alloc(length * (size_t)UNIT, 1, zeroed);
    EXPLORE_CHECK(start || model.may_refuse, "no memory for block %u", block);
    if (start) take_units(block, start, length, zeroed);
}

static void release(unsigned block) {
    if (!blocks[block].units) return;
    size_t size = blocks[block].units * (size_t)UNIT;
    check_contents(block);
    leave_units(block, 0);
    EXPLORE_CHECK(hak_huge_free(blocks[block].start) == size, "block %u is unknown", block);
}

static void resize(unsigned block, unsigned length) {
    unsigned old_length = blocks[block].units;
    char *start = blocks[block].start;
    check_contents(block);
    if (length < old_length) leave_units(block, length);
    start = hak_huge_resize(start, length * (size_t)UNIT);
    EXPLORE_CHECK(start || model.may_refuse, "block %u is not resized", block);
    if (!start) return check_contents(block);
    blocks[block].start = start;
    check_contents(block); /* what it had */
    take_units(block, start, length, false);
}

/* ---- What must hold -------------------------------------------------------------------------- */

static __attribute__((no_sanitize("thread"))) void see(unsigned char *seen, const char *start,
                                                       size_t size, const char *what) {
    EXPLORE_CHECK(unit_of(start) + size / UNIT <= UNITS, "%s at unit %u", what, unit_of(start));
    for (unsigned i = unit_of(start); i < unit_of(start) + size / UNIT; i++) {
        EXPLORE_CHECK(model.units[i].kind == OURS, "%s has unit %u, which is not ours", what, i);
        EXPLORE_CHECK(!seen[i]++, "unit %u is in two places", i);
    }
}

static __attribute__((no_sanitize("thread"))) void see_slots(unsigned char *seen,
                                                             const hak_slots_t *table) {
    for (size_t i = 0; table->used && i < table->size; i++)
        if (table->slots[i].start)
            see(seen, (const char *)table->slots[i].start, table->slots[i].size, "a block");
}

/* What is known is ours, and in one place; of a table or part whose lock is held nothing is looked at. */
static __attribute__((no_sanitize("thread"))) unsigned look(unsigned char *seen) {
    unsigned sum = 0;
    for (unsigned i = 0; i < HAK_HUGE_TABLE_MAX; i++) {
        const hak_huge_table_t *table = &hak_huge_table[i];
        if (*(const volatile uint32_t *)&table->lock.state) continue;
        see_slots(seen, &table->current);
        see_slots(seen, &table->former);
    }
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++) {
        const hak_stretches_t *part = &hak_kept_parts[i];
        size_t kept_sum = 0;
        if (*(const volatile uint32_t *)&part->lock.state) continue;
        for (unsigned k = 0; k < part->count; k++) {
            see(seen, part->kept[k].start, part->kept[k].size, "a kept stretch");
            kept_sum += part->kept[k].size;
        }
        EXPLORE_CHECK(kept_sum == part->bytes, "%zu bytes are kept, counted %zu", kept_sum,
                      part->bytes);
    }
    for (unsigned i = 0; i < UNITS; i++) sum += seen[i];
    return sum;
}

static __attribute__((no_sanitize("thread"))) void always(void) {
    unsigned char seen[UNITS] = {0};
    look(seen);
}

static __attribute__((no_sanitize("thread"))) bool is_free(void) {
    uint32_t states = 0;
    for (unsigned i = 0; i < HAK_HUGE_TABLE_MAX; i++)
        states |= *(const volatile uint32_t *)&hak_huge_table[i].lock.state;
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++)
        states |= *(const volatile uint32_t *)&hak_kept_parts[i].lock.state;
    return states == 0;
}

static __attribute__((no_sanitize("thread"))) size_t in_hand(void) {
    size_t blocks_in_hand = 0;
    for (unsigned i = 0; i < HAK_HUGE_TABLE_MAX; i++) blocks_in_hand += hak_huge_table[i].in_hand;
    return blocks_in_hand;
}

/* Slots are in a table, or were given back; none wait there that are empty. */
static __attribute__((no_sanitize("thread"))) void check_slots(void) {
    unsigned used = 0;
    for (unsigned i = 0; i < HAK_HUGE_TABLE_MAX; i++) {
        const hak_huge_table_t *table = &hak_huge_table[i];
        used += (table->current.size > 0) + (table->former.size > 0);
        EXPLORE_CHECK(!table->former.size || table->former.used, "table %u has empty slots", i);
    }
    EXPLORE_CHECK(used + hak_bit_count(model.given_back) == model.tables,
                  "of %u tables %u are used, and %u were given back", model.tables, used,
                  hak_bit_count(model.given_back));
}

/* Everything is known, and counted; then everything that is kept goes back. */
static void finally(void) {
    unsigned char seen[UNITS] = {0};
    unsigned known = look(seen), ours = 0, held = 0, live = 0;
    for (unsigned i = 0; i < UNITS; i++) {
        ours += model.units[i].kind == OURS;
        held += model.units[i].holder != 0;
        EXPLORE_CHECK(model.units[i].kind != FOREIGN || model.units[i].contents == 0,
                      "another library's unit %u is changed", i);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i].units) check_contents(i);
        live += blocks[i].units > 0;
    }
    EXPLORE_CHECK(known == ours, "%u units are ours, %u are known", ours, known);
    EXPLORE_CHECK(model.committed == ours * (size_t)UNIT, "%zu bytes are charged for %u units",
                  model.committed, ours);
    EXPLORE_CHECK(hak_huge_count() == live && hak_huge_bytes() == held * (size_t)UNIT,
                  "%zu blocks of %zu bytes", hak_huge_count(), hak_huge_bytes());
    EXPLORE_CHECK(hak_huge_stats.held_bytes == ours * (size_t)UNIT, "%zu bytes held of %u units",
                  (size_t)hak_huge_stats.held_bytes, ours);
    EXPLORE_CHECK(in_hand() == 0, "%zu blocks are in hand", in_hand());
    check_slots();
    hak_store_relaxed(&hak_huge_stats.mapped, 1);
    while (purge_huge(0)) {
    }
    EXPLORE_CHECK(hak_huge_stats.kept_bytes == 0 && model.committed == held * (size_t)UNIT,
                  "%zu bytes stay", (size_t)hak_huge_stats.kept_bytes);
    for (unsigned i = 0; i < BLOCKS; i++) release(i);
}
