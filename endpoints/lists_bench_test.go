package endpoints_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/bench/shape"
	"berth/endpoints"
	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/internal/level"
	"berth/rpc"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/kit"
	"berth/test/oneserver"
)

// BenchmarkFilterList is a list of 10,000 volumes of which one in ten, all, or a page of a hundred are let
// by.
func BenchmarkFilterList(b *testing.B) {
	store := state.New()
	raft := &endpointstest.FakeRaft{
		Log:        oneserver.LogOf(store),
		LeaderAddr: "127.0.0.1:1",
		IsMe:       true,
	}
	s := rpc.NewServer(hclog.NewNullLogger(),
		endpoints.New(core.Deps{
			Store:  store,
			Raft:   raft,
			Leases: &noLeases{},
			Logger: hclog.NewNullLogger(),
			Level:  func() int { return level.Now },
		}).List()...)
	b.Cleanup(s.Close)
	batch, put := store.Begin(), &structs.CSIVolumeRegisterRequest{}
	for i := range 10000 {
		put.Volumes = append(put.Volumes, shape.Volume(shape.VolumeID(i), i))
	}
	if err := batch.Apply(1, func(tx *state.WriteTx) error { return csi.VolumePut(tx, put) }); err != nil {
		b.Fatal(err)
	}
	batch.Commit()
	for _, c := range []struct {
		filter  string
		perPage int32
		want    int
	}{{"", 0, 10000}, {`ID matches "0$"`, 0, 1000}, {`ID != ""`, 0, 10000}, {`ID matches "0$"`, 100, 100}} {
		b.Run(fmt.Sprintf("%s/page=%d", c.filter, c.perPage), func(b *testing.B) {
			kit.MeasureRepeated(b, func() {
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
