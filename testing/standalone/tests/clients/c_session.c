/* What a user of ZooKeeper's C client does, in one process against one server, written down.
 *
 * Argument: connect string of a server with no nodes of its own. Prints a transcript that is the same for servers that
 * behave the same, without times and session ids, and at last DONE. The number after an arrow is the answer's code.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#define ANY_VERSION (-1)
#define IN_FLIGHT 500
/* More than a server reads at once (jute.maxbuffer): it ends the connection, not the session. */
#define TOO_LARGE 1200000

/* What the completion thread has to say: it calls watchers and completions, in the order of their frames. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char heard[1 << 16];
static int answered;
static int connected;
/* The number of times that clients have connected. */
static int connections;

static void hear(const char *line) {
    pthread_mutex_lock(&mutex);
    strncat(heard, line, sizeof heard - strlen(heard) - 1);
    pthread_mutex_unlock(&mutex);
}

static void answer(void) {
    pthread_mutex_lock(&mutex);
    answered++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static void await_answers(int count) {
    pthread_mutex_lock(&mutex);
    while (answered < count) {
        pthread_cond_wait(&changed, &mutex);
    }
    answered = 0;
    pthread_mutex_unlock(&mutex);
}

static void watch(zhandle_t *client, int type, int state, const char *path, void *name) {
    char line[256];
    if (type == ZOO_SESSION_EVENT) {
        pthread_mutex_lock(&mutex);
        connected = state == ZOO_CONNECTED_STATE;
        connections += connected;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&mutex);
        return;
    }
    snprintf(line, sizeof line, "   %s: event %d state %d %s\n", name ? (char *)name : "default", type, state, path);
    hear(line);
}

static void done(int code, const char *value, const void *data) {
    answer();
}

/* Prints the events of everything so far: they come before the answer. */
static void happened(zhandle_t *client) {
    zoo_async(client, "/", done, NULL);
    await_answers(1);
    printf("%s", heard);
    heard[0] = 0;
}

static void say(const char *label, int code) {
    printf("%s -> %d\n", label, code);
}

static void say_stat(const char *label, int code, const struct Stat *stat) {
    say(label, code);
    if (code == ZOK) {
        /* The upper half of a zxid counts the leaders of an ensemble. */
        printf("   version %d cversion %d aversion %d bytes %d children %d %s czxid %d mzxid %d pzxid %d\n",
               stat->version, stat->cversion, stat->aversion, stat->dataLength, stat->numChildren,
               stat->ephemeralOwner ? "ephemeral" : "lasting", (int)stat->czxid, (int)stat->mzxid, (int)stat->pzxid);
    }
}

static int by_name(const void *one, const void *two) {
    return strcmp(*(char *const *)one, *(char *const *)two);
}

static void say_names(const char *label, int code, struct String_vector *names) {
    say(label, code);
    if (code == ZOK) {
        qsort(names->data, names->count, sizeof *names->data, by_name);
        for (int index = 0; index < names->count; index++) {
            printf("   %s\n", names->data[index]);
        }
        deallocate_String_vector(names);
    }
}

static void say_list(const char *label, int code, struct ACL_vector *list, const struct Stat *stat) {
    say_stat(label, code, stat);
    if (code == ZOK) {
        for (int index = 0; index < list->count; index++) {
            const struct ACL *acl = &list->data[index];
            printf("   %d %s %s\n", acl->perms, acl->id.scheme, acl->id.id);
        }
        deallocate_ACL_vector(list);
    }
}

