/* heap_profile.c: writes sites as a heap profile, and as a report of leaks.
 *
 * The format is the text format of gperftools, which pprof reads. It lists for each site what is in
 * use and, in brackets, all that was allocated, then the stack, and at the end the mappings of the
 * process. The sums are estimates already, so the head says "heapprofile", and pprof does not scale
 * them. Lines that begin with # are comments for pprof, and give the `hakmem` command the rest. */
#include "stats/heap_profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cache/sampler.h"
#include "options/options.h"
#include "os/open_files.h"
#include "os/module.h"
#include "os/os.h"
#include "profile/peak.h"
#include "profile/samples.h"
#include "profile/site.h"
#include "stats/exit.h"
#include "stats/out.h"

enum {
    PATH_SIZE = 4096,
    LEAKS_SHOWN = 20,
    FRAMES_SHOWN = 16,
    MODULE_SIZE = 64,
    END_MS = 5000, /* how long the end of the process waits for a thread that writes a profile */
    MORE_MOST = 4, /* profiles that a call writes after its own, because they fell due meanwhile */
};

/* The process (upper half) and the thread that writes a profile, or 0. With IS_MORE, another
 * profile fell due meanwhile, and the thread writes it next. After MORE_MOST of them it leaves the
 * note to the next writer. In the child of a fork the process is another one, so the note does not
 * count there: the writing thread stayed behind. */
static _Atomic uint64_t writer;
static const uint64_t IS_MORE = 1u << 31; /* above the numbers of threads */
static _Atomic uint32_t dump_count;
static uint64_t started_ms; /* constant once profiling */
/* Of the writer. Not on the stack, since that may be small. */
static char path[PATH_SIZE] HAK_APART;
static char chunk[HAK_OUT_CHUNK] HAK_APART;

/* ---- sums of a site ---- */

typedef struct {
    uint64_t in_use, in_use_bytes, all, all_bytes; /* objects, requested bytes */
} sums_t;

static uint64_t whole(uint64_t weights) {
    return (weights + (1u << HAK_SITE_WEIGHT_BITS >> 1)) >> HAK_SITE_WEIGHT_BITS;
}

static uint64_t weighted(const hak_site_t *site, hak_site_sum_t sum) {
    return whole(hak_load_relaxed(&site->sums[sum]));
}

/* Reads the frees first: other threads keep working, and each freed block was allocated before. */
static sums_t sums_of(const hak_site_t *site) {
    uint64_t freed = weighted(site, HAK_SITE_FREED_OBJECTS);
    uint64_t freed_bytes = hak_load_relaxed(&site->sums[HAK_SITE_FREED_BYTES]);
    sums_t sums = {.all = weighted(site, HAK_SITE_ALLOC_OBJECTS),
                   .all_bytes = hak_load_relaxed(&site->sums[HAK_SITE_ALLOC_BYTES])};
    sums.in_use = sums.all - hak_min(freed, sums.all);
    sums.in_use_bytes = sums.all_bytes - hak_min(freed_bytes, sums.all_bytes);
    return sums;
}

static bool add_up(const hak_site_t *site, void *context) {
    sums_t *total = context, sums = sums_of(site);
    total->in_use += sums.in_use;
    total->in_use_bytes += sums.in_use_bytes;
    total->all += sums.all;
    total->all_bytes += sums.all_bytes;
    return true;
}

/* ---- the profile ---- */

/* Writes `first`, unless it is 0, and then the number. */
static void write_hex(hak_out_t *out, char first, uintptr_t number) {
    char text[sizeof " 0x" - 1 + 2 * sizeof number], *at = text + sizeof text;
    do *--at = "0123456789abcdef"[number % 16];
    while ((number /= 16) != 0);
    *--at = 'x';
    *--at = '0';
    if (first) *--at = first;
    hak_out_bytes(out, at, (size_t)(text + sizeof text - at));
}

static void write_sums(hak_out_t *out, const sums_t *sums) {
    hak_out_print(out, "%lu: %lu [%lu: %lu] @", sums->in_use, sums->in_use_bytes, sums->all,
                  sums->all_bytes);
}

static bool write_site(const hak_site_t *site, void *context) {
    hak_out_t *out = context;
    sums_t sums = sums_of(site);
    hak_peak_t peak = hak_peak_of(site);
    write_sums(out, &sums);
    for (unsigned i = 0; i < site->depth; i++) write_hex(out, ' ', site->frames[i]);
    hak_out_print(out, "\n# size %lu remote %lu lifetime_ms %lu peak %lu peak_bytes %lu\n",
                  (unsigned long)site->size, weighted(site, HAK_SITE_REMOTE),
                  hak_load_relaxed(&site->sums[HAK_SITE_LIFETIME_MS]), whole(peak.objects),
                  peak.bytes);
    return out->error == 0;
}

