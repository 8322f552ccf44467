// See client.h. A reply that is not what Kafka would send ends the process: a load generator has
// nothing to recover, and figures taken after it would be wrong.
#define _GNU_SOURCE
#include "client.h"
#include "wire.h"
#include "measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_MAX = 1 << 20, REPLY_MIN = 1 << 10, REPLY_MAX = 1 << 24, LENGTH_BYTES = 4 };

struct workload workload = {"load-group", "topic", 5, 0, 0};

double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(3);
}

struct sockaddr_in server_at(char *address) {
    struct sockaddr_in server = {.sin_family = AF_INET};
    char *port = strchr(address, ':');
    if (!port || strncmp(address, "127.", 4) != 0) die("only loopback addresses with a port");
    *port++ = 0;
    server.sin_port = htons((uint16_t)atoi(port));
    inet_aton(address, &server.sin_addr);

    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    return server;
}

void connect_member(struct member *member, const struct sockaddr_in *server, int epoll) {
    member->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (member->socket < 0 ||
        connect(member->socket, (const struct sockaddr *)server, sizeof *server) != 0)
        die("connect: %s", strerror(errno));
    int on = 1;
    setsockopt(member->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(member->socket, F_SETFL, O_NONBLOCK);
    // Edge-triggered: replies are read in the order in which they came. Otherwise a socket that is
    // ready again keeps the place in the kernel's queue that it had for the reply before.
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = member};
    epoll_ctl(epoll, EPOLL_CTL_ADD, member->socket, &event);
    member->port = ntohs(server->sin_port);
}

void follow_member(struct member *member, int epoll) {
    if (member->coordinator_port == member->port) return;
    struct sockaddr_in server;
    socklen_t size = sizeof server;
    getpeername(member->socket, (struct sockaddr *)&server, &size);
    server.sin_port = htons((uint16_t)member->coordinator_port);
    close(member->socket);
    connect_member(member, &server, epoll);
}

// Requests are built in one buffer: only one is built at a time.

static struct {
    uint8_t bytes[REQUEST_MAX];
    int size;
} out;

void put_bytes(const void *bytes, int size) {
    if (size > REQUEST_MAX - out.size) die("a request of more than %d bytes", REQUEST_MAX);
    memcpy(out.bytes + out.size, bytes, (size_t)size);
    out.size += size;
}

static void put_int(int64_t value, int size) {
    uint8_t bytes[8];
    for (int i = 0; i < size; i++) bytes[i] = (uint8_t)(value >> 8 * (size - 1 - i));
    put_bytes(bytes, size);
}

void put_int8(int value) { put_int(value, 1); }
void put_int16(int value) { put_int(value, 2); }
void put_int32(int value) { put_int(value, 4); }
static void put_int64(int64_t value) { put_int(value, 8); }

void put_string(const char *text) {
    int size = (int)strlen(text);
    put_int16(size);
    put_bytes(text, size);
}

static void put_null(void) { put_int16(-1); }

// prefix-0000123: by hand, since printf takes a good part of what a request costs here.
void put_group_name(const struct member *member) {
    char number[GROUP_DIGITS];
    for (int i = GROUP_DIGITS - 1, rest = member->group; i >= 0; i--, rest /= 10)
        number[i] = (char)('0' + rest % 10);
    put_bytes(workload.prefix, (int)strlen(workload.prefix));
    put_bytes("-", 1);
    put_bytes(number, GROUP_DIGITS);
}

int group_name_bytes(void) { return (int)strlen(workload.prefix) + 1 + GROUP_DIGITS; }

static void put_group(const struct member *member) {
    put_int16(group_name_bytes());
    put_group_name(member);
}

void begin(struct member *member, int api_key, int version) {
    out.size = LENGTH_BYTES;
    put_int16(api_key);
    put_int16(version);
    put_int32(++member->correlation_id);
    put_string("load");  // client id
}

void finish(struct member *member, enum state state) {
    int size = out.size;
    out.size = 0;
    put_int32(size - LENGTH_BYTES);
    for (int sent = 0; sent < size;) {
        ssize_t written = write(member->socket, out.bytes + sent, (size_t)(size - sent));
        if (written > 0)
            sent += (int)written;
        else if (errno == EAGAIN)
            usleep(100);
        else
            die("write: %s", strerror(errno));
    }
    sent_count++;
    member->sent_at = now_seconds();
    member->state = state;
}

