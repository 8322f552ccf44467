// Preloaded into a real server: every change that it makes below a directory is noted, and the one
// that a rule names is met by a kill, an error, a short write or a disk that hangs. Must never
// touch what is outside that directory, and needs nothing in the product.
//
//   FAULTS_ROOT     the directory; all paths below are relative to it, "." is itself
//   FAULTS_RULES    a file, read again at each call, so that it may change while the server runs;
//                   passages are counted from the last change on
//   FAULTS_JOURNAL  what was done, a line each: call, path, and by call
//                   write: first byte, length; sync: size; rename, unlink: other name, kept file
//   FAULTS_KEPT     where files that are deleted or replaced stay reachable, for a power cut
//
// A rule is one line: NTH CALL PATTERN MOMENT ACTION [NUMBER]
//   NTH       1 for the first passage; 1+ for every one from then on
//   CALL      write sync sync-directory create open read rename unlink mkdir truncate
//   PATTERN   as the shell's; of a rename the new name counts
//   MOMENT    before half after (half: the first half of a write is done)
//   ACTION    kill; error NUMBER (errno); short (write half, and say so); hang (as long as these
//             rules stay)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_RULES = 8, TEXT_BYTES = 4096, LINE_BYTES = 2 * PATH_MAX + 200 };
enum moment { BEFORE, HALF, AFTER };
enum action { NONE, KILL, ERROR, SHORT, HANG };

struct rule {
    long nth, passed;
    int and_later;
    char call[32], pattern[PATH_MAX];
    enum moment moment;
    enum action action;
    int number;
};

// What a call meets: at most one rule.
struct fate {
    enum moment moment;
    enum action action;
    int number;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX], rules_text[TEXT_BYTES];
static const char *rules_path, *journal_path, *kept_path;
static struct rule rules[MAX_RULES];
static int rule_count, journal = -1;
static long kept_count;

// The system itself: these wrappers must not meet each other.
static long real_write(int fd, const void *data, size_t size) {
    return syscall(SYS_write, fd, data, size);
}

static int real_open(const char *path, int flags, int mode) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void die(const char *what) {
    dprintf(2, "faults: %s\n", what);
    _exit(99);
}

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("FAULTS_ROOT");
    rules_path = getenv("FAULTS_RULES");
    journal_path = getenv("FAULTS_JOURNAL");
    kept_path = getenv("FAULTS_KEPT");
    if (!given || !rules_path || !journal_path || !kept_path || strlen(given) >= sizeof root)
        die("FAULTS_ROOT, _RULES, _JOURNAL and _KEPT are needed");
    strcpy(root, given);
    journal = real_open(journal_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (journal < 0) die("cannot open the journal");
    int high = fcntl(journal, F_DUPFD_CLOEXEC, 900);  // out of the way of what the server counts on
    if (high >= 0) {
        syscall(SYS_close, journal);
        journal = high;
    }
}

// The path below the root, or NULL.
static const char *below(const char *path) {
    size_t length = strlen(root);
    if (!length || strncmp(path, root, length)) return NULL;
    if (!path[length]) return ".";
    return path[length] == '/' ? path + length + 1 : NULL;
}

static const char *of_descriptor(int fd, char *buffer) {
    char link[64];
    if (fd <= 2 || fd == journal) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, PATH_MAX - 1);
    if (length <= 0) return NULL;
    buffer[length] = 0;
    return below(buffer);
}

static enum moment moment_of(const char *word) {
    if (!strcmp(word, "before")) return BEFORE;
    if (!strcmp(word, "half")) return HALF;
    if (!strcmp(word, "after")) return AFTER;
    die("a moment is before, half or after");
    return BEFORE;
}

static enum action action_of(const char *word) {
    if (!strcmp(word, "kill")) return KILL;
    if (!strcmp(word, "error")) return ERROR;
    if (!strcmp(word, "short")) return SHORT;
    if (!strcmp(word, "hang")) return HANG;
    die("an action is kill, error, short or hang");
    return NONE;
}

// Whether the rules are other ones than before.
static int read_rules(void) {
    char text[TEXT_BYTES] = "";
    int fd = real_open(rules_path, O_RDONLY | O_CLOEXEC, 0);
    if (fd >= 0) {
        long size = syscall(SYS_read, fd, text, sizeof text - 1);
        text[size > 0 ? size : 0] = 0;
        syscall(SYS_close, fd);
    }
    if (!strcmp(text, rules_text)) return 0;
    strcpy(rules_text, text);
    rule_count = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char nth[32], moment[16], action[16];
        struct rule rule = {0};
        if (!*line) continue;
        if (rule_count == MAX_RULES || sscanf(line, "%31s %31s %4095s %15s %15s %d", nth, rule.call,
                rule.pattern, moment, action, &rule.number) < 5)
            die("cannot read the rules");
        rule.nth = atol(nth);
        rule.and_later = strchr(nth, '+') != NULL;
        rule.moment = moment_of(moment);
        rule.action = action_of(action);
        rules[rule_count++] = rule;
    }
    return 1;
}

