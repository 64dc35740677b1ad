/* unwind_table.h: what the tables of .eh_frame say about an instruction. */
#pragma once

#include "base/base.h"

typedef enum { HAK_UNWIND_SP, HAK_UNWIND_FP, HAK_UNWIND_CFA, HAK_UNWIND_NONE } hak_unwind_base_t;
typedef enum { HAK_UNWIND_SAME, HAK_UNWIND_SAVED, HAK_UNWIND_UNKNOWN } hak_unwind_kind_t;

typedef struct {
    hak_unwind_kind_t kind;
    hak_unwind_base_t base; /* SAVED: the register lies at base + offset */
    int64_t offset;
} hak_unwind_place_t;

typedef struct {
    hak_unwind_base_t base; /* the CFA is base + offset, or the word there; NONE: unknown */
    bool deref;
    int64_t offset;
    hak_unwind_place_t fp, ra;
} hak_unwind_rule_t;

/* What several functions have in common (CIE). Most functions of a file have the same, so it is kept from one
 * look to the next. */
typedef struct {
    const uint8_t *at; /* where it was read; NULL: not yet */
    uint64_t code_step;
    int64_t data_step;
    uint8_t encoding;
    bool augmented;
    hak_unwind_rule_t initial;
} hak_unwind_common_t;

/* Finds the rule of `pc` by a file's .eh_frame_hdr; false when the tables have none that is understood.
 * common->at is NULL before the first look. */
bool hak_unwind_table_read(const uint8_t *header, uintptr_t pc, hak_unwind_common_t *common,
                           hak_unwind_rule_t *rule);
