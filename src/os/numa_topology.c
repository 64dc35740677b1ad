/* numa_topology.c: reads the description of the nodes, and computes which CPUs and numbers belong to which node. */
#include "os/numa_topology.h"

#include <sched.h>
#include <string.h>

#include "os/cpu.h"
#include "os/open_files.h"
#include "os/gate.h"
#include "os/os.h"

enum {
    CPUS_LEAST = 5, /* a process that may use fewer does not look */
    READING = 1,    /* hak_node_count while the description is read: one node */
    PATH_SIZE = 256,
    NUMBERS_MOST = 4096, /* of a node; higher ones are not looked at */
    NO_NODE = UINT16_MAX,
};

_Atomic unsigned hak_node_count HAK_READ_OFTEN;
static hak_nodes_t machine HAK_APART;
static _Atomic unsigned began_on; /* the number of the CPU + 1 */

/* ---- Lists of numbers: "0-3,8,10-11" -------------------------------------------------------- */

typedef struct {
    void (*visit)(unsigned number, void *context);
    void *context;
    unsigned from, number;
    bool has_digits, is_range;
} list_t;

static HAK_BEHIND void end_number(list_t *list) {
    unsigned from = list->is_range ? list->from : list->number;
    for (; list->has_digits && from <= list->number && from < NUMBERS_MOST; from++)
        list->visit(from, list->context);
    list->number = 0;
    list->has_digits = list->is_range = false;
}

static HAK_BEHIND bool take_char(char c, void *context) {
    list_t *list = context;
    if (c >= '0' && c <= '9') {
        list->number = (unsigned)hak_min(list->number * 10u + (unsigned)(c - '0'), NUMBERS_MOST);
        list->has_digits = true;
    } else if (c == '-' && list->has_digits) {
        list->from = list->number;
        list->number = 0;
        list->is_range = true;
        list->has_digits = false;
    } else {
        end_number(list);
    }
    return true;
}

static HAK_BEHIND void each_number(const char *path, void (*visit)(unsigned, void *),
                                   void *context) {
    list_t list = {.visit = visit, .context = context};
    hak_os_each_char(path, take_char, &list);
    end_number(&list);
}

/* ---- The description ------------------------------------------------------------------------- */

/* What is read: the node of each CPU, by the order in which nodes were found. */
typedef struct {
    const char *root;
    uint16_t node[HAK_NODE_CPUS];
    unsigned allowed;       /* CPUs of the present node that the process may use */
    unsigned listed, count; /* nodes that there are; those with allowed CPUs so far */
} found_t;

static HAK_BEHIND void count_listed(unsigned number, void *context) {
    found_t *found = context;
    (void)number;
    found->listed++;
}

static HAK_BEHIND void take_cpu(unsigned cpu, void *context) {
    found_t *found = context;
    if (cpu >= HAK_NODE_CPUS) return;
    found->node[cpu] = (uint16_t)found->count;
    found->allowed += hak_os_cpu_is_allowed(cpu);
}

static HAK_BEHIND char *append(char *to, const char *text) {
    size_t size = strlen(text);
    memcpy(to, text, size + 1);
    return to + size;
}

static HAK_BEHIND void take_node(unsigned number, void *context) {
    enum { DIGITS = 5, REST = 32 };
    found_t *found = context;
    char path[PATH_SIZE], digits[DIGITS + 1] = "", *digit = digits + DIGITS;
    if (strlen(found->root) + REST > sizeof path) return;
    do *--digit = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    append(append(append(append(path, found->root), "/node"), digit), "/cpulist");
    found->allowed = 0;
    each_number(path, take_cpu, found);
    if (found->allowed) {
        found->count++;
        return;
    }
    for (unsigned cpu = 0; cpu < HAK_NODE_CPUS; cpu++)
        if (found->node[cpu] == found->count) found->node[cpu] = NO_NODE;
}

/* The number of a node that was found as number `node`, when `first` becomes number 0. */
static HAK_BEHIND unsigned renumbered(const found_t *found, unsigned node, unsigned first) {
    unsigned number = node >= first ? node - first : node + found->count - first;
    return found->count <= HAK_NODES_MAX ? number : number * HAK_NODES_MAX / found->count;
}

/* Gives the CPUs of a node their places. CPUs that the process may not use now share the places of
 * the others. */
static HAK_BEHIND void place_node(hak_nodes_t *nodes, const found_t *found, unsigned node,
                                  unsigned first) {
    unsigned start = nodes->first[node], next = start, other = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned cpu = 0; cpu < HAK_NODE_CPUS; cpu++) {
            if (found->node[cpu] >= found->count ||
                renumbered(found, found->node[cpu], first) != node ||
                hak_os_cpu_is_allowed(cpu) != (pass == 0))
                continue;
            nodes->place[cpu] =
                (uint16_t)(pass == 0 ? next++ : start + other++ % hak_max(next - start, 1u));
        }
    }
    nodes->first[node + 1] = (uint16_t)next;
}

