/* options.h: the options of options.def: rows, values, and the source of each value.
 *
 * The environment sets the values once, before the first allocation. Until libc has set up
 * the environment, the defaults hold. Reading a value needs no lock. Nothing here allocates. */
#pragma once

#include "base/base.h"

typedef enum {
#define OPTION(name, ...) HAK_OPTION_##name,
#include "options/each_option.def"
    HAK_OPTION_COUNT
} hak_option_t;

typedef enum {
    HAK_OPTION_IS_NUMBER,
    HAK_OPTION_IS_WORD,
    HAK_OPTION_IS_EITHER,
    HAK_OPTION_IS_TEXT,
    HAK_OPTION_IS_OBSOLETE,
    HAK_OPTION_IS_DEBUG, /* a number that has an effect in the debug build only */
} hak_option_kind_t;

typedef enum {
    HAK_TIER_SELECTOR,
    HAK_TIER_TINY,
    HAK_TIER_MID,
    HAK_TIER_LARGE,
    HAK_TIER_MEMORY,
    HAK_TIER_PROCESS,
} hak_option_tier_t;

/* In ascending precedence at the start of the process. PROGRAM is hakmem_option_set, which
 * always replaces the value. */
typedef enum {
    HAK_SOURCE_DEFAULT,
    HAK_SOURCE_PROFILE,
    HAK_SOURCE_CONF,
    HAK_SOURCE_ENVIRONMENT,
    HAK_SOURCE_PROGRAM,
} hak_option_source_t;

typedef struct {
    const char *name; /* with HAKMEM_ */
    const char *help;
    const char *accepted; /* "0..16", "abort|report", "off|1..9", "text", "anything" */
    const char *unit;     /* "" for none */
    int64_t least, most;  /* of a number */
    int64_t fallback;     /* the default; see hak_option */
    size_t text_size;     /* of a text, in bytes, with its 0 */
    hak_option_kind_t kind;
    hak_option_tier_t tier;
    bool any_time; /* hakmem_option_set may change it */
} hak_option_row_t;

enum { HAK_OPTION_PREFIX_LENGTH = 7 }; /* of "HAKMEM_" */

/* Whether a row's values are numbers. */
HAK_FAST_PATH bool hak_option_is_number(hak_option_kind_t kind) {
    return kind == HAK_OPTION_IS_NUMBER || kind == HAK_OPTION_IS_DEBUG;
}

/* Whether `value` has an effect in this build; if not, the option keeps its default. */
HAK_FAST_PATH bool hak_option_is_served(const hak_option_row_t *row, int64_t value) {
    return HAKMEM_DEBUG || row->kind != HAK_OPTION_IS_DEBUG || value == row->fallback;
}
enum { HAK_SOFT_AUTO = -1 }; /* the word "auto" of LIMIT_SOFT */
enum { HAK_DYN1_AUTO = -1 }; /* the word "auto" of MID_DYN1 */

/* The row of an option; its texts live as long as the process. */
hak_option_row_t hak_option_row(hak_option_t option);

/* Words for a row's kind and tier, and for a source. */
extern const char *const hak_option_kinds[];
extern const char *const hak_option_tiers[];
extern const char *const hak_option_sources[];

/* Part of a text; no 0 terminates it. */
typedef struct {
    const char *at;
    size_t size;
} hak_text_t;

/* Value of an option: the number, or the index of the word. If the option takes either, the
 * number, or the negated index of the word. */
int64_t hak_option(hak_option_t option);

/* Value of a text option; it lives as long as the process. */
const char *hak_option_text(hak_option_t option);

hak_option_source_t hak_option_source(hak_option_t option);

/* The name without HAKMEM_ at its beginning. */
hak_text_t hak_option_short_name(hak_text_t name);

/* Index of the option of that name, with or without HAKMEM_; -1 when there is none. */
int hak_option_find(hak_text_t name);

/* The option whose name is closest to an unknown name, for "did you mean"; -1 when none is. */
int hak_option_closest(hak_text_t name);

/* True when an option accepts `text`; *value is then what hak_option would return. */
bool hak_option_parse(hak_option_t option, hak_text_t text, int64_t *value);

/* Sets an option to `text`; false, and no change, when the option does not accept the text. */
bool hak_option_assign(hak_option_t option, hak_text_t text, hak_option_source_t source);

/* Writes `value` of an option as text, as snprintf does; the second writes its present value. */
int hak_option_format(hak_option_t option, int64_t value, char *text, size_t size);
int hak_option_format_now(hak_option_t option, char *text, size_t size);
