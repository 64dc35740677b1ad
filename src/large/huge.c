/* huge.c: huge blocks come, go and are resized. huge.h has the protocol, huge_kept.c what is kept. */
#include "large/huge.h"

#include "classes/classes.h"
#include "commit/commit.h"
#include "large/huge_kept.h"
#include "os/move.h"
#include "os/os.h"
#include "region/thp.h"

enum {
    PIECE_SLOTS = 16 * 1024,  /* slots that one piece of a walk over all tables looks at */
    MOVED_LEAST = 512 * 1024, /* bytes: a shorter piece is not worth six system calls */
    MOVED_EACH = 4,           /* pieces for one block */
    EARLY_LEAST = 4 << 20,    /* bytes of a block that contains a huge page, wherever it begins */
};

hak_huge_stats_t hak_huge_stats HAK_OWN_LINE;

/* ---- the tables ---- */

/* True once some block is in another table than the one of its start, because there was no memory to enter it there
 * after a move. Then a search looks into all tables. Never cleared. */
static _Atomic bool has_strays HAK_READ_OFTEN;

/* Finds a block and locks its table, which *table becomes. If there is no such block, a table is locked all the
 * same. */
static hak_mapping_t *lock_and_find(const void *block, hak_huge_table_t **table) {
    uintptr_t start = (uintptr_t)block;
    *table = hak_huge_table_of(start);
    hak_lock_acquire(&(*table)->lock);
    hak_mapping_t *found = hak_huge_table_find(*table, start);
    for (unsigned i = 0; HAK_UNLIKELY(!found && hak_load_relaxed(&has_strays)); i++) {
        hak_lock_release(&(*table)->lock);
        *table = &hak_huge_table[i];
        hak_lock_acquire(&(*table)->lock);
        found = hak_huge_table_find(*table, start);
        if (i + 1 == hak_huge_table_count()) break;
    }
    return found;
}

/* Ends a lock section that may have emptied the former slots of the table, and gives these back. Inside the gate. */
static void leave_table(hak_huge_table_t *table) {
    const hak_slots_t empty = hak_huge_table_take_empty(table);
    hak_lock_release(&table->lock);
    if (HAK_UNLIKELY(empty.slots != NULL)) hak_huge_table_unmake(empty);
}

/* Makes more slots if the table needs them; false without memory. Other threads may have done so meanwhile, or may use
 * up the room, so the caller looks again. */
static bool make_room(hak_huge_table_t *table) {
    hak_lock_acquire(&table->lock);
    size_t slots = hak_huge_table_wanted(table);
    hak_lock_release(&table->lock);
    if (!slots) return true;
    hak_slots_t larger = hak_huge_table_make(slots);
    if (!larger.slots) return false;
    hak_lock_acquire(&table->lock);
    hak_huge_table_use(table, &larger);
    hak_lock_release(&table->lock);
    if (HAK_UNLIKELY(larger.slots != NULL)) hak_huge_table_unmake(larger);
    return true;
}

/* Enters a block that is in the caller's hands; false if its table cannot grow. */
static bool enter(hak_mapping_t block) {
    hak_huge_table_t *table = hak_huge_table_of(block.start);
    bool entered;
    do {
        hak_lock_acquire(&table->lock);
        entered = !hak_huge_table_wanted(table);
        if (entered) hak_huge_table_put(table, block);
        leave_table(table);
    } while (!entered && make_room(table));
    return entered;
}

/* Lengthens a mapping, in place or at another address. A stretch that is several mappings to the
 * kernel cannot be lengthened, but some kernels can move it. NULL when the kernel refuses; then
 * nothing has changed. */
static char *extend(char *start, size_t old_size, size_t size) {
    char *moved = hak_os_remap(start, old_size, size);
    if (moved || !hak_os_moves_several()) return moved;
    moved = hak_os_map(size, hak_os_page_size());
    if (!moved) return NULL;
    hak_os_name(moved, size, "hakmem: huge");
    if (hak_os_move(start, old_size, moved)) return moved;
    hak_os_unmap(moved + old_size, size - old_size);
    return NULL;
}

/* ---- allocation ---- */

/* Takes a piece of what is kept whose pages are worth a move. False if there is none. */
static HAK_NEXT bool take_piece(hak_stretch_t *piece, size_t size) {
    if (hak_load_relaxed(&hak_huge_stats.moved) >= HAK_HUGE_MOVED_MOST) return false;
    if (!hak_kept_take_piece(piece, size, MOVED_LEAST)) return false;
    if (hak_os_moves_several() && !hak_os_is_sparse(piece->start, piece->size)) return true;
    hak_kept_put_back(piece);
    return false;
}

