/* top.c: `hakmem top`: a running process, by tier and size class, as often as its page changes. */
#include "command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amount.h"
#include "live.h"
#include "proc.h"
#include "spark.h"
#include "terminal.h"

enum {
    INTERVAL_MS = 1000,
    INTERVAL_LEAST_MS = 100,
    INTERVAL_MOST_MS = 3600000,
    MISSES_MOST = 3,  /* looks in a row without a page, as after an exec, before top gives up */
    LABEL_WIDTH = 22, /* in front of a line of bars */
    STALE_MS = 1000,  /* an older page means that the program is at rest */
};

typedef enum { BY_BYTES, BY_LIVE, BY_CACHED, BY_MISSES, BY_LOCKS, SORT_KEYS } sort_key_t;
static const char *const sort_names[SORT_KEYS] = {"bytes", "live", "cached", "misses", "locks"};
static const char sort_letters[SORT_KEYS + 1] = "blcmk";

/* One line of the table. Rates are per second. */
typedef struct {
    char label[16];
    uint64_t live, live_bytes, cached_bytes;
    double misses, locks, remote;
    bool has_cache; /* a tier or class whose blocks threads cache */
} line_t;

typedef struct {
    pid_t pid;
    int interval_ms;
    bool once;
    sort_key_t key;
    char name[PROC_NAME_SIZE];
    hak_live_page_t pages[2]; /* the newest, and the one before it */
    unsigned newest, count;   /* count: pages of this program read so far */
    spark_t live_bytes, refills;
    line_t classes[HAK_CLASS_COUNT];
    unsigned class_count;
} top_t;

static const hak_live_page_t *page_of(const top_t *top) { return &top->pages[top->newest]; }

/* ---- Figures --------------------------------------------------------------------------------- */

/* Growth of a counter per second between the last two pages; 0 when there was no new page. */
static double rate(const top_t *top, uint64_t now, uint64_t before) {
    uint64_t from = top->pages[!top->newest].head.refreshed_ms,
             to = page_of(top)->head.refreshed_ms;
    if (top->count < 2 || to <= from || now <= before) return 0;
    return (double)(now - before) * 1000 / (double)(to - from);
}

static line_t line_of(const top_t *top, const uint64_t *now, const uint64_t *before) {
    return (line_t){
        .live = now[HAK_CLASS_STAT_live],
        .live_bytes = now[HAK_CLASS_STAT_live_bytes],
        .cached_bytes = now[HAK_CLASS_STAT_cached_bytes],
        .misses = rate(top, now[HAK_CLASS_STAT_uc_miss], before[HAK_CLASS_STAT_uc_miss]),
        .locks = rate(top, now[HAK_CLASS_STAT_shared_lock], before[HAK_CLASS_STAT_shared_lock]),
        .remote = rate(top, now[HAK_CLASS_STAT_remote_frees], before[HAK_CLASS_STAT_remote_frees]),
        .has_cache = true,
    };
}

static line_t tier_line(const top_t *top, unsigned tier) {
    const hak_stats_t *now = &page_of(top)->stats, *before = &top->pages[!top->newest].stats;
    line_t sum = {.has_cache = tier < HAK_CACHED_TIERS};
    for (unsigned band = 0; sum.has_cache && band < HAK_BAND_COUNT; band++) {
        if ((band == HAK_BAND_MID) != (tier == HAK_MID)) continue;
        line_t line = line_of(top, now->bands[band], before->bands[band]);
        sum.cached_bytes += line.cached_bytes;
        sum.misses += line.misses;
        sum.locks += line.locks;
        sum.remote += line.remote;
    }
    snprintf(sum.label, sizeof sum.label, "%.7s", hak_stats_tier_names[tier]);
    sum.live = now->tiers[tier][HAK_TIER_STAT_live];
    sum.live_bytes = now->tiers[tier][HAK_TIER_STAT_live_bytes];
    return sum;
}

static double weight(const line_t *line, sort_key_t key) {
    switch (key) {
    case BY_LIVE:
        return (double)line->live;
    case BY_CACHED:
        return (double)line->cached_bytes;
    case BY_MISSES:
        return line->misses;
    case BY_LOCKS:
        return line->locks;
    default:
        return (double)line->live_bytes;
    }
}

static sort_key_t sorting; /* a variable, since qsort passes no argument */

static int by_key(const void *a, const void *b) {
    const line_t *one = a, *other = b;
    double left = weight(one, sorting), right = weight(other, sorting);
    if (left == right) left = (double)one->live_bytes, right = (double)other->live_bytes;
    if (left == right) return strcmp(one->label, other->label);
    return left < right ? 1 : -1;
}