// A field of bytes that `fill` writes, padded with user data to `least_bytes`.
static void put_sized(void (*fill)(int), int argument, int least_bytes) {
    int length_at = out.size;
    put_int32(0);
    fill(argument);
    int user_data = least_bytes - (out.size - length_at - 4) - 4;
    put_int32(user_data > 0 ? user_data : -1);
    for (int i = 0; i < user_data; i++) put_int8('u');
    int end = out.size;
    out.size = length_at;
    put_int32(end - length_at - 4);
    out.size = end;
}

// ConsumerProtocolSubscription v0 of one topic, without its user data.
static void put_subscription(int unused) {
    (void)unused;
    put_int16(0);
    put_int32(1);
    put_string(workload.topic);
}

// ConsumerProtocolAssignment v0 of one partition, without its user data.
static void put_assignment(int partition) {
    put_int16(0);
    put_int32(1);
    put_string(workload.topic);
    put_int32(1);
    put_int32(partition);
}

void send_find_coordinator(struct member *member) {
    begin(member, 10, 1);
    put_group(member);
    put_int8(0);  // a group's
    finish(member, FINDING);
}

void send_join(struct member *member) {
    begin(member, 11, 5);
    put_group(member);
    put_int32(1800000);  // session timeout: no member expires, not even of a fill
    put_int32(1800000);
    put_string(member->id);
    put_null();
    put_string("consumer");
    put_int32(1);
    put_string("range");
    put_sized(put_subscription, 0, workload.subscription_bytes);
    finish(member, JOINING);
}

void send_sync(struct member *member) {
    begin(member, 14, 3);
    put_group(member);
    put_int32(member->generation);
    put_string(member->id);
    put_null();
    put_int32(member->is_leader ? member->member_count : 0);
    for (int i = 0; member->is_leader && i < member->member_count; i++) {
        put_string(member->member_ids[i]);
        put_sized(put_assignment, i, workload.assignment_bytes);
    }
    finish(member, SYNCING);
}

void send_heartbeat(struct member *member) {
    begin(member, 12, 3);
    put_group(member);
    put_int32(member->generation);
    put_string(member->id);
    put_null();
    finish(member, HEARTBEATING);
}

void send_commit(struct member *member) {
    static int64_t offset;
    offset++;
    begin(member, 8, 7);
    put_group(member);
    put_int32(member->generation);
    put_string(member->id);
    put_null();
    put_int32(1);
    put_string(workload.topic);
    put_int32(workload.partitions);
    for (int partition = 0; partition < workload.partitions; partition++) {
        put_int32(partition);
        put_int64(offset);
        put_int32(-1);   // leader epoch
        put_string("");  // metadata
    }
    finish(member, COMMITTING);
}

void send_fetch(struct member *member) {
    begin(member, 9, 5);
    put_group(member);
    put_int32(1);
    put_string(workload.topic);
    put_int32(workload.partitions);
    for (int partition = 0; partition < workload.partitions; partition++) put_int32(partition);
    finish(member, FETCHING);
}

void send_leave(struct member *member) {
    begin(member, 13, 1);
    put_group(member);
    put_string(member->id);
    finish(member, LEAVING);
}

// Replies are read from the member whose turn it is.

static const uint8_t *in, *in_end;

