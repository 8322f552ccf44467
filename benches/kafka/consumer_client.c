// See consumer_client.h. The fields of a flexible version: lengths are unsigned varints, one more
// than they are.
#include "consumer_client.h"

#include <stdlib.h>
#include <string.h>

#include "wire.h"

enum { CONSUMER_GROUP_HEARTBEAT = 68, VERSION = 1, LEAVES = -1, REBALANCE_TIMEOUT_MS = 300000 };

static void put_varint(uint32_t value) {
    for (; value >= 0x80; value >>= 7) put_int8((int)(value & 0x7f) | 0x80);
    put_int8((int)value);
}

static void put_compact(const char *text) {
    int size = (int)strlen(text);
    put_varint((uint32_t)size + 1);
    put_bytes(text, size);
}

static void put_nothing(void) { put_varint(0); }  // a null, or no tagged fields

static void put_owned(const struct consumer *consumer) {
    put_varint(consumer->owned_count > 0 ? 2 : 1);
    if (consumer->owned_count == 0) return;
    put_bytes(consumer->topic_id, UUID_BYTES);
    put_varint((uint32_t)consumer->owned_count + 1);
    for (int i = 0; i < consumer->owned_count; i++) put_int32(consumer->owned[i]);
    put_nothing();
}

static void put_beat(struct consumer *consumer, int epoch) {
    struct member *member = &consumer->base;
    bool joins = epoch == 0;
    begin(member, CONSUMER_GROUP_HEARTBEAT, VERSION);
    put_nothing();  // tags of the header
    put_varint((uint32_t)group_name_bytes() + 1);
    put_group_name(member);
    put_compact(member->id);
    put_int32(epoch);
    put_nothing();  // instance id
    put_nothing();  // rack
    put_int32(joins ? REBALANCE_TIMEOUT_MS : -1);
    if (joins) {
        put_varint(2);
        put_compact(workload.topic);
    } else {
        put_nothing();
    }
    put_nothing();  // regular expression
    put_nothing();  // server assignor
    if (joins || (epoch > 0 && consumer->owns_others))
        put_owned(consumer);
    else
        put_nothing();
    put_nothing();  // tags
    consumer->owns_others = false;
}

void send_beat(struct consumer *consumer) {
    put_beat(consumer, consumer->epoch);
    finish(&consumer->base, HEARTBEATING);
}

void send_end(struct consumer *consumer) {
    put_beat(consumer, LEAVES);
    finish(&consumer->base, LEAVING);
}

static uint32_t take_varint(void) {
    uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 7) {
        uint8_t byte = *take(1);
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    die("a varint that does not end");
}

static void skip_compact(void) {
    uint32_t size = take_varint();
    if (size > 1) take((int)size - 1);
}

static void take_assignment(struct consumer *consumer) {
    uint32_t topics = take_varint();
    if (topics > 2) die("an assignment of %u topics", topics - 1);
    consumer->owned_count = 0;
    consumer->owns_others = true;
    if (topics < 2) return;
    memcpy(consumer->topic_id, take(UUID_BYTES), UUID_BYTES);
    int count = (int)take_varint() - 1;
    if (count < 0 || count > MOST_OWNED) die("an assignment of %d partitions", count);
    consumer->owned = realloc(consumer->owned, MOST_OWNED * sizeof *consumer->owned);
    for (int i = 0; i < count; i++) consumer->owned[i] = take_int32();
    consumer->owned_count = count;
}

int read_beat(struct consumer *consumer) {
    begin_reply(&consumer->base);
    take(1);        // tags of the header
    take_int32();   // throttle time
    int error = take_int16();
    skip_compact(); // message
    skip_compact(); // member id
    int epoch = take_int32();
    take_int32();   // heartbeat interval
    bool has_assignment = (int8_t)*take(1) >= 0;
    if (error != NONE) return error;
    if (has_assignment) take_assignment(consumer);
    consumer->epoch = epoch;
    return NONE;
}
