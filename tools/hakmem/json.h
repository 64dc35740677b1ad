/* json.h: a reader of JSON text (RFC 8259) for untrusted files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct json {
    enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT } kind;
    const char *name;         /* of a member of an object; otherwise NULL */
    const char *text;         /* of a text; \u escapes as UTF-8, 0 at the end */
    uint64_t number;          /* of a number that is whole and not negative, or of a bool */
    bool is_whole;            /* `number` is valid */
    struct json *first;       /* first value of an array or object */
    struct json *next;        /* next value in the same array or object */
    struct json *made_before; /* list of all values */
} json_t;

/* Parses `text` in place: the text is changed, and must outlive the values. NULL when it is not
 * JSON, or is nested deeper than 32; *line is then the line of the error. Values are never freed,
 * since the command ends soon. */
json_t *json_read(char *text, size_t size, size_t *line);

/* The member of that name; NULL when there is none, and when `object` is NULL or not an object. */
const json_t *json_member(const json_t *object, const char *name);

/* The number of that member; 0 when it has none. */
uint64_t json_number(const json_t *object, const char *name);

/* The text of that member; "" when it has none. */
const char *json_text(const json_t *object, const char *name);
