package fsm

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"berth/bench/shape"
	"berth/state"
	"berth/structs"
	"berth/test/kit"
)

// BenchmarkApply decodes and applies an entry that changes one plugin instance, alone or in a batch. A batch
// shares one transaction.
func BenchmarkApply(b *testing.B) {
	for _, batch := range []int{1, 16, 64, 256} {
		for _, nodes := range []int{10, 1000, 100000} {
			b.Run(fmt.Sprintf("batch=%d/N=%d", batch, nodes), func(b *testing.B) {
				benchApply(b, batch, nodes)
			})
		}
	}
}

func benchApply(b *testing.B, batch, nodes int) {
	f := New(state.New())
	index := uint64(0)
	entry := func(data []byte, err error) *raft.Log {
		if err != nil {
			b.Fatal(err)
		}
		index++
		return &raft.Log{
			Index: index,
			Type:  raft.LogCommand,
			Data:  data,
		}
	}
	apply := func(logs []*raft.Log) {
		for _, answer := range f.ApplyBatch(logs) {
			if answer != nil {
				b.Fatal(answer)
			}
		}
	}
	for i := range nodes {
		apply([]*raft.Log{entry(NodeRegister.Encode(shape.Register(i, 0, shape.Plugin)))})
	}
	kit.MeasurePrepared(b, batch, max(1, kit.AtOnce/batch), func(i int) (logs []*raft.Log) {
		for k := i * batch; k < (i+1)*batch; k++ {
			logs = append(logs, entry(NodeUpdateCSI.Encode(&structs.NodeUpdateCSIRequest{
				NodeID:  shape.UUID("node", k%nodes),
				Upserts: []*structs.CSIPluginInstance{shape.Instance(shape.Plugin, k%nodes, k+1)},
			})))
		}
		return logs
	}, apply)
}
