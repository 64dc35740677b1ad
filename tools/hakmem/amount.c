/* amount.c: formats amounts as three or four digits and a unit. */
#include "amount.h"

#include <inttypes.h>
#include <stdio.h>

const char *amount_of_bytes(char text[AMOUNT_SIZE], int64_t bytes) {
    static const char units[] = "KMGTPE";
    double value = (double)bytes;
    if (bytes > -1000 && bytes < 1000) {
        snprintf(text, AMOUNT_SIZE, "%" PRId64 " B", bytes);
        return text;
    }
    int unit = -1;
    do value /= 1024, unit++;
    while ((value >= 999.95 || value <= -999.95) && units[unit + 1]);
    snprintf(text, AMOUNT_SIZE, "%.1f %ciB", value, units[unit]);
    return text;
}

const char *amount_of_count(char text[AMOUNT_SIZE], uint64_t count) {
    static const char units[] = "kMGTPE";
    double value = (double)count;
    if (count < 10000) {
        snprintf(text, AMOUNT_SIZE, "%" PRIu64, count);
        return text;
    }
    int unit = -1;
    do value /= 1000, unit++;
    while (value >= 999.95 && units[unit + 1]);
    snprintf(text, AMOUNT_SIZE, "%.1f %c", value, units[unit]);
    return text;
}
