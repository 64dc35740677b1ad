/* export.c: `hakmem export`: serves the figures of processes to Prometheus over HTTP until it is
 * asked to end.
 *
 * The exporter itself only accepts connections. A child of its own answers each one, with a time
 * limit, so a slow client delays nobody, and a reader of each process writes its figures to that
 * child as JSON, so a damaged page harms only the reader. */
#include "command.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live.h"
#include "proc.h"
#include "prometheus.h"
#include "source.h"
#include "terminal.h"

enum {
    ANSWERS_MOST = 16, /* connections that are answered at the same time */
    ANSWER_SECONDS = 20,
    REQUEST_MOST = 8192,
    PROCESSES_MOST = 1024,
    SEARCH_MS = 2000,  /* of waiting for pages, while processes are searched for */
    FIGURES_MS = 2000, /* of waiting in vain for pages, while figures are read */
    LEAST_MS = 2,
    ADDRESS_SIZE = 256,
};

typedef struct {
    pid_t pids[PROCESSES_MOST];
    size_t count;
    bool finds; /* none was named: all processes that have a live page, at each request */
} watched_t;

static watched_t watched;

/* ---- The figures ----------------------------------------------------------------------------- */

static void find_processes(void) {
    static hak_live_page_t page;
    const char *problem;
    DIR *processes = opendir("/proc");
    watched.count = 0;
    live_limit_patience(SEARCH_MS);
    for (struct dirent *entry; processes && (entry = readdir(processes)) != NULL;) {
        pid_t pid = live_process_of(entry->d_name);
        if (!pid || watched.count == PROCESSES_MOST) continue;
        if (live_read(pid, &page, &problem) == LIVE_READ) watched.pids[watched.count++] = pid;
    }
    if (processes) closedir(processes);
    live_limit_patience(INT_MAX);
}

static void copy_to(int file, const char *text, size_t size) {
    while (size > 0) {
        ssize_t done = write(file, text, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) _exit(1);
        text += done;
        size -= (size_t)done;
    }
}

/* The reader of one process. */
static _Noreturn void write_figures(pid_t pid, int file, int patience_ms) {
    source_t source;
    const char *problem;
    live_limit_patience(patience_ms);
    if (!source_of_process(pid, &source, &problem)) _exit(1);
    copy_to(file, source.text, source.size);
    _exit(0);
}

static const json_t *figures_of(pid_t pid, int patience_ms) {
    int ends[2], status;
    size_t size = 0, line;
    char *text = NULL;
    if (pipe(ends) != 0) return NULL;
    pid_t reader = fork();
    if (reader == 0) {
        close(ends[0]);
        write_figures(pid, ends[1], patience_ms);
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    FILE *copy = open_memstream(&text, &size);
    for (int c; from && copy && (c = getc(from)) != EOF;) putc(c, copy);
    if (from) fclose(from);
    if (copy) fclose(copy);
    bool is_read = reader > 0 && waitpid(reader, &status, 0) == reader && status == 0;
    return is_read && size ? json_read(text, size, &line) : NULL;
}

static void add_labels(metrics_of_t *process, pid_t pid) {
    char name[PROC_NAME_SIZE], escaped[2 * PROC_NAME_SIZE], *to = escaped;
    for (const char *c = proc_name(pid, name); *c; *to++ = *c++)
        if (*c == '"' || *c == '\\') *to++ = '\\';
    *to = 0;
    snprintf(process->labels, sizeof process->labels, "pid=\"%d\",name=\"%s\",", (int)pid, escaped);
}

/* Processes that were stopped while they wrote to their pages must not use up the time of an answer: it waits FIGURES_MS
 * for all of them together, and then LEAST_MS for each, since one that works needs no longer. */
static void write_metrics(FILE *to) {
    static metrics_of_t processes[PROCESSES_MOST];
    int64_t patience = FIGURES_MS;
    if (watched.finds) find_processes();
    for (size_t i = 0; i < watched.count; i++) {
        const int64_t start = terminal_clock_ms();
        add_labels(&processes[i], watched.pids[i]);
        processes[i].root = figures_of(watched.pids[i], (int)patience);
        if (!processes[i].root) patience -= terminal_clock_ms() - start;
        if (patience < LEAST_MS) patience = LEAST_MS;
    }
    prometheus_write_up(to, processes, watched.count);
    prometheus_write(to, processes, watched.count);
}

/* ---- One connection -------------------------------------------------------------------------- */

/* Reads up to the empty line that ends the head of a request. False: there was none. */
static bool read_request(int connection, char request[REQUEST_MOST]) {
    size_t size = 0;
    while (size < REQUEST_MOST - 1) {
        ssize_t got = read(connection, request + size, REQUEST_MOST - 1 - size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        size += (size_t)got;
        request[size] = 0;
        if (strstr(request, "\r\n\r\n") || strstr(request, "\n\n")) return true;
    }
    return false;
}

static void answer(int connection, bool with_body, const char *status, const char *body,
                   size_t size) {
    char head[256];
    int length =
        snprintf(head, sizeof head,
                 "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                 "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                 status, size);
    copy_to(connection, head, (size_t)length);
    if (with_body) copy_to(connection, body, size);
    shutdown(connection, SHUT_WR);
    while (read(connection, head, sizeof head) > 0) continue; /* or the end would be a reset */
}

static void answer_text(int connection, bool with_body, const char *status, const char *text) {
    answer(connection, with_body, status, text, strlen(text));
}

static _Noreturn void serve(int connection) {
    char request[REQUEST_MOST], method[8] = "", path[256] = "", *body = NULL;
    size_t size = 0;
    alarm(ANSWER_SECONDS);
    if (!read_request(connection, request)) _exit(1);
    bool is_read = sscanf(request, "%7s %255s HTTP/1.", method, path) == 2;
    bool is_head = strcmp(method, "HEAD") == 0;
    path[strcspn(path, "?")] = 0;
    if (!is_read || (!is_head && strcmp(method, "GET") != 0)) {
        answer_text(connection, true, "405 Method Not Allowed", "GET /metrics\n");
    } else if (strcmp(path, "/metrics") == 0) {
        FILE *to = open_memstream(&body, &size);
        if (!to) _exit(1);
        write_metrics(to);
        if (fclose(to) != 0) _exit(1);
        answer(connection, !is_head, "200 OK", body, size);
    } else if (strcmp(path, "/") == 0) {
        answer_text(connection, !is_head, "200 OK", "HAKMEM: the figures are at /metrics\n");
    } else {
        answer_text(connection, !is_head, "404 Not Found", "the figures are at /metrics\n");
    }
    _exit(0);
}

/* ---- The exporter ---------------------------------------------------------------------------- */

/* Splits "ADDRESS:PORT", "[ADDRESS]:PORT" or "PORT" in place. */
static void split(const char *given, char text[ADDRESS_SIZE], const char **host,
                  const char **port) {
    if (snprintf(text, ADDRESS_SIZE, "%s", given) >= ADDRESS_SIZE) text[0] = 0;
    char *colon = strrchr(text, ':'), *number;
    *host = colon ? text : "127.0.0.1";
    *port = colon ? colon + 1 : text;
    if (colon) *colon = 0;
    size_t length = strlen(*host);
    if (colon && **host == '[' && (*host)[length - 1] == ']') {
        colon[-1] = 0;
        ++*host;
    }
    unsigned long value = strtoul(*port, &number, 10);
    if (!isdigit((unsigned char)**port) || *number || value > 65535)
        fail(STATUS_USAGE, "export: '%.64s' is no port, and no ADDRESS:PORT", given);
}

static int listen_at(const char *given) {
    char text[ADDRESS_SIZE];
    const char *host, *port;
    struct addrinfo *found,
        wanted = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    split(given, text, &host, &port);
    int problem = getaddrinfo(*host ? host : NULL, port, &wanted, &found);
    if (problem)
        fail(STATUS_USAGE, "export: cannot listen at %.64s: %s", given, gai_strerror(problem));
    int listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(listener, found->ai_addr, found->ai_addrlen) != 0 || listen(listener, 64) != 0)
        fail(1, "export: cannot listen at %.64s: %s", given, strerror(errno));
    freeaddrinfo(found);
    return listener;
}

static void print_place(int listener) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        fail(1, "export: %s", strerror(errno));
    bool is_long = strchr(host, ':') != NULL;
    printf("hakmem: figures at http://%s%s%s:%s/metrics\n", is_long ? "[" : "", host,
           is_long ? "]" : "", port);
    if (fflush(stdout) != 0 && errno != EBADF) /* a closed stdout is a daemon's */
        fail(1, "cannot write the output: %s", strerror(errno));
}