static void fill_classes(top_t *top) {
    const hak_stats_t *now = &page_of(top)->stats, *before = &top->pages[!top->newest].stats;
    top->class_count = 0;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        if (!hak_stats_is_used(now->classes[i])) continue;
        line_t *line = &top->classes[top->class_count++];
        *line = line_of(top, now->classes[i], before->classes[i]);
        uint64_t size =
            i == HAK_CLASS_DYN ? now->values[HAK_VALUE_STAT_mid_dyn1_size] : hak_classes[i].size;
        snprintf(line->label, sizeof line->label, "%6llu  %s", (unsigned long long)size,
                 hak_stats_band_names[hak_bands[i]]);
    }
    sorting = top->key;
    qsort(top->classes, top->class_count, sizeof *top->classes, by_key);
}

/* Takes in a new page. */
static void note(top_t *top) {
    const hak_live_page_t *now = page_of(top), *before = &top->pages[!top->newest];
    if (top->count && now->head.refresh_count < before->head.refresh_count) {
        top->count = 0; /* the process has executed another program */
        top->live_bytes.count = top->refills.count = 0;
    }
    top->count++;
    const uint64_t *values = now->stats.values;
    spark_add(&top->live_bytes, (double)values[HAK_VALUE_STAT_total_live_bytes]);
    spark_add(&top->refills, rate(top, values[HAK_VALUE_STAT_total_uc_miss],
                                  before->stats.values[HAK_VALUE_STAT_total_uc_miss]));
}

/* ---- The picture ----------------------------------------------------------------------------- */

static uint64_t resident_bytes(const top_t *top) {
    char line[128], *end = line;
    FILE *statm = proc_open(top->pid, "statm"); /* pages mapped, pages resident, ... */
    if (!statm || !fgets(line, sizeof line, statm)) line[0] = 0;
    if (statm) fclose(statm);
    strtoull(line, &end, 10);
    return strtoull(end, NULL, 10) * page_of(top)->head.page_size;
}

static const char *rate_text(char text[AMOUNT_SIZE], double value) {
    if (value > 0 && value < 10)
        snprintf(text, AMOUNT_SIZE, "%.1f", value);
    else
        amount_of_count(text, value < 1e18 ? (uint64_t)value : UINT64_MAX);
    return text;
}

static void draw_line(const line_t *line) {
    char live[AMOUNT_SIZE], bytes[AMOUNT_SIZE], cached[AMOUNT_SIZE];
    char misses[AMOUNT_SIZE], locks[AMOUNT_SIZE], remote[AMOUNT_SIZE];
    amount_of_count(live, line->live);
    amount_of_bytes(bytes, (int64_t)line->live_bytes);
    if (!line->has_cache) {
        terminal_line(STYLE_PLAIN, "%-12s%10s%12s", line->label, live, bytes);
        return;
    }
    amount_of_bytes(cached, (int64_t)line->cached_bytes);
    terminal_line(STYLE_PLAIN, "%-12s%10s%12s%12s%11s%11s%11s", line->label, live, bytes, cached,
                  rate_text(misses, line->misses), rate_text(locks, line->locks),
                  rate_text(remote, line->remote));
}

static void draw_head(const top_t *top) {
    const uint64_t *values = page_of(top)->stats.values;
    char resident[AMOUNT_SIZE], live[AMOUNT_SIZE], cached[AMOUNT_SIZE], dirty[AMOUNT_SIZE],
        age[40] = "";
    uint64_t old_ms = live_age_ms(page_of(top));
    if (old_ms >= STALE_MS) snprintf(age, sizeof age, "   as of %" PRIu64 " s ago", old_ms / 1000);
    terminal_line(STYLE_TITLE, "hakmem top   %s (%d)   every %.1f s   by %s%s", top->name,
                  (int)top->pid, top->interval_ms / 1000.0, sort_names[top->key], age);
    terminal_line(STYLE_PLAIN, "resident %s   live %s   cached %s   dirty %s   threads %" PRIu64,
                  amount_of_bytes(resident, (int64_t)resident_bytes(top)),
                  amount_of_bytes(live, (int64_t)values[HAK_VALUE_STAT_total_live_bytes]),
                  amount_of_bytes(cached, (int64_t)values[HAK_VALUE_STAT_total_cached_bytes]),
                  amount_of_bytes(dirty, (int64_t)values[HAK_VALUE_STAT_memory_dirty_bytes]),
                  values[HAK_VALUE_STAT_threads_now]);
}

static void draw_bars(const char *label, const char *value, const spark_t *spark) {
    char bars[SPARK_SIZE];
    spark_draw(spark, terminal_width() - LABEL_WIDTH, terminal_is_utf8(), bars);
    terminal_line(STYLE_PLAIN, "%-9s%11s  %s", label, value, bars);
}

