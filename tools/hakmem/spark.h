/* spark.h: the last values of a figure as a line of bars. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { SPARK_MOST = 512, SPARK_SIZE = SPARK_MOST * 3 + 1 };

typedef struct {
    double values[SPARK_MOST]; /* a ring buffer */
    size_t count;              /* values added so far */
} spark_t;

void spark_add(spark_t *spark, double value);

/* The last `width` values, the newest at the right; a full bar is the largest of them. */
const char *spark_draw(const spark_t *spark, int width, bool is_utf8, char text[SPARK_SIZE]);
