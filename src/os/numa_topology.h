/* numa_topology.h: nodes (NUMA): groups of CPUs that have memory of their own.
 *
 * A process that may use more than four CPUs reads /sys/devices/system/node once, when it gets its
 * second thread. Before that, and in any other process, there is one node, number 0. The node on
 * which the process began becomes number 0, so the labels of earlier memory stay right. Nodes
 * without CPUs that the process may use do not count: their CPUs share the places of all others. If
 * there are more than HAK_NODES_MAX nodes, neighbours count as one.
 *
 * pool/pool.c chooses the node that memory is taken from.
 *
 * A CPU's place counts the CPUs node by node; hak_os_this_cpu returns it. So the shards, large
 * heaps and home groups of one node have adjacent numbers, and a search of the neighbours is a
 * search of the node.
 *
 * The kernel places a page on the node of the CPU that touches it first. So HAKMEM binds no memory,
 * and needs no system call to learn where memory is: memory without pages belongs to no node yet,
 * and memory with pages lies on the node of the CPU that took it when it had none.
 *
 * The description is written once, and is constant once `hak_node_count` is stored. */
#pragma once

#include "base/base.h"

enum { HAK_NODES_MAX = 16, HAK_NODE_CPUS = 1024 };

typedef struct {
    unsigned count;                    /* 1: all CPUs are alike */
    uint16_t first[HAK_NODES_MAX + 1]; /* place of a node's first CPU; at the end: all places */
    uint16_t place[HAK_NODE_CPUS];     /* of a CPU, by the system's number */
} hak_nodes_t;

/* Reads a description in the format of /sys/devices/system/node from the folder `root`. The node of
 * the CPU `began` becomes number 0. False when there is only one node. */
bool hak_nodes_read(hak_nodes_t *nodes, const char *root, unsigned began);

/* Reads the description of the machine, once. */
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

/* `homes` numbers (of shards, of large heaps) are divided among the nodes in proportion to their
 * CPUs. Returns the part of the node to which `number` belongs; numbers from `homes` on belong to
 * the last node. Only where there are several nodes. */
hak_span_t hak_node_span(unsigned number, unsigned homes);
#define HAK_ALL_NODES ((hak_span_t){0, UINT32_MAX})

/* The number, among those of its node, that a CPU's place gets. */
unsigned hak_node_home(unsigned place, unsigned homes);

/* The node to which a number belongs. */
unsigned hak_node_of(unsigned number, unsigned homes);