static zhandle_t *open_client(const char *server) {
    connected = 0;
    zhandle_t *client = zookeeper_init(server, watch, 10000, NULL, NULL, 0);
    pthread_mutex_lock(&mutex);
    while (!connected) {
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    return client;
}

static void operations(zhandle_t *client) {
    char path[128];
    char data[128];
    int length = sizeof data;
    struct Stat stat;
    struct String_vector names;
    printf("== operations\n");
    say("create", zoo_create(client, "/c", "one", 3, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path));
    say("again", zoo_create(client, "/c", "one", 3, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path));
    say("null", zoo_create(client, "/c/null", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path));
    const int modes[] = {
        ZOO_PERSISTENT, ZOO_EPHEMERAL, ZOO_PERSISTENT_SEQUENTIAL, ZOO_EPHEMERAL_SEQUENTIAL, ZOO_CONTAINER};
    for (unsigned index = 0; index < sizeof modes / sizeof *modes; index++) {
        char name[32];
        snprintf(name, sizeof name, "/c/mode-%d-", modes[index]);
        int code = zoo_create2(client, name, "x", 1, &ZOO_OPEN_ACL_UNSAFE, modes[index], path, sizeof path, &stat);
        say_stat(name, code, &stat);
        printf("   %s\n", path);
    }
    int code = zoo_create2_ttl(client, "/c/ttl", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 600000, path,
                               sizeof path, &stat);
    say_stat("ttl", code, &stat);
    say("below an ephemeral", zoo_create(client, "/c/mode-1-/x", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path));
    say("below nothing", zoo_create(client, "/none/x", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path));
    say("not a path", zoo_create(client, "c", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path));
    say_stat("get", zoo_get(client, "/c", 0, data, &length, &stat), &stat);
    printf("   %.*s\n", length, data);
    length = sizeof data;
    say_stat("get null", zoo_get(client, "/c/null", 0, data, &length, &stat), &stat);
    printf("   %d\n", length);
    say("get nothing", zoo_get(client, "/none", 0, data, &length, &stat));
    say_stat("set", zoo_set2(client, "/c", "two", 3, 0, &stat), &stat);
    say("wrong version", zoo_set(client, "/c", "two", 3, 0));
    say_stat("exists", zoo_exists(client, "/c", 0, &stat), &stat);
    say("exists nothing", zoo_exists(client, "/none", 0, &stat));
    say_names("children", zoo_get_children2(client, "/c", 0, &names, &stat), &names);
    say_names("of nothing", zoo_get_children(client, "/none", 0, &names), &names);
    say("delete, not empty", zoo_delete(client, "/c", ANY_VERSION));
    say("delete, wrong version", zoo_delete(client, "/c/null", 3));
    say("delete", zoo_delete(client, "/c/null", 0));
    say("delete again", zoo_delete(client, "/c/null", ANY_VERSION));
}

static int last_number = -1;
static int in_order = 1;

static void created(int code, const char *path, const void *data) {
    const int number = path ? atoi(path + strlen(path) - 10) : -1;
    in_order = in_order && code == ZOK && number > last_number;
    last_number = number;
    answer();
}

static void in_flight(zhandle_t *client) {
    struct Stat stat;
    printf("== many in flight\n");
    zoo_create(client, "/flight", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    for (int count = 0; count < IN_FLIGHT; count++) {
        zoo_acreate(client, "/flight/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, created, NULL);
    }
    await_answers(IN_FLIGHT);
    printf("in order %d, last %d\n", in_order, last_number);
    say_stat("parent", zoo_exists(client, "/flight", 0, &stat), &stat);
}

static void watches(zhandle_t *client, zhandle_t *other) {
    char data[128];
    int length = sizeof data;
    struct Stat stat;
    struct String_vector names;
    printf("== watches\n");
    say("exists", zoo_wexists(client, "/w", watch, "exists", &stat));
    zoo_create(other, "/w", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    happened(client);
    say("data", zoo_wget(client, "/w", watch, "data", data, &length, &stat));
    say("children", zoo_wget_children(client, "/w", watch, "children", &names));
    deallocate_String_vector(&names);
    zoo_set(other, "/w", "1", 1, ANY_VERSION);
    zoo_set(other, "/w", "2", 1, ANY_VERSION);
    zoo_create(other, "/w/a", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    zoo_create(other, "/w/b", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    happened(client);
    length = sizeof data;
    say("data of a child", zoo_wget(client, "/w/a", watch, "child", data, &length, &stat));
    say("children", zoo_wget_children(client, "/w", watch, "children", &names));
    deallocate_String_vector(&names);
    zoo_delete(other, "/w/a", ANY_VERSION);
    happened(client);
    length = sizeof data;
    say("data", zoo_wget(client, "/w", watch, "data", data, &length, &stat));
    say("remove another's", zoo_remove_watches(client, "/w", ZWATCHTYPE_CHILD, watch, "data", 0));
    say("remove", zoo_remove_watches(client, "/w", ZWATCHTYPE_DATA, watch, "data", 0));
    say("remove again", zoo_remove_watches(client, "/w", ZWATCHTYPE_DATA, watch, "data", 0));
    zoo_set(other, "/w", "3", 1, ANY_VERSION);
    happened(client);
}

static void authenticated(int code, const void *data) {
    answer();
}

static void access_lists(zhandle_t *client, zhandle_t *other) {
    char data[128];
    int length = sizeof data;
    struct Stat stat;
    struct ACL_vector list;
    printf("== access\n");
    say("whose", zoo_create(client, "/mine", "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    say("add", zoo_add_auth(client, "digest", "alice:secret", 12, authenticated, NULL));
    await_answers(1);
    say("mine", zoo_create(client, "/mine", "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    say_list("list", zoo_get_acl(client, "/mine", &list, &stat), &list, &stat);
    say("stranger", zoo_get(other, "/mine", 0, data, &length, &stat));
    say_list("stranger", zoo_get_acl(other, "/mine", &list, &stat), &list, &stat);
    say("wrong version", zoo_set_acl(client, "/mine", 4, &ZOO_READ_ACL_UNSAFE));
    say("readable", zoo_set_acl(client, "/mine", 0, &ZOO_READ_ACL_UNSAFE));
    length = sizeof data;
    say_stat("stranger", zoo_get(other, "/mine", 0, data, &length, &stat), &stat);
    say("stranger writes", zoo_set(other, "/mine", "y", 1, ANY_VERSION));
    say_list("list", zoo_get_acl(client, "/mine", &list, &stat), &list, &stat);
}

static void transactions(zhandle_t *client) {
    char path[2][64];
    struct Stat stat;
    zoo_op_t operations[5];
    zoo_op_result_t results[5];
    printf("== transactions\n");
    zoo_create_op_init(&operations[0], "/t", "1", 1, &ZOO_OPEN_ACL_UNSAFE, 0, path[0], sizeof path[0]);
    zoo_create_op_init(&operations[1], "/t/s-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, path[1], sizeof path[1]);
    zoo_set_op_init(&operations[2], "/t", "22", 2, 0, &stat);
    zoo_check_op_init(&operations[3], "/t", 1);
    zoo_delete_op_init(&operations[4], "/t/s-0000000000", ANY_VERSION);
    say("all", zoo_multi(client, 5, operations, results));
    for (int index = 0; index < 5; index++) {
        say("  ", results[index].err);
    }
    printf("   %s %s\n", path[0], path[1]);
    say_stat("stat", ZOK, &stat);
    zoo_check_op_init(&operations[1], "/t", 9);
    say("none", zoo_multi(client, 3, operations, results));
    for (int index = 0; index < 3; index++) {
        say("  ", results[index].err);
    }
    zoo_set_op_init(&operations[0], "/t", "3", 1, ANY_VERSION, &stat);
    say("none", zoo_multi(client, 3, operations, results));
    for (int index = 0; index < 3; index++) {
        say("  ", results[index].err);
    }
    say_stat("unchanged", zoo_exists(client, "/t", 0, &stat), &stat);
    say("nothing", zoo_multi(client, 0, operations, results));
}

static void chroots(const char *server, zhandle_t *client) {
    char chroot[256];
    char path[64];
    struct Stat stat;
    struct String_vector names;
    printf("== chroot\n");
    snprintf(chroot, sizeof chroot, "%s/t", server);
    zhandle_t *inside = open_client(chroot);
    say("chroot", zoo_create(inside, "/in", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, path, sizeof path));
    printf("   %s\n", path);
    say_names("chroot", zoo_get_children(inside, "/", 0, &names), &names);
    say_stat("outside", zoo_exists(client, "/t/in", 0, &stat), &stat);
    printf("granted %d\n", zoo_recv_timeout(inside));
    say("close", zookeeper_close(inside));
    say("after the end", zoo_exists(client, "/t/in", 0, &stat));
}

/* A client whose connection the server ends takes its session up again without a transaction. One that is closed after that
 * ends its session with one; one that is closed before cannot, and has one transaction less. So this waits. */
static void too_large(const char *server, zhandle_t *client) {
    struct Stat stat;
    printf("== too large\n");
    zhandle_t *doomed = open_client(server);
    const long long session = zoo_client_id(doomed)->client_id;
    pthread_mutex_lock(&mutex);
    const int before = connections;
    pthread_mutex_unlock(&mutex);
    char *data = calloc(1, TOO_LARGE);
    say("create", zoo_create(doomed, "/large", data, TOO_LARGE, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    free(data);
    pthread_mutex_lock(&mutex);
    while (connections == before) {
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    printf("the same session %d\n", zoo_client_id(doomed)->client_id == session);
    int code = zoo_create2(client, "/next", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0, &stat);
    say_stat("before the end", code, &stat);
    say("close", zookeeper_close(doomed));
    code = zoo_create2(client, "/last", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0, &stat);
    say_stat("after the end", code, &stat);
    say("large", zoo_exists(client, "/large", 0, &stat));
}

int main(int count, char **arguments) {
    if (count != 2) {
        return 2;
    }
    zoo_set_debug_level(0);
    zhandle_t *client = open_client(arguments[1]);
    zhandle_t *other = open_client(arguments[1]);
    operations(client);
    in_flight(client);
    watches(client, other);
    access_lists(client, other);
    transactions(client);
    chroots(arguments[1], client);
    too_large(arguments[1], client);
    say("close", zookeeper_close(other));
    say("close", zookeeper_close(client));
    printf("DONE\n");
    return 0;
}
