/* profiles.h: the groups of settings of profiles.def. */
#pragma once

#include "options/options.h"

/* Numbered like the words of the option PROFILE; the first word is "none". */
typedef enum {
    HAK_PROFILE_NONE,
#define PROFILE(name, help) HAK_PROFILE_##name,
#define PROFILE_SET(profile, option, value)
#include "options/profiles.def"
#undef PROFILE
#undef PROFILE_SET
    HAK_PROFILE_COUNT
} hak_profile_t;

typedef struct {
    hak_profile_t profile;
    hak_option_t option;
    char value[16];
} hak_profile_row_t;

extern const hak_profile_row_t hak_profile_rows[];
extern const size_t hak_profile_row_count;

/* The names as a list of words: "none|FIRST|SECOND". */
extern const char hak_profile_words[];

/* The purpose of each profile; "" for HAK_PROFILE_NONE. */
extern const char *const hak_profile_help[HAK_PROFILE_COUNT];