static bool copy(const char *piece, size_t size, void *context) {
    hak_out_bytes(context, piece, size);
    return true;
}

static int write_profile(int file) {
    HAK_KEEP_ERRNO();
    sums_t total = {0, 0, 0, 0};
    hak_site_each(add_up, &total);
    hak_out_t out = hak_out_to_file(file, chunk);
    hak_out_text(&out, "heap profile: ");
    write_sums(&out, &total);
    hak_out_print(&out,
                  " heapprofile\n# hakmem rate %lu process %lu samples %lu live %lu dropped %lu ms "
                  "%lu peak_ms %lu\n",
                  hak_sampler_rate(), (unsigned long)hak_os_process_id(),
                  hak_load_relaxed(&hak_sample_stats.taken),
                  hak_load_relaxed(&hak_sample_stats.live),
                  hak_load_relaxed(&hak_sample_stats.dropped), hak_os_now_ms() - started_ms,
                  hak_peak_ms() - hak_min(started_ms, hak_peak_ms()));
    hak_site_each(write_site, &out);
    hak_out_text(&out, "\nMAPPED_LIBRARIES:\n");
    hak_os_each_own_piece("maps", copy, &out);
    hak_out_end(&out);
    return out.error;
}

/* Stores the name that PROF_FILE says, with a number appended unless that is 0. */
static void name_file(unsigned number) {
    const char *name = hak_option_text(HAK_OPTION_PROF_FILE);
    size_t used = hak_os_expand(*name ? name : "hakmem.%p.heap", path, sizeof path);
    if (number) snprintf(path + used, sizeof path - used, ".%u", number);
}

static int write_file(void) {
    int error = 0, file = hak_os_create(path, &error);
    if (file < 0) return error;
    error = write_profile(file);
    hak_os_close(file);
    return error;
}

static uint64_t own_number(void) {
    return (uint64_t)hak_os_process_id() << 32 | hak_os_thread_id();
}

static bool is_thread(uint64_t word) { return (uint32_t)(word & ~IS_MORE) != 0; }

/* Begins to write; false while another thread writes, which then gets the note. */
static bool begin(uint64_t note) {
    if (!hak_samples_on()) return false;
    uint64_t own = own_number(), before = hak_load_relaxed(&writer), next;
    bool is_busy;
    do {
        uint64_t left = before >> 32 == own >> 32 ? before : 0;
        is_busy = is_thread(left);
        next = is_busy ? left | note : own | (left & IS_MORE & ~note);
    } while (next != before && !hak_cas_acq_rel(&writer, &before, next)); /* partner: end */
    return !is_busy;
}

/* The same at the end of the process: waits for another thread that writes. If a handler that
 * interrupted the writer calls exit(), the writer never continues, so this thread may begin at
 * once. */
static bool begin_last(void) {
    bool begun = hak_samples_on() && (hak_load_relaxed(&writer) & ~IS_MORE) == own_number();
    for (unsigned i = 0; !begun && hak_samples_on() && i < END_MS; i++)
        if (!(begun = begin(0))) hak_os_sleep_ms(1);
    return begun;
}

/* Ends writing, unless another profile is to be written first: true then. */
static bool end(bool writes_more) {
    uint64_t now = hak_load_relaxed(&writer), next;
    do {
        next = 0;
        if (now & IS_MORE) next = writes_more ? now & ~IS_MORE : now >> 32 << 32 | IS_MORE;
    } while (!hak_cas_acq_rel(&writer, &now, next));
    return is_thread(next);
}

static int write_numbered(void) {
    name_file(hak_add_relaxed(&dump_count, 1) + 1);
    return write_file();
}

/* No caller gets the error of a profile that fell due, so one line goes to stderr; no second line until a profile has
 * been written again. */
static HAK_SLOW_PATH void write_due(void) {
    static bool is_told; /* of the writer */
    int error = write_numbered();
    if (error && !is_told) hak_stats_complain("the heap profile", path, error, chunk);
    is_told = error != 0;
}

static void end_with_more(void) {
    for (unsigned i = 0; end(i < MORE_MOST); i++) write_due();
}

int hak_heap_profile_dump(const char *name) {
    if (!hak_samples_on()) return ENOTSUP;
    if (name && strlen(name) >= PATH_SIZE) return ENAMETOOLONG;
    if (!begin(0)) return EBUSY;
    if (name) snprintf(path, sizeof path, "%s", name);
    int error = name ? write_file() : write_numbered();
    end_with_more();
    return error;
}

