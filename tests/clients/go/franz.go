// One franz-go consumer: its options, its verbs and its poll loop.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type franzConsumer struct {
	owned  *owned
	group  string
	client *kgo.Client
	starts *starts
	reads  *reads
}

func openFranz(r request) (consumer, error) {
	c := &franzConsumer{
		owned:  &owned{name: r.Consumer, partitions: map[partition]bool{}},
		group:  r.Group,
		starts: newStarts(),
		reads:  newReads(),
	}
	client, err := kgo.NewClient(append(franzOptions(r), c.callbacks()...)...)
	if err != nil {
		return nil, err
	}
	c.client = client
	go c.poll()
	return c, nil
}

func franzOptions(r request) []kgo.Opt {
	balancers := map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"roundrobin":         kgo.RoundRobinBalancer(),
		"sticky":             kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	reset := kgo.NewOffset().AtStart()
	if r.Reset == "latest" {
		reset = kgo.NewOffset().AtEnd()
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(r.brokers()...),
		kgo.ClientID(r.Consumer),
		kgo.ConsumerGroup(r.Group),
		kgo.Balancers(balancers[r.Assignor]),
		kgo.ConsumeResetOffset(reset),
		kgo.SessionTimeout(milliseconds(r.SessionTimeoutMs)),
		kgo.HeartbeatInterval(milliseconds(r.HeartbeatIntervalMs)),
		kgo.RebalanceTimeout(milliseconds(r.RebalanceTimeoutMs)),
		kgo.MetadataMaxAge(milliseconds(r.MetadataMaxAgeMs)),
		kgo.MetadataMinAge(milliseconds(min(r.MetadataMaxAgeMs, 250))),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.DisableAutoCommit(),
	}
	if r.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	if r.Instance != nil {
		options = append(options, kgo.InstanceID(*r.Instance))
	}
	if r.Pattern != nil {
		return append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(*r.Pattern))
	}
	return append(options, kgo.ConsumeTopics(r.Topics...))
}

func (c *franzConsumer) callbacks() []kgo.Opt {
	tell := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			c.owned.change(event, topics)
		}
	}
	return []kgo.Opt{
		kgo.Dialer(c.starts.dial),
		kgo.OnPartitionsAssigned(tell("assigned")),
		kgo.OnPartitionsRevoked(tell("revoked")),
		kgo.OnPartitionsLost(tell("lost")),
	}
}

func (c *franzConsumer) poll() {
	for {
		fetches := c.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		for _, failure := range fetches.Errors() {
			if errors.Is(failure.Err, kerr.FencedInstanceID) {
				say(map[string]any{
					"event": "failed", "consumer": c.owned.name, "error": failure.Err.Error(),
				})
				return
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			c.reads.add(record.Topic, record.Partition, record.Offset)
		})
	}
}

func (c *franzConsumer) perform(ctx context.Context, r request) (any, error) {
	switch r.Op {
	case "commit":
		return nil, c.commit(ctx, r.Offsets)
	case "committed":
		offsets, err := kadm.NewClient(c.client).FetchOffsets(ctx, c.group)
		if err != nil {
			return nil, err
		}
		return answer(r.Partitions, func(p partition) any {
			if offset, found := offsets.Lookup(p.topic, p.index); found && offset.At >= 0 {
				return offset.At
			}
			return nil
		}), offsets.Error()
	case "started":
		topics, err := kadm.NewClient(c.client).ListTopics(ctx)
		if err != nil {
			return nil, err
		}
		return answer(r.Partitions, func(p partition) any {
			return c.starts.offset(p, topics[p.topic].ID)
		}), nil
	case "read":
		return c.reads.rows(), nil
	case "close":
		c.client.Close()
		return nil, nil
	}
	return nil, fmt.Errorf("unknown op %q", r.Op)
}

func (c *franzConsumer) commit(ctx context.Context, rows []row) error {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, r := range rows {
		if offsets[r.topic] == nil {
			offsets[r.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[r.topic][r.index] = kgo.EpochOffset{Epoch: -1, Offset: r.offset}
	}
	var failure error
	c.client.CommitOffsetsSync(ctx, offsets, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		failure = err
		if response == nil {
			return
		}
		for _, topic := range response.Topics {
			for _, p := range topic.Partitions {
				failure = errors.Join(failure, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	})
	return failure
}
