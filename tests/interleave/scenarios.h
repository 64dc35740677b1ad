/* scenarios.h: the main function of a program that explores a table of scenarios. */
#pragma once

#include "explore.h"

/* Without arguments: explores all rows but the heavy ones, of the largest a part; 0 when there is no
 * violation.
 * With "--heavy": explores all. With "--only" and a name: explores that row.
 * With "--broken": the checked sources were broken on purpose; 0 when there is one. */
int scenarios_main(const explore_scenario_t *scenarios, unsigned count, int argc, char **argv);
