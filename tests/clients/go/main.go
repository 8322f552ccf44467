// Consumers of franz-go, steered over lines of JSON as tests/clients/driver.py says.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"time"
)

const requestTimeout = 15 * time.Second

func main() {
	consumers := map[string]*consumer{}
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
		go func(c *consumer) {
			ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
			defer cancel()
			result, err := c.perform(ctx, r)
			reply(r, result, err)
		}(consumers[r.Consumer])
	}
}
