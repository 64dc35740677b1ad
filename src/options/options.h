/* options.h: the options of options.def: rows, values, where each value is from.
 *
 * Values are set from the environment once, before the first allocation; until
 * libc has set the environment up, the defaults hold. Reading needs no lock.
 * Nothing here allocates. */
#ifndef HAK_OPTIONS_H
#define HAK_OPTIONS_H

#include "base/base.h"

typedef enum {
#define OPTION(name, ...) HAK_OPTION_##name,
#include "options/each.def"
    HAK_OPTION_COUNT
} hak_option_t;

typedef enum {
    HAK_OPTION_IS_NUMBER,
    HAK_OPTION_IS_WORD,
    HAK_OPTION_IS_EITHER,
    HAK_OPTION_IS_TEXT,
    HAK_OPTION_IS_OBSOLETE,
    HAK_OPTION_IS_DEBUG, /* a number of the debug build */
} hak_option_kind_t;

typedef enum {
    HAK_TIER_SELECTOR,
    HAK_TIER_TINY,
    HAK_TIER_MID,
    HAK_TIER_LARGE,
    HAK_TIER_MEMORY,
    HAK_TIER_PROCESS,
} hak_option_tier_t;

/* In the order of precedence, but that the program's word is its last one. */
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
    bool any_time; /* may change while the process runs */
} hak_option_row_t;

enum { HAK_OPTION_PREFIX_LENGTH = 7 }; /* of "HAKMEM_" */

/* Whether a row's values are numbers. */
HAK_FAST_PATH bool hak_option_is_number(hak_option_kind_t kind) {
    return kind == HAK_OPTION_IS_NUMBER || kind == HAK_OPTION_IS_DEBUG;
}

/* Whether this build has a use for a value of the row: others keep the default. */
HAK_FAST_PATH bool hak_option_is_served(const hak_option_row_t *row, int64_t value) {
    return HAKMEM_DEBUG || row->kind != HAK_OPTION_IS_DEBUG || value == row->fallback;
}
enum { HAK_DYN1_AUTO = -1 }; /* the word of MID_DYN1 */

/* The row of an option; its texts live for ever. */
hak_option_row_t hak_option_row(hak_option_t option);

/* Words for a row's kind and tier, and for a source. */
extern const char *const hak_option_kinds[];
extern const char *const hak_option_tiers[];
extern const char *const hak_option_sources[];

/* Part of a text; not ended by a 0. */
typedef struct {
    const char *at;
    size_t size;
} hak_text_t;

/* Value of an option: the number, or the index of the word; of one that takes either, the
 * number, or the index of the word negated. */
int64_t hak_option(hak_option_t option);

/* Value of a text option; valid for ever. */
const char *hak_option_text(hak_option_t option);

hak_option_source_t hak_option_source(hak_option_t option);

/* The name without HAKMEM_ at its beginning. */
hak_text_t hak_option_short_name(hak_text_t name);

/* Index of the option of that name, with or without HAKMEM_; -1 when there is none. */
int hak_option_find(hak_text_t name);

/* Option whose name is close to one that is none, for a "did you mean"; -1 without. */
int hak_option_closest(hak_text_t name);

/* Whether an option takes `text`; *value is then what hak_option would return. */
bool hak_option_parse(hak_option_t option, hak_text_t text, int64_t *value);

/* Sets an option when it takes `text`; false when it does not. */
bool hak_option_assign(hak_option_t option, hak_text_t text, hak_option_source_t source);

/* Writes a value of an option as text, as snprintf does; the same for the value it has. */
int hak_option_format(hak_option_t option, int64_t value, char *text, size_t size);
int hak_option_format_now(hak_option_t option, char *text, size_t size);

/* True once the values of the environment are there, as far as the process has one. */
bool hak_options_loaded(void);

/* Reads the environment, once; later calls return at once. A variable that is
 * unknown or has a value out of range gives one line on stderr and changes nothing. */
void hak_options_load(void);

#endif
