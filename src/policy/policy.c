/* policy.c: the bands that are promoted now. */
#include "policy/policy.h"

_Atomic uint32_t hak_policy_bands;
