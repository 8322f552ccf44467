// A consume-transform-produce loop of franz-go, exactly once: what it reads goes to another topic, with the offsets in
// the same transaction. It ends where it cannot go on, to be started again. Arguments: bootstrap servers, group,
// transactional id, input, output.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const mostRecords = 20

func move(arguments []string) {
	bootstrap, group, transactionalID, source, target := arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.TransactionalID(transactionalID),
		kgo.TransactionTimeout(20*time.Second),
		kgo.SessionTimeout(10*time.Second),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.DefaultProduceTopic(target),
	)
	if err != nil {
		end(err)
	}
	for {
		moveSome(session)
	}
}

func moveSome(session *kgo.GroupTransactSession) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	fetches := session.PollRecords(ctx, mostRecords)
	if fetches.Err() != nil {
		end(fetches.Err())
	}
	if fetches.NumRecords() == 0 {
		return
	}
	if err := session.Begin(); err != nil {
		end(err)
	}
	promise := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(record *kgo.Record) {
		session.Produce(ctx, &kgo.Record{Value: record.Value}, promise.Promise())
	})
	// Not committed and no error: the group was rebalanced meanwhile, and the session begins again at what is committed.
	if _, err := session.End(ctx, promise.Err() == nil); err != nil {
		end(err)
	}
}

func end(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
