/* once.c: makes a record, and frees it if another thread was first. */
#include "meta/once.h"

#include <string.h>

#include "meta/meta.h"
#include "os/gate.h"

void *hak_once_make(void *place, size_t size, bool *is_mine) {
    _Atomic(void *) *at = place;
    void *record = hak_meta_alloc(size), *none = NULL;
    if (is_mine) *is_mine = false;
    if (!record) return NULL;
    memset(record, 0, size);
    hak_gate_enter();
    bool is_first = hak_cas_release(at, &none, record); /* partner: any load of the pointer */
    hak_gate_leave();
    if (!is_first) {
        hak_meta_free(record, size);
        return hak_load_acquire(at); /* partner: the CAS of the other thread */
    }
    if (is_mine) *is_mine = true;
    return record;
}
