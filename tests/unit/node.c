/* node.c - machines of several nodes: whose memory serves whom, and where threads are at home. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commit/commit.h"
#include "hakmem.h"
#include "large/heap.h"
#include "large/large.h"
#include "os/cpu.h"
#include "os/numa_topology.h"
#include "pool/purge.h"
#include "shard/table.h"
#include "thread/home_group.h"
#include "thread/verify.h"
#include "thread/thread.h"
#include "node_machine.h"
#include "shard_batches.h"

enum { CLASS = HAK_CLASS_14336, SIZE = 100000 };

/* A machine of `nodes` nodes, whose CPUs have their numbers in turn, or side by side. The process began on the last
 * CPU. Its description is read once. */
typedef struct {
    unsigned nodes;
    bool in_turn;
} shape_t;

static shape_t shape;

static unsigned cpu_of(unsigned node, unsigned i) {
    return shape.in_turn ? i * shape.nodes + node : node * (MACHINE_CPUS / shape.nodes) + i;
}

static void *nothing(void *unused) { return unused; }

static void begin(const void *context) {
    static char texts[8][MACHINE_CPUS * 4];
    const char *lists[9] = {NULL};
    char online[8];
    pthread_t thread;
    shape = *(const shape_t *)context;
    for (unsigned n = 0; n < shape.nodes; n++) {
        char *at = texts[n];
        for (unsigned i = 0; i < MACHINE_CPUS / shape.nodes; i++)
            at += sprintf(at, i ? ",%u" : "%u", cpu_of(n, i));
        lists[n] = texts[n];
    }
    snprintf(online, sizeof online, "0-%u", shape.nodes - 1);
    machine_describe(online, lists);
    machine_cpu = MACHINE_CPUS - 1;
    hak_nodes_begin();
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0,
          "no thread");
    CHECK(hak_nodes() == 1 && hak_node_here() == 0, "nodes before the look");
    hak_thread_look_at_limits();
    CHECK(hak_nodes() == shape.nodes, "%u nodes", hak_nodes());
    unsigned seen = machine_files;
    hak_nodes_look();
    CHECK(machine_files == seen, "the description is read again");
    machine_forget();
    CHECK(hak_node_here() == 0, "it begins on node %u", hak_node_here());
}

/* The engine's number of the node. */
static unsigned go_to(unsigned node, unsigned i) {
    machine_cpu = cpu_of(node, i);
    return hak_node_here();
}

static void homes_of_a_node_lie_side_by_side(const void *context) {
    bool seen[MACHINE_CPUS] = {false};
    begin(context);
    for (unsigned n = 0; n < shape.nodes; n++) {
        for (unsigned i = 0; i < MACHINE_CPUS / shape.nodes; i++) {
            unsigned node = go_to(n, i), home = hak_shard_here();
            hak_span_t near = hak_node_span(home, MACHINE_CPUS);
            CHECK(node == (n + 1) % shape.nodes, "CPU %u is on node %u", machine_cpu, node);
            CHECK(home / (MACHINE_CPUS / shape.nodes) == node && !seen[home], "CPU %u has home %u",
                  machine_cpu, home);
            CHECK(near.first == node * (MACHINE_CPUS / shape.nodes), "a span from %u", near.first);
            CHECK(hak_node_of(home, MACHINE_CPUS) == node, "home %u is not of node %u", home, node);
            CHECK(hak_node_of(hak_node_home(hak_os_this_cpu(), 16), 16) == node,
                  "with fewer homes CPU %u leaves its node", machine_cpu);
            CHECK(hak_node_home(hak_os_this_cpu(), 1) == 0, "one home");
            CHECK(hak_node_home(hak_os_this_cpu(), 3) < 3, "three homes");
            seen[home] = true;
        }
    }
}

