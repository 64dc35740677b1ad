/* purge_budget.c: the word that holds the notes. */
#include "pool/purge_budget.h"

_Atomic uint32_t hak_budget_notes HAK_OWN_LINE;
