/* json.c - the reader of statistics that were saved. What it reads is a tree of texts and numbers with no
 * end but that of the input. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void *take_value(size_t count, size_t size);

/* Values are never freed, since the command ends soon: here they come from a store that is used again. */
#define calloc take_value
#include "hakmem/json.c"
#undef calloc

#include "check.h"

enum { VALUES = 1 << 16 };

static json_t values[VALUES];
static size_t used;

static void *take_value(size_t count, size_t size) {
    CHECK(count == 1 && size == sizeof *values, "another kind of value");
    return used < VALUES ? memset(&values[used++], 0, size) : NULL;
}

static size_t walk(const json_t *value, unsigned depth) {
    size_t count = 1;
    CHECK(depth <= DEPTH_MOST, "deeper than it may be");
    CHECK(value->kind <= JSON_OBJECT, "a kind that is none");
    if (value->kind == JSON_TEXT) CHECK(strlen(value->text) <= 1 << 16, "a text without an end");
    for (const json_t *part = value->first; part; part = part->next) {
        CHECK(value->kind == JSON_ARRAY || part->name != NULL, "a member without a name");
        count += walk(part, depth + 1);
        if (value->kind == JSON_OBJECT)
            CHECK(json_member(value, part->name) != NULL, "a lost member");
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t line;
    if (size > 1 << 15) return 0;
    char *text = malloc(size ? size : 1);
    CHECK(text != NULL, "no memory");
    memcpy(text, data, size);
    used = 0;
    const json_t *root = json_read(text, size, &line);
    CHECK(line >= 1 && line <= size + 1, "line %zu of a text of %zu bytes", line, size);
    if (root) CHECK(walk(root, 0) <= used, "more values than were made");
    json_number(root, "version");
    free(text);
    return 0;
}