static int32_t big_endian(const uint8_t *bytes) {
    return (int32_t)((uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
                     (uint32_t)bytes[2] << 8 | bytes[3]);
}

// The size of the reply, its length field included; what is needed to know it while it is not there.
static int wanted_bytes(const struct member *member) {
    if (member->reply_bytes < LENGTH_BYTES) return LENGTH_BYTES;
    int wanted = LENGTH_BYTES + big_endian(member->reply);
    if (wanted <= LENGTH_BYTES || wanted > REPLY_MAX) die("a reply of %d bytes", wanted);
    return wanted;
}

bool receive(struct member *member) {
    for (;;) {
        int wanted = wanted_bytes(member);
        if (wanted > LENGTH_BYTES && member->reply_bytes >= wanted) break;
        if (wanted > member->reply_capacity) {
            member->reply_capacity = wanted < REPLY_MIN ? REPLY_MIN : 2 * wanted;
            member->reply = realloc(member->reply, (size_t)member->reply_capacity);
        }
        ssize_t got = read(member->socket, member->reply + member->reply_bytes,
                           (size_t)(member->reply_capacity - member->reply_bytes));
        if (got < 0 && errno == EAGAIN) return false;
        if (got < 0) die("read: %s", strerror(errno));
        if (got == 0) die("the server closed a connection in state %d", member->state);
        member->reply_bytes += (int)got;
    }
    if (member->reply_bytes != wanted_bytes(member)) die("more than the reply to one request");
    return true;
}

const uint8_t *take(int size) {
    if (size < 0 || size > in_end - in) die("a reply that ends early");
    in += size;
    return in - size;
}

int take_int16(void) {
    const uint8_t *bytes = take(2);
    return (int16_t)(bytes[0] << 8 | bytes[1]);
}

int take_int32(void) { return big_endian(take(4)); }

static int64_t take_int64(void) {
    int64_t high = take_int32();
    return high * ((int64_t)1 << 32) + (uint32_t)take_int32();
}

static void take_string(char *text) {
    int size = take_int16();
    if (size >= ID_MAX) die("a string of %d bytes", size);
    if (size > 0) memcpy(text, take(size), (size_t)size);
    text[size > 0 ? size : 0] = 0;
}

static void skip_string(void) {
    int size = take_int16();
    if (size > 0) take(size);
}

static void skip_bytes(void) {
    int size = take_int32();
    if (size > 0) take(size);
}

void begin_reply(struct member *member) {
    in = member->reply + LENGTH_BYTES;
    in_end = member->reply + member->reply_bytes;
    member->reply_bytes = 0;
    int correlation_id = take_int32();
    if (correlation_id != member->correlation_id)
        die("correlation id %d, not %d", correlation_id, member->correlation_id);
}

// Most replies begin with a throttle time, then an error code.
static int read_error(struct member *member) {
    begin_reply(member);
    take_int32();
    return take_int16();
}


int read_find_coordinator(struct member *member) {
    int error = read_error(member);
    if (error != NONE) return error;
    skip_string();  // an error's message
    take_int32();   // its node id
    skip_string();  // its host: there is one
    member->coordinator_port = take_int32();
    return NONE;
}

int read_sync(struct member *member) { return read_error(member); }
int read_heartbeat(struct member *member) { return read_error(member); }
int read_leave(struct member *member) { return read_error(member); }

int read_join(struct member *member) {
    char leader[ID_MAX];
    int error = read_error(member);
    int generation = take_int32();
    skip_string();  // protocol
    take_string(leader);
    if (error == UNKNOWN_MEMBER_ID) member->id[0] = 0;
    if (error != NONE && error != MEMBER_ID_REQUIRED) return error;
    take_string(member->id);
    if (error != NONE) return error;
    member->generation = generation;
    member->is_leader = strcmp(leader, member->id) == 0;
    member->member_count = take_int32();
    if (member->member_count == 0) return NONE;
    member->member_ids =
        realloc(member->member_ids, (size_t)member->member_count * sizeof *member->member_ids);
    for (int i = 0; i < member->member_count; i++) {
        take_string(member->member_ids[i]);
        skip_string();  // group instance id
        skip_bytes();   // subscription
    }
    return NONE;
}

int read_commit(struct member *member) {
    begin_reply(member);
    take_int32();
    int first_error = NONE, found = 0;
    for (int topics = take_int32(); topics > 0; topics--) {
        skip_string();
        for (int partitions = take_int32(); partitions > 0; partitions--) {
            take_int32();
            int error = take_int16();
            if (first_error == NONE) first_error = error;
            found++;
        }
    }
    if (found != workload.partitions) die("a commit of %d partitions", found);
    return first_error;
}

int read_fetch(struct member *member) {
    begin_reply(member);
    take_int32();
    int first_error = NONE, found = 0;
    for (int topics = take_int32(); topics > 0; topics--) {
        skip_string();
        for (int partitions = take_int32(); partitions > 0; partitions--) {
            take_int32();
            int64_t offset = take_int64();
            take_int32();  // leader epoch
            skip_string();
            int error = take_int16();
            if (error == NONE && offset < 0) die("a fetch of an offset that was not committed");
            if (first_error == NONE) first_error = error;
            found++;
        }
    }
    int error = take_int16();
    if (error == NONE && found != workload.partitions) die("a fetch of %d partitions", found);
    return first_error == NONE ? error : first_error;
}