/* So many threads that begin at once on a node are at home there. */
static void groups_do_not_straddle(const void *context) {
    enum { MANY = 40 };
    hak_seat_t seats[MANY];
    begin(context);
    for (unsigned n = 0; n < shape.nodes; n++) {
        for (unsigned i = 0; i < MANY; i++) {
            unsigned node = go_to(n, 0);
            seats[i] = hak_group_choose();
            CHECK(hak_node_of(seats[i].shard, MACHINE_CPUS) == node,
                  "a thread of node %u gets shard %u", node, seats[i].shard);
        }
        for (unsigned i = 0; i < MANY; i++) hak_group_give_up(seats[i]);
    }
}

static unsigned node_of(const void *block) { return hak_region_superslab_of(slab_of(block))->node; }

/* The home of a new thread that begins on a CPU. The k-th CPU is of another group than the one before it. */
static unsigned home_on(unsigned k) {
    enum { GROUP = 8 };
    const unsigned of_node = MACHINE_CPUS / shape.nodes, at = k / shape.nodes * GROUP;
    go_to(k % shape.nodes, at % of_node + at / of_node);
    const hak_seat_t seat = hak_group_choose();
    hak_cache_t *cache = hak_cache_make();
    CHECK(cache != NULL, "no memory for a cache");
    cache->shard = HAK_SHARDS_MAX - 1; /* of no group here: it has had no thread */
    hak_group_join(cache, seat);
    hak_gate_enter();
    hak_group_tell_all();
    hak_gate_leave();
    return cache->shard;
}

/* Where threads outnumber CPUs, two that begin on a CPU one after the other are at home in its shard, although that has
 * more threads then than others have. */
static void threads_are_at_home_on_their_cpu(const void *context) {
    begin(context);
    for (unsigned i = 0; i < 2 * MACHINE_CPUS; i++) home_on(i % MACHINE_CPUS);
    for (unsigned i = 0; i < 2 * MACHINE_CPUS; i++) {
        const unsigned home = home_on(i / 2);
        CHECK(home == hak_shard_here(), "a thread of CPU %u has home %u", machine_cpu, home);
    }
}

static void units_come_from_the_own_node(const void *context) {
    bool zeroed;
    begin(context);
    hak_unit_t *units[8], *other;
    unsigned here = go_to(0, 0);
    for (unsigned i = 0; i < 8; i++) {
        units[i] = hak_pool_take(1, &zeroed);
        CHECK(units[i] && node_of(units[i]->base) == here, "a unit is on another node");
    }
    for (unsigned i = 0; i < 7; i++) hak_pool_give(units[i], 1);
    for (unsigned n = 1; n < shape.nodes; n++) { /* others let it lie */
        here = go_to(n, 1);
        other = hak_pool_take(1, &zeroed);
        CHECK(other && zeroed && node_of(other->base) == here, "node %u gets far memory", here);
        hak_pool_give(other, 1);
    }
    CHECK(hak_pool_stats.far_units == 0 && hak_pool_stats.near_units == 0, "used units");
    go_to(0, 3);
    other = hak_pool_take(1, &zeroed);
    CHECK(!zeroed && node_of(other->base) == node_of(units[7]->base), "the used ones are left");
    CHECK(hak_pool_stats.far_units == 0 && hak_pool_stats.near_units == 1, "%u near ones",
          (unsigned)hak_pool_stats.near_units);
    hak_pool_give(other, 1);
    hak_pool_give(units[7], 1);
    CHECK(hak_verify() == 0, "violations");
}

