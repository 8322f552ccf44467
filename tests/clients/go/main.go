// Consumers of the library that is named as the argument, steered over lines of JSON as tests/clients/driver.py says;
// with the argument `move`, the loop of mover.go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"time"
)

const requestTimeout = 15 * time.Second

// A consumer of one of the libraries: what it does on request, while it polls.
type consumer interface {
	perform(ctx context.Context, r request) (any, error)
}

var libraries = map[string]func(request) (consumer, error){
	"franz-go": openFranz,
	"kafka-go": openKafkaGo,
	"sarama":   openSarama,
}

func main() {
	if os.Args[1] == "move" {
		move(os.Args[2:])
	}
	open := libraries[os.Args[1]]
	consumers := map[string]consumer{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		if r.Op == "open" {
			c, err := open(r)
			consumers[r.Consumer] = c
			reply(r, nil, err)
			continue
		}
		go func(c consumer) {
			ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
			defer cancel()
			result, err := c.perform(ctx, r)
			reply(r, result, err)
		}(consumers[r.Consumer])
	}
}

func milliseconds(count int) time.Duration {
	return time.Duration(count) * time.Millisecond
}

func answer(rows []row, offset func(partition) any) [][]any {
	result := [][]any{}
	for _, r := range rows {
		result = append(result, []any{r.topic, r.index, offset(r.partition)})
	}
	return result
}

// The partitions of rows by topic, as libraries take them.
func byTopic[Index int | int32](rows []row) map[string][]Index {
	topics := map[string][]Index{}
	for _, r := range rows {
		topics[r.topic] = append(topics[r.topic], Index(r.index))
	}
	return topics
}
