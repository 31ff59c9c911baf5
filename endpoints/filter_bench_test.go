package endpoints

import (
	"context"
	"fmt"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/benchmeter"
	"berth/internal/benchshape"
	"berth/rpc"
	"berth/state"
	"berth/structs"
)

// filteredStubs are volumes as a list shows them: every tenth is ready and in use.
func filteredStubs(n int) []*structs.CSIVolumeListStub {
	stubs := make([]*structs.CSIVolumeListStub, n)
	for i := range stubs {
		stubs[i] = &structs.CSIVolumeListStub{
			ID: fmt.Sprintf("vol-%06d", i), Namespace: structs.DefaultNamespace, Name: fmt.Sprintf("db-%06d", i), PluginID: "ebs0", State: "creating",
			Topologies: []*structs.CSITopology{{Segments: map[string]string{"zone": fmt.Sprint("z", i%3), "rack": fmt.Sprint("r", i%40)}}},
		}
		if i%10 == 0 {
			stubs[i].State, stubs[i].CurrentWriters, stubs[i].Schedulable = "ready", 1, true
		}
	}
	return stubs
}

// BenchmarkFilter is one row of 10,000 volumes looked at by a filter that is ready.
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
			match, err := filter(expression)
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
		if _, err := filter(`PluginID == "ebs0" and CurrentWriters != 0`); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFilterList is a list of 10,000 volumes of which one in ten, all, or a page of a hundred are let by.
func BenchmarkFilterList(b *testing.B) {
	store := state.New()
	raft := &fakeRaft{fsm: fsm.New(store), leader: "127.0.0.1:1", isMe: true, index: 1}
	s := rpc.NewServer(hclog.NewNullLogger(), New(Deps{Store: store, Raft: raft, Leases: &noLeases{}, Logger: hclog.NewNullLogger()}).List()...)
	b.Cleanup(s.Close)
	batch, put := store.Begin(), &structs.CSIVolumeRegisterRequest{}
	for i := range 10000 {
		put.Volumes = append(put.Volumes, benchshape.Volume(benchshape.VolumeID(i), i))
	}
	if err := batch.Apply(1, func(tx *state.WriteTx) error { return state.VolumePut(tx, put) }); err != nil {
		b.Fatal(err)
	}
	batch.Commit()
	for _, c := range []struct {
		filter  string
		perPage int32
		want    int
	}{{"", 0, 10000}, {`ID matches "0$"`, 0, 1000}, {`ID != ""`, 0, 10000}, {`ID matches "0$"`, 100, 100}} {
		b.Run(fmt.Sprintf("%s/page=%d", c.filter, c.perPage), func(b *testing.B) {
			benchmeter.Repeat(b, func() {
				resp, err := rpc.Call(context.Background(), s, structs.CSIVolumeList, &structs.CSIVolumeListRequest{
					QueryOptions: structs.QueryOptions{Filter: c.filter, PerPage: c.perPage},
				})
				if err == nil && len(resp.Volumes) != c.want {
					err = fmt.Errorf("%d rows; want %d", len(resp.Volumes), c.want)
				}
				if err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
