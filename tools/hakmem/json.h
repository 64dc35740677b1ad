/* json.h: a reader of JSON text (RFC 8259) for files that may be anything. */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct json {
    enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT } kind;
    const char *name;         /* of a member of an object; else NULL */
    const char *text;         /* of a text; \u escapes as UTF-8, ended by a 0 */
    uint64_t number;          /* of a number that is whole and not negative, of a bool */
    bool is_whole;            /* whether it is such a number */
    struct json *first;       /* of an array or object */
    struct json *next;        /* in the array or object that this is in */
    struct json *made_before; /* all values that there are */
} json_t;

/* Reads `text` in place, which changes it and must outlive the values. NULL: it is not JSON, or
 * nested deeper than 32; *line is then where. Values are never freed: the command ends soon. */
json_t *json_read(char *text, size_t size, size_t *line);

/* The member of that name, or NULL; also where `object` is NULL or no object. */
const json_t *json_member(const json_t *object, const char *name);

/* The number of that member; 0 where it has none. */
uint64_t json_number(const json_t *object, const char *name);

/* The text of that member; "" where it has none. */
const char *json_text(const json_t *object, const char *name);

#endif
