/* page.h: the live page: what a process shows of itself while it runs, to the `hakmem`
 * command of the same build, without being asked or stopped.
 *
 * It is a memory file "hakmem-live" that only the user may open, found among the links of
 * /proc/PID/fd; it is gone with the process. The tables of options and statistics are its
 * layout: `layout` is a hash of them, and a reader with another one reads nothing else.
 *
 * Seqlock: `sequence` is odd while the process writes. The reader copies the file and
 * looks at the word before and after; it believes no number in the copy, but checks each
 * against its bound. The process never reads what it has written here, so that a reader
 * who writes can harm no one but readers. */
#ifndef HAK_LIVE_PAGE_H
#define HAK_LIVE_PAGE_H

#include "cache/cache.h"
#include "options/options.h"
#include "region/range.h"
#include "region/superslab.h"
#include "stats/stats.h"

#define HAK_LIVE_NAME "hakmem-live"

enum {
    HAK_LIVE_VERSION = 1,
    HAK_LIVE_TEXT = 112, /* bytes of a text option that are shown, with a 0 */
    HAK_LIVE_CACHES = 32,
    HAK_LIVE_RANGES = 1024,
    HAK_LIVE_SUPERSLABS = 512,
};

#define HAK_LIVE_MAGIC "HAKLIVE"

typedef struct {
    char magic[8];             /* constant once made, as all down to `pid` */
    uint32_t version;          /* HAK_LIVE_VERSION */
    uint32_t page_size;        /* of the process's memory */
    uint64_t layout;           /* hak_live_layout() of who made it */
    uint64_t size;             /* of the file */
    uint32_t pid;              /* whose it is: a fork's child inherits the file */
    _Atomic uint32_t sequence; /* see above */
    uint64_t refresh_count;    /* a heartbeat */
    uint64_t refreshed_ms;     /* of CLOCK_MONOTONIC; the last refresh */
    uint64_t places_ms;        /* the same of `superslabs`, which takes longer */
} hak_live_head_t;

typedef struct {
    int64_t value;
    uint8_t source;           /* hak_option_source_t */
    char text[HAK_LIVE_TEXT]; /* of a text option; cut off */
} hak_live_option_t;

/* What slow calls of malloc were asked for, and the sizes of the blocks that they gave: a
 * sample, since fast ones are not seen. By class; HAK_CLASS_LARGE is all larger sizes. */
typedef struct {
    uint64_t asked_bytes, served_bytes;
} hak_live_asked_t;

typedef struct {
    uint64_t start, size;
    uint32_t kind; /* hak_range_kind_t */
    uint32_t unused;
} hak_live_range_t;

typedef struct {
    uint16_t class_index;           /* HAK_CLASS_NONE: free; HAK_CLASS_LARGE: of a large heap */
    uint16_t used[HAK_UNIT_GRAINS]; /* bytes of blocks in use, in each 4 KiB */
} hak_live_unit_t;

typedef struct {
    uint64_t start;
    hak_live_unit_t units[HAK_SUPERSLAB_UNITS_MAX]; /* as many as superslab_units says */
} hak_live_superslab_t;

typedef struct {
    hak_live_head_t head;
    hak_stats_t stats;
    hak_live_option_t options[HAK_OPTION_COUNT];
    hak_live_asked_t asked[HAK_CLASS_LIMIT];
    uint32_t cache_count; /* below; the newest, where there are more */
    uint32_t range_count;
    uint32_t ranges_total;     /* more than there is room for: the rest is not listed */
    uint32_t superslab_count;  /* below: each one, or one of so many ... */
    uint32_t superslab_stride; /* ... evenly spread, where there are more than there is room for */
    uint32_t superslab_units;  /* of 64 KiB, in a superslab */
    hak_cache_stats_t caches[HAK_LIVE_CACHES];
    hak_live_range_t ranges[HAK_LIVE_RANGES];
    hak_live_superslab_t superslabs[HAK_LIVE_SUPERSLABS];
} hak_live_page_t;

/* A hash of all that decides what the bytes of a page mean; in layout.c. */
uint64_t hak_live_layout(void);

#endif
