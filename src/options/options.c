/* options.c: the rows of the options, and how a text sets a value. */
#include "options/options.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "options/profiles.h"
#include "options/values.h"

/* The words of PROFILE come from profiles.def instead of a literal; hak_option_row() adds them. */
#define HAK_PROFILE_WORDS ""

static const char prefix[] = "HAKMEM_";
_Static_assert(sizeof prefix - 1 == HAK_OPTION_PREFIX_LENGTH, "the length of the prefix");

enum { START = false, ANY_TIME = true };

/* The texts of all rows, end to end. Rows hold offsets into it: with pointers each process
 * would relocate the rows and so have private pages for them. */
typedef struct {
#define OPTION(id, tier, kind, change, accepted, unit, least, most, fallback, size, help) \
    char name_##id[sizeof "HAKMEM_" #id];                                                 \
    char accepted_##id[sizeof accepted];                                                  \
    char unit_##id[sizeof unit];                                                          \
    char help_##id[sizeof help];
#include "options/each_option.def"
} strings_t;

static const strings_t strings = {
#define OPTION(id, tier, kind, change, accepted, unit, least, most, fallback, size, help) \
    "HAKMEM_" #id, accepted, unit, help,
#include "options/each_option.def"
};

/* Values of the text options; each other option has one unused byte. Written once, by
 * hak_options_load. */
typedef struct {
#define OPTION(id, tier, kind, change, accepted, unit, least, most, fallback, size, help) \
    char id[(size) + 1];
#include "options/each_option.def"
} texts_t;

static texts_t texts HAK_APART;

typedef struct {
    int64_t least, most, fallback;
    uint16_t name, accepted, unit, help; /* offsets into strings */
    uint16_t text, text_size;            /* in texts */
    uint8_t kind, tier;
    bool any_time;
} row_t;

_Static_assert(sizeof strings <= UINT16_MAX && sizeof texts <= UINT16_MAX, "offsets have 16 bits");

