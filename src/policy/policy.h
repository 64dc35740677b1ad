/* policy.h: which bands of the tiny tier use warm slabs. */
#ifndef HAK_POLICY_H
#define HAK_POLICY_H

#include "base/base.h"
#include "classes/classes.h"

extern _Atomic uint32_t hak_policy_bands; /* bit per band; any thread may read it */

/* True when the band of a class is promoted: its threads may bind slabs. */
HAK_FAST_PATH bool hak_policy_promoted(unsigned class_index) {
    return (hak_load_relaxed(&hak_policy_bands) >> hak_bands[class_index] & 1) != 0;
}

#endif
