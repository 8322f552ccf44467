// What requests are written with, and replies read: one of each at a time.
#ifndef PYKCOORD_BENCHES_WIRE_H
#define PYKCOORD_BENCHES_WIRE_H

#include <stdint.h>

#include "client.h"

void put_bytes(const void *bytes, int size);
void put_int8(int value);
void put_int16(int value);
void put_int32(int value);

void put_string(const char *text);

// The name of the member's group, prefix-0000123, without its length.
void put_group_name(const struct member *member);
int group_name_bytes(void);

// The header of a request, not flexible; then, that it is whole.
void begin(struct member *member, int api_key, int version);
void finish(struct member *member, enum state state);

void begin_reply(struct member *member);
const uint8_t *take(int size);
int take_int16(void);
int take_int32(void);

#endif
