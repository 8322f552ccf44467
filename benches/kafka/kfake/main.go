// Franz-go's kfake, a Kafka in memory, as a process: one broker on 127.0.0.1, with one topic.
//
//	kfake PORT TOPIC PARTITIONS
//
// Says "ready" on stdout once it listens, and ends with SIGTERM.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: kfake PORT TOPIC PARTITIONS"))
	}
	port, err := strconv.Atoi(os.Args[1])
	fail(err)
	partitions, err := strconv.ParseInt(os.Args[3], 10, 32)
	fail(err)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.Ports(port),
		kfake.SeedTopics(int32(partitions), os.Args[2]),
		kfake.GroupMaxSessionTimeout(30*time.Minute), // Kafka's default
	)
	fail(err)
	defer cluster.Close()
	fmt.Println("ready")
	<-asked
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
