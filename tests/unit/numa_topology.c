/* numa_topology.c: made-up descriptions of nodes, and when they are read. */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "node_machine.h"
#include "os/numa_topology.h"

typedef struct {
    const char *what, *online;
    const char *lists[12];
    unsigned began, confined;
    unsigned count;
    unsigned first[9];     /* and the number of places */
    unsigned places[4][2]; /* CPU, place */
} machine_t;

static const machine_t machines[] = {
    {.what = "no folder", .count = 1},
    {.what = "one node", .online = "0\n", .lists = {"0-63\n"}, .count = 1},
    {.what = "garbage", .online = "none of them\n", .count = 1},
    {.what = "two nodes",
     .online = "0-1\n",
     .lists = {"0-15,32-47\n", "16-31,48-63\n"},
     .count = 2,
     .first = {0, 32, 64},
     .places = {{0, 0}, {32, 16}, {16, 32}, {63, 63}}},
    {.what = "it began on the second one",
     .online = "0-1\n",
     .lists = {"0-15,32-47\n", "16-31,48-63\n"},
     .began = 50,
     .count = 2,
     .first = {0, 32, 64},
     .places = {{0, 32}, {32, 48}, {16, 0}, {63, 31}}},
    {.what = "numbers in turn",
     .online = "0-1\n",
     .lists = {"0,2,4,6\n", "1,3,5,7\n"},
     .count = 2,
     .first = {0, 4, 8},
     .places = {{2, 1}, {6, 3}, {1, 4}, {7, 7}}},
    {.what = "a node without CPUs, and one that is missing",
     .online = "0,2-3\n",
     .lists = {"0-3", "4-7", "\n", "8-11"},
     .count = 2,
     .first = {0, 4, 8},
     .places = {{3, 3}, {8, 4}, {11, 7}, {12, 4}}},
    {.what = "a process that may use a part",
     .online = "0-1",
     .lists = {"0-3", "4-11"},
     .confined = 6,
     .count = 2,
     .first = {0, 4, 6},
     .places = {{5, 5}, {6, 4}, {7, 5}, {8, 4}}},
    {.what = "nodes that the process may not use",
     .online = "0-3",
     .lists = {"0-3", "4-7", "8-19", "20-63"},
     .confined = 8,
     .count = 2,
     .first = {0, 4, 8},
     .places = {{7, 7}, {8, 0}, {15, 7}, {63, 7}}},
    {.what = "a process that may use one node",
     .online = "0-1",
     .lists = {"0-3", "4-11"},
     .confined = 4,
     .count = 1},
    {.what = "eight nodes",
     .online = "0-7",
     .lists = {"0-7", "8-15", "16-23", "24-31", "32-39", "40-47", "48-55", "56-63"},
     .began = 24,
     .count = 8,
     .first = {0, 8, 16, 24, 32, 40, 48, 56, 64},
     .places = {{24, 0}, {63, 39}, {0, 40}, {23, 63}}},
};

static void descriptions_are_read(void **state) {
    (void)state;
    for (unsigned i = 0; i < sizeof machines / sizeof *machines; i++) {
        const machine_t *machine = &machines[i];
        hak_nodes_t nodes;
        machine_describe(machine->online, machine->lists);
        machine_confined = machine->confined;
        bool several = hak_nodes_read(&nodes, machine_root, machine->began);
        machine_confined = 0;
        machine_forget();
        REQUIRE(several == (machine->count > 1) && nodes.count == machine->count,
                "%s: %u nodes, not %u", machine->what, nodes.count, machine->count);
        for (unsigned n = 0; several && n <= machine->count; n++)
            REQUIRE(nodes.first[n] == machine->first[n], "%s: node %u begins at %u", machine->what,
                    n, nodes.first[n]);
        for (unsigned p = 0; several && p < 4; p++)
            REQUIRE(nodes.place[machine->places[p][0]] == machine->places[p][1],
                    "%s: CPU %u has place %u, not %u", machine->what, machine->places[p][0],
                    nodes.place[machine->places[p][0]], machine->places[p][1]);
    }
}

/* 24 nodes of two CPUs: neighbours count as one, none is lost. */
static void more_nodes_than_lists(void **state) {
    (void)state;
    enum { NODES = 24 };
    char texts[NODES][16];
    const char *lists[NODES + 1] = {NULL};
    hak_nodes_t nodes;
    for (unsigned i = 0; i < NODES; i++) {
        snprintf(texts[i], sizeof texts[i], "%u-%u", 2 * i, 2 * i + 1);
        lists[i] = texts[i];
    }
    machine_describe("0-23", lists);
    assert_true(hak_nodes_read(&nodes, machine_root, 0));
    machine_forget();
    assert_int_equal(nodes.count, HAK_NODES_MAX);
    assert_int_equal(nodes.first[HAK_NODES_MAX], 2 * NODES);
    for (unsigned i = 0; i < HAK_NODES_MAX; i++)
        assert_in_range(nodes.first[i + 1] - nodes.first[i], 2, 4);
    for (unsigned i = 0; i < 2 * NODES; i++) assert_int_equal(nodes.place[i], i);
}

static void *nothing(void *unused) { return unused; }

/* A process that may use few CPUs opens no file for that. */
static void few_cpus(const void *unused) {
    (void)unused;
    machine_confined = 4;
    unsigned before = machine_files;
    hak_nodes_look();
    CHECK(machine_files == before && hak_nodes() == 1, "%u files", machine_files - before);
}

/* With one node one file is read, and none while there is one thread. */
static void one_node(const void *unused) {
    pthread_t thread;
    (void)unused;
    machine_describe("0\n", (const char *const[]){"0-63\n", NULL});
    unsigned before = machine_files;
    hak_nodes_look();
    CHECK(machine_files == before, "%u files for one thread", machine_files - before);
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0,
          "no thread");
    hak_nodes_look();
    machine_forget();
    CHECK(machine_files == before + 1 && hak_nodes() == 1, "%u files", machine_files - before);
}

static void one_node_costs_one_file(void **state) {
    (void)state;
    unit_child(few_cpus, NULL, 20, "few CPUs");
    unit_child(one_node, NULL, 20, "one node");
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_PURGE_THREAD=0", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptions_are_read),
        cmocka_unit_test(more_nodes_than_lists),
        cmocka_unit_test(one_node_costs_one_file),
    };
    return cmocka_run_group_tests_name("numa_topology", tests, NULL, NULL);
}
