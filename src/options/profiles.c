/* profiles.c: the tables made from profiles.def. */
#include "options/profiles.h"

const hak_profile_row_t hak_profile_rows[] = {
#define PROFILE(name, help)
#define PROFILE_SET(profile, option, value) {HAK_PROFILE_##profile, HAK_OPTION_##option, value},
#include "options/profiles.def"
#undef PROFILE_SET
#undef PROFILE
};

const size_t hak_profile_row_count = sizeof hak_profile_rows / sizeof *hak_profile_rows;

#define PROFILE_SET(profile, option, value)

const char hak_profile_words[] = "none"
#define PROFILE(name, help) "|" #name
#include "options/profiles.def"
#undef PROFILE
    ;

const char *const hak_profile_help[HAK_PROFILE_COUNT] = {
    "",
#define PROFILE(name, help) help,
#include "options/profiles.def"
#undef PROFILE
};
