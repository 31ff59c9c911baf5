package events_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"berth/bench/shape"
	"berth/fsm"
	"berth/server/events"
	"berth/state"
	"berth/structs"
	"berth/structs/event"
)

// BenchmarkApply is the application of log entries that change a plugin instance of one of 1,000 nodes, 16 in
// a transaction: without an observer, with the ring, and with readers that each get all events. An operation
// is one entry. The readers are those of this process: what a connection costs comes on top.
func BenchmarkApply(b *testing.B) {
	b.Run("off", func(b *testing.B) { benchApply(b, nil, 0) })
	for _, readers := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			benchApply(b, events.New(events.DefaultSettings()), readers)
		})
	}
}

func benchApply(b *testing.B, feed *events.Ring, readers int) {
	const nodes, batch = 1000, 16
	f := fsm.New(state.New())
	if feed != nil {
		f.Observe(feed)
	}
	index := uint64(0)
	entry := func(data []byte, err error) *raft.Log {
		if err != nil {
			b.Fatal(err)
		}
		index++
		return &raft.Log{Index: index, Type: raft.LogCommand, Data: data}
	}
	for i := range nodes {
		f.Apply(entry(fsm.NodeRegister.Encode(shape.Register(i, 0, shape.Plugin))))
	}

	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var delivered, missed atomic.Int64
	for range readers {
		running.Go(func() { follow(ctx, feed, index, &delivered, &missed) })
	}
	// The entries are encoded first: that is not the work of a follower.
	logs := make([]*raft.Log, b.N)
	for n := range logs {
		logs[n] = entry(fsm.NodeUpdateCSI.Encode(&structs.NodeUpdateCSIRequest{
			NodeID:  shape.UUID("node", n%nodes),
			Upserts: []*structs.CSIPluginInstance{shape.Instance(shape.Plugin, n%nodes, n+1)},
		}))
	}

	b.ReportAllocs()
	b.ResetTimer()
	before := processTime(b)
	for len(logs) > 0 {
		n := min(batch, len(logs))
		f.ApplyBatch(logs[:n])
		logs = logs[n:]
	}
	b.StopTimer()
	b.ReportMetric(float64(processTime(b)-before)/float64(b.N), "cpu-ns/op")
	stop()
	running.Wait()
	if readers > 0 {
		b.ReportMetric(float64(delivered.Load())/b.Elapsed().Seconds(), "delivered/s")
		b.ReportMetric(float64(missed.Load())/float64(readers*b.N), "missed/op")
	}
}

// processTime returns the time of the processor that this process has used, in nanoseconds. Other programs on
// the machine change it little.
func processTime(b *testing.B) int64 {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	if err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// follow reads all events until ctx ends. It counts them, and the indexes that it has missed.
func follow(ctx context.Context, feed *events.Ring, after uint64, delivered, missed *atomic.Int64) {
	req := &event.ListRequest{After: after}
	for ctx.Err() == nil {
		resp, err := feed.Read(ctx, req, func(*event.Event) (bool, error) { return true, nil })
		if err != nil {
			return
		}
		delivered.Add(int64(len(resp.Events)))
		if resp.Missed != nil {
			missed.Add(int64(resp.Missed.To - resp.Missed.From + 1))
		}
		req.After = resp.Next
		req.Skip = resp.NextSkip
	}
}
