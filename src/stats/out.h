/* out.h: where a report goes: a caller's buffer or a file, piece by piece, without
 * memory of its own. */
#ifndef HAK_STATS_OUT_H
#define HAK_STATS_OUT_H

#include <stdio.h>

#include "base/base.h"

enum { HAK_OUT_DEPTH_MAX = 8, HAK_OUT_CHUNK = 1024 };

typedef struct {
    char *buffer; /* the caller's, or the chunk that a file takes at once */
    size_t size;  /* bytes of it */
    size_t used;
    size_t total; /* bytes of the report so far, whether they found room or not */
    int file;     /* -1: none */
    FILE *stream; /* NULL: none; without either the buffer is the caller's */
    int error;    /* of the file: the first number of an error; then nothing more is written */
    unsigned depth;
    bool has_member[HAK_OUT_DEPTH_MAX]; /* of the JSON object at that depth */
} hak_out_t;

/* The report is cut off at size - 1 bytes and ended by a 0, as snprintf does it. */
hak_out_t hak_out_to_buffer(char *buffer, size_t size);

/* `chunk` has HAK_OUT_CHUNK bytes and lives until hak_out_end. What a stream does with it is its
 * own affair: it may allocate. */
hak_out_t hak_out_to_file(int file, char *chunk);
hak_out_t hak_out_to_stream(FILE *stream, char *chunk);

/* The last piece; returns the length of the whole report. */
size_t hak_out_end(hak_out_t *out);

void hak_out_bytes(hak_out_t *out, const char *text, size_t size);
void hak_out_text(hak_out_t *out, const char *text);

/* A number or a text at the right end of a column of `width`; 0 for none. */
void hak_out_number(hak_out_t *out, uint64_t number, unsigned width);
void hak_out_right(hak_out_t *out, const char *text, unsigned width);
void hak_out_left(hak_out_t *out, const char *text, unsigned width);

/* Digits of a number. */
unsigned hak_out_digits(uint64_t number);

/* JSON. A name of NULL: the value has none, as in an array. open is '{' or '['. The
 * two outer levels have a line for each member. */
void hak_out_open(hak_out_t *out, const char *name, char open);
void hak_out_close(hak_out_t *out, char close);
void hak_out_member(hak_out_t *out, const char *name, uint64_t number);
void hak_out_member_text(hak_out_t *out, const char *name, const char *text);

#endif
