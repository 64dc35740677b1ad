/* peak.h: what each site had in use when the process had most in use.
 *
 * A new peak walks over nothing and stops nobody: it is a number that counts up. A site that changes after a peak
 * first keeps what it has, which is what it had at the peak, and notes the number. So what a site had at the
 * peak is what it kept, if it notes the present number, and what it has otherwise.
 *
 * PROTOCOL. One word has the number and the gap, the sampled bytes by which the process is below its peak. A
 * block that fits into the gap makes it smaller; another one begins a new peak, with the gap 0, in the
 * same step. So no two threads disagree which peak is the highest. Each change of a site's sums of what is
 * in use, and what it keeps before, is one step under the lock of the site; the word changes after that.
 * A call in another thread that is between the two when a peak begins may be missing from it or be in it; no other
 * can. A reader may be a signal handler, so it takes no lock:
 *   writer, under the lock: 1. the kept values; 2. the noted number (release); 3. the sums (release)
 *   reader: the noted number (acquire); if it is another one, the sums (acquire) and the noted number again:
 *   if that has changed, what is kept counts
 *
 * The word has 20 bits of the number. A second word counts how often they have gone half round, so that no number
 * comes again: who begins a peak raises it where it is behind, before it begins another one. So it is
 * behind by one at most, as long as fewer than 2^19 threads are between the two. A gap of more than 16 TiB
 * counts as 16 TiB. */
#pragma once

#include "profile/site.h"

typedef struct {
    uint64_t objects, bytes; /* a sum of weights, and the requested bytes */
} hak_peak_t;

/* Counts a sampled block for its site and for the peak. True: a profile is to be written, as PROF_GROWTH or
 * PROF_INTERVAL say; of all threads one is told so. */
bool hak_peak_enter(hak_site_t *site, hak_peak_t block, uint64_t now_ms);
void hak_peak_leave(hak_site_t *site, hak_peak_t block);

/* The peak so far, when it was, and what a site had then. */
uint64_t hak_peak_bytes(void);
uint64_t hak_peak_ms(void);
hak_peak_t hak_peak_of(const hak_site_t *site);
