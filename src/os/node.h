/* node.h: nodes (NUMA): groups of CPUs that have memory of their own.
 *
 * A machine of several nodes is described once, when the process gets its second thread
 * (/sys/devices/system/node). Until then, and on any other machine, there is one node, number 0. The
 * nodes are numbered from the one on which the process began, so memory that was taken before is labelled
 * rightly. Nodes without CPUs that the process may use do not count; where there are more than
 * HAK_NODES_MAX, neighbours count as one.
 *
 * CPUs have their places in the order of the nodes: hak_os_this_cpu returns them. So what goes by the CPU
 * (shards, large heaps, groups of threads) lies side by side for a node, and a search for neighbours is a
 * search of the node.
 *
 * The kernel places a page on the node of the CPU that touches it first. So nothing is bound, and no system
 * call says where memory is: whoever takes memory without pages has it on its own node. What must be known
 * is where used memory lies, and that is the node of the CPU that took it when it had no pages.
 *
 * The description is written once, and constant when `hak_node_count` has been stored. */
#pragma once

#include "base/base.h"

enum { HAK_NODES_MAX = 16, HAK_NODE_CPUS = 1024 };

typedef struct {
    unsigned count; /* 1: all CPUs are alike */
    uint16_t first[HAK_NODES_MAX + 1];
    /* place of the first CPU of a node; behind the last: places in all */
    uint16_t place[HAK_NODE_CPUS]; /* of a CPU, by the system's number */
} hak_nodes_t;

/* Reads a description in the format of /sys/devices/system/node: `root` is that folder. Node 0 becomes the one
 * of the CPU `began`. False when there is one node. */
bool hak_nodes_read(hak_nodes_t *nodes, const char *root, unsigned began);

/* Reads that of the machine, once. */
void hak_nodes_look(void);

/* Notes the CPU on which the process begins, as long as libc says that it has one thread. */
void hak_nodes_begin(void);

/* 0 before the look. */
extern _Atomic unsigned hak_node_count;

HAK_FAST_PATH bool hak_has_nodes(void) {
    return HAK_UNLIKELY(hak_load_acquire(&hak_node_count) > 1); /* partner: hak_nodes_look */
}

HAK_FAST_PATH unsigned hak_nodes(void) {
    return hak_has_nodes() ? hak_load_relaxed(&hak_node_count) : 1;
}

/* On a machine of several nodes: the place of the CPU that the caller runs on, and its node. */
unsigned hak_node_place(unsigned cpu);
unsigned hak_node_of_this_cpu(void);

/* The node of the CPU that the caller runs on. */
HAK_FAST_PATH unsigned hak_node_here(void) { return hak_has_nodes() ? hak_node_of_this_cpu() : 0; }

/* Numbers from `first` on, below `end`. */
typedef struct {
    unsigned first, end;
} hak_span_t;

/* Of `homes` numbers that the CPUs share, those of the node that has `number`: each node has a part by its number of
 * CPUs. Numbers from `homes` on are the last node's. Only where there are several nodes. */
hak_span_t hak_node_span(unsigned number, unsigned homes);
#define HAK_ALL_NODES ((hak_span_t){0, UINT32_MAX})

/* The number of a CPU's place among these: of its node's. */
unsigned hak_node_home(unsigned place, unsigned homes);

/* The node that has a number. */
unsigned hak_node_of(unsigned number, unsigned homes);
