/* gates.h: the gate of src/os/gate.h as the explorer's own; the real one has a checker by itself. */
#pragma once

#include <stdbool.h>

/* A new execution: nobody is inside. Only where it has `forks` are the gate's steps explored. */
void gates_reset(bool forks);

/* The parent: closes the gate, and waits; lets the others go on. */
void gates_close(void);
void gates_open(void);

/* Closes the gate, waits, and goes on as the child of a fork: every other thread ends here. */
void gates_fork(void);
