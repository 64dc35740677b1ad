/* live_page.h: the live page. A running process publishes its state there for the `hakmem` command of
 * the same build, which need not stop the process or send it a request.
 *
 * The page is a memory file "hakmem-live" that only the user may open. A reader finds it among the
 * links of /proc/PID/fd; it disappears with the process. The tables of options and statistics
 * determine its layout: `layout` is a hash of them, and a reader whose hash differs reads no
 * further.
 *
 * It is a seqlock: `sequence` is odd while the process writes. The reader copies the file and
 * compares the sequence before and after. It trusts no number in the copy, but checks each against
 * its bound. The process never reads what it has written here, so a reader that writes to the page
 * can harm other readers only. */
#pragma once

#include "options/options.h"
#include "os/range.h"
#include "region/superslab.h"
#include "stats/stats.h"

#define HAK_LIVE_NAME "hakmem-live"

enum {
    HAK_LIVE_VERSION = 1,
    HAK_LIVE_TEXT = 112, /* bytes of a text option that are shown, with the 0 at the end */
    HAK_LIVE_CACHES = 32,
    HAK_LIVE_RANGES = 1024,
    HAK_LIVE_SUPERSLABS = 512,
};

#define HAK_LIVE_MAGIC "HAKLIVE"

typedef struct {
    char magic[8];             /* constant once made, as are all fields down to `pid` */
    uint32_t version;          /* HAK_LIVE_VERSION */
    uint32_t page_size;        /* of the process's memory */
    uint64_t layout;           /* hak_live_layout() of the library that made the page */
    uint64_t size;             /* of the file */
    uint32_t pid;              /* owner of the page: the child of a fork inherits the file */
    _Atomic uint32_t sequence; /* see above */
    uint64_t refresh_count;    /* number of refreshes; a heartbeat */
    uint64_t refreshed_ms;     /* time of the last refresh, by CLOCK_MONOTONIC */
    uint32_t profile_signal;   /* hak_heap_profile_signal(), refreshed as often as `superslabs` */
    uint32_t unused;
} hak_live_head_t;

typedef struct {
    int64_t value;
    uint8_t source;           /* hak_option_source_t */
    char text[HAK_LIVE_TEXT]; /* value of a text option, cut off if it is longer */
} hak_live_option_t;

/* Bytes that slow calls of malloc requested, and bytes of the blocks that they returned, by class;
 * HAK_CLASS_LARGE is all larger sizes. A sample, since fast calls are not counted. */
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
    uint32_t cache_count;  /* entries of `caches`; if there are more caches, these are the newest */
    uint32_t range_count;  /* entries of `ranges` */
    uint32_t ranges_total; /* number of ranges, also of those for which there is no room */
    uint32_t superslab_count;  /* entries of `superslabs` */
    uint32_t superslab_stride; /* every n-th superslab is listed; 1: all are */
    uint32_t superslab_units;  /* units of 64 KiB in a superslab */
    hak_cache_stats_t caches[HAK_LIVE_CACHES];
    hak_live_range_t ranges[HAK_LIVE_RANGES];
    hak_live_superslab_t superslabs[HAK_LIVE_SUPERSLABS];
} hak_live_page_t;

/* A hash of everything that determines the meaning of the bytes of a page. */
uint64_t hak_live_layout(void);