void hak_heap_profile_due(void) {
    if (!begin(IS_MORE)) return;
    write_due();
    end_with_more();
}

/* ---- leaks ---- */

/* Of a site: what the program has lost, and what it can still reach. If the two are not told apart,
 * `reached` is 0. */
typedef struct {
    const hak_site_t *site;
    uint64_t lost, lost_bytes, reached, reached_bytes;
} leak_t;

typedef struct {
    leak_t shown[LEAKS_SHOWN]; /* with the most bytes first, lost ones before all others */
    leak_t total;
    unsigned count, all;
} leaks_t;

static leak_t leak_of(const hak_site_t *site) {
    sums_t sums = sums_of(site);
    leak_t leak = {.site = site,
                   .reached = hak_min(weighted(site, HAK_SITE_REACHED), sums.in_use),
                   .reached_bytes = hak_min(hak_load_relaxed(&site->sums[HAK_SITE_REACHED_BYTES]),
                                            sums.in_use_bytes)};
    leak.lost = sums.in_use - leak.reached;
    leak.lost_bytes = sums.in_use_bytes - leak.reached_bytes;
    return leak;
}

static bool is_worse(const leak_t *a, const leak_t *b) {
    return a->lost_bytes != b->lost_bytes ? a->lost_bytes > b->lost_bytes
                                          : a->reached_bytes > b->reached_bytes;
}

static void add_leak(leak_t *total, const leak_t *leak) {
    total->lost += leak->lost;
    total->lost_bytes += leak->lost_bytes;
    total->reached += leak->reached;
    total->reached_bytes += leak->reached_bytes;
}

static bool note_leak(const hak_site_t *site, void *context) {
    leaks_t *leaks = context;
    const leak_t leak = leak_of(site);
    if (leak.lost + leak.reached == 0) return true;
    leaks->all++;
    add_leak(&leaks->total, &leak);
    unsigned at = leaks->count;
    for (; at > 0 && is_worse(&leak, &leaks->shown[at - 1]); at--)
        if (at < LEAKS_SHOWN) leaks->shown[at] = leaks->shown[at - 1];
    if (at == LEAKS_SHOWN) return true;
    leaks->shown[at] = leak;
    if (leaks->count < LEAKS_SHOWN) leaks->count++;
    return true;
}

static void write_frame(hak_out_t *out, uintptr_t frame) {
    char module[MODULE_SIZE];
    uintptr_t offset;
    bool known = hak_os_module_of((const void *)(frame - 1), module, sizeof module, &offset);
    hak_out_print(out, "    %s%s", known ? module : "", known ? "+" : "");
    write_hex(out, 0, known ? offset : frame - 1);
    hak_out_text(out, "\n");
}

static void write_amount(hak_out_t *out, const char *before, uint64_t bytes, uint64_t blocks) {
    hak_out_print(out, "%s%lu bytes in %lu block%s", before, (unsigned long)bytes,
                  (unsigned long)blocks, blocks == 1 ? "" : "s");
}

static void write_leak(hak_out_t *out, const leak_t *leak) {
    if (leak->lost) write_amount(out, "hakmem: leak: ", leak->lost_bytes, leak->lost);
    if (leak->reached)
        write_amount(out, leak->lost ? ", reachable: " : "hakmem: reachable: ", leak->reached_bytes,
                     leak->reached);
    hak_out_text(out, ", allocated at\n");
    for (unsigned i = 0; i < hak_min(leak->site->depth, FRAMES_SHOWN); i++)
        write_frame(out, leak->site->frames[i]);
}

static uint64_t bytes_of(const leak_t *leak) { return leak->lost_bytes + leak->reached_bytes; }
static uint64_t blocks_of(const leak_t *leak) { return leak->lost + leak->reached; }

/* Writes what the sums contain but no stack shows, and what the sums do not contain. */
static void write_unshown(hak_out_t *out, const leak_t *rest, bool told) {
    uint64_t unknown = hak_load_relaxed(&hak_sample_stats.unknown);
    if (blocks_of(rest)) {
        write_amount(out, "hakmem: of further call stacks, which are not kept: ", bytes_of(rest),
                     blocks_of(rest));
        if (told) write_amount(out, ", lost: ", rest->lost_bytes, rest->lost);
        hak_out_text(out, "\n");
    }
    if (unknown)
        hak_out_print(out,
                      "hakmem: not in this report, for lack of memory: %lu block%s, "
                      "with those that were freed\n",
                      (unsigned long)unknown, unknown == 1 ? "" : "s");
}