/* A piece is in the caller's hands, and the kernel has refused to move it to the end of a block, of which `size` bytes
 * were still without pages. Its target is not mapped any more. Leaves all of the end, and keeps the piece again. */
static HAK_BEHIND void leave_end(char *end, size_t size, const hak_stretch_t *piece) {
    hak_kept_put_back(piece);
    hak_kept_leave(piece->size);
    if (size > piece->size) hak_kept_unmap(end + piece->size, size - piece->size);
}

/* Moves kept pages to the end of a block, which has none there: otherwise these pages would go back before long, while
 * the block gets new ones. *have: bytes of the block that were kept. False if a move was refused; then only *have bytes
 * of the block are left. */
static HAK_NEXT bool fill_end(char *block, size_t size, size_t *have) {
    hak_stretch_t piece;
    for (unsigned i = 0; i < MOVED_EACH && size - *have >= MOVED_LEAST; i++) {
        if (!take_piece(&piece, size - *have)) break;
        hak_add_relaxed(&hak_huge_stats.moved, 1);
        if (!hak_os_move(piece.start, piece.size, block + *have)) {
            leave_end(block + *have, size - *have, &piece);
            return false;
        }
        hak_kept_leave(piece.size); /* its former addresses */
        *have += piece.size;
    }
    return true;
}

/* Lengthens a kept stretch, whose pages exist already. NULL if there is none, or if it cannot be
 * lengthened; then it is kept again. *dirty: bytes of the block that were kept. */
static char *lengthen(const hak_stretch_t *stretch, size_t size, size_t *dirty) {
    char *block = NULL;
    size_t have = stretch->size;
    if (!have) return NULL;
    if (stretch->size >= HAK_LARGE_MAX && hak_commit_charge(size - stretch->size)) {
        block = extend(stretch->start, stretch->size, size);
        if (!block) hak_commit_release(size - stretch->size);
    }
    if (!block) {
        hak_kept_put_back(stretch);
        return NULL;
    }
    hak_kept_hold(size - stretch->size);
    hak_add_relaxed(&hak_huge_stats.grown, 1);
    const bool is_whole = fill_end(block, size, &have);
    if (HAK_UNLIKELY(!is_whole))
        hak_kept_put_back(&(hak_stretch_t){block, have, stretch->freed_ms});
    *dirty = have;
    return is_whole ? block : NULL;
}

/* THP=2. The whole block has the advice, so it stays one mapping, which `extend` can lengthen. */
static HAK_BEHIND void wish_huge(char *block, size_t size) {
    if (size >= EARLY_LEAST) hak_os_wish_huge(block, size, true);
}

static char *map_fresh(size_t size, size_t align) {
    if (!hak_commit_charge(size)) return NULL;
    char *block = hak_os_map(size, align);
    if (!block) {
        hak_commit_release(size);
        return NULL;
    }
    hak_os_name(block, size, "hakmem: huge");
    if (HAK_UNLIKELY(hak_thp_is_early())) wish_huge(block, size);
    hak_kept_hold(size);
    hak_add_relaxed(&hak_huge_stats.mapped, 1);
    return block;
}

/* A mapping that was kept, perhaps lengthened, or a new one. *dirty: bytes of it that were kept. */
static char *map_block(size_t size, size_t align, size_t *dirty) {
    hak_stretch_t shorter;
    char *block = hak_kept_take_or_shorter(size, align, &shorter);
    *dirty = size;
    if (block) return block;
    block = lengthen(&shorter, size, dirty);
    if (block) return block;
    *dirty = 0;
    return map_fresh(size, align);
}

/* Finds memory for a block and enters it in its table; NULL without memory. *dirty: bytes that may not be zero. Inside
 * the gate. */
static char *find_block(size_t size, size_t align, uint64_t note, size_t *dirty) {
    char *block = hak_kept_take(size, align);
    bool is_reused = block != NULL;
    *dirty = size;
    if (!is_reused) block = map_block(size, align, dirty);
    if (!block) return NULL;
    hak_kept_note_use();
    if (enter((hak_mapping_t){(uintptr_t)block, size, note})) {
        if (!is_reused && hak_kept_is_too_much()) hak_budget_note(HAK_NOTE_HUGE);
        return block;
    }
    hak_kept_unmap(block, size);
    return NULL;
}

