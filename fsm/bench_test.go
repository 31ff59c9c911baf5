package fsm

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"berth/internal/benchshape"
	"berth/state"
	"berth/structs"
)

// BenchmarkApply is an entry of the log that changes one plugin instance of a fleet of 1,000, decoded and
// applied, alone or in a batch: the transaction is shared by the batch.
func BenchmarkApply(b *testing.B) {
	for _, batch := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			f := New(state.New())
			index := uint64(0)
			entry := func(data []byte, err error) *raft.Log {
				if err != nil {
					b.Fatal(err)
				}
				index++
				return &raft.Log{Index: index, Type: raft.LogCommand, Data: data}
			}
			const nodes = 1000
			var fleet []*raft.Log
			for i := range nodes {
				fleet = append(fleet, entry(NodeRegister.Encode(benchshape.Register(i, 0, benchshape.Plugin))))
			}
			f.ApplyBatch(fleet)
			var logs []*raft.Log
			for i := range b.N {
				logs = append(logs, entry(NodeUpdateCSI.Encode(&structs.NodeUpdateCSIRequest{NodeID: benchshape.UUID("node", i%nodes),
					Upserts: []*structs.CSIPluginInstance{benchshape.Instance(benchshape.Plugin, i%nodes, i+1)}})))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for len(logs) > 0 {
				n := min(batch, len(logs))
				for _, answer := range f.ApplyBatch(logs[:n]) {
					if answer != nil {
						b.Fatal(answer)
					}
				}
				logs = logs[n:]
			}
		})
	}
}
