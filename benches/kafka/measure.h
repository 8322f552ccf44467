// What a phase of load took: processor time on both sides, latencies, errors that passed.
#ifndef PYKCOORD_BENCHES_MEASURE_H
#define PYKCOORD_BENCHES_MEASURE_H

extern const char *server_pids;  // of the server, or of its nodes with commas between
extern long done, sent_count;  // replies of the kind that the phase counts

void begin_phase(void);
void add_latency(double seconds);
void count_error(int code);

// One line of JSON on stdout.
void report(const char *phase, double seconds, long count);

#endif
