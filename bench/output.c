#include "output.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(char *why, const char *what, const char *path) {
    snprintf(why, OUTPUT_WHY_MAX, "%s %s: %s", what, path, strerror(errno));
    return false;
}

static bool is_stdout(const char *path) {
    return !strcmp(path, "-");
}

/* There, and nothing that a new file could take the place of. */
static bool is_special(const char *path) {
    struct stat status;
    return !stat(path, &status) && !S_ISREG(status.st_mode);
}

/* An empty file beside the target (behind links, so that a link stays one), or -1. */
static int open_beside(const char *path, char *target, char *temporary) {
    if (!realpath(path, target)) {
        if (strlen(path) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        strcpy(target, path);
    }
    if (snprintf(temporary, PATH_MAX, "%s.XXXXXX", target) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return mkstemp(temporary);
}

bool output_possible(const char *path, char *why) {
    char target[PATH_MAX], temporary[PATH_MAX];
    struct stat status;
    if (is_stdout(path))
        return true;
    if (!*path || (!stat(path, &status) && S_ISDIR(status.st_mode))) {
        errno = *path ? EISDIR : ENOENT;
        return fail(why, "cannot write", *path ? path : "''");
    }
    if (is_special(path))
        return !access(path, W_OK) || fail(why, "cannot write", path);
    int file = open_beside(path, target, temporary);
    if (file < 0)
        return fail(why, "cannot write", path);
    close(file);
    unlink(temporary);
    return true;
}

bool output_open(struct output *output, const char *path) {
    *output = (struct output){.path = path};
    output->out = open_memstream(&output->text, &output->length);
    return output->out != NULL;
}

static bool write_text(const struct output *o, FILE *file) {
    return fwrite(o->text, 1, o->length, file) == o->length && !fflush(file);
}

static bool save_directly(const struct output *o, char *why) {
    FILE *file = is_stdout(o->path) ? stdout : fopen(o->path, "w");
    if (!file)
        return fail(why, "cannot open", o->path);
    bool fine = write_text(o, file) || fail(why, "cannot write", o->path);
    if (file != stdout && fclose(file) && fine)
        fine = fail(why, "cannot write", o->path);
    return fine;
}

static bool save_beside(const struct output *o, char *why) {
    char target[PATH_MAX], temporary[PATH_MAX];
    struct stat old;
    int descriptor = open_beside(o->path, target, temporary);
    if (descriptor < 0)
        return fail(why, "cannot write", o->path);
    mode_t mask = umask(0);
    umask(mask);
    mode_t mode = stat(target, &old) ? 0666 & ~mask : old.st_mode & 07777;
    FILE *file = fdopen(descriptor, "w");
    bool fine = file && !fchmod(descriptor, mode) && write_text(o, file) && !fsync(descriptor);
    int error = errno;
    if (file ? fclose(file) : close(descriptor))
        error = fine ? errno : error, fine = false;
    if (fine && rename(temporary, target))
        error = errno, fine = false;
    if (fine)
        return true;
    unlink(temporary);
    errno = error;
    return fail(why, "cannot write", o->path);
}

bool output_save(struct output *o, char *why) {
    bool fine = !ferror(o->out);
    if (fclose(o->out) || !fine) {
        errno = ENOMEM;
        fine = fail(why, "cannot write", o->path ? o->path : "");
    }
    if (fine && o->path)
        fine =
            is_stdout(o->path) || is_special(o->path) ? save_directly(o, why) : save_beside(o, why);
    free(o->text);
    *o = (struct output){0};
    return fine;
}

void output_drop(struct output *o) {
    fclose(o->out);
    free(o->text);
    *o = (struct output){0};
}
