/* budget.c: the word of notes. */
#include "pool/budget.h"

_Atomic uint32_t hak_budget_notes;
