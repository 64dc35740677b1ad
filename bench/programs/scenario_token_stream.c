/*
 * token-stream - a lexer and the parser that reads from it: compilers, formatters, editors.
 *
 * A generated source text is cut into tokens. Each token is a block of 40 bytes that lives
 * until the parser's window of 24 tokens has passed it; literals and comments also own a
 * copy of their text (2 to 120 bytes). Names are interned: one entry with its text (22 to
 * 36 bytes) per different name, in a chained table that doubles; all of them live until
 * the end of their file of 4,000 tokens. An operation is one token.
 */
#include "scenario.h"

#define WINDOW 24
#define FILE_TOKENS 4000
#define TEXT_SIZE (256u << 10)
#define NAMES 1500u
#define FIRST_BUCKETS 64u

enum kind { END_OF_TEXT, NAME, LITERAL, COMMENT, SIGN };

struct name {
    struct name *next;
    uint32_t hash, uses, length;
    char text[];
};

struct token {
    enum kind kind;
    uint32_t position, length;
    struct name *name; /* NAME */
    char *text;        /* LITERAL and COMMENT: a copy */
    uint64_t hash;     /* of the text, to check it */
};

struct table {
    struct name **buckets;
    uint32_t bucket_count, count; /* bucket_count is a power of two */
};

static char text[TEXT_SIZE + 1];

/* Few names are very common and many are rare, as in programs. */
static uint32_t write_name(struct scenario_run *run, char *at) {
    uint32_t number = scenario_draw(run, 1 + scenario_draw(run, NAMES));
    uint32_t length = 0;

    do {
        at[length++] = (char)('a' + number % 26);
        number = number / 26;
    } while (number > 0);
    for (uint32_t extra = (uint32_t)(at[0] - 'a') % 12; extra > 0; extra--) at[length++] = '_';
    return length;
}

static uint32_t write_quoted(struct scenario_run *run, char *at, char quote, uint32_t longest) {
    uint32_t length = 1 + scenario_draw_log(run, 1, longest);

    at[0] = quote;
    for (uint32_t i = 1; i < length; i++) at[i] = (char)('a' + scenario_draw(run, 26));
    at[length] = quote;
    return length + 1;
}

static void write_text(struct scenario_run *run) {
    uint32_t used = 0;

    while (used < TEXT_SIZE - 200) {
        uint32_t what = scenario_draw(run, 100);

        if (what < 45)
            used += write_name(run, text + used);
        else if (what < 55)
            used += write_quoted(run, text + used, '"', 48);
        else if (what < 58)
            used += write_quoted(run, text + used, '#', 118);
        else
            text[used++] = "(){};,+-*/=<>.[]"[scenario_draw(run, 16)];
        text[used++] = what % 7 == 0 ? '\n' : ' ';
    }
    text[used] = '\0';
}

static uint32_t hash_of(const char *from, uint32_t length) {
    uint32_t hash = 2166136261u;

    for (uint32_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)from[i]) * 16777619u;
    return hash;
}

static void grow(struct table *table) {
    uint32_t count = table->bucket_count != 0 ? 2 * table->bucket_count : FIRST_BUCKETS;
    struct name **buckets = scenario_calloc(count, sizeof *buckets);

    for (uint32_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i] != NULL) {
            struct name *name = table->buckets[i];

            table->buckets[i] = name->next;
            name->next = buckets[name->hash & (count - 1)];
            buckets[name->hash & (count - 1)] = name;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = count;
}

static struct name *intern(struct table *table, const char *from, uint32_t length) {
    uint32_t hash = hash_of(from, length);
    struct name **bucket, *name;

    if (table->count >= table->bucket_count) grow(table);
    bucket = &table->buckets[hash & (table->bucket_count - 1)];
    for (name = *bucket; name != NULL; name = name->next)
        if (name->hash == hash && name->length == length && memcmp(name->text, from, length) == 0)
            break;
    if (name == NULL) {
        name = scenario_malloc(sizeof *name + length + 1);
        *name = (struct name){.next = *bucket, .hash = hash, .length = length};
        memcpy(name->text, from, length);
        name->text[length] = '\0';
        *bucket = name;
        table->count++;
    }
    name->uses++;
    return name;
}

/* Ends a file: every name with its uses goes into the checksum. */
static void release(struct scenario_run *run, struct table *table) {
    uint64_t sum = 0; /* of all names, so that their order in the table does not matter */

    for (uint32_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i] != NULL) {
            struct name *name = table->buckets[i];

            if (hash_of(name->text, name->length) != name->hash) bench_fail(1, "a name changed");
            table->buckets[i] = name->next;
            sum += (uint64_t)name->hash * name->uses;
            free(name);
        }
    }
    free(table->buckets);
    *table = (struct table){.buckets = NULL};
    scenario_note(run, sum);
}

static struct token *next_token(struct table *table, uint32_t *position) {
    struct token *token = scenario_malloc(sizeof *token);
    uint32_t at = *position;
    char first;

    while (text[at] == ' ' || text[at] == '\n') at++;
    first = text[at];
    *token = (struct token){.kind = SIGN, .position = at, .length = 1};
    if (first == '\0') {
        token->kind = END_OF_TEXT;
    } else if ((first >= 'a' && first <= 'z') || first == '_') {
        token->length = (uint32_t)strspn(text + at, "abcdefghijklmnopqrstuvwxyz_");
        token->kind = NAME;
        token->name = intern(table, text + at, token->length);
    } else if (first == '"' || first == '#') {
        token->length = (uint32_t)(strchr(text + at + 1, first) - (text + at)) + 1;
        token->kind = first == '"' ? LITERAL : COMMENT;
        token->text = scenario_malloc(token->length + 1);
        memcpy(token->text, text + at, token->length);
        token->text[token->length] = '\0';
        token->hash = hash_of(token->text, token->length);
    }
    *position = token->kind == END_OF_TEXT ? 0 : at + token->length;
    return token;
}

/* The parser is done with the token. */
static void consume(struct scenario_run *run, struct token *token) {
    if (token == NULL) return;
    if (token->text != NULL && hash_of(token->text, token->length) != token->hash)
        bench_fail(1, "the text of a token has changed");
    scenario_note(run, (uint64_t)token->kind << 32 | token->position);
    free(token->text);
    free(token);
}

void scenario_token_stream(struct scenario_run *run) {
    struct token *window[WINDOW] = {NULL};
    struct table table = {.buckets = NULL};
    uint32_t position = 0;

    write_text(run);
    for (; run->done < run->wanted; run->done++) {
        struct token **slot = &window[run->done % WINDOW];

        consume(run, *slot);
        *slot = next_token(&table, &position);
        if (run->done % FILE_TOKENS != FILE_TOKENS - 1) continue;
        for (int i = 0; i < WINDOW; i++) {
            consume(run, window[i]);
            window[i] = NULL;
        }
        release(run, &table);
    }
    for (int i = 0; i < WINDOW; i++) consume(run, window[i]);
    release(run, &table);
}
