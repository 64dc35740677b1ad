/* prometheus.h: figures of processes in the text format of Prometheus, version 0.0.4. */
#pragma once

#include <stdio.h>

#include "json.h"

typedef struct {
    const json_t *root; /* NULL: the process could not be read */
    char labels[128];   /* of each of its metrics, as "pid=\"1\",name=\"x\","; "" for none */
} metrics_of_t;

/* The block size of a class; "dyn1" for the dynamic class, whose size may be that of a fixed
 * one. */
enum { SIZE_LABEL = 32 };
const char *size_label(const json_t *class_row, char label[SIZE_LABEL]);

/* Writes the metrics of `count` processes: each metric once, with a line for each process. */
void prometheus_write(FILE *to, const metrics_of_t *processes, size_t count);

/* Writes hakmem_up: 1 for each process that was read, 0 for the others. */
void prometheus_write_up(FILE *to, const metrics_of_t *processes, size_t count);
