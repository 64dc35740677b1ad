/* records.c - figures of debug records, in each of their modes. */
#include "trials.h"

enum { MID_SIZE = 10000, LARGE_SIZE = 100000, RECORDS = 50 };

static void hold_recorded(void) {
    allocate_some(RECORDS, MID_SIZE);
    for (int i = 0; i < RECORDS; i++) kept = API(malloc)(LARGE_SIZE);
    free_some(RECORDS / 2);
}

/* A double free, and a free with a wrong size. */
static void free_wrongly(void) {
    CHECK(hakmem_option_set("ON_ERROR", "report") == 0, "there is no ON_ERROR");
    allocate_some(2, MID_SIZE);
    free_some(2);
    free_some(1);
    blocks[0] = API(malloc)(LARGE_SIZE);
    API(free_sized)(blocks[0], LARGE_SIZE - 1);
}

enum { HELD = RECORDS / 2 * 3 };

const struct set_trial record_trials[] = {
    {{"debug", "records", hold_recorded, HELD, HELD}, "HAKMEM_HDR_LIGHT=0"},
    {{"debug", "records", hold_recorded, HELD, HELD}, "HAKMEM_HDR_LIGHT=1"},
    {{"debug", "records", hold_recorded, 0, 0}, "HAKMEM_HDR_LIGHT=2"},
    {{"debug", "record_bytes", hold_recorded, 2 * 8192, 10 * 8192}, "HAKMEM_HDR_LIGHT=0"},
    {{"debug", "record_bytes", hold_recorded, 2 * 4096, 10 * 4096}, "HAKMEM_HDR_LIGHT=1"},
    {{"debug", "record_errors", free_wrongly, 2, 2}, "HAKMEM_HDR_LIGHT=1"},
    {{"debug", "record_errors", free_wrongly, 0, 0}, "HAKMEM_HDR_LIGHT=2"},
};
const size_t record_trial_count = COUNT_OF(record_trials);
