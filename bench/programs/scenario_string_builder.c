/*
 * string-builder - text made by appending, as interpreters, template engines and loggers do.
 *
 * Strings grow from 24 bytes to a final length of 8 bytes to 64 KiB (as many per doubling,
 * so half are below 1 KiB), in pieces of 1 to 40 bytes. Three in four grow a buffer by
 * realloc, by half and by doubling in turn, and are cut to their length at the end; one in
 * four (below 1 KiB) is immutable: each step allocates a new string, copies both parts and
 * frees the old one, as `a = a + b` does. The last 256 strings stay alive. An operation is
 * one append.
 */
#include "scenario.h"

#define KEPT 256
#define LONGEST (64u << 10)
#define LONGEST_IMMUTABLE 1024u
#define LONGEST_PIECE 40u
#define FIRST_CAPACITY 24u

struct string {
    char *text;
    uint32_t length;
    uint32_t start; /* its text is that of the source from here on */
};

/* What all strings are pieces of; filled once per run. */
static char source[2 * LONGEST];

static void fill_source(struct scenario_run *run) {
    for (size_t i = 0; i < sizeof source; i++) source[i] = (char)(' ' + scenario_draw(run, 95));
}

static uint32_t next_piece(struct scenario_run *run, uint32_t left) {
    uint32_t piece = 1 + scenario_draw(run, LONGEST_PIECE);

    run->done++;
    return piece < left ? piece : left;
}

static char *build_by_growing(struct scenario_run *run, uint32_t start, uint32_t length) {
    uint32_t capacity = FIRST_CAPACITY, used = 0;
    bool doubles = (start & 1) != 0;
    char *text = scenario_malloc(capacity);

    while (used < length) {
        uint32_t piece = next_piece(run, length - used);

        while (used + piece + 1 > capacity) {
            capacity += doubles ? capacity : capacity / 2;
            if (used + piece + 1 <= capacity) text = scenario_realloc(text, capacity);
        }
        memcpy(text + used, source + start + used, piece);
        used += piece;
    }
    text[used] = '\0';
    return scenario_realloc(text, used + 1);
}

static char *build_by_adding(struct scenario_run *run, uint32_t start, uint32_t length) {
    uint32_t used = 0;
    char *text = scenario_malloc(1);

    while (used < length) {
        uint32_t piece = next_piece(run, length - used);
        char *longer = scenario_malloc(used + piece + 1);

        memcpy(longer, text, used);
        memcpy(longer + used, source + start + used, piece);
        free(text);
        text = longer;
        used += piece;
    }
    text[used] = '\0';
    return text;
}

/* Each string is compared when it dies, so that it was exposed to all that came after it. */
static void discard(struct scenario_run *run, struct string *string) {
    if (string->text == NULL) return;
    if (memcmp(string->text, source + string->start, string->length) != 0 ||
        string->text[string->length] != '\0')
        bench_fail(1, "a string of %u bytes has changed", string->length);
    scenario_note(run, string->start ^ (uint64_t)string->length << 32);
    free(string->text);
    string->text = NULL;
}

void scenario_string_builder(struct scenario_run *run) {
    static struct string kept[KEPT];

    fill_source(run);
    while (run->done < run->wanted) {
        struct string *string = &kept[scenario_draw(run, KEPT)];
        bool immutable = scenario_draw(run, 4) == 0;
        uint32_t longest = immutable ? LONGEST_IMMUTABLE : LONGEST;

        discard(run, string);
        string->length = scenario_draw_log(run, 8, longest);
        string->start = scenario_draw(run, LONGEST);
        string->text = immutable ? build_by_adding(run, string->start, string->length)
                                 : build_by_growing(run, string->start, string->length);
    }
    for (int i = 0; i < KEPT; i++) discard(run, &kept[i]);
}