/* A superslab that has no pages any more is anybody's. */
static void untouched_memory_serves_anybody(const void *context) {
    enum { SUPERS = 3 };
    bool zeroed;
    hak_unit_t *units[SUPERS];
    begin(context);
    unsigned all = (unsigned)hak_superslab_units(), here = go_to(0, 0);
    for (unsigned i = 0; i < SUPERS; i++)
        CHECK((units[i] = hak_pool_take(all, &zeroed)) != NULL, "no superslab");
    uint64_t made = hak_pool_stats.stage3;
    for (unsigned i = 0; i < SUPERS; i++) hak_pool_give(units[i], all);
    here = go_to(1, 0);
    hak_unit_t *other = hak_pool_take(all, &zeroed);
    CHECK(hak_pool_stats.stage3 == made + 1 && node_of(other->base) == here, "used memory moves");
    hak_pool_give(other, all);
    hak_budget_t budget = HAK_BUDGET_ALL;
    hak_pool_purge_piece(0, true, &budget);
    made = hak_pool_stats.stage3;
    unsigned taken, count = 0;
    for (unsigned i = 0; i < SUPERS; i++) {
        hak_superslab_t *row = hak_pool_take_superslabs(1, 1, &taken);
        CHECK(row && row->node == here, "a large heap gets none");
        count += taken;
    }
    CHECK(hak_pool_stats.stage3 == made && count == SUPERS, "%u new superslabs",
          (unsigned)(hak_pool_stats.stage3 - made));
    CHECK(hak_pool_stats.far_units == 0, "far units");
}

enum { EACH = 4, SOME = 3 * EACH };

/* Leaves more than 64 KiB of used blocks in a bin: other shards may take some (hak_bin_lends). One block in each run of
 * four keeps its slab, and is in *kept. */
static void leave_used(unsigned shard, void *kept[SOME / EACH]) {
    void *blocks[SOME];
    take(shard, CLASS, SOME, blocks);
    for (unsigned i = 0; i < SOME; i++)
        if (i % EACH == 0)
            kept[i / EACH] = blocks[i];
        else
            give(shard, CLASS, &blocks[i], 1);
}

/* Used blocks of neighbours on the node come first, those of another node after fresh memory. */
static void blocks_come_from_the_own_node(const void *context) {
    void *far_kept[SOME / EACH], *kept[SOME / EACH], *one[2], *near_large, *far_large;
    begin(context);
    go_to(0, 1);
    unsigned far = hak_shard_open(hak_shard_here());
    leave_used(far, far_kept);
    unsigned here = go_to(1, 0), home = hak_shard_open(hak_shard_here());
    one[1] = NULL;
    CHECK(hak_shard_take(home, CLASS, 1, one, NULL) == 1, "no block");
    CHECK(node_of(one[1]) == here, "a block of node %u", node_of(one[1]));
    give(home, CLASS, &one[1], 1);
    leave_used(home, kept);
    go_to(1, 1);
    unsigned next = hak_shard_open(hak_shard_here());
    CHECK(hak_shard_take(next, CLASS, 1, one, NULL) == 1 && node_of(one[1]) == here &&
              hak_owner_shard(slab_of(one[1])->owner) == home,
          "a neighbour's used block is left");
    give(next, CLASS, &one[1], 1);
    give(next, CLASS, kept, SOME / EACH);
    go_to(0, 1);
    give(far, CLASS, far_kept, SOME / EACH);
    far_large = hak_large_alloc(hak_large_home(), SIZE, 1, false);
    hak_large_free(hak_large_home(), far_large);
    go_to(1, 0);
    near_large = hak_large_alloc(hak_large_home(), SIZE, 1, false);
    CHECK(node_of(near_large) == here && node_of(far_large) != here, "a large block moves");
    hak_large_free(hak_large_home(), near_large);
    CHECK(hak_pool_stats.far_units == 0, "far units");
    CHECK(hak_verify() == 0, "violations");
}

