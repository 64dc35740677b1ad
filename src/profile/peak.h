/* peak.h: what each site had in use when the process had most in use.
 *
 * A new peak walks over no sites and stops no threads: peaks are numbered. A site that changes after a peak first keeps
 * its present values, which are its values at the peak, and notes the peak's number. So if a site has noted the number
 * of the present peak, its values at the peak are the kept ones; otherwise they are its present ones.
 *
 * PROTOCOL. One word has the number of the present peak and the gap: the sampled bytes by which the process is below
 * its peak. A block that fits into the gap makes the gap smaller. A larger block begins a new peak, with a gap of 0, in
 * the same step. So all threads agree which peak is the highest. A change of a site's sums, and keeping the values
 * before it, is one step under the lock of the site; the word changes after that. If a peak begins while a call in
 * another thread is between the two, the call's block may or may not be part of the peak; all other blocks are exact. A
 * reader may be a signal handler, so it takes no lock:
 *   writer, under the lock: 1. the kept values; 2. the noted number (release); 3. the sums (release)
 *   reader: the noted number (acquire); if it is not the present one, the sums (acquire), then the noted number again:
 *   if that is the present one now, the kept values count
 *
 * The word has 20 bits of the number. A second word counts half turns of these bits, so that no number is used twice: a
 * thread that has begun a peak raises the second word, if that is behind, before it can begin another peak. So the
 * second word is behind by at most one, as long as fewer than 2^19 threads are between the two steps. A gap of more
 * than 16 TiB counts as 16 TiB. */
#pragma once

#include "profile/site.h"

typedef struct {
    uint64_t objects, bytes; /* a sum of weights, and the requested bytes */
} hak_peak_t;

/* Counts a sampled block for its site and for the peak. True: a profile is due, as PROF_GROWTH or PROF_INTERVAL say;
 * only one of all threads gets this result. */
bool hak_peak_enter(hak_site_t *site, hak_peak_t block, uint64_t now_ms);
void hak_peak_leave(hak_site_t *site, hak_peak_t block);

/* The peak so far, when it was, and what a site had then. */
uint64_t hak_peak_bytes(void);
uint64_t hak_peak_ms(void);
hak_peak_t hak_peak_of(const hak_site_t *site);
