/* translate.c: `hakmem options --from-ALLOCATOR STRING`: settings of another allocator as ours.
 *
 * stdout has a line NAME=VALUE for each setting that has a counterpart, and comments, for a shell: after `set -a`,
 * `eval "$(hakmem options --from-jemalloc "$MALLOC_CONF")"` takes them over. */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "options/options.h"

typedef enum { JEMALLOC, MIMALLOC, TCMALLOC } allocator_t;

static const struct {
    const char *flag, *name, *prefix; /* a name may have the prefix in front */
    char between;                     /* of a name and its value */
} allocators[] = {[JEMALLOC] = {"--from-jemalloc", "jemalloc", "", ':'},
                  [MIMALLOC] = {"--from-mimalloc", "mimalloc", "MIMALLOC_", '='},
                  [TCMALLOC] = {"--from-tcmalloc", "tcmalloc", "", '='}};

typedef struct {
    allocator_t from;
    const char *name, *value, *option, *ours, *note;
} setting_t;

static const setting_t settings[] = {
#define SETTING(...) {__VA_ARGS__},
#include "translate.def"
#undef SETTING
};

static bool is_one_of(const char *const *words, const char *value) {
    for (; *words; words++)
        if (strcasecmp(*words, value) == 0) return true;
    return false;
}

static bool fits_name(const char *pattern, const char *name) {
    size_t length = strlen(pattern);
    bool is_open = length > 0 && pattern[length - 1] == '*';
    return is_open ? strncasecmp(pattern, name, length - 1) == 0 : strcasecmp(pattern, name) == 0;
}

static bool fits_value(const char *pattern, const char *value) {
    static const char *const on[] = {"true", "1", "yes", "on", "y", "t", NULL};
    static const char *const off[] = {"false", "0", "no", "off", "n", "f", NULL};
    if (strcmp(pattern, "*") == 0) return true;
    if (strcmp(pattern, "on") == 0) return is_one_of(on, value);
    if (strcmp(pattern, "off") == 0) return is_one_of(off, value);
    return strcmp(pattern, value) == 0;
}

/* The first row for that setting. If only its value fits no row, *is_known is true. */
static const setting_t *find(allocator_t from, const char *name, const char *value,
                             bool *is_known) {
    *is_known = false;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const setting_t *row = &settings[i];
        if (row->from != from || !fits_name(row->name, name)) continue;
        *is_known = true;
        if (fits_value(row->value, value)) return row;
    }
    return NULL;
}

/* Our value: the pattern with the given one for its star. A power of two that does not exist stays as
 * it is, which no option accepts. */
static void make_value(char *ours, size_t size, const char *pattern, const char *value) {
    const char *star = strchr(pattern, '*');
    char *end;
    if (strcmp(pattern, "2^*") == 0) {
        unsigned long shift = strtoul(value, &end, 10);
        if (*value >= '0' && *value <= '9' && !*end && shift < 63)
            snprintf(ours, size, "%llu", 1ULL << shift);
        else
            snprintf(ours, size, "2^%s", value);
        return;
    }
    snprintf(ours, size, "%.*s%s%s", star ? (int)(star - pattern) : (int)size, pattern,
             star ? value : "", star ? star + 1 : "");
}

/* Prints a value as a word of the shell, which may be anything that somebody wrote into the other allocator's variable. */
static void print_word(const char *word) {
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,%+-";
    bool quotes = word[strspn(word, plain)] != 0;
    if (quotes) putchar('\'');
    for (; *word; word++)
        if (*word == '\'')
            printf("'\\''");
        else
            putchar(*word);
    printf(quotes ? "'\n" : "\n");
}

/* Prints what a row makes of a value. False: our option does not accept it. */
static bool print_ours(const setting_t *row, const char *theirs, const char *value) {
    char ours[256];
    int64_t number;
    if (!row->option) {
        printf("# %s: nothing to set: %s\n", theirs, row->note);
        return true;
    }
    hak_option_t option = (hak_option_t)find_option(row->option, STATUS_USAGE);
    make_value(ours, sizeof ours, row->ours, value);
    hak_option_row_t described = hak_option_row(option);
    if (!hak_option_parse(option, (hak_text_t){ours, strlen(ours)}, &number)) {
        fprintf(stderr, "hakmem: options: %s: %s accepts %s%s%s, not '%.64s'\n", theirs,
                described.name, described.accepted, *described.unit ? " " : "", described.unit,
                ours);
        return false;
    }
    printf("# %s%s%s\n%s=", theirs, *row->note ? ": " : "", row->note, described.name);
    print_word(ours);
    return true;
}

/* One setting, as "name:value". False, and one line on stderr, if nothing can be said of it. */
static bool translate(allocator_t from, char *setting) {
    char theirs[128];
    bool is_known;
    snprintf(theirs, sizeof theirs, "%.100s", setting);
    char *value = strchr(setting, allocators[from].between);
    if (!value) {
        fprintf(stderr, "hakmem: options: '%s' is no name%cvalue\n", theirs,
                allocators[from].between);
        return false;
    }
    *value++ = 0;
    size_t length = strlen(allocators[from].prefix);
    const char *name = setting;
    if (strncasecmp(name, allocators[from].prefix, length) == 0) name += length;
    const setting_t *row = find(from, name, value, &is_known);
    if (row) return print_ours(row, theirs, value);
    fprintf(stderr, "hakmem: options: %s: %s of %s is not known here\n", theirs,
            is_known ? "this value of a setting" : "this setting", allocators[from].name);
    return false;
}

/* Cuts the next setting off; NULL at the end. Settings stand in lines, or between commas or blanks; a word
 * without a name of its own that follows a blank is the rest of a value, as in HEAPPROFILE=/tmp/my prof. */
static char *next_setting(char **rest, char between) {
    static const char ends[] = ", \t\n", blanks[] = " \t";
    char *setting = *rest + strspn(*rest, ends), *end = setting;
    if (!*setting) return NULL;
    for (;;) {
        end += strcspn(end, ends);
        char *word = end + strspn(end, blanks);
        size_t length = strcspn(word, ends);
        if (word == end || length == 0 || memchr(word, between, length)) break;
        end = word;
    }
    *rest = end + (*end != 0);
    *end = 0;
    return setting;
}

bool translate_options(int argc, char **argv, int *status) {
    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++) {
        int count = 0;
        char *text = option_value("options", argv + 1, allocators[i].flag, STATUS_USAGE, &count);
        if (!text) continue;
        if (argc > 1 + count)
            fail(STATUS_USAGE, "options: %s has one value; put it into quotes", allocators[i].flag);
        bool is_whole = true;
        for (char *one; (one = next_setting(&text, allocators[i].between)) != NULL;)
            is_whole &= translate((allocator_t)i, one);
        *status = finish();
        if (!is_whole) *status = STATUS_USAGE;
        return true;
    }
    return false;
}
