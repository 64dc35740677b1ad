/* once.c: makes a record, and frees it if another thread was first. */
#include "meta/once.h"

#include <string.h>

#include "meta/meta.h"
#include "os/gate.h"

/* Inside the gate. */
static void *make(_Atomic(void *) *at, size_t size, bool *is_first) {
    void *record = hak_meta_alloc(size), *none = NULL;
    if (!record) return NULL;
    memset(record, 0, size);
    *is_first = hak_cas_release(at, &none, record); /* partner: any load of the pointer */
    if (*is_first) return record;
    hak_meta_free(record, size);
    return hak_load_acquire(at); /* partner: the CAS of the other thread */
}

void *hak_once_make(void *place, size_t size, bool *is_mine) {
    bool is_first = false;
    hak_gate_enter();
    void *record = make(place, size, &is_first);
    hak_gate_leave();
    if (is_mine) *is_mine = is_first;
    return record;
}
