// Reads from the wire where a client first fetched each partition: no library has such a getter.
package main

import (
	"context"
	"encoding/binary"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const fetchKey = 1

type starts struct {
	mutex   sync.Mutex
	byTopic map[partition]int64
	byID    map[[16]byte]map[int32]int64
}

func newStarts() *starts {
	return &starts{byTopic: map[partition]int64{}, byID: map[[16]byte]map[int32]int64{}}
}

func (s *starts) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &observed{Conn: conn, starts: s}, nil
}

// Returns the first offset fetched, or nil when the partition was not fetched yet.
func (s *starts) offset(p partition, topicID [16]byte) any {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if offset, found := s.byTopic[p]; found {
		return offset
	}
	if offset, found := s.byID[topicID][p.index]; found {
		return offset
	}
	return nil
}

// A connection whose Fetch requests are read on their way out; the libraries write one per Write.
type observed struct {
	net.Conn
	starts *starts
}

func (o *observed) Write(frame []byte) (int, error) {
	if len(frame) > 14 && binary.BigEndian.Uint16(frame[4:]) == fetchKey {
		o.starts.read(frame)
	}
	return o.Conn.Write(frame)
}

func (s *starts) read(frame []byte) {
	fetch := kmsg.NewPtrFetchRequest()
	fetch.SetVersion(int16(binary.BigEndian.Uint16(frame[6:])))
	body := 14 + int(binary.BigEndian.Uint16(frame[12:]))
	if fetch.IsFlexible() {
		body++ // the header's empty tagged fields
	}
	if err := fetch.ReadFrom(frame[body:]); err != nil {
		panic(err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, topic := range fetch.Topics {
		for _, p := range topic.Partitions {
			if topic.Topic != "" {
				name := partition{topic.Topic, p.Partition}
				if _, known := s.byTopic[name]; !known {
					s.byTopic[name] = p.FetchOffset
				}
				continue
			}
			if s.byID[topic.TopicID] == nil {
				s.byID[topic.TopicID] = map[int32]int64{}
			}
			if _, known := s.byID[topic.TopicID][p.Partition]; !known {
				s.byID[topic.TopicID][p.Partition] = p.FetchOffset
			}
		}
	}
}
