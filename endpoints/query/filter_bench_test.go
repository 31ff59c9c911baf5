package query

import (
	"fmt"
	"testing"

	"berth/structs"
)

// filteredStubs are volumes as a list shows them: every tenth is ready and in use.
func filteredStubs(n int) []*structs.CSIVolumeListStub {
	stubs := make([]*structs.CSIVolumeListStub, n)
	for i := range stubs {
		stubs[i] = &structs.CSIVolumeListStub{
			ID:        fmt.Sprintf("vol-%06d", i),
			Namespace: structs.DefaultNamespace,
			Name:      fmt.Sprintf("db-%06d", i),
			PluginID:  "ebs0",
			State:     "creating",
			Topologies: []*structs.CSITopology{{
				Segments: map[string]string{
					"zone": fmt.Sprint("z", i%3),
					"rack": fmt.Sprint("r", i%40),
				},
			}},
		}
		if i%10 == 0 {
			stubs[i].State = "ready"
			stubs[i].CurrentWriters = 1
			stubs[i].Schedulable = true
		}
	}
	return stubs
}

// BenchmarkFilter measures a parsed filter on one row of 10,000 volumes.
func BenchmarkFilter(b *testing.B) {
	stubs := filteredStubs(10000)
	for _, expression := range []string{
		`State == "ready"`,
		`PluginID == "ebs0" and CurrentWriters != 0`,
		`Name matches "^db"`,
		`"z1" in Topologies.0.Segments.zone`,
		`"zone" in Topologies.0.Segments`,
		`Schedulable == true and not (State == "creating")`,
		`any Topologies as t { t.Segments.zone == "z1" }`,
		`any Topologies as t { any t.Segments as k, v { k == "zone" and v == "z1" } }`,
	} {
		b.Run(expression, func(b *testing.B) {
			match, err := CompileFilter(expression)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := range b.N {
				if _, err := match(stubs[i%len(stubs)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFilterReady is making a filter ready, once for a list.
func BenchmarkFilterReady(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		if _, err := CompileFilter(`PluginID == "ebs0" and CurrentWriters != 0`); err != nil {
			b.Fatal(err)
		}
	}
}
