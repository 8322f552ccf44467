// What an application was given: of each partition the offset after the last record, how many came twice, and how many
// were left out.
package main

import "sync"

type reads struct {
	mutex  sync.Mutex
	counts map[partition]*[3]int64
}

func newReads() *reads {
	return &reads{counts: map[partition]*[3]int64{}}
}

func (r *reads) add(topic string, index int32, offset int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	counts := r.counts[partition{topic, index}]
	if counts == nil {
		counts = &[3]int64{}
		r.counts[partition{topic, index}] = counts
	}
	if offset < counts[0] {
		counts[1]++
		return
	}
	counts[2] += offset - counts[0]
	counts[0] = offset + 1
}

func (r *reads) rows() [][]any {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	rows := [][]any{}
	for p, counts := range r.counts {
		rows = append(rows, []any{p.topic, p.index, counts[0], counts[1], counts[2]})
	}
	return rows
}
