/* json.c: a recursive descent parser of a text in memory. Every step checks for the end. */
#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 32 };

typedef struct {
    char *at, *end;
    unsigned depth;
    size_t line;
} reader_t;

static json_t *read_value(reader_t *reader);

static void skip_blanks(reader_t *reader) {
    for (; reader->at < reader->end && *reader->at; reader->at++) {
        if (!strchr(" \t\r\n", *reader->at)) return;
        reader->line += *reader->at == '\n';
    }
}

static bool take(reader_t *reader, char c) {
    skip_blanks(reader);
    if (reader->at == reader->end || *reader->at != c) return false;
    reader->at++;
    return true;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of four hexadecimal digits; -1 when they are not. */
static int read_code(reader_t *reader) {
    int code = 0;
    if (reader->end - reader->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*reader->at++);
        if (digit < 0) return -1;
        code = code * 16 + digit;
    }
    return code;
}

/* Writes a code of \uXXXX as UTF-8. Surrogates and 0 become question marks, since people read
 * it. */
static char *put_code(char *out, int code) {
    if (code == 0 || (code >= 0xd800 && code <= 0xdfff)) code = '?';
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3f));
    } else {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    }
    return out;
}

/* Decodes, in place, the text behind an opening quote; decoding never makes it longer. NULL when it
 * is not a valid text. */
static char *read_text(reader_t *reader) {
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char *start = reader->at, *out = start;
    while (reader->at < reader->end) {
        char c = *reader->at++;
        if ((unsigned char)c < 0x20) return NULL;
        if (c == '"') {
            *out = 0;
            return start;
        }
        if (c != '\\') {
            *out++ = c;
            continue;
        }
        if (reader->at == reader->end) return NULL;
        c = *reader->at++;
        const char *letter = c ? strchr(letters, c) : NULL;
        if (letter) {
            *out++ = meant[letter - letters];
        } else {
            int code = c == 'u' ? read_code(reader) : -1;
            if (code < 0) return NULL;
            out = put_code(out, code);
        }
    }
    return NULL;
}

static bool is_digit(const reader_t *reader) {
    return reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
}

static bool skip_digits(reader_t *reader) {
    if (!is_digit(reader)) return false;
    while (is_digit(reader)) reader->at++;
    return true;
}

static bool read_number(reader_t *reader, json_t *value) {
    value->kind = JSON_NUMBER;
    value->is_whole = *reader->at != '-';
    if (!value->is_whole) reader->at++;
    if (!is_digit(reader)) return false;
    bool leads_with_0 = *reader->at == '0';
    const char *start = reader->at;
    for (; is_digit(reader); reader->at++)
        if (__builtin_mul_overflow(value->number, 10, &value->number) ||
            __builtin_add_overflow(value->number, *reader->at - '0', &value->number))
            value->is_whole = false;
    if (leads_with_0 && reader->at - start > 1) return false;
    if (reader->at < reader->end && *reader->at == '.') {
        value->is_whole = false;
        reader->at++;
        if (!skip_digits(reader)) return false;
    }
    if (reader->at < reader->end && (*reader->at | 0x20) == 'e') {
        value->is_whole = false;
        reader->at++;
        if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-')) reader->at++;
        if (!skip_digits(reader)) return false;
    }
    return true;
}

static bool read_word(reader_t *reader, const char *word) {
    size_t size = strlen(word);
    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, word, size) != 0)
        return false;
    reader->at += size;
    return true;
}

/* Reads members up to `close`; the opening bracket has been read. */
static bool read_members(reader_t *reader, json_t *value, char close) {
    json_t **last = &value->first;
    value->kind = close == '}' ? JSON_OBJECT : JSON_ARRAY;
    if (take(reader, close)) return true;
    do {
        const char *name = NULL;
        if (close == '}' &&
            (!take(reader, '"') || !(name = read_text(reader)) || !take(reader, ':')))
            return false;
        json_t *member = read_value(reader);
        if (!member) return false;
        member->name = name;
        *last = member;
        last = &member->next;
    } while (take(reader, ','));
    return take(reader, close);
}

static bool read_into(reader_t *reader, json_t *value) {
    if (take(reader, '{')) return read_members(reader, value, '}');
    if (take(reader, '[')) return read_members(reader, value, ']');
    if (take(reader, '"')) {
        value->kind = JSON_TEXT;
        value->text = read_text(reader);
        return value->text != NULL;
    }
    if (reader->at == reader->end) return false;
    if (*reader->at == '-' || is_digit(reader)) return read_number(reader, value);
    if (read_word(reader, "null")) return true;
    value->kind = JSON_BOOL;
    value->number = read_word(reader, "true");
    return value->number || read_word(reader, "false");
}

static json_t *read_value(reader_t *reader) {
    static json_t *newest;
    json_t *value = reader->depth < DEPTH_MOST ? calloc(1, sizeof *value) : NULL;
    if (!value) return NULL;
    value->made_before = newest;
    newest = value;
    reader->depth++;
    bool is_read = read_into(reader, value);
    reader->depth--;
    return is_read ? value : NULL;
}

json_t *json_read(char *text, size_t size, size_t *line) {
    reader_t reader = {text, text + size, 0, 1};
    json_t *value = read_value(&reader);
    skip_blanks(&reader);
    *line = reader.line;
    return value && reader.at == reader.end ? value : NULL;
}

const json_t *json_member(const json_t *object, const char *name) {
    if (!object || object->kind != JSON_OBJECT) return NULL;
    for (const json_t *member = object->first; member; member = member->next)
        if (strcmp(member->name, name) == 0) return member;
    return NULL;
}

uint64_t json_number(const json_t *object, const char *name) {
    const json_t *member = json_member(object, name);
    return member && member->kind == JSON_NUMBER && member->is_whole ? member->number : 0;
}

const char *json_text(const json_t *object, const char *name) {
    const json_t *member = json_member(object, name);
    return member && member->kind == JSON_TEXT ? member->text : "";
}