/* Where the own node has nothing, and there is no memory without pages, another node's is found: all of it. */
static void nothing_is_lost_where_a_node_is_empty(const void *context) {
    enum { UNITS = 40 };
    static hak_unit_t *units[UNITS], *others[UNITS];
    bool zeroed;
    void *blocks[4], *one[2], *large, *found;
    begin(context);
    go_to(0, 0);
    unsigned far = hak_shard_open(hak_shard_here());
    take(far, CLASS, 4, blocks);
    give(far, CLASS, blocks, 3);
    large = hak_large_alloc(hak_large_home(), SIZE, 1, false);
    CHECK(hak_large_alloc(hak_large_home(), SIZE, 1, false) != NULL,
          "no block"); /* keeps the superslab */
    hak_large_free(hak_large_home(), large);
    for (unsigned i = 0; i < UNITS; i++) units[i] = hak_pool_take(1, &zeroed);
    go_to(1, 0);
    unsigned home = hak_shard_open(hak_shard_here());
    CHECK(hak_heap_open(hak_large_home()) == hak_large_home(), "no heap");
    size_t room = ((size_t)1 << 30) - hak_commit_bytes();
    CHECK(hak_commit_charge(room), "the limit is not 1 GiB");
    CHECK((found = hak_large_alloc(hak_large_home(), SIZE, 1, false)) != NULL,
          "a large block is lost");
    for (unsigned i = 0; i < UNITS; i++) hak_pool_give(units[i], 1);
    for (unsigned i = 0; i < UNITS; i++) {
        others[i] = hak_pool_take(1, &zeroed);
        CHECK(others[i] && !zeroed, "unit %u of another node is lost", i);
    }
    CHECK(hak_pool_stats.far_units == UNITS, "%u far ones", (unsigned)hak_pool_stats.far_units);
    while (hak_pool_take(1, &zeroed)) continue;
    CHECK(hak_shard_take(home, CLASS, 1, one, NULL) == 1, "a block of another node is lost");
    hak_commit_release(room);
}

/* The child of a fork that comes while another thread reads the description has the nodes, too. */
static _Atomic pid_t child;

static void *fork_one(void *unused) {
    pid_t pid = fork();
    if (pid == 0) _exit(hak_nodes() == shape.nodes ? 0 : 1);
    atomic_store(&child, pid);
    return unused;
}

static void fork_meanwhile(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fork_one, NULL) == 0 && pthread_detach(thread) == 0,
          "no thread");
    for (unsigned i = 0; i < 100 && !atomic_load(&child); i++) usleep(1000);
}

static void a_fork_waits_for_the_look(const void *context) {
    int status;
    free(malloc(1)); /* with a cache come the handlers of a fork */
    machine_while_read = fork_meanwhile;
    begin(context);
    while (!atomic_load(&child)) usleep(1000);
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child has one node");
}

static const shape_t shapes[] = {{2, false}, {2, true}, {8, false}, {8, true}};

static void on_each(void (*body)(const void *context), const char *what) {
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
        unit_child(body, &shapes[i], 60, what);
}

#define ON_EACH(body)                       \
    static void test_##body(void **state) { \
        (void)state;                        \
        on_each(body, #body);               \
    }
ON_EACH(homes_of_a_node_lie_side_by_side)
ON_EACH(groups_do_not_straddle)
ON_EACH(threads_are_at_home_on_their_cpu)
ON_EACH(units_come_from_the_own_node)
ON_EACH(untouched_memory_serves_anybody)
ON_EACH(blocks_come_from_the_own_node)
ON_EACH(nothing_is_lost_where_a_node_is_empty)
ON_EACH(a_fork_waits_for_the_look)

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv,
                          (const char *const[]){"HAKMEM_PURGE_THREAD=0", "HAKMEM_LIMIT=1G", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_homes_of_a_node_lie_side_by_side),
        cmocka_unit_test(test_groups_do_not_straddle),
        cmocka_unit_test(test_threads_are_at_home_on_their_cpu),
        cmocka_unit_test(test_units_come_from_the_own_node),
        cmocka_unit_test(test_untouched_memory_serves_anybody),
        cmocka_unit_test(test_blocks_come_from_the_own_node),
        cmocka_unit_test(test_nothing_is_lost_where_a_node_is_empty),
        cmocka_unit_test(test_a_fork_waits_for_the_look),
    };
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
