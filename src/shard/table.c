/* table.c: the records of the shards. */
#include "shard/table.h"

#include "classes/dyn.h"
#include "meta/meta.h"
#include "meta/room.h"
#include "pool/pool.h"
#include "shard/bin.h"
#include "shard/verify.h"
#include "shard/warm_slab.h"

enum { SHARDS_OWN = 2 }; /* shards whose memory is our own: small processes have no other */
enum { LENDS_LEAST = HAK_UNIT_SIZE }; /* bytes of used blocks of which other shards take some */
enum { BINS_TOLD = 8 };               /* bins that a shard tells the pool of at once */

/* Small processes touch only the first page. The bins have no room for the counters, so these lie in front of them and
 * are narrow: with 64 bits each they would need another page. */
typedef struct {
    hak_bin_counts_t counts[HAK_CLASS_COUNT + 1];
    _Atomic uint32_t slab_count;
    _Atomic uint64_t classes[HAK_SHARD_CLASS_WORDS];
    /* Hardly written, and read by other CPUs. */
    _Atomic uint64_t spare[HAK_SHARD_CLASS_WORDS] HAK_ALIGNED(HAK_LINE);
    _Atomic uint64_t lends[HAK_SHARD_CLASS_WORDS];
    hak_bin_t bins[HAK_CLASS_COUNT + 1];
    hak_bin_rare_t rare[HAK_CLASS_COUNT + 1];
    hak_warm_ring_t rings[HAK_CLASS_COUNT + 1];
    hak_bin_sum_t bin_sums[HAK_CLASS_COUNT + 1]; /* hak_verify runs once at a time */
    /* Not used in plain shards. */
    hak_stock_t stock HAK_ALIGNED(HAK_LINE);
    hak_room_place_t room;
    hak_bitmap_place_t bitmaps[HAK_BITMAP_SIZES][HAK_BITMAPS_KEPT];
} record_t;

_Static_assert(sizeof(record_t) <= 16 * KIB, "a shard takes no more records than that");
_Static_assert((int)HAK_SHARDS_MAX <= (int)HAK_LAZY_TABLE_MOST,
               "the table has a place for each shard");

static record_t own[SHARDS_OWN] HAK_APART;
hak_lazy_table_t hak_shard_table HAK_READ_OFTEN;

unsigned hak_shard_open(unsigned shard) {
    void *memory = shard < SHARDS_OWN ? &own[shard] : NULL;
    if (hak_lazy_table_open(&hak_shard_table, shard, memory, sizeof(record_t))) return shard;
    return hak_shard_open(0);
}

static record_t *record_of(unsigned shard) { return hak_lazy_table_at(&hak_shard_table, shard); }

/* NULL for a plain shard. */
static HAK_OUT_OF_LINE record_t *roomy_record(unsigned shard) {
    return hak_shard_is_plain(shard) ? NULL : record_of(shard);
}

hak_stock_t *hak_shard_stock(unsigned shard) {
    record_t *record = roomy_record(shard);
    return record ? &record->stock : NULL;
}

static HAK_BEHIND void *cut(record_t *record, size_t size) {
    return hak_room_cut(&record->room, hak_max(hak_ceil_pow2(size), 16));
}

void *hak_shard_cut(unsigned shard, size_t size) {
    record_t *record = roomy_record(shard);
    return HAK_LIKELY(!record) ? NULL : cut(record, size);
}

void *hak_shard_record(unsigned shard, size_t size) {
    void *record = hak_shard_cut(shard, size);
    return record ? record : hak_meta_alloc(size);
}

hak_bitmap_place_t *hak_shard_bitmap_places(unsigned shard) {
    record_t *record = roomy_record(shard);
    return record ? record->bitmaps[0] : NULL;
}

hak_bin_t *hak_bin_of(unsigned shard, unsigned class_index) {
    return &record_of(shard)->bins[class_index];
}

const hak_bin_t *hak_shard_bins(unsigned shard) { return record_of(shard)->bins; }

hak_bin_counts_t *hak_bin_counts(unsigned shard, unsigned class_index) {
    return &record_of(shard)->counts[class_index];
}

uint32_t hak_bin_slab_count(unsigned shard) {
    return hak_load_relaxed(&record_of(shard)->slab_count);
}

uint64_t hak_shard_classes(unsigned shard, unsigned word) {
    return hak_load_relaxed(&record_of(shard)->classes[word]);
}

/* The pool's figure lies in a line that all shards write: each word of classes tells of BINS_TOLD bins at a time. */
void hak_bin_add_class(unsigned shard, unsigned class_index) {
    const uint64_t before = hak_or_relaxed(&record_of(shard)->classes[class_index / 64],
                                           (uint64_t)1 << class_index % 64);
    if (shard && hak_bit_count(before) % BINS_TOLD == BINS_TOLD - 1)
        hak_add_relaxed(&hak_pool_stats.other_bins, BINS_TOLD);
}

