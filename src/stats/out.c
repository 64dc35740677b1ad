/* out.c: writes a report piece by piece to a buffer, a file or a stream; numbers, columns, JSON. */
#include "stats/out.h"

#include <stdarg.h>
#include <string.h>

#include "os/file.h"

enum { LINES_DEPTH = 2 }; /* down to this depth JSON has a line for each member */

hak_out_t hak_out_to_buffer(char *buffer, size_t size) {
    if (size == 0) return (hak_out_t){.file = -1};
    return (hak_out_t){.buffer = buffer, .size = size - 1, .file = -1};
}

hak_out_t hak_out_to_file(int file, char *chunk) {
    return (hak_out_t){.buffer = chunk, .size = HAK_OUT_CHUNK, .file = file};
}

hak_out_t hak_out_to_stream(FILE *stream, char *chunk) {
    return (hak_out_t){.buffer = chunk, .size = HAK_OUT_CHUNK, .file = -1, .stream = stream};
}

static bool has_sink(const hak_out_t *out) { return out->file >= 0 || out->stream; }

static void flush(hak_out_t *out) {
    if (out->stream)
        fwrite(out->buffer, 1, out->used, out->stream);
    else if (!out->error)
        hak_os_write(out->file, out->buffer, out->used, &out->error);
    out->used = 0;
}

size_t hak_out_end(hak_out_t *out) {
    if (has_sink(out))
        flush(out);
    else if (out->buffer)
        out->buffer[out->used] = 0;
    return out->total;
}

void hak_out_bytes(hak_out_t *out, const char *text, size_t size) {
    out->total += size;
    while (size > 0) {
        size_t part = hak_min(size, out->size - out->used);
        if (part) memcpy(out->buffer + out->used, text, part);
        out->used += part;
        text += part;
        size -= part;
        if (size == 0) return;
        if (!has_sink(out)) return;
        flush(out);
    }
}

void hak_out_text(hak_out_t *out, const char *text) { hak_out_bytes(out, text, strlen(text)); }

static void spaces(hak_out_t *out, size_t count) {
    static const char blanks[] = "                ";
    for (; count > 0; count -= hak_min(count, sizeof blanks - 1))
        hak_out_bytes(out, blanks, hak_min(count, sizeof blanks - 1));
}

void hak_out_right(hak_out_t *out, const char *text, unsigned width) {
    size_t size = strlen(text);
    if (size < width) spaces(out, width - size);
    hak_out_bytes(out, text, size);
}

void hak_out_left(hak_out_t *out, const char *text, unsigned width) {
    size_t size = strlen(text);
    hak_out_bytes(out, text, size);
    if (size < width) spaces(out, width - size);
}

unsigned hak_out_digits(uint64_t number) {
    unsigned digits = 1;
    for (; number >= 10; number /= 10) digits++;
    return digits;
}

void hak_out_number(hak_out_t *out, uint64_t number, unsigned width) {
    char text[21];
    size_t at = sizeof text - 1;
    text[at] = 0;
    do text[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    hak_out_right(out, text + at, width);
}

void hak_out_print(hak_out_t *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    for (const char *end = format; *format; format = end) {
        while (*end && *end != '%') end++;
        hak_out_bytes(out, format, (size_t)(end - format));
        if (!*end) break;
        if (end[1] == 's')
            hak_out_text(out, va_arg(arguments, const char *));
        else
            hak_out_number(out, va_arg(arguments, unsigned long), 0);
        end += end[1] == 's' ? sizeof "%s" - 1 : sizeof "%lu" - 1;
    }
    va_end(arguments);
}

/* Writes what precedes a value: the comma, the line break and the name. */
static void begin_value(hak_out_t *out, const char *name) {
    if (out->has_member[out->depth]) hak_out_bytes(out, ",", 1);
    if (out->depth > 0 && out->depth <= LINES_DEPTH) {
        hak_out_bytes(out, "\n", 1);
        spaces(out, out->depth * (size_t)2);
    } else if (out->has_member[out->depth]) {
        hak_out_bytes(out, " ", 1);
    }
    out->has_member[out->depth] = true;
    if (!name) return;
    hak_out_bytes(out, "\"", 1);
    hak_out_text(out, name);
    hak_out_bytes(out, "\": ", 3);
}

void hak_out_open(hak_out_t *out, const char *name, char open) {
    begin_value(out, name);
    hak_out_bytes(out, &open, 1);
    HAK_ASSERT(out->depth + 1 < HAK_OUT_DEPTH_MAX);
    out->has_member[++out->depth] = false;
}

void hak_out_close(hak_out_t *out, char close) {
    bool has_lines = out->has_member[out->depth] && out->depth <= LINES_DEPTH;
    out->depth--;
    if (has_lines) {
        hak_out_bytes(out, "\n", 1);
        spaces(out, out->depth * (size_t)2);
    }
    hak_out_bytes(out, &close, 1);
    if (out->depth == 0) hak_out_bytes(out, "\n", 1);
}

void hak_out_member(hak_out_t *out, const char *name, uint64_t number) {
    begin_value(out, name);
    hak_out_number(out, number, 0);
}

/* Bytes beyond ASCII need not be valid UTF-8, so each is escaped by its number. */
void hak_out_member_text(hak_out_t *out, const char *name, const char *text) {
    static const char hex[] = "0123456789abcdef";
    begin_value(out, name);
    hak_out_bytes(out, "\"", 1);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        char escape[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        if (c == '"' || c == '\\')
            hak_out_bytes(out, "\\", 1);
        else if (c < 0x20 || c >= 0x7f) {
            hak_out_bytes(out, escape, sizeof escape);
            continue;
        }
        hak_out_bytes(out, text, 1);
    }
    hak_out_bytes(out, "\"", 1);
}