/* The signals that end the exporter, and the one that says that an answer has ended. */
static sigset_t handled_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    return set;
}

/* Answers the next connection in a child. True if there is one more child. */
static bool accept_one(int listener, const sigset_t *before, pid_t exporter) {
    int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0) return false;
    pid_t child = fork();
    if (child == 0) {
        close(listener);
        sigprocmask(SIG_SETMASK, before, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != exporter) _exit(1);
        serve(connection);
    }
    close(connection);
    return child > 0;
}

static void serve_until_asked(int listener) {
    sigset_t set = handled_signals(), before;
    struct signalfd_siginfo caught;
    pid_t exporter = getpid();
    unsigned answers = 0;
    sigprocmask(SIG_BLOCK, &set, &before);
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0) fail(1, "export: %s", strerror(errno));
    print_place(listener);
    for (;;) {
        struct pollfd wait[] = {{.fd = signals, .events = POLLIN},
                                {.fd = listener, .events = POLLIN}};
        if (poll(wait, answers < ANSWERS_MOST ? 2 : 1, -1) < 0) continue;
        if (wait[0].revents && read(signals, &caught, sizeof caught) == sizeof caught &&
            caught.ssi_signo != SIGCHLD)
            return;
        while (answers && waitpid(-1, NULL, WNOHANG) > 0) answers--;
        if (answers < ANSWERS_MOST && wait[1].revents)
            answers += accept_one(listener, &before, exporter);
    }
}

static void add_process(const char *text) {
    static hak_live_page_t page;
    const char *problem;
    pid_t pid = live_process_of(text);
    if (!pid) fail(STATUS_USAGE, "export: '%.64s' is no process", text);
    for (size_t i = 0; i < watched.count; i++)
        if (watched.pids[i] == pid) return; /* its figures twice would be no valid answer */
    if (watched.count == PROCESSES_MOST)
        fail(STATUS_USAGE, "export: %d processes at most", PROCESSES_MOST);
    if (live_read(pid, &page, &problem) != LIVE_READ) fail(1, "export: %s", problem);
    watched.pids[watched.count++] = pid;
}

int command_export(int argc, char **argv) {
    const char *place = "127.0.0.1:9876";
    for (int i = 1, words; i < argc; i += words) {
        const char *value;
        words = 1;
        if ((value = option_value("export", argv + i, "--listen", STATUS_USAGE, &words)) != NULL)
            place = value;
        else if (argv[i][0] == '-')
            fail(STATUS_USAGE, "export: '%.64s' is not known; `hakmem --help` shows the form",
                 argv[i]);
        else
            add_process(argv[i]);
    }
    watched.finds = watched.count == 0;
    serve_until_asked(listen_at(place));
    return 0;
}