size_t hak_shard_bins_told(unsigned shard) {
    size_t bins = 0;
    for (unsigned w = 0; shard && w < HAK_SHARD_CLASS_WORDS; w++)
        bins += hak_bit_count(hak_shard_classes(shard, w)) / BINS_TOLD * (size_t)BINS_TOLD;
    return bins;
}

HAK_NEXT uint64_t hak_shard_spare(unsigned shard, unsigned word) {
    return hak_load_relaxed(&record_of(shard)->spare[word]);
}

static HAK_NEXT void note(_Atomic uint64_t *words, unsigned class_index, bool has) {
    _Atomic uint64_t *word = &words[class_index / 64];
    const uint64_t bit = (uint64_t)1 << class_index % 64;
    if (((hak_load_relaxed(word) & bit) != 0) == has) return;
    if (has)
        hak_or_relaxed(word, bit);
    else
        hak_and_relaxed(word, ~bit);
}

HAK_NEXT void hak_bin_note_spare(unsigned shard, unsigned class_index, bool has) {
    note(record_of(shard)->spare, class_index, has);
}

static size_t used_bytes(const hak_bin_t *bin, unsigned class_index) {
    return hak_load_relaxed(&bin->spare) * hak_classes[class_index].size;
}

HAK_BEHIND bool hak_bin_lends(unsigned shard, unsigned class_index) {
    record_t *record = record_of(shard);
    const uint64_t word = hak_load_relaxed(&record->lends[class_index / 64]);
    if (!(word >> class_index % 64 & 1)) return false;
    if (used_bytes(&record->bins[class_index], class_index) >= LENDS_LEAST) return true;
    note(record->lends, class_index, false);
    return false;
}

HAK_NEXT size_t hak_bin_spare_bytes(const hak_bin_t *bin, unsigned class_index) {
    size_t spare = hak_load_relaxed(&bin->spare), touched = hak_load_relaxed(&bin->touched);
    if (spare <= touched / 2 || spare > touched) return 0;
    size_t bytes = spare * hak_dyn_size_of(class_index);
    return bytes >= HAK_SPARE_LEAST ? bytes : 0;
}

HAK_NEXT size_t hak_shard_spare_bytes(unsigned shard) {
    size_t bytes = 0;
    if (!hak_shard_is_made(shard)) return 0;
    for (unsigned w = 0; w < HAK_SHARD_CLASS_WORDS; w++)
        for (uint64_t has = hak_shard_classes(shard, w); has; has &= has - 1) {
            const unsigned class_index = w * 64 + hak_lowest_bit(has);
            const size_t spare = hak_load_relaxed(&hak_bin_of(shard, class_index)->spare);
            bytes += spare * hak_dyn_size_of(class_index);
        }
    return bytes;
}

static HAK_NEXT void look_at_spare(const hak_bin_t *bin, unsigned shard, unsigned class_index) {
    if (!hak_shard_is_plain(shard)) note(record_of(shard)->lends, class_index, true);
    if (hak_bin_spare_bytes(bin, class_index)) hak_bin_note_spare(shard, class_index, true);
}

/* So much memory is seldom free: small processes need neither a closer look nor the code for it. */
void hak_bin_look_at_spare(const hak_bin_t *bin, unsigned shard, unsigned class_index) {
    const size_t bytes = used_bytes(bin, class_index);
    if (HAK_LIKELY(bytes < LENDS_LEAST)) return;
    if (bytes >= HAK_SPARE_LEAST || !hak_shard_is_plain(shard))
        look_at_spare(bin, shard, class_index);
}

void hak_bin_add_slabs(unsigned shard, uint32_t more) {
    hak_add_relaxed(&record_of(shard)->slab_count, more);
}

hak_bin_rare_t *hak_bin_rare(unsigned shard, unsigned class_index) {
    return &record_of(shard)->rare[class_index];
}

hak_warm_ring_t *hak_warm_ring_of(unsigned shard, unsigned class_index) {
    return &record_of(shard)->rings[class_index];
}

hak_bin_sum_t *hak_bin_sum_of(unsigned shard, unsigned class_index) {
    return &record_of(shard)->bin_sums[class_index];
}

#if HAKMEM_VERIFY
static bool is_bin_lock(const void *lock) {
    return hak_lazy_table_has(&hak_shard_table, lock, offsetof(record_t, bins), HAK_CLASS_COUNT + 1,
                              sizeof(hak_bin_t));
}
#endif
HAK_LOCK_RANKS_MADE(bin_ranks, BIN, is_bin_lock, hak_bin_check_at_release);
