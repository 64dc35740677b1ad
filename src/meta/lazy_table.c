/* lazy_table.c: records that are made at their first use. */
#include "meta/lazy_table.h"

#include "meta/meta.h"
#include "os/gate.h"

/* M2. */
static void extend(hak_lazy_table_t *table, unsigned number) {
    unsigned end = hak_load_relaxed(&table->end);
    while (end <= number && !hak_cas_release(&table->end, &end, number + 1)) continue;
}

/* Inside the gate. */
static HAK_COMMON void *make(hak_lazy_table_t *table, unsigned number, void *own, size_t size) {
    void *record = own ? own : hak_meta_alloc_zeroed(size), *other = NULL; /* M1 */
    if (!record) return NULL;
    extend(table, number);
    if (hak_cas_release(&table->places[number], &other, record)) return record; /* M3; partner: R */
    if (record != own) hak_meta_free_zeroed(record, size);                      /* as M1 took it */
    return hak_lazy_table_at(table, number);
}

HAK_COMMON void *hak_lazy_table_open(hak_lazy_table_t *table, unsigned number, void *own,
                                     size_t size) {
    void *record = hak_lazy_table_at(table, number);
    if (HAK_LIKELY(record != NULL)) return record;
    hak_gate_enter();
    record = make(table, number, own, size);
    hak_gate_leave();
    return record;
}

unsigned hak_lazy_table_next(const hak_lazy_table_t *table, unsigned number) {
    unsigned end = hak_load_relaxed(&table->end);
    while (number < end && !hak_lazy_table_at(table, number)) number++;
    return number < end ? number : HAK_LAZY_TABLE_MOST;
}

unsigned hak_lazy_table_after(const hak_lazy_table_t *table, unsigned number) {
    if (number == 0 && hak_load_relaxed(&table->end) <= 1) return 0; /* most programs' tables */
    unsigned next = hak_lazy_table_next(table, number + 1);
    return next < HAK_LAZY_TABLE_MOST ? next : hak_lazy_table_next(table, 0);
}

unsigned hak_lazy_table_after_within(const hak_lazy_table_t *table, unsigned number, unsigned first,
                                     unsigned end) {
    unsigned next = hak_lazy_table_after(table, number);
    if (HAK_LIKELY(next - first < end - first)) return next;
    next = hak_lazy_table_next(table, first);
    return next < end ? next : number;
}

#if HAKMEM_VERIFY
bool hak_lazy_table_has(const hak_lazy_table_t *table, const void *lock, size_t offset,
                        size_t count, size_t stride) {
    for (unsigned i = hak_lazy_table_next(table, 0); i < HAK_LAZY_TABLE_MOST;
         i = hak_lazy_table_next(table, i + 1)) {
        size_t at = (uintptr_t)lock - (uintptr_t)hak_lazy_table_at(table, i) - offset;
        if (at < count * stride && at % stride == 0) return true;
    }
    return false;
}
#endif
