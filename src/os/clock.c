/* clock.c: the clocks.
 *
 * The engine's clock does not go back, although the system's clock may: in the child of a fork that is in another time
 * namespace, or in a process that is restored on another machine. Otherwise the next purge would wait until the
 * difference has passed, and ages would be negative. A jump ahead is harmless: it looks like a long rest. Time is
 * followed in units of 1,024 ms; if the system's clock goes back within one unit, the engine's clock does, too.
 *
 *   C1  one word has the newest unit that any thread has read, and the number of units that the system's clock has
 *       lost. A thread loads it first (acquire), then reads the clock. The time that it reads is not older than the
 *       unit, unless the clock has gone back
 *   C2  if the time is in a later unit, a compare-and-swap notes that unit (release, pairs with C1). If it is in an
 *       earlier unit, a compare-and-swap adds the difference to the lost units, and one unit more, since the clock may
 *       have gone back to an earlier part of a unit. A thread whose compare-and-swap fails begins again
 *
 * A unit is so long that the cache line of the word is written only once a second.
 *
 * Rejected: to load the word after the clock was read. A thread that is stopped between the two finds a newer unit and
 * takes this for a jump back; the time of all threads would run ahead. */
#include <time.h>

#include "os/os.h"

enum { UNIT_SHIFT = 10, LOST_SHIFT = 32 };

static _Atomic uint64_t clock_word HAK_READ_OFTEN; /* C1: the newest unit; above it those lost */

static uint64_t read_clock(clockid_t clock) {
    HAK_KEEP_ERRNO();
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

#if HAKMEM_DEBUG
uint64_t hak_os_now_ns(void) {
    HAK_KEEP_ERRNO();
    struct timespec now = {0, 1};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#endif

HAK_FAST_PATH uint64_t read_with(uint64_t word) {
    return read_clock(CLOCK_MONOTONIC_COARSE) + (word >> LOST_SHIFT << UNIT_SHIFT);
}

/* C2. */
static HAK_OUT_OF_LINE uint64_t note_unit(uint64_t word) {
    for (;;) {
        const uint64_t now = read_with(word);
        const uint32_t unit = (uint32_t)(now >> UNIT_SHIFT), newest = (uint32_t)word;
        if (unit == newest) return now;
        if (unit < newest)
            (void)hak_cas_acq_rel(&clock_word, &word,
                                  word + ((uint64_t)(newest - unit + 1) << LOST_SHIFT));
        else if (hak_cas_acq_rel(&clock_word, &word, word - newest + unit))
            return now;
        word = hak_load_acquire(&clock_word);
    }
}

uint64_t hak_os_now_ms(void) {
    const uint64_t word = hak_load_acquire(&clock_word);
    const uint64_t now = read_with(word);
    return HAK_LIKELY((uint32_t)(now >> UNIT_SHIFT) == (uint32_t)word) ? now : note_unit(word);
}

uint64_t hak_os_cpu_ms(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }
