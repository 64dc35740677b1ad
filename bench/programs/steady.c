/*
 * steady - starts a command whose addresses are the same in every run.
 *
 *   steady [-s] [-p libraries] -- command [arguments]
 *
 *   -s  small pages only: no huge pages for it and its children
 *   -p  LD_PRELOAD for the command
 *
 * It replaces itself by the command, so the caller waits for the command directly. It is static, so
 * that its own page faults, which count as the command's, are few. Status 127 when the command cannot be started.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <unistd.h>

#define EXIT_USAGE 2
#define EXIT_NO_COMMAND 127

static int failed(const char *what) {
    perror(what);
    return EXIT_NO_COMMAND;
}

int main(int argc, char **argv) {
    int option;

    while ((option = getopt(argc, argv, "+sp:")) != -1) {
        if (option == 's') {
            if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) return failed("steady: huge pages");
        } else if (option == 'p') {
            if (setenv("LD_PRELOAD", optarg, 1) != 0) return failed("steady: LD_PRELOAD");
        } else {
            return EXIT_USAGE;
        }
    }
    if (optind >= argc) {
        fprintf(stderr, "steady: usage: steady [-s] [-p libraries] -- command [arguments]\n");
        return EXIT_USAGE;
    }
    if (personality(ADDR_NO_RANDOMIZE) == -1) return failed("steady: personality");
    execvp(argv[optind], argv + optind);
    return failed(argv[optind]);
}
