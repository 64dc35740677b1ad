/* format.h: the trace file, which the recorder writes and the replayer reads.
 *
 * A file begins with TRACE_MAGIC. Chunks follow, each a trace_chunk_t and `packed` bytes in zlib's
 * format. A chunk holds events of one thread in their order; it can be read without another chunk.
 * The last chunk has the thread TRACE_END, and text: one "name=value" a line.
 *
 * An event is its kind (one byte), then numbers as LEB128: the stamp less that of the event before
 * in the chunk, the address less that before (zigzag), and by kind the size and the alignment's
 * power of two. Stamps are unique in the process and count from 0. The stamp of a call that gives
 * a block is taken after the call, that of a call that takes a block before it: sorted by stamp,
 * an address is given back before it is given out again, whichever thread does so. */
#pragma once

#include <stdint.h>

#define TRACE_MAGIC "HAKTRC1\n"

enum { TRACE_MAGIC_SIZE = 8, TRACE_END = 0xffffffff };
enum { TRACE_ALIGN_MOST = 63 }; /* the power of two of an alignment */

typedef struct {
    uint32_t thread; /* counts from 0 in the order of the first calls */
    uint32_t events;
    uint32_t plain; /* bytes of the events */
    uint32_t packed;
} trace_chunk_t;

typedef enum {
    TRACE_NONE,
    TRACE_MALLOC,  /* size */
    TRACE_CALLOC,  /* size */
    TRACE_ALIGNED, /* size, alignment */
    TRACE_FREE,
    TRACE_TAKE, /* realloc begins: the old address; one of the next three ends it */
    TRACE_GIVE, /* size; it gave this address */
    TRACE_KEEP, /* it failed: the old block stays */
    TRACE_DROP, /* it freed the old block, as for size 0 */
    TRACE_KINDS
} trace_kind_t;

enum { TRACE_EVENT_MOST = 1 + 4 * 10 }; /* bytes of the longest event */

/* How the recorder is told what to do. The names do not begin with HAKMEM_: the library takes those
 * for options of its own. */
#define TRACE_FILE "TRACE_HAKMEM_FILE"         /* absolute path; other processes append ".PID" */
#define TRACE_LIMIT "TRACE_HAKMEM_LIMIT"       /* bytes a file may have */
#define TRACE_OWNER "TRACE_HAKMEM_OWNER"       /* the process whose file has the plain name */
#define TRACE_CHILDREN "TRACE_HAKMEM_CHILDREN" /* set: other processes are recorded, too */
