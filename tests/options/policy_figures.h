/* policy_figures.h - figures that the options of the policy move; each is taken in a process of its
 * own. */
#pragma once

long promoted_bands(void);
long promoted_bands_after_work(void);
long looks_after_work(void);
long lines_of_a_promotion(void);
