/* spark.c: bars of eight heights, and a blank for 0. */
#include "spark.h"

#include <string.h>

void spark_add(spark_t *spark, double value) {
    spark->values[spark->count++ % SPARK_MOST] = value > 0 ? value : 0;
}

static double value_at(const spark_t *spark, size_t back) {
    return spark->values[(spark->count - 1 - back) % SPARK_MOST];
}

const char *spark_draw(const spark_t *spark, int width, bool is_utf8, char text[SPARK_SIZE]) {
    static const char bars[][4] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char plain[][4] = {" ", "_", ".", ":", "-", "=", "+", "*", "#"};
    enum { HEIGHTS = sizeof bars / sizeof *bars - 1 };
    size_t shown = width < 0 ? 0 : (size_t)width, used = 0;
    if (shown > SPARK_MOST) shown = SPARK_MOST;
    size_t there = shown < spark->count ? shown : spark->count;
    double most = 0;
    for (size_t i = 0; i < there; i++)
        if (value_at(spark, i) > most) most = value_at(spark, i);
    for (size_t back = shown; back-- > 0;) {
        double value = back < there ? value_at(spark, back) : 0;
        int height = value > 0 ? 1 + (int)(value / most * (HEIGHTS - 1) + 0.5) : 0;
        const char *bar = is_utf8 ? bars[height] : plain[height];
        memcpy(text + used, bar, strlen(bar));
        used += strlen(bar);
    }
    text[used] = 0;
    return text;
}
