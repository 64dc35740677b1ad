/* options.h: the options of options.def, read once from the environment.
 *
 * Reading needs no lock and never allocates. Until libc has set up the
 * environment the defaults hold. */
#ifndef HAK_OPTIONS_H
#define HAK_OPTIONS_H

#include "base/base.h"

typedef enum {
#define OPTION_WORD(name, words, fallback, help) HAK_OPTION_##name,
#define OPTION_NUMBER(name, unit, least, most, fallback, help) HAK_OPTION_##name,
#include "options/options.def"
#undef OPTION_WORD
#undef OPTION_NUMBER
    HAK_OPTION_COUNT
} hak_option_t;

/* Value of an option: the number, or the index of the word. */
int64_t hak_option(hak_option_t option);

/* Reads the environment, once; later calls return at once. A variable that is
 * unknown or out of range gives one line on stderr and changes nothing. */
void hak_options_load(void);

#endif
