/* Records the calls of this process that change files below one directory, in order.

   The library is loaded with LD_PRELOAD. recorder.py starts it, stops it and reads the log. Each
   entry of the log is a head and its data:

     W  data was written to a file        A  this write is durable (O_SYNC, O_DSYNC)
     T  a file got a new size             F  all earlier changes of a file or directory are durable
     C  a file was created                D  a directory was created
     R  a name was changed, both paths    U  a name was removed
     L  a name was added, both paths      M  a mark of the workload
     ?  a call that cannot be replayed

   A file is known by its inode. A lock covers each call and its entry, so that the order of the log
   is the order of the calls. A flush covers the changes of the file that were logged before it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 65536

struct head {
    uint64_t kind, inode, offset, bytes;
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static char root[PATH_MAX];
static size_t root_bytes;
static int active;
static unsigned char tracked[FDS]; /* 1: below the directory, 2: its writes are durable */
static char *entries;
static size_t used, room;

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static char *reserve(char kind, uint64_t inode, uint64_t offset, size_t bytes) {
    size_t need = sizeof(struct head) + bytes;
    if (used + need > room) {
        room = (used + need) * 2;
        entries = realloc(entries, room);
        if (!entries) abort();
    }
    struct head head = {(uint64_t)kind, inode, offset, bytes};
    memcpy(entries + used, &head, sizeof head);
    char *data = entries + used + sizeof head;
    used += need;
    return data;
}

static void add(char kind, uint64_t inode, uint64_t offset, const void *data, size_t bytes) {
    memcpy(reserve(kind, inode, offset, bytes), data, bytes);
}

static int is_below(const char *path) {
    return active && strncmp(path, root, root_bytes) == 0 &&
           (path[root_bytes] == '/' || path[root_bytes] == 0);
}

static int kind_of(int fd) {
    return active && fd >= 0 && fd < FDS ? tracked[fd] : 0;
}

static uint64_t inode_of(int fd) {
    struct stat found;
    return fstat(fd, &found) ? 0 : found.st_ino;
}

static uint64_t inode_at(const char *path) {
    struct stat found;
    return lstat(path, &found) ? 0 : found.st_ino;
}

static void resolve(int dir, const char *path, char *found) {
    char link[64], base[PATH_MAX];
    ssize_t length;
    if (path[0] == '/') {
        snprintf(found, PATH_MAX, "%s", path);
    } else if (dir == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) base[0] = 0;
        snprintf(found, PATH_MAX, "%.2000s/%.2000s", base, path);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        length = readlink(link, base, sizeof base - 1);
        base[length < 0 ? 0 : length] = 0;
        snprintf(found, PATH_MAX, "%.2000s/%.2000s", base, path);
    }
}

static void not_modelled(int fd, const char *name) {
    if (!kind_of(fd)) return;
    pthread_mutex_lock(&lock);
    add('?', inode_of(fd), 0, name, strlen(name));
    pthread_mutex_unlock(&lock);
}

/* -- for recorder.py */

void powercut_start(const char *directory) {
    pthread_mutex_lock(&lock);
    snprintf(root, sizeof root, "%s", directory);
    root_bytes = strlen(root);
    memset(tracked, 0, sizeof tracked);
    used = 0;
    active = 1;
    pthread_mutex_unlock(&lock);
}

void powercut_mark(const char *data, size_t bytes) {
    pthread_mutex_lock(&lock);
    if (active) add('M', 0, 0, data, bytes);
    pthread_mutex_unlock(&lock);
}

const char *powercut_stop(size_t *bytes) {
    pthread_mutex_lock(&lock);
    active = 0;
    *bytes = used;
    pthread_mutex_unlock(&lock);
    return entries;
}

/* -- files */