static struct fate meet(const char *call, const char *path) {
    struct fate fate = {BEFORE, NONE, 0};
    pthread_mutex_lock(&mutex);
    read_rules();
    for (int n = 0; n < rule_count; n++) {
        struct rule *rule = &rules[n];
        if (strcmp(rule->call, call) || fnmatch(rule->pattern, path, FNM_PATHNAME)) continue;
        rule->passed++;
        int hit = rule->passed == rule->nth || (rule->and_later && rule->passed > rule->nth);
        if (hit && fate.action == NONE)
            fate = (struct fate){rule->moment, rule->action, rule->number};
    }
    pthread_mutex_unlock(&mutex);
    return fate;
}

static void note(const char *call, const char *path, const char *more) {
    char line[LINE_BYTES];
    int saved = errno;
    int length = snprintf(line, sizeof line, "%s\t%s%s\n", call, path, more);
    if (real_write(journal, line, (size_t)length) != length) die("cannot write the journal");
    errno = saved;
}

static void note_numbers(const char *call, const char *path, long first, long second) {
    char more[64];
    snprintf(more, sizeof more, "\t%ld\t%ld", first, second);
    note(call, path, more);
}

// Returns whether the call shall fail, with errno set.
static int strike(struct fate fate, enum moment now, const char *call, const char *path) {
    if (fate.action == NONE || fate.moment != now) return 0;
    note("!", path, fate.action == KILL ? "\tkill" : fate.action == HANG ? "\thang" : "\terror");
    if (fate.action == KILL) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;) pause();
    }
    while (fate.action == HANG) {
        pthread_mutex_lock(&mutex);
        int over = read_rules();
        pthread_mutex_unlock(&mutex);
        if (over) return 0;
        usleep(5000);
    }
    if (fate.action != ERROR) return 0;
    if (!strcmp(call, "sync")) note("sync-failed", path, "");
    errno = fate.number;
    return 1;
}

// Before a name goes away: keeps the file, for a power cut that undoes it.
static void keep(const char *path, char *more, size_t room) {
    char kept[PATH_MAX];
    pthread_mutex_lock(&mutex);
    snprintf(kept, sizeof kept, "%s/%d-%ld", kept_path, getpid(), ++kept_count);
    pthread_mutex_unlock(&mutex);
    int found = syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, kept, 0) == 0;
    snprintf(more, room, "\t%s", found ? kept : "");
}

static long write_at(int fd, const struct iovec *parts, int count, off_t at, size_t most) {
    size_t done = 0;
    for (int n = 0; n < count && done < most; n++) {
        size_t size = parts[n].iov_len < most - done ? parts[n].iov_len : most - done;
        long wrote = at < 0 ? real_write(fd, parts[n].iov_base, size)
                            : syscall(SYS_pwrite64, fd, parts[n].iov_base, size, at + (off_t)done);
        if (wrote < 0) return done ? (long)done : -1;
        done += (size_t)wrote;
        if ((size_t)wrote < size) break;
    }
    return (long)done;
}

static long write_parts(int fd, const struct iovec *parts, int count, off_t at) {
    char buffer[PATH_MAX];
    size_t whole = 0;
    for (int n = 0; n < count; n++) whole += parts[n].iov_len;
    const char *path = of_descriptor(fd, buffer);
    if (!path) return write_at(fd, parts, count, at, whole);
    struct fate fate = meet("write", path);
    if (strike(fate, BEFORE, "write", path)) return -1;
    off_t first = at < 0 ? lseek(fd, 0, SEEK_CUR) : at;
    size_t most = fate.action == SHORT || (fate.action && fate.moment == HALF) ? whole / 2 : whole;
    long done = write_at(fd, parts, count, at, most);
    if (done > 0) note_numbers("write", path, first, done);
    if (strike(fate, HALF, "write", path) || strike(fate, AFTER, "write", path)) return -1;
    return done;
}

ssize_t write(int fd, const void *data, size_t size) {
    struct iovec part = {(void *)data, size};
    char buffer[PATH_MAX];
    if (!of_descriptor(fd, buffer)) return real_write(fd, data, size);  // sockets, pipes: as one
    return write_parts(fd, &part, 1, -1);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    struct iovec part = {(void *)data, size};
    return write_parts(fd, &part, 1, at);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    return write_parts(fd, parts, count, at);
}

ssize_t pwrite(int, const void *, size_t, off_t) __attribute__((alias("pwrite64")));
ssize_t pwritev(int, const struct iovec *, int, off_t) __attribute__((alias("pwritev64")));

