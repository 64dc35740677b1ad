/* tally.c - counts calls and events; at the end no count may be 0. */
#include "tally.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "check.h"

#define CALL_TEXT(name, text) text,
#define EVENT_TEXT(name, text, is_call) text,
#define EVENT_IS_CALL(name, text, is_call) is_call,

static const char *const call_texts[] = {TALLY_CALLS(CALL_TEXT)};
static const char *const event_texts[] = {TALLY_EVENTS(EVENT_TEXT)};
static const int event_is_call[] = {TALLY_EVENTS(EVENT_IS_CALL)};

static const char *const tier_names[] = {"tiny", "mid", "large", "huge"};
static const uint64_t tier_mosts[] = {2048, 65536, 1 << 20, 16 << 20};

enum tier tally_tier(uint64_t size) {
    enum tier tier = TINY;
    while (tier < HUGE && size > tier_mosts[tier]) tier++;
    return tier;
}

uint64_t tally_least(enum tier tier) { return tier == TINY ? 1 : tier_mosts[tier - 1] + 1; }

uint64_t tally_most(enum tier tier) { return tier_mosts[tier]; }

void tally_call(struct tally *tally, enum call call, uint64_t size) {
    tally->calls[call][tally_tier(size)]++;
    tally->operations++;
}

void tally_event(struct tally *tally, enum event event) {
    tally->events[event]++;
    tally->operations += (uint64_t)event_is_call[event];
}

void tally_refused(struct tally *tally) {
    tally->refused++;
    tally->operations++;
}

void tally_add(struct tally *sum, const struct tally *part) {
    for (size_t call = 0; call < CALL_COUNT; call++)
        for (size_t tier = 0; tier < TIER_COUNT; tier++)
            sum->calls[call][tier] += part->calls[call][tier];
    for (size_t event = 0; event < EVENT_COUNT; event++) sum->events[event] += part->events[event];
    sum->refused += part->refused;
    sum->operations += part->operations;
}

static void print(const struct tally *tally) {
    printf("%-44s %12s %12s %12s %12s\n", "calls by size", tier_names[TINY], tier_names[MID],
           tier_names[LARGE], tier_names[HUGE]);
    for (size_t call = 0; call < CALL_COUNT; call++) {
        printf("%-44s", call_texts[call]);
        for (size_t tier = 0; tier < TIER_COUNT; tier++)
            printf(" %12" PRIu64, tally->calls[call][tier]);
        printf("\n");
    }
    for (size_t event = 0; event < EVENT_COUNT; event++)
        printf("%-44s %12" PRIu64 "\n", event_texts[event], tally->events[event]);
    printf("%-44s %12" PRIu64 "\n", "requests refused by a limit", tally->refused);
}

static bool is_of_heap(enum call call) { return call >= HEAP_MALLOC && call <= HEAP_REALLOC; }

static bool is_heap_event(enum event event) {
    return event >= HEAPS_MADE && event <= HEAPS_DESTROYED;
}

void tally_report(const struct tally *tally, bool has_heaps) {
    uint64_t sum = tally->refused;
    print(tally);
    printf("%" PRIu64 " operations\n", tally->operations);
    fflush(stdout);
    for (size_t call = 0; call < CALL_COUNT; call++)
        for (size_t tier = 0; tier < TIER_COUNT; tier++) {
            CHECK((tally->calls[call][tier] > 0) == (has_heaps || !is_of_heap(call)),
                  "no \"%s\" in the %s tier", call_texts[call], tier_names[tier]);
            sum += tally->calls[call][tier];
        }
    for (size_t event = 0; event < EVENT_COUNT; event++) {
        CHECK((tally->events[event] > 0) == (has_heaps || !is_heap_event(event)), "no \"%s\"",
              event_texts[event]);
        if (event_is_call[event]) sum += tally->events[event];
    }
    CHECK(sum == tally->operations, "%" PRIu64 " operations are counted, but %" PRIu64 " in all",
          sum, tally->operations);
}
