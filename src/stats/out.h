/* out.h: the destination of a report: a buffer of the caller, a file or a stream. It is written
 * piece by piece, and nothing is allocated. */
#pragma once

#include <stdio.h>

#include "base/base.h"

enum { HAK_OUT_DEPTH_MAX = 8, HAK_OUT_CHUNK = 1024 };

typedef struct {
    char *buffer; /* the destination itself, or a chunk for one write to the file or stream */
    size_t size;  /* bytes of the buffer */
    size_t used;  /* bytes of the report in it */
    size_t total; /* bytes of the report so far, also those that were cut off */
    int file;     /* -1: none */
    FILE *stream; /* NULL: none. Without file and stream the buffer is the destination */
    int error;    /* first error number of the file; after an error nothing more is written */
    unsigned depth;
    bool has_member[HAK_OUT_DEPTH_MAX]; /* of the JSON object at that depth */
} hak_out_t;

/* Cuts the report off at size - 1 bytes and ends it with a 0, as snprintf does. */
hak_out_t hak_out_to_buffer(char *buffer, size_t size);

/* `chunk` has HAK_OUT_CHUNK bytes and lives until hak_out_end. The stream itself may allocate. */
hak_out_t hak_out_to_file(int file, char *chunk);
hak_out_t hak_out_to_stream(FILE *stream, char *chunk);

/* Writes the last piece; returns the length of the whole report. */
size_t hak_out_end(hak_out_t *out);

void hak_out_bytes(hak_out_t *out, const char *text, size_t size);
void hak_out_text(hak_out_t *out, const char *text);

/* Writes a text in which %s stands for a text and %lu for a number; it knows no other
 * conversion. */
__attribute__((format(printf, 2, 3))) void hak_out_print(hak_out_t *out, const char *format, ...);

/* A number or a text, right-aligned or left-aligned in a column of `width`; width 0: no column. */
void hak_out_number(hak_out_t *out, uint64_t number, unsigned width);
void hak_out_right(hak_out_t *out, const char *text, unsigned width);
void hak_out_left(hak_out_t *out, const char *text, unsigned width);

/* Digits of a number. */
unsigned hak_out_digits(uint64_t number);

/* JSON. If `name` is NULL the value has no name, as in an array. `open` is '{' or '['. The two
 * outer levels have a line for each member. */
void hak_out_open(hak_out_t *out, const char *name, char open);
void hak_out_close(hak_out_t *out, char close);
void hak_out_member(hak_out_t *out, const char *name, uint64_t number);
void hak_out_member_text(hak_out_t *out, const char *name, const char *text);