static void write_leaks(hak_out_t *out, const hak_heap_profile_reach_t *reach) {
    static leaks_t leaks HAK_APART;
    const leak_t rest = leak_of(&hak_site_rest);
    leaks = (leaks_t){.count = 0};
    hak_site_each(note_leak, &leaks);
    add_leak(&leaks.total, &rest);
    const leak_t *total = &leaks.total;
    const char *estimated = hak_sampler_rate() == 1 ? "" : ", estimated";
    write_amount(out, "hakmem: not freed at the end: ", bytes_of(total), blocks_of(total));
    hak_out_print(out, " of %s%lu call stack%s%s; ", blocks_of(&rest) ? "more than " : "",
                  (unsigned long)leaks.all, leaks.all == 1 ? "" : "s", estimated);
    if (reach->untold) {
        hak_out_print(out, "what the program can still reach is among them: %s\n", reach->untold);
    } else {
        write_amount(out, "lost: ", total->lost_bytes, total->lost);
        hak_out_text(out, "\n");
    }
    write_unshown(out, &rest, !reach->untold);
    if (reach->unread)
        hak_out_print(out, "hakmem: not searched for pointers: %lu bytes of shared memory\n",
                      (unsigned long)reach->unread);
    for (unsigned i = 0; i < leaks.count; i++) write_leak(out, &leaks.shown[i]);
    if (leaks.all > leaks.count)
        hak_out_print(out, "hakmem: stacks that are not shown: %lu\n",
                      (unsigned long)(leaks.all - leaks.count));
    if (leaks.count)
        hak_out_text(out, "hakmem: the line of module+offset: addr2line -fpie MODULE OFFSET\n");
}

void hak_heap_profile_report(const hak_heap_profile_reach_t *reach) {
    int file = hak_stats_stderr();
    if (!begin_last()) {
        static const char line[] = "hakmem: no heap profile: another thread is writing one\n";
        int error;
        if (hak_samples_on() && file >= 0) hak_os_write(file, line, sizeof line - 1, &error);
        return;
    }
    if (hak_option(HAK_OPTION_PROF) && hak_load_relaxed(&hak_sample_stats.taken)) {
        name_file(0);
        int error = write_file();
        if (error) hak_stats_complain("the heap profile", path, error, chunk);
    }
    if (reach && file >= 0) {
        hak_out_t out = hak_out_to_file(file, chunk);
        write_leaks(&out, reach);
        hak_out_end(&out);
    }
    hak_store_release(&writer, 0); /* nothing is due any more */
}

static void on_signal(int number) {
    (void)number;
    hak_heap_profile_due();
}

/* The user asked for profiles at a signal that HAKMEM cannot handle. */
static HAK_SLOW_PATH void complain_of_signal(int number, bool is_ignored) {
    int file = hak_stats_stderr();
    if (file < 0) return;
    hak_out_t out = hak_out_to_file(file, chunk);
    hak_out_print(
        &out, "hakmem: HAKMEM_PROF_SIGNAL=%lu: no profile is written at this signal, which %s\n",
        (unsigned long)number,
        is_ignored ? "was ignored when the program started" : "cannot have a handler");
    hak_out_end(&out);
}

/* Installs the handler. If the program has a handler of its own, it takes precedence, and nothing is printed. */
static void take_signal(int number) {
    switch (hak_os_on_signal(number, on_signal)) {
    case HAK_OS_SIGNAL_IGNORED:
        complain_of_signal(number, true);
        break;
    case HAK_OS_SIGNAL_REFUSED:
        complain_of_signal(number, false);
        break;
    case HAK_OS_SIGNAL_TAKEN:
    case HAK_OS_SIGNAL_OTHERS:
        break;
    }
}

void hak_heap_profile_start(void) {
    int number = (int)hak_option(HAK_OPTION_PROF_SIGNAL);
    started_ms = hak_os_now_ms();
    hak_stats_prepare();
    if (number && hak_option(HAK_OPTION_PROF)) take_signal(number);
}

unsigned hak_heap_profile_signal(void) {
    int number = (int)hak_option(HAK_OPTION_PROF_SIGNAL);
    bool is_on = hak_samples_on() && hak_option(HAK_OPTION_PROF) && number;
    return is_on && hak_os_handles(number, on_signal) ? (unsigned)number : 0;
}

HAK_BEHIND void hak_heap_profile_leave_signal(void) {
    const unsigned number = hak_heap_profile_signal();
    if (number) hak_os_leave_signal((int)number);
}
