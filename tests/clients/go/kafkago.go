// One consumer of kafka-go's ConsumerGroup, with a Reader for each partition, as Reader itself does
// it for a group: so the test hears of assignments.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

type kafkaGoConsumer struct {
	owned      *owned
	group      string
	brokers    []string
	client     *kafka.ConsumerGroup
	dialer     *kafka.Dialer
	starts     *starts
	reads      *reads
	mutex      sync.Mutex
	generation *kafka.Generation
}

func openKafkaGo(r request) (consumer, error) {
	starts := newStarts()
	balancers := map[string]kafka.GroupBalancer{
		"range":      kafka.RangeGroupBalancer{},
		"roundrobin": kafka.RoundRobinGroupBalancer{},
	}
	reset := kafka.FirstOffset
	if r.Reset == "latest" {
		reset = kafka.LastOffset
	}
	dialer := &kafka.Dialer{ClientID: r.Consumer, DialFunc: starts.dial, Timeout: 5 * time.Second}
	client, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                     r.Group,
		Brokers:                r.brokers(),
		Dialer:                 dialer,
		Topics:                 r.Topics,
		GroupBalancers:         []kafka.GroupBalancer{balancers[r.Assignor]},
		HeartbeatInterval:      milliseconds(r.HeartbeatIntervalMs),
		SessionTimeout:         milliseconds(r.SessionTimeoutMs),
		RebalanceTimeout:       milliseconds(r.RebalanceTimeoutMs),
		PartitionWatchInterval: milliseconds(r.MetadataMaxAgeMs),
		WatchPartitionChanges:  true,
		JoinGroupBackoff:       100 * time.Millisecond,
		StartOffset:            reset,
	})
	if err != nil {
		return nil, err
	}
	c := &kafkaGoConsumer{
		owned:   &owned{name: r.Consumer, partitions: map[partition]bool{}},
		group:   r.Group,
		brokers: r.brokers(),
		client:  client,
		dialer:  dialer,
		starts:  starts,
		reads:   newReads(),
	}
	go c.consume()
	return c, nil
}

func (c *kafkaGoConsumer) consume() {
	for {
		generation, err := c.client.Next(context.Background())
		if errors.Is(err, kafka.ErrGroupClosed) {
			return
		}
		if err == nil {
			c.begin(generation)
		}
	}
}

func (c *kafkaGoConsumer) begin(generation *kafka.Generation) {
	topics := map[string][]int32{}
	for topic, assignments := range generation.Assignments {
		for _, assigned := range assignments {
			topics[topic] = append(topics[topic], int32(assigned.ID))
		}
	}
	c.mutex.Lock()
	c.generation = generation
	c.mutex.Unlock()
	c.owned.change("assigned", topics)
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		c.mutex.Lock()
		c.generation = nil
		c.mutex.Unlock()
		c.owned.change("revoked", topics)
	})
	for topic, assignments := range generation.Assignments {
		for _, assigned := range assignments {
			generation.Start(func(ctx context.Context) { c.read(ctx, topic, assigned) })
		}
	}
}

func (c *kafkaGoConsumer) read(
	ctx context.Context, topic string, assigned kafka.PartitionAssignment,
) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   c.brokers,
		Dialer:    c.dialer,
		Topic:     topic,
		Partition: assigned.ID,
		MaxWait:   500 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(assigned.Offset); err != nil {
		return
	}
	for ctx.Err() == nil {
		if message, err := reader.FetchMessage(ctx); err == nil {
			c.reads.add(message.Topic, int32(message.Partition), message.Offset)
		}
	}
}

func (c *kafkaGoConsumer) perform(ctx context.Context, r request) (any, error) {
	switch r.Op {
	case "commit":
		return nil, c.commit(r.Offsets)
	case "committed":
		return c.committed(ctx, r.Partitions)
	case "started":
		return answer(r.Partitions, func(p partition) any {
			return c.starts.offset(p, [16]byte{})
		}), nil
	case "read":
		return c.reads.rows(), nil
	case "close":
		return nil, c.client.Close()
	}
	return nil, fmt.Errorf("unknown op %q", r.Op)
}

func (c *kafkaGoConsumer) commit(rows []row) error {
	c.mutex.Lock()
	generation := c.generation
	c.mutex.Unlock()
	if generation == nil {
		return errors.New("between two generations")
	}
	offsets := map[string]map[int]int64{}
	for _, r := range rows {
		if offsets[r.topic] == nil {
			offsets[r.topic] = map[int]int64{}
		}
		offsets[r.topic][int(r.index)] = r.offset
	}
	return generation.CommitOffsets(offsets)
}

// Over a connection of its own: the pool's may be of before the server was killed.
func (c *kafkaGoConsumer) committed(ctx context.Context, rows []row) (any, error) {
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(c.brokers...), Transport: transport}
	response, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: c.group, Topics: byTopic[int](rows),
	})
	if err != nil {
		return nil, err
	}
	return answer(rows, func(p partition) any {
		for _, found := range response.Topics[p.topic] {
			if found.Partition == int(p.index) && found.CommittedOffset >= 0 {
				return found.CommittedOffset
			}
		}
		return nil
	}), response.Error
}
