/* fine_grain_check.c: the invariants of fine_grain.h, executed. */
#include "base/bits.h"
#include "large/chunk.h"
#include "large/user_heap_huge.h"

typedef struct {
    size_t blocks, bytes, committed, chunks;
} sums_t;

static HAK_SLOW_PATH void check_record(hak_check_t *check, const hak_user_heap_t *heap,
                                       const hak_fine_t *fine, sums_t *sums) {
    size_t used = 0, blocks = 0, longest = 0, stray = 0, end = fine->grains, stop;
    for (size_t i = 0; i < hak_bits_words(end); i++) {
        used += fine->in_use[i] ? hak_bit_count(fine->in_use[i]) : 0;
        blocks += fine->begins[i] ? hak_bit_count(fine->begins[i]) : 0;
        stray += (fine->begins[i] & ~fine->in_use[i]) != 0;
    }
    for (size_t from = hak_bits_next(fine->in_use, 0, end, false); from < end;
         from = hak_bits_next(fine->in_use, stop, end, false)) {
        stop = hak_bits_next(fine->in_use, from, end, true);
        longest = hak_max(longest, stop - from);
    }
    hak_check_equal(check, "chunk", fine, "used = grains in use", fine->used, used);
    hak_check_that(check, "chunk", fine, "blocks begin in grains in use", stray == 0);
    hak_check_that(check, "chunk", fine, "it has a block", blocks > 0);
    hak_check_that(check, "chunk", fine, "longest >= longest free stretch",
                   fine->longest >= longest);
    hak_check_that(check, "chunk", fine, "its list is that of longest",
                   fine->list == hak_chunk_list_of(fine->longest));
    for (unsigned i = 0; i < fine->unit_count; i++) {
        hak_unit_t *unit = &fine->units[i];
        hak_check_that(check, "chunk", fine, "its units lead to it",
                       hak_slab_unmarked(hak_slab_bits(unit)) ==
                           (const uint64_t *)(const void *)fine);
        hak_check_equal(check, "chunk", fine, "its units have its heap's number",
                        hak_load_relaxed(&unit->large), hak_chunk_word(heap));
    }
    sums->blocks += blocks;
    sums->bytes += used << fine->shift;
    sums->committed += hak_chunk_bytes(fine);
    sums->chunks++;
}

static HAK_SLOW_PATH void check_heap(hak_check_t *check, const hak_user_heap_t *heap) {
    sums_t sums = {.committed = hak_user_heap_huge_check(check, heap)};
    for (unsigned list = 0; list < HAK_USER_HEAP_LISTS; list++)
        for (const hak_fine_t *fine = heap->lists[list]; fine; fine = fine->next)
            check_record(check, heap, fine, &sums);
    const hak_ring_t *at = heap->chunks;
    for (size_t i = 0; i < sums.chunks; i++) at = at ? at->next : NULL;
    hak_check_that(check, "heap", heap, "the ring has each chunk", at == heap->chunks);
    for (const hak_flight_t *flight = hak_user_heap_flights(heap); flight; flight = flight->next)
        hak_check_that(check, "heap", heap, "the list of blocks in flight leads back",
                       *flight->at == flight && flight->heap == heap);
    hak_check_equal(check, "heap", heap, "blocks, counted", hak_load_relaxed(&heap->blocks),
                    sums.blocks);
    hak_check_equal(check, "heap", heap, "bytes, counted", hak_load_relaxed(&heap->bytes),
                    sums.bytes);
    hak_check_equal(check, "heap", heap, "committed = chunks and huge blocks",
                    hak_load_relaxed(&heap->committed), sums.committed);
}

HAK_SLOW_PATH void hak_fine_check(hak_check_t *check) {
    for (size_t i = 0; i < hak_user_heap_slots(); i++) check_heap(check, hak_user_heap_at(i));
}