static void draw(top_t *top) {
    char amount[AMOUNT_SIZE], count[AMOUNT_SIZE - 8];
    double refills = top->refills.values[(top->refills.count - 1) % SPARK_MOST];
    const uint64_t *values = page_of(top)->stats.values;
    terminal_begin(terminal_is_there() ? 1 : 0);
    draw_head(top);
    terminal_line(STYLE_PLAIN, "%s", "");
    draw_bars("live", amount_of_bytes(amount, (int64_t)values[HAK_VALUE_STAT_total_live_bytes]),
              &top->live_bytes);
    rate_text(amount, refills);
    snprintf(count, sizeof count, "%.12s/s", amount);
    draw_bars("refills", count, &top->refills);
    terminal_line(STYLE_PLAIN, "%s", "");
    terminal_line(STYLE_HEAD, "%-12s%10s%12s%12s%11s%11s%11s", "TIER, CLASS", "LIVE", "BYTES",
                  "CACHED", "REFILLS/s", "LOCKS/s", "REMOTE/s");
    for (unsigned tier = 0; tier < HAK_STATS_TIERS; tier++) {
        line_t line = tier_line(top, tier);
        draw_line(&line);
    }
    terminal_line(STYLE_PLAIN, "%s", "");
    fill_classes(top);
    for (unsigned i = 0; i < top->class_count && !terminal_is_full(); i++)
        draw_line(&top->classes[i]);
    if (terminal_is_there())
        terminal_line_below(STYLE_FAINT,
                            "q quit   sort: b bytes, l live, c cached, m misses, k locks");
    terminal_end();
}

/* ---- The command ----------------------------------------------------------------------------- */

static int interval_of(const char *text) {
    char *end;
    double seconds = strtod(text, &end);
    double ms = seconds * 1000;
    if (end == text || *end || !(ms >= INTERVAL_LEAST_MS && ms <= INTERVAL_MOST_MS))
        fail(STATUS_USAGE, "top: --interval takes 0.1 to 3600 seconds, not '%.64s'", text);
    return (int)ms;
}

static sort_key_t key_of(const char *text) {
    for (int i = 0; i < SORT_KEYS; i++)
        if (strcmp(text, sort_names[i]) == 0) return (sort_key_t)i;
    fail(STATUS_USAGE, "top: --sort takes bytes, live, cached, misses or locks, not '%.64s'", text);
}

static void read_arguments(top_t *top, char **argv) {
    top->interval_ms = INTERVAL_MS;
    for (argv++; *argv;) {
        int words = 1;
        char *value;
        if (strcmp(*argv, "--once") == 0)
            top->once = true;
        else if ((value = option_value("top", argv, "--interval", STATUS_USAGE, &words)) != NULL)
            top->interval_ms = interval_of(value);
        else if ((value = option_value("top", argv, "--sort", STATUS_USAGE, &words)) != NULL)
            top->key = key_of(value);
        else if (**argv == '-' || top->pid)
            fail(STATUS_USAGE, "top: '%.64s' is not known; `hakmem --help` shows the form", *argv);
        else if ((top->pid = live_process_of(*argv)) == 0)
            fail(STATUS_USAGE, "top: '%.64s' is no number of a process", *argv);
        argv += words;
    }
    if (!top->pid) fail(STATUS_USAGE, "top: no process given; `hakmem --help` shows the form");
}

/* Reads a new page into the older of the two places. */
static live_result_t look(top_t *top, const char **problem) {
    live_result_t result = live_read(top->pid, &top->pages[!top->newest], problem);
    if (result != LIVE_READ) return result;
    top->newest = !top->newest;
    note(top);
    proc_name(top->pid, top->name);
    return result;
}

/* Waits until the next look is due; false when the user quits. */
static bool rest(top_t *top) {
    int64_t end = terminal_clock_ms() + top->interval_ms;
    for (;;) {
        char key = 0;
        int64_t left = end - terminal_clock_ms();
        event_t event = terminal_wait(left > 0 ? (int)left : 0, &key);
        if (event == EVENT_TIME) return true;
        if (event == EVENT_QUIT || (event == EVENT_KEY && key == 'q')) return false;
        const char *letter = event == EVENT_KEY && key ? strchr(sort_letters, key) : NULL;
        if (letter) top->key = (sort_key_t)(letter - sort_letters);
        if (letter || event == EVENT_REDRAW) draw(top);
    }
}

int command_top(int argc, char **argv) {
    static top_t top;
    const char *problem;
    (void)argc;
    read_arguments(&top, argv);
    if (look(&top, &problem) != LIVE_READ) fail(1, "top: %s", problem);
    terminal_enter(!top.once);
    bool goes_on = true;
    live_result_t result = LIVE_READ;
    for (int misses = 0; goes_on;) {
        if (!top.once && result == LIVE_READ) draw(&top);
        goes_on = rest(&top);
        if (!goes_on) break;
        result = look(&top, &problem);
        misses = result == LIVE_READ ? 0 : misses + 1;
        if (result == LIVE_NO_PROCESS || misses > MISSES_MOST) break;
        if (top.once && result == LIVE_READ) {
            draw(&top);
            return 0;
        }
    }
    terminal_leave();
    if (!goes_on) return 0;
    if (result != LIVE_NO_PROCESS) fail(1, "top: %s", problem);
    printf("hakmem: process %d (%s) has ended\n", (int)top.pid, top.name);
    return finish();
}
