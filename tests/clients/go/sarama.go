// One consumer of sarama's consumer group: its options, its verbs and its sessions.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type saramaConsumer struct {
	owned   *owned
	group   string
	brokers []string
	client  sarama.ConsumerGroup
	starts  *starts
	reads   *reads
	end     context.CancelFunc
	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
}

func openSarama(r request) (consumer, error) {
	c := &saramaConsumer{
		owned:   &owned{name: r.Consumer, partitions: map[partition]bool{}},
		group:   r.Group,
		brokers: r.brokers(),
		starts:  newStarts(),
		reads:   newReads(),
	}
	client, err := sarama.NewConsumerGroup(r.brokers(), r.Group, c.config(r))
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	c.client, c.end = client, end
	go c.consume(ctx, r.Topics)
	return c, nil
}

func (c *saramaConsumer) config(r request) *sarama.Config {
	strategies := map[string]sarama.BalanceStrategy{
		"range":      sarama.NewBalanceStrategyRange(),
		"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"sticky":     sarama.NewBalanceStrategySticky(),
	}
	config := sarama.NewConfig()
	config.ClientID = r.Consumer
	config.Net.Proxy.Enable = true
	config.Net.Proxy.Dialer = saramaDialer{c.starts}
	config.Metadata.RefreshFrequency = milliseconds(r.MetadataMaxAgeMs)
	config.Consumer.MaxWaitTime = 500 * time.Millisecond
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if r.Reset == "latest" {
		config.Consumer.Offsets.Initial = sarama.OffsetNewest
	}
	group := &config.Consumer.Group
	group.Session.Timeout = milliseconds(r.SessionTimeoutMs)
	group.Heartbeat.Interval = milliseconds(r.HeartbeatIntervalMs)
	group.Rebalance.Timeout = milliseconds(r.RebalanceTimeoutMs)
	group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[r.Assignor]}
	if r.Instance != nil {
		group.InstanceId = *r.Instance
	}
	return config
}

type saramaDialer struct{ starts *starts }

func (d saramaDialer) Dial(network, address string) (net.Conn, error) {
	return d.starts.dial(context.Background(), network, address)
}

// Each session lasts until the next rebalance.
func (c *saramaConsumer) consume(ctx context.Context, topics []string) {
	for ctx.Err() == nil {
		err := c.client.Consume(ctx, topics, c)
		if errors.Is(err, sarama.ErrFencedInstancedId) {
			say(map[string]any{"event": "failed", "consumer": c.owned.name, "error": err.Error()})
			return
		}
		if err != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (c *saramaConsumer) Setup(session sarama.ConsumerGroupSession) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.session = session
	c.owned.change("assigned", session.Claims())
	return nil
}

func (c *saramaConsumer) Cleanup(session sarama.ConsumerGroupSession) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.session = nil
	c.owned.change("revoked", session.Claims())
	return nil
}

func (c *saramaConsumer) ConsumeClaim(
	_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for message := range claim.Messages() {
		c.reads.add(message.Topic, message.Partition, message.Offset)
	}
	return nil
}

func (c *saramaConsumer) perform(_ context.Context, r request) (any, error) {
	switch r.Op {
	case "commit":
		return nil, c.commit(r.Offsets)
	case "committed":
		return c.committed(r.Partitions)
	case "started":
		return answer(r.Partitions, func(p partition) any {
			return c.starts.offset(p, [16]byte{})
		}), nil
	case "read":
		return c.reads.rows(), nil
	case "close":
		c.end()
		return nil, c.client.Close()
	}
	return nil, fmt.Errorf("unknown op %q", r.Op)
}

// Commit has no result: what was taken is what `committed` tells.
func (c *saramaConsumer) commit(rows []row) error {
	c.mutex.Lock()
	session := c.session
	c.mutex.Unlock()
	if session == nil {
		return errors.New("between two sessions")
	}
	for _, r := range rows {
		session.MarkOffset(r.topic, r.index, r.offset, "")
	}
	session.Commit()
	return nil
}

func (c *saramaConsumer) committed(rows []row) (any, error) {
	admin, err := sarama.NewClusterAdmin(c.brokers, sarama.NewConfig())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	offsets, err := admin.ListConsumerGroupOffsets(c.group, byTopic[int32](rows))
	if err != nil {
		return nil, err
	}
	return answer(rows, func(p partition) any {
		if block := offsets.GetBlock(p.topic, p.index); block != nil && block.Offset >= 0 {
			return block.Offset
		}
		return nil
	}), nil
}
