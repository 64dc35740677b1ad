/* options.c: the one reader of the environment, driven by options.def. */
#include "options/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "os/os.h"

typedef struct {
    const char *name;
    const char *words; /* NULL for a number */
    const char *unit;
    int64_t least, most, fallback;
} row_t;

static const row_t rows[HAK_OPTION_COUNT] = {
#define OPTION_WORD(name, words, fallback, help) {#name, words, "", 0, 0, fallback},
#define OPTION_NUMBER(name, unit, least, most, fallback, help) \
    {#name, NULL, unit, least, most, fallback},
#include "options/options.def"
#undef OPTION_WORD
#undef OPTION_NUMBER
};

static _Atomic int64_t values[HAK_OPTION_COUNT] = {
#define OPTION_WORD(name, words, fallback, help) fallback,
#define OPTION_NUMBER(name, unit, least, most, fallback, help) fallback,
#include "options/options.def"
#undef OPTION_WORD
#undef OPTION_NUMBER
};

int64_t hak_option(hak_option_t option) { return hak_load_relaxed(&values[option]); }

/* A whole number with an optional K, M or G. False when it is anything else. */
static bool parse_number(const char *text, int64_t *value) {
    bool negative = *text == '-';
    if (negative) text++;
    if (*text < '0' || *text > '9') return false;
    int64_t n = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *text - '0', &n))
            return false;
    int shift = *text == 'K' ? 10 : *text == 'M' ? 20 : *text == 'G' ? 30 : 0;
    if (shift) {
        if (__builtin_mul_overflow(n, (int64_t)1 << shift, &n)) return false;
        text++;
    }
    *value = negative ? -n : n;
    return *text == '\0';
}

/* Index of `text` in "a|b|c", -1 when it is none of them. */
static int find_word(const char *words, const char *text) {
    size_t length = strlen(text);
    for (int index = 0; words; index++) {
        const char *bar = strchr(words, '|');
        size_t size = bar ? (size_t)(bar - words) : strlen(words);
        if (size == length && memcmp(words, text, size) == 0) return index;
        words = bar ? bar + 1 : NULL;
    }
    return -1;
}

static void warn(const char *format, const char *name, const char *value, const char *accepted) {
    char line[512];
    int size = snprintf(line, sizeof line, format, name, value, accepted);
    if (size > 0) hak_os_write_stderr(line, hak_min((size_t)size, sizeof line - 1));
}

static void set_option(const row_t *row, const char *text) {
    int64_t value;
    char range[96];
    if (row->words) {
        int index = find_word(row->words, text);
        if (index >= 0)
            hak_store_relaxed(&values[row - rows], index);
        else
            warn("hakmem: option HAKMEM_%s: '%.64s' is not one of %s; the default is kept\n",
                 row->name, text, row->words);
    } else if (parse_number(text, &value) && value >= row->least && value <= row->most) {
        hak_store_relaxed(&values[row - rows], value);
    } else {
        snprintf(range, sizeof range, "%lld..%lld%s%s", (long long)row->least, (long long)row->most,
                 *row->unit ? " " : "", row->unit);
        warn("hakmem: option HAKMEM_%s: '%.64s' is not a number in %s; the default is kept\n",
             row->name, text, range);
    }
}

static void read_variable(const char *variable) {
    static const char prefix[] = "HAKMEM_";
    if (strncmp(variable, prefix, sizeof prefix - 1) != 0) return;
    const char *name = variable + sizeof prefix - 1;
    const char *equals = strchr(name, '=');
    if (!equals || strncmp(name, "BENCH_", 6) == 0) return; /* the benchmarks' own */
    size_t length = (size_t)(equals - name);
    for (const row_t *row = rows; row < rows + HAK_OPTION_COUNT; row++) {
        if (strlen(row->name) == length && memcmp(row->name, name, length) == 0) {
            set_option(row, equals + 1);
            return;
        }
    }
    char text[96];
    snprintf(text, sizeof text, "%.*s", (int)hak_min(length, sizeof text - 1), name);
    warn("hakmem: unknown option HAKMEM_%s%s is ignored; the options are in %s\n", text, "",
         "docs/ENV_OPTIONS.md");
}

void hak_options_load(void) {
    static _Atomic bool loaded;
    bool secure;
    char **environment = hak_os_environment(&secure);
    if (!environment || atomic_exchange_explicit(&loaded, true, memory_order_relaxed)) return;
    if (secure) return;
    int saved = errno;
    for (; *environment; environment++) read_variable(*environment);
    errno = saved;
}
