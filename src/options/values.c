/* values.c: the values, in a file apart from the rows (options.c), so that link-time optimization
 * inlines hak_option into its callers. */
#include "options/values.h"

_Atomic int64_t hak_option_values[HAK_OPTION_COUNT] = {
#define OPTION(id, tier, kind, change, accepted, unit, least, most, fallback, ...) fallback,
#include "options/each_option.def"
};

HAK_COMMON int64_t hak_option(hak_option_t option) {
    return hak_load_relaxed(&hak_option_values[option]);
}