static int synced(int fd, int number) {
    char buffer[PATH_MAX];
    const char *path = of_descriptor(fd, buffer);
    if (!path) return (int)syscall(number, fd);
    struct stat status;
    if (fstat(fd, &status) < 0) return -1;
    const char *call = S_ISDIR(status.st_mode) ? "sync-directory" : "sync";
    struct fate fate = meet(call, path);
    if (strike(fate, BEFORE, call, path)) return -1;
    // What is written from here on may have missed the sync.
    if (fstat(fd, &status) < 0 || syscall(number, fd) < 0) return -1;
    note_numbers(call, path, (long)status.st_size, 0);
    return strike(fate, AFTER, call, path) ? -1 : 0;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }

int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

static int opened(const char *full, int flags, int mode) {
    const char *path = below(full);
    if (!path) return real_open(full, flags, mode);
    struct stat status;
    int creates = (flags & O_CREAT) && stat(full, &status) < 0;
    int empties = !creates && (flags & O_TRUNC);
    const char *call = creates ? "create" : empties ? "truncate" : "open";
    struct fate fate = meet(call, path);
    if (strike(fate, BEFORE, call, path)) return -1;
    int fd = real_open(full, flags, mode);
    if (fd < 0) return fd;
    if (creates || empties) note_numbers(call, path, 0, 0);
    if (strike(fate, AFTER, call, path)) {
        syscall(SYS_close, fd);
        return -1;
    }
    return fd;
}

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = va_arg(arguments, int);
    va_end(arguments);
    return opened(path, flags, mode);
}

int open(const char *, int, ...) __attribute__((alias("open64")));

static long read_at(int fd, struct iovec *parts, int count, off_t at) {
    char buffer[PATH_MAX];
    const char *path = of_descriptor(fd, buffer);
    if (path && strike(meet("read", path), BEFORE, "read", path)) return -1;
    return at < 0 ? syscall(SYS_readv, fd, parts, count)
                  : syscall(SYS_preadv, fd, parts, count, at, 0);
}

ssize_t read(int fd, void *data, size_t size) {
    struct iovec part = {data, size};
    return read_at(fd, &part, 1, -1);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t at) {
    struct iovec part = {data, size};
    return read_at(fd, &part, 1, at);
}

ssize_t preadv64(int fd, const struct iovec *parts, int count, off64_t at) {
    return read_at(fd, (struct iovec *)parts, count, at);
}

// What Python's os.preadv and os.pwritev call.
ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) {
    (void)flags;
    return read_at(fd, (struct iovec *)parts, count, at);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) {
    (void)flags;
    return write_parts(fd, parts, count, at);
}

ssize_t preadv2(int, const struct iovec *, int, off_t, int) __attribute__((alias("preadv64v2")));
ssize_t pwritev2(int, const struct iovec *, int, off_t, int) __attribute__((alias("pwritev64v2")));

int ftruncate64(int fd, off64_t size) {
    char buffer[PATH_MAX];
    const char *path = of_descriptor(fd, buffer);
    if (!path) return (int)syscall(SYS_ftruncate, fd, size);
    struct fate fate = meet("truncate", path);
    if (strike(fate, BEFORE, "truncate", path)) return -1;
    if (syscall(SYS_ftruncate, fd, size) < 0) return -1;
    note_numbers("truncate", path, size, 0);
    return strike(fate, AFTER, "truncate", path) ? -1 : 0;
}

int ftruncate(int, off_t) __attribute__((alias("ftruncate64")));

int rename(const char *from, const char *to) {
    const char *path = below(to), *old = below(from);
    if (!path || !old) return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    char kept[PATH_MAX], more[2 * PATH_MAX];
    struct fate fate = meet("rename", path);
    if (strike(fate, BEFORE, "rename", path)) return -1;
    keep(to, kept, sizeof kept);
    if (syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to) < 0) return -1;
    snprintf(more, sizeof more, "\t%s%s", old, kept);
    note("rename", path, more);
    return strike(fate, AFTER, "rename", path) ? -1 : 0;
}

int unlink(const char *full) {
    const char *path = below(full);
    if (!path) return (int)syscall(SYS_unlinkat, AT_FDCWD, full, 0);
    char kept[PATH_MAX];
    struct fate fate = meet("unlink", path);
    if (strike(fate, BEFORE, "unlink", path)) return -1;
    keep(full, kept, sizeof kept);
    if (syscall(SYS_unlinkat, AT_FDCWD, full, 0) < 0) return -1;
    note("unlink", path, kept);
    return strike(fate, AFTER, "unlink", path) ? -1 : 0;
}

int mkdir(const char *full, mode_t mode) {
    const char *path = below(full);
    if (!path) return (int)syscall(SYS_mkdirat, AT_FDCWD, full, mode);
    struct fate fate = meet("mkdir", path);
    if (strike(fate, BEFORE, "mkdir", path)) return -1;
    if (syscall(SYS_mkdirat, AT_FDCWD, full, mode) < 0) return -1;
    note("mkdir", path, "");
    return strike(fate, AFTER, "mkdir", path) ? -1 : 0;
}