void *hak_huge_take(size_t size, size_t align, uint64_t note, size_t *dirty) {
    size_t page = hak_os_page_size();
    hak_gate_enter();
    char *block = find_block(hak_align_up(size, page), hak_max(align, page), note, dirty);
    hak_gate_leave();
    return block;
}

void *hak_huge_alloc(size_t size, size_t align, bool zero) {
    size_t dirty;
    char *block = hak_huge_take(size, align, 0, &dirty);
    if (block && zero) hak_os_zero(block, dirty);
    return block;
}

size_t hak_huge_size(const void *block) {
    hak_huge_table_t *table;
    const hak_mapping_t *mapping = lock_and_find(block, &table);
    size_t size = mapping ? mapping->size : 0;
    hak_lock_release(&table->lock);
    return size;
}

void hak_huge_look(const void *block, void (*look)(uint64_t note, void *context), void *context) {
    hak_huge_table_t *table;
    const hak_mapping_t *mapping = lock_and_find(block, &table);
    look(mapping ? mapping->note : 0, context);
    hak_lock_release(&table->lock);
}

static void keep_note(uint64_t note, void *kept) { *(uint64_t *)kept = note; }

uint64_t hak_huge_note(const void *block) {
    uint64_t note;
    hak_huge_look(block, keep_note, &note);
    return note;
}

HAK_BEHIND bool hak_huge_swap_note(const void *block, uint64_t *note, uint64_t new_note) {
    hak_huge_table_t *table;
    hak_mapping_t *mapping = lock_and_find(block, &table);
    uint64_t found = mapping ? mapping->note : 0;
    bool same = mapping && found == *note;
    if (same) mapping->note = new_note;
    hak_lock_release(&table->lock);
    *note = found;
    return same;
}

/* Most programs never have a huge block, so nothing else is read. The first block of another thread may be missed until
 * the next round. */
HAK_COMMON bool hak_huge_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget,
                                     size_t *bytes) {
    return !hak_load_relaxed(&hak_huge_stats.mapped) || hak_kept_purge(at, delay_ms, budget, bytes);
}

/* Calls `visit` for some more blocks; false after the last ones. */
static HAK_BEHIND bool each_piece(hak_huge_cursor_t *cursor, hak_mapping_visitor_t visit,
                                  void *context) {
    const bool any = hak_load_relaxed(&hak_huge_stats.mapped) != 0; /* else no table is touched */
    const unsigned count = any ? hak_huge_table_count() : 0;
    for (size_t slots = 0; cursor->table < count && slots < PIECE_SLOTS;) {
        hak_huge_table_t *table = &hak_huge_table[cursor->table];
        HAK_HOLD(&table->lock);
        if (!hak_huge_table_walk(table, &cursor->at, visit, context))
            *cursor = (hak_huge_cursor_t){.table = cursor->table + 1};
        else
            slots += HAK_HUGE_WALKED;
    }
    return cursor->table < count;
}

void hak_huge_each(hak_mapping_visitor_t visit, void *context) {
    hak_huge_cursor_t cursor = {0};
    while (each_piece(&cursor, visit, context)) continue;
}

HAK_BEHIND size_t hak_huge_count(void) {
    size_t count = 0;
    if (!hak_load_relaxed(&hak_huge_stats.mapped)) return 0;
    for (unsigned i = 0; i < hak_huge_table_count(); i++) {
        hak_huge_table_t *table = &hak_huge_table[i];
        HAK_HOLD(&table->lock);
        count += (size_t)table->current.used + table->former.used + table->in_hand;
    }
    return count;
}

typedef struct {
    uintptr_t pointer;
    hak_mapping_t found;
} search_t;

static bool is_elsewhere(const hak_mapping_t *mapping, void *context) {
    search_t *search = context;
    if (search->pointer - mapping->start >= mapping->size) return true;
    search->found = *mapping;
    return false;
}

bool hak_huge_find(const void *pointer, void **start, size_t *size) {
    search_t search = {.pointer = (uintptr_t)pointer};
    hak_huge_each(is_elsewhere, &search);
    if (!search.found.start) return false;
    *start = (void *)search.found.start;
    *size = search.found.size;
    return true;
}