static const row_t rows[HAK_OPTION_COUNT] = {
#define OPTION(id, row_tier, row_kind, change, words, of, from, to, standard, size, text_help) \
    {.name = offsetof(strings_t, name_##id),                                                   \
     .accepted = offsetof(strings_t, accepted_##id),                                           \
     .unit = offsetof(strings_t, unit_##id),                                                   \
     .help = offsetof(strings_t, help_##id),                                                   \
     .least = (from),                                                                          \
     .most = (to),                                                                             \
     .fallback = (standard),                                                                   \
     .text = offsetof(texts_t, id),                                                            \
     .text_size = (size),                                                                      \
     .kind = HAK_OPTION_IS_##row_kind,                                                         \
     .tier = HAK_TIER_##row_tier,                                                              \
     .any_time = (change)},
#include "options/each_option.def"
};

/* One more, not zero: so they lie on a page that all processes have. On a page of zeros the first read, and later the first
 * write, would be a page fault each. */
static _Atomic uint8_t sources[HAK_OPTION_COUNT + 1] = {[HAK_OPTION_COUNT] = UINT8_MAX};

const char *const hak_option_kinds[] = {"number", "word", "either", "text", "obsolete", "number"};
const char *const hak_option_tiers[] = {"selector", "tiny", "mid", "large", "memory", "process"};
const char *const hak_option_sources[] = {"default", "profile", "conf", "environment", "program"};

static const char *string(size_t offset) { return (const char *)&strings + offset; }
static char *text_of(hak_option_t option) { return (char *)&texts + rows[option].text; }

hak_option_row_t hak_option_row(hak_option_t option) {
    const row_t *row = &rows[option];
    return (hak_option_row_t){
        .name = string(row->name),
        .help = string(row->help),
        .accepted = option == HAK_OPTION_PROFILE ? hak_profile_words : string(row->accepted),
        .unit = string(row->unit),
        .least = row->least,
        .most = row->most,
        .fallback = row->fallback,
        .text_size = row->text_size,
        .kind = (hak_option_kind_t)row->kind,
        .tier = (hak_option_tier_t)row->tier,
        .any_time = row->any_time,
    };
}

const char *hak_option_text(hak_option_t option) { return text_of(option); }

HAK_COMMON hak_option_source_t hak_option_source(hak_option_t option) {
    return (hak_option_source_t)hak_load_relaxed(&sources[option]);
}

hak_text_t hak_option_short_name(hak_text_t name) {
    bool has_prefix = name.size >= HAK_OPTION_PREFIX_LENGTH &&
                      memcmp(name.at, prefix, HAK_OPTION_PREFIX_LENGTH) == 0;
    size_t skip = has_prefix ? HAK_OPTION_PREFIX_LENGTH : 0;
    return (hak_text_t){name.at + skip, name.size - skip};
}

static const char *short_name(int option) {
    return string(rows[option].name) + HAK_OPTION_PREFIX_LENGTH;
}

static bool is_same(hak_text_t text, const char *word, size_t size) {
    return text.size == size && memcmp(text.at, word, size) == 0;
}

int hak_option_find(hak_text_t name) {
    name = hak_option_short_name(name);
    for (int i = 0; i < HAK_OPTION_COUNT; i++)
        if (is_same(name, short_name(i), strlen(short_name(i)))) return i;
    return -1;
}

static char upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

/* The edit distance of two names, upper and lower case being equal; `name` has at most
 * NAME_MOST letters. */
enum { NAME_MOST = 63 };
static size_t distance(hak_text_t name, const char *other) {
    uint8_t row[NAME_MOST + 1];
    for (size_t i = 0; i <= name.size; i++) row[i] = (uint8_t)i;
    for (size_t k = 1; other[k - 1]; k++) {
        uint8_t diagonal = row[0];
        row[0] = (uint8_t)k;
        for (size_t i = 1; i <= name.size; i++) {
            bool same = upper(name.at[i - 1]) == upper(other[k - 1]);
            size_t least = hak_min(hak_min(row[i], row[i - 1]) + 1u, diagonal + (same ? 0u : 1u));
            diagonal = row[i];
            row[i] = (uint8_t)least;
        }
    }
    return row[name.size];
}

/* Accepts an edit distance of up to 2 that is less than a quarter of the name's length, or a
 * name that is the beginning of an option's name. */
int hak_option_closest(hak_text_t name) {
    int best = -1;
    size_t best_distance = 3;
    name = hak_option_short_name(name);
    if (name.size < 3 || name.size > NAME_MOST) return -1;
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        size_t found = distance(name, short_name(i));
        bool begins = hak_begins_with(short_name(i), name.at, name.size);
        if (begins) found = 2;
        if (found < best_distance && (begins || found * 4 < name.size)) {
            best = i;
            best_distance = found;
        }
    }
    return best;
}

/* Parses a whole number with an optional K, M or G, or k, m or g. False when the text is anything else. */
static bool parse_number(hak_text_t text, int64_t *value) {
    size_t i = 0;
    bool negative = text.size > 0 && text.at[0] == '-';
    if (negative) i++;
    size_t first = i;
    int64_t n = 0;
    for (; i < text.size && text.at[i] >= '0' && text.at[i] <= '9'; i++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, text.at[i] - '0', &n))
            return false;
    if (i == first) return false;
    char letter = i < text.size ? upper(text.at[i]) : 0;
    int shift = letter == 'K' ? 10 : letter == 'M' ? 20 : letter == 'G' ? 30 : 0;
    if (shift) {
        if (__builtin_mul_overflow(n, (int64_t)1 << shift, &n)) return false;
        i++;
    }
    *value = negative ? -n : n;
    return i == text.size;
}

/* The word number `index` in "a|b|c"; its `at` is NULL when there is none. */
static hak_text_t word_at(const char *words, int64_t index) {
    for (; words && index >= 0; index--) {
        const char *bar = strchr(words, '|');
        if (index == 0) return (hak_text_t){words, bar ? (size_t)(bar - words) : strlen(words)};
        words = bar ? bar + 1 : NULL;
    }
    return (hak_text_t){NULL, 0};
}

static bool parse_word(const char *words, hak_text_t text, int64_t *value) {
    hak_text_t word;
    for (int64_t i = 0; (word = word_at(words, i)).at; i++) {
        if (!is_same(text, word.at, word.size)) continue;
        *value = i;
        return true;
    }
    return false;
}

/* `accepted` lists the words first and the range last; the range itself is not a word. */
static bool parse_either(const row_t *row, hak_text_t text, int64_t *value) {
    const char *accepted = string(row->accepted);
    if (parse_word(accepted, text, value) && word_at(accepted, *value + 1).at) {
        *value = -*value;
        return true;
    }
    return parse_number(text, value) && *value >= row->least && *value <= row->most;
}

bool hak_option_parse(hak_option_t option, hak_text_t text, int64_t *value) {
    const row_t *row = &rows[option];
    *value = 0;
    switch (row->kind) {
    case HAK_OPTION_IS_NUMBER:
    case HAK_OPTION_IS_DEBUG:
        return parse_number(text, value) && *value >= row->least && *value <= row->most;
    case HAK_OPTION_IS_WORD:
        return parse_word(hak_option_row(option).accepted, text, value);
    case HAK_OPTION_IS_EITHER:
        return parse_either(row, text, value);
    case HAK_OPTION_IS_TEXT:
        return text.size < row->text_size;
    case HAK_OPTION_IS_OBSOLETE:
        break;
    }
    return true;
}

bool hak_option_assign(hak_option_t option, hak_text_t text, hak_option_source_t source) {
    int64_t value;
    if (!hak_option_parse(option, text, &value)) return false;
    if (rows[option].kind == HAK_OPTION_IS_TEXT) {
        memcpy(text_of(option), text.at, text.size);
        text_of(option)[text.size] = 0;
    }
    hak_store_relaxed(&hak_option_values[option], value);
    hak_store_relaxed(&sources[option], (uint8_t)source);
    return true;
}

int hak_option_format(hak_option_t option, int64_t value, char *text, size_t size) {
    hak_option_row_t row = hak_option_row(option);
    bool either = row.kind == HAK_OPTION_IS_EITHER;
    if (hak_option_is_number(row.kind) || (either && value > 0))
        return snprintf(text, size, "%lld", (long long)value);
    hak_text_t word = {"", 0};
    if (row.kind == HAK_OPTION_IS_WORD || either)
        word = word_at(row.accepted, either ? (int64_t) - (uint64_t)value : value);
    return snprintf(text, size, "%.*s", (int)word.size, word.at);
}

int hak_option_format_now(hak_option_t option, char *text, size_t size) {
    if (rows[option].kind == HAK_OPTION_IS_TEXT)
        return snprintf(text, size, "%s", hak_option_text(option));
    return hak_option_format(option, hak_option(option), text, size);
}
