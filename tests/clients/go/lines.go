// What the program reads and writes: one JSON object a line, as tests/clients/driver.py says.
package main

import (
	"encoding/json"
	"os"
	"sort"
	"strings"
	"sync"
)

type request struct {
	ID                  int      `json:"id"`
	Op                  string   `json:"op"`
	Consumer            string   `json:"consumer"`
	Bootstrap           string   `json:"bootstrap"`
	Group               string   `json:"group"`
	Topics              []string `json:"topics"`
	Pattern             *string  `json:"pattern"`
	Protocol            string   `json:"protocol"`
	Assignor            string   `json:"assignor"`
	Instance            *string  `json:"instance"`
	Reset               string   `json:"reset"`
	SessionTimeoutMs    int      `json:"session_timeout_ms"`
	HeartbeatIntervalMs int      `json:"heartbeat_interval_ms"`
	RebalanceTimeoutMs  int      `json:"rebalance_timeout_ms"`
	MetadataMaxAgeMs    int      `json:"metadata_max_age_ms"`
	Offsets             []row    `json:"offsets"`
	Partitions          []row    `json:"partitions"`
}

// brokers are where to connect first.
func (r *request) brokers() []string {
	return strings.Split(r.Bootstrap, ",")
}

type partition struct {
	topic string
	index int32
}

// A row is [topic, partition] or [topic, partition, offset].
type row struct {
	partition
	offset int64
}

func (r *row) UnmarshalJSON(data []byte) error {
	var fields []any
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	r.topic, r.index = fields[0].(string), int32(fields[1].(float64))
	if len(fields) > 2 {
		r.offset = int64(fields[2].(float64))
	}
	return nil
}

var output sync.Mutex

func say(message map[string]any) {
	line, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func reply(r request, result any, err error) {
	if err != nil {
		say(map[string]any{"id": r.ID, "error": err.Error()})
		return
	}
	say(map[string]any{"id": r.ID, "result": result})
}

// What a consumer owns by its own account; each change is told to the test.
type owned struct {
	name       string
	mutex      sync.Mutex
	partitions map[partition]bool
}

func (o *owned) change(event string, topics map[string][]int32) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	changed := map[partition]bool{}
	for topic, indexes := range topics {
		for _, index := range indexes {
			changed[partition{topic, index}] = true
			if event == "assigned" {
				o.partitions[partition{topic, index}] = true
			} else {
				delete(o.partitions, partition{topic, index})
			}
		}
	}
	say(map[string]any{
		"event": event, "consumer": o.name,
		"partitions": rows(changed), "assignment": rows(o.partitions),
	})
}

func rows(partitions map[partition]bool) [][]any {
	result := [][]any{}
	for p := range partitions {
		result = append(result, []any{p.topic, p.index})
	}
	sort.Slice(result, func(i, j int) bool {
		if result[i][0] != result[j][0] {
			return result[i][0].(string) < result[j][0].(string)
		}
		return result[i][1].(int32) < result[j][1].(int32)
	})
	return result
}