HAK_BEHIND bool hak_huge_was_freed(const void *pointer, size_t *size) {
    *size = 0;
    if (!hak_load_relaxed(&hak_huge_stats.mapped)) return false;
    for (unsigned i = 0; i < hak_huge_table_count() && !*size; i++) {
        HAK_HOLD(&hak_huge_table[i].lock);
        *size = hak_huge_table_freed_size(&hak_huge_table[i], (uintptr_t)pointer);
    }
    return *size || hak_kept_has(pointer);
}

typedef struct {
    hak_range_visitor_t visit;
    void *context;
} visitor_t;

static bool show(const hak_mapping_t *mapping, void *context) {
    const visitor_t *to = context;
    to->visit(to->context, HAK_RANGE_HUGE, (const void *)mapping->start, mapping->size);
    return true;
}

bool hak_huge_each_range_piece(hak_huge_cursor_t *cursor, hak_range_visitor_t visit,
                               void *context) {
    visitor_t to = {visit, context};
    if (each_piece(cursor, show, &to)) return true;
    hak_kept_each_range(visit, context);
    return false;
}

void hak_huge_each_range(hak_range_visitor_t visit, void *context) {
    hak_huge_cursor_t cursor = {0};
    while (hak_huge_each_range_piece(&cursor, visit, context)) continue;
}

/* The block leaves its table first: once it is kept or unmapped, the address may be another thread's. */
size_t hak_huge_take_out(const void *block, uint64_t refused, uint64_t *note) {
    hak_huge_table_t *table;
    hak_mapping_t *mapping = lock_and_find(block, &table);
    *note = mapping ? mapping->note : 0;
    if (*note & refused) mapping = NULL;
    size_t size = mapping ? mapping->size : 0;
    if (mapping) hak_huge_table_remove(table, mapping);
    leave_table(table);
    return size;
}

void hak_huge_drop(void *block, size_t size) { hak_kept_keep(block, size); }

size_t hak_huge_free(void *block) {
    uint64_t note;
    hak_gate_enter();
    size_t size = hak_huge_take_out(block, 0, &note);
    if (size) hak_huge_drop(block, size);
    hak_gate_leave();
    return size;
}

/* ---- resize ---- */

static void put_back(hak_huge_table_t *table, hak_mapping_t block) {
    hak_lock_acquire(&table->lock);
    hak_huge_table_put_back(table, block);
    leave_table(table);
}

/* Enters a block that has moved, and gives up the room in its former table. If its new table cannot grow, the block
 * goes back into the former one. */
static void enter_moved(hak_huge_table_t *table, hak_mapping_t moved) {
    bool entered = enter(moved);
    if (!entered) {
        hak_store_relaxed(&has_strays, true);
        return put_back(table, moved);
    }
    HAK_HOLD(&table->lock);
    table->in_hand--;
}

/* Lengthens a block that is in hand. NULL when the system refuses. */
static char *lengthen_in_hand(char *block, size_t old_size, size_t size) {
    if (hak_kept_take_at(block + old_size, size - old_size)) return block;
    if (!hak_commit_charge(size - old_size)) return NULL;
    char *moved = extend(block, old_size, size);
    if (moved)
        hak_kept_hold(size - old_size);
    else
        hak_commit_release(size - old_size);
    return moved;
}

/* Resizes a block that is in hand, and enters it again, with its note. */
static char *resize_in_hand(hak_huge_table_t *table, hak_mapping_t old, size_t size) {
    char *block = (char *)old.start;
    const size_t old_size = old.size;
    char *moved = size > old_size ? lengthen_in_hand(block, old_size, size) : block;
    if (moved && moved != block) {
        enter_moved(table, (hak_mapping_t){(uintptr_t)moved, size, old.note});
    } else {
        put_back(table, (hak_mapping_t){old.start, moved ? size : old_size, old.note});
    }
    if (size < old_size) hak_kept_keep(block + size, old_size - size);
    hak_kept_note_use();
    return moved;
}

void *hak_huge_resize_noted(void *block, size_t size, uint64_t note) {
    hak_huge_table_t *table;
    hak_mapping_t old = {0};
    size = hak_align_up(size, hak_os_page_size());
    hak_gate_enter();
    hak_mapping_t *mapping = lock_and_find(block, &table);
    if (mapping && mapping->note == note) {
        old = *mapping;
        hak_huge_table_take_in_hand(table, mapping);
    }
    leave_table(table);
    char *resized = old.size ? resize_in_hand(table, old, size) : NULL;
    hak_gate_leave();
    return resized;
}

void *hak_huge_resize(void *block, size_t size) { return hak_huge_resize_noted(block, size, 0); }
