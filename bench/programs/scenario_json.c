/*
 * json - a service that parses a document into a tree, reads it and frees it.
 *
 * The document (about 256 KiB, generated) is a list of records as web interfaces send them:
 * nested objects of 3 to 8 members, lists of up to 40 numbers or tags, texts of 4 to 400
 * bytes with escapes. Each value is a block of 24 bytes; keys and texts are blocks of their
 * length + 1; the members of objects and lists are vectors that grow by realloc from 4 to
 * as many as there are. The trees of the last three documents stay alive. An operation is
 * one value parsed.
 */
#include "scenario.h"

#define TEXT_SIZE (256u << 10)
#define KEPT 3
#define FIRST_CAPACITY 4u

enum kind { NOTHING, NUMBER, TEXT, LIST, OBJECT };

struct value {
    enum kind kind;
    uint32_t count, capacity; /* of `items`, or the length of `text` */
    union {
        int64_t number;
        char *text;
        struct member *items;
    } as;
};

struct member {
    char *key; /* NULL in a list */
    struct value *value;
};

static char text[TEXT_SIZE];
static uint64_t text_sum; /* what the numbers and text lengths of the document add up to */

/* --- the generator ----------------------------------------------------------- */

static uint32_t write_text(struct scenario_run *run, char *at, uint32_t longest) {
    uint32_t length = scenario_draw_log(run, 4, longest), used = 0;

    at[used++] = '"';
    for (uint32_t i = 0; i < length; i++) {
        if (scenario_draw(run, 40) == 0) at[used++] = '\\';
        at[used] = at[used - 1] == '\\' ? 'n' : (char)('a' + scenario_draw(run, 26));
        used++;
    }
    at[used++] = '"';
    text_sum += length;
    return used;
}

static uint32_t write_number(struct scenario_run *run, char *at) {
    uint32_t number = scenario_draw_log(run, 1, 1000000000);

    text_sum += number;
    return (uint32_t)sprintf(at, "%u", number);
}

static uint32_t write_list(struct scenario_run *run, char *at) {
    uint32_t count = scenario_draw_log(run, 1, 40), used = 0;
    bool tags = scenario_draw(run, 2) == 0;

    at[used++] = '[';
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) at[used++] = ',';
        used += tags ? write_text(run, at + used, 12) : write_number(run, at + used);
    }
    at[used++] = ']';
    return used;
}

static uint32_t write_object(struct scenario_run *run, char *at, uint32_t levels) {
    static const char *const keys[] = {"id",   "name",        "created_at", "tags",
                                       "size", "description", "owner",      "x"};
    uint32_t count = 3 + scenario_draw(run, 6), used = 0;

    at[used++] = '{';
    for (uint32_t i = 0; i < count; i++) {
        uint32_t what = scenario_draw(run, levels > 1 ? 10 : 8);

        used += (uint32_t)sprintf(at + used, "%s\"%s\": ", i > 0 ? ", " : "", keys[i]);
        if (what < 1)
            used += (uint32_t)sprintf(at + used, "null");
        else if (what < 4)
            used += write_number(run, at + used);
        else if (what < 7)
            used += write_text(run, at + used, what == 6 ? 400 : 30);
        else if (what < 8)
            used += write_list(run, at + used);
        else
            used += write_object(run, at + used, levels - 1);
    }
    at[used++] = '}';
    return used;
}

/* A record of more than the 48 KiB left for the last one is possible, but never drawn. */
static void write_document(struct scenario_run *run) {
    uint32_t used = 0;

    text_sum = 0;
    text[used++] = '[';
    while (used < TEXT_SIZE - (48u << 10)) {
        if (used > 1) text[used++] = ',';
        used += write_object(run, text + used, 3);
        if (used > TEXT_SIZE - 2) bench_fail(1, "the document is too long");
    }
    text[used++] = ']';
    text[used] = '\0';
}

/* --- the parser -------------------------------------------------------------- */

static struct value *parse(struct scenario_run *run, const char **at);

static _Noreturn void bad(const char *at) { bench_fail(1, "bad text at %td", at - text); }

static char *parse_text(const char **at, uint32_t *length) {
    const char *from = *at + 1, *end = from;
    char *copy;
    uint32_t used = 0;

    while (*end != '"') end += *end == '\\' ? 2 : 1;
    copy = scenario_malloc((size_t)(end - from) + 1);
    for (; from < end; from++) {
        if (*from == '\\') from++;
        copy[used++] = *from;
    }
    copy[used] = '\0';
    *length = used;
    *at = end + 1;
    return copy;
}

static void parse_items(struct scenario_run *run, struct value *value, const char **at) {
    char close = **at == '[' ? ']' : '}';

    for ((*at)++; **at != close; *at += **at == ',') {
        struct member member = {.key = NULL};
        uint32_t length;

        while (**at == ' ') (*at)++;
        if (close == '}') {
            member.key = parse_text(at, &length);
            if (*(*at)++ != ':') bad(*at);
        }
        member.value = parse(run, at);
        if (value->count == value->capacity) {
            value->capacity = value->capacity != 0 ? 2 * value->capacity : FIRST_CAPACITY;
            value->as.items = scenario_realloc(value->as.items, value->capacity * sizeof member);
        }
        value->as.items[value->count++] = member;
    }
    (*at)++;
}

static struct value *parse(struct scenario_run *run, const char **at) {
    struct value *value = scenario_malloc(sizeof *value);

    *value = (struct value){.kind = NOTHING};
    run->done++;
    while (**at == ' ') (*at)++;
    if (**at == '"') {
        value->kind = TEXT;
        value->as.text = parse_text(at, &value->count);
    } else if (**at == '[' || **at == '{') {
        value->kind = **at == '[' ? LIST : OBJECT;
        parse_items(run, value, at);
    } else if (**at >= '0' && **at <= '9') {
        value->kind = NUMBER;
        while (**at >= '0' && **at <= '9')
            value->as.number = value->as.number * 10 + (*(*at)++ - '0');
    } else if (strncmp(*at, "null", 4) == 0) {
        *at += 4;
    } else {
        bad(*at);
    }
    return value;
}

/* Frees a tree and returns what its numbers and text lengths add up to. */
static uint64_t discard(struct value *value) {
    uint64_t sum = 0;

    if (value == NULL) return 0;
    if (value->kind == NUMBER) sum = (uint64_t)value->as.number;
    if (value->kind == TEXT) {
        sum = strlen(value->as.text) == value->count ? value->count : 0;
        free(value->as.text);
    }
    if (value->kind == LIST || value->kind == OBJECT) {
        for (uint32_t i = 0; i < value->count; i++) {
            free(value->as.items[i].key);
            sum += discard(value->as.items[i].value);
        }
        free(value->as.items);
    }
    free(value);
    return sum;
}

static void check(struct scenario_run *run, struct value *tree) {
    uint64_t sum = discard(tree);

    if (tree != NULL && sum != text_sum)
        bench_fail(1, "a tree has changed: %llu, not %llu", (unsigned long long)sum,
                   (unsigned long long)text_sum);
    scenario_note(run, sum);
}

void scenario_json(struct scenario_run *run) {
    struct value *kept[KEPT] = {NULL};

    write_document(run);
    for (uint32_t document = 0; run->done < run->wanted; document++) {
        const char *at = text;

        check(run, kept[document % KEPT]);
        kept[document % KEPT] = parse(run, &at);
        if (*at != '\0') bad(at);
    }
    for (int i = 0; i < KEPT; i++) check(run, kept[i]);
}