static int opened(int dir, const char *path, int flags, mode_t mode) {
    REAL(int, "openat", int, const char *, int, ...);
    char full[PATH_MAX];
    int fd, is_new;
    if (!active) return real(dir, path, flags, mode);
    resolve(dir, path, full);
    if (!is_below(full)) return real(dir, path, flags, mode);
    pthread_mutex_lock(&lock);
    is_new = (flags & O_CREAT) && !inode_at(full);
    fd = real(dir, path, flags, mode);
    if (fd >= 0 && fd < FDS) {
        tracked[fd] = flags & O_DSYNC ? 2 : 1; /* O_SYNC contains O_DSYNC */
        if (is_new)
            add('C', inode_of(fd), 0, full, strlen(full));
        else if (flags & O_TRUNC)
            add('T', inode_of(fd), 0, "", 0);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE_OF(flags) return opened(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE_OF(flags) return opened(dir, path, flags, mode); }

int close(int fd) {
    REAL(int, "close", int);
    if (kind_of(fd)) tracked[fd] = 0;
    return real(fd);
}

/* Logs a write that returned *done*. An offset of -1 is that of the descriptor. */
static void wrote(int fd, const struct iovec *parts, int count, off_t offset, ssize_t done) {
    uint64_t inode = inode_of(fd);
    size_t left = done;
    char *data;
    if (offset < 0) offset = lseek(fd, 0, SEEK_CUR) - done;
    data = reserve('W', inode, offset, done);
    for (int i = 0; i < count && left; i++) {
        size_t part = parts[i].iov_len < left ? parts[i].iov_len : left;
        memcpy(data, parts[i].iov_base, part);
        data += part;
        left -= part;
    }
    if (tracked[fd] == 2) add('A', inode, 0, "", 0);
}

#define WRITE(call, parts, count, offset) \
    ssize_t done; \
    if (!kind_of(fd)) return call; \
    pthread_mutex_lock(&lock); \
    done = call; \
    if (done > 0) wrote(fd, parts, count, offset, done); \
    pthread_mutex_unlock(&lock); \
    return done;

ssize_t write(int fd, const void *data, size_t bytes) {
    REAL(ssize_t, "write", int, const void *, size_t);
    struct iovec part = {(void *)data, bytes};
    WRITE(real(fd, data, bytes), &part, 1, -1)
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    WRITE(real(fd, parts, count), parts, count, -1)
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    struct iovec part = {(void *)data, bytes};
    WRITE(real(fd, data, bytes, offset), &part, 1, offset)
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
    return pwrite64(fd, data, bytes, offset);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags) {
    REAL(ssize_t, "pwritev64v2", int, const struct iovec *, int, off64_t, int);
    if (flags) not_modelled(fd, "pwritev2 with flags");
    WRITE(real(fd, parts, count, offset, flags), parts, count, offset)
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
    return pwritev64v2(fd, parts, count, offset, flags);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    return pwritev64v2(fd, parts, count, offset, 0);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return pwritev64v2(fd, parts, count, offset, 0);
}

int ftruncate64(int fd, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t);
    int failed;
    if (!kind_of(fd)) return real(fd, size);
    pthread_mutex_lock(&lock);
    failed = real(fd, size);
    if (!failed) add('T', inode_of(fd), size, "", 0);
    pthread_mutex_unlock(&lock);
    return failed;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

/* -- flushes, which only the log needs: the files are in memory */

static int flushed(int fd) {
    if (!kind_of(fd)) return 0;
    pthread_mutex_lock(&lock);
    add('F', inode_of(fd), used, "", 0);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fsync(int fd) { return flushed(fd); }
int fdatasync(int fd) { return flushed(fd); }

/* -- names */

#define TWO_PATHS(kind, call) \
    char old[PATH_MAX], both[2 * PATH_MAX]; \
    int failed; \
    if (!active) return call; \
    resolve(from_dir, from, old); \
    resolve(to_dir, to, both); \
    if (!is_below(old) && !is_below(both)) return call; \
    pthread_mutex_lock(&lock); \
    failed = call; \
    if (!failed) { \
        size_t first = strlen(both) + 1; \
        snprintf(both + first, PATH_MAX, "%s", old); \
        add(kind, 0, 0, both, first + strlen(old)); \
    } \
    pthread_mutex_unlock(&lock); \
    return failed;

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    TWO_PATHS('R', real(from_dir, from, to_dir, to))
}

int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    TWO_PATHS('L', real(from_dir, from, to_dir, to, flags))
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

#define ONE_PATH(kind, call, inode) \
    char full[PATH_MAX]; \
    int failed; \
    if (!active) return call; \
    resolve(dir, path, full); \
    if (!is_below(full)) return call; \
    pthread_mutex_lock(&lock); \
    failed = call; \
    if (!failed) add(kind, inode, 0, full, strlen(full)); \
    pthread_mutex_unlock(&lock); \
    return failed;

int mkdirat(int dir, const char *path, mode_t mode) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    ONE_PATH('D', real(dir, path, mode), inode_at(full))
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int dir, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    ONE_PATH('U', real(dir, path, flags), 0)
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

/* -- calls that would make the log incomplete */

void *mmap64(void *at, size_t bytes, int access, int flags, int fd, off64_t offset) {
    REAL(void *, "mmap64", void *, size_t, int, int, int, off64_t);
    /* lock.mdb has only readers and a mutex, which do not survive a power cut. */
    if (kind_of(fd) && access & PROT_WRITE && flags & MAP_SHARED) {
        char link[64], name[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, name, sizeof name - 1);
        name[length < 0 ? 0 : length] = 0;
        if (length < 8 || strcmp(name + length - 8, "lock.mdb")) not_modelled(fd, "mmap to write");
    }
    return real(at, bytes, access, flags, fd, offset);
}

void *mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset) {
    return mmap64(at, bytes, access, flags, fd, offset);
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t bytes) {
    REAL(ssize_t, "sendfile64", int, int, off64_t *, size_t);
    not_modelled(to, "sendfile");
    return real(to, from, offset, bytes);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *offset, size_t bytes, unsigned flags) {
    REAL(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
    not_modelled(to, "copy_file_range");
    return real(from, at, to, offset, bytes, flags);
}

int posix_fallocate64(int fd, off64_t offset, off64_t bytes) {
    REAL(int, "posix_fallocate64", int, off64_t, off64_t);
    not_modelled(fd, "posix_fallocate");
    return real(fd, offset, bytes);
}