/* CPUs whose node does not count share all places: the process may get them later, and threads of many CPUs in one
 * place would wait for each other. */
static HAK_BEHIND void place_others(hak_nodes_t *nodes, const found_t *found) {
    for (unsigned cpu = 0; cpu < HAK_NODE_CPUS; cpu++)
        if (found->node[cpu] == NO_NODE)
            nodes->place[cpu] = (uint16_t)(cpu % nodes->first[nodes->count]);
}

HAK_BEHIND bool hak_nodes_read(hak_nodes_t *nodes, const char *root, unsigned began) {
    char path[PATH_SIZE];
    found_t found = {.root = root};
    nodes->count = 1;
    if (strlen(root) + sizeof "/online" > sizeof path) return false;
    append(append(path, root), "/online");
    each_number(path, count_listed, &found);
    if (found.listed < 2) return false;
    memset(found.node, 0xff, sizeof found.node);
    each_number(path, take_node, &found);
    if (found.count < 2) return false;
    unsigned first = began < HAK_NODE_CPUS ? found.node[began] : NO_NODE;
    if (first >= found.count) first = 0;
    nodes->count = hak_min(found.count, HAK_NODES_MAX);
    nodes->first[0] = 0;
    for (unsigned node = 0; node < nodes->count; node++) place_node(nodes, &found, node, first);
    /* The affinity may have changed meanwhile: none of these CPUs is allowed. */
    if (nodes->first[nodes->count] == 0) {
        nodes->count = 1;
        return false;
    }
    place_others(nodes, &found);
    return true;
}

void hak_nodes_begin(void) {
    HAK_KEEP_ERRNO();
    if (hak_load_relaxed(&began_on) && !hak_os_is_single_threaded()) return;
    int cpu = sched_getcpu();
    hak_store_relaxed(&began_on, cpu < 0 ? 0 : (unsigned)cpu + 1);
}

static HAK_BEHIND void look(void) {
    unsigned none = 0;
    if (!hak_cas_acquire(&hak_node_count, &none, READING)) return;
    if (hak_os_cpu_count() < CPUS_LEAST) return;
    hak_nodes_begin();
    HAK_KEEP_ERRNO();
    if (hak_nodes_read(&machine, "/sys/devices/system/node", hak_load_relaxed(&began_on) - 1))
        hak_store_release(&hak_node_count, machine.count); /* partner: hak_has_nodes */
}

/* Inside the gate: otherwise the child of a fork could inherit a look that no thread ends. */
HAK_NEXT void hak_nodes_look(void) {
    if (hak_os_is_single_threaded()) return; /* its home is shard 0, whatever CPU it runs on */
    if (hak_load_relaxed(&hak_node_count)) return;
    hak_gate_enter();
    look();
    hak_gate_leave();
}

/* ---- Nodes of places and numbers ------------------------------------------------------------- */

HAK_BEHIND unsigned hak_node_place(unsigned cpu) {
    return cpu < HAK_NODE_CPUS ? machine.place[cpu] : cpu % machine.first[machine.count];
}

static HAK_BEHIND unsigned node_of_place(unsigned place) {
    unsigned node = 0;
    while (node + 1 < machine.count && place >= machine.first[node + 1]) node++;
    return node;
}

HAK_BEHIND unsigned hak_node_of_this_cpu(void) { return node_of_place(hak_os_this_cpu()); }

/* The first number of a node; behind the last one: `homes`. */
static HAK_BEHIND unsigned first_of(unsigned node, unsigned homes) {
    return (unsigned)((size_t)machine.first[node] * homes / machine.first[machine.count]);
}

HAK_BEHIND unsigned hak_node_of(unsigned number, unsigned homes) {
    unsigned node = 0;
    if (!hak_has_nodes()) return 0;
    while (node + 1 < machine.count && number >= first_of(node + 1, homes)) node++;
    return node;
}

HAK_BEHIND hak_span_t hak_node_span(unsigned number, unsigned homes) {
    unsigned node = hak_node_of(number, homes);
    return (hak_span_t){first_of(node, homes),
                        node + 1 < machine.count ? first_of(node + 1, homes) : UINT32_MAX};
}

HAK_BEHIND unsigned hak_node_home(unsigned place, unsigned homes) {
    unsigned node = node_of_place(place), first = first_of(node, homes),
             count = first_of(node + 1, homes) - first;
    if (count == 0) return hak_min(first, homes - 1); /* fewer numbers than nodes */
    return first + (place - machine.first[node]) % count;
}
