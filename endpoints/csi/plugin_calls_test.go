package csi_test

import (
	"testing"
	"time"

	"berth/endpoints/core"
	"berth/endpoints/csi"
	"berth/endpoints/endpointstest"
	"berth/structs"
)

// TestPluginGet_HasTheCallsOfTheLeader: also on a page of its instances. A server that cannot lead has none.
func TestPluginGet_HasTheCallsOfTheLeader(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	since := time.Unix(7, 0)
	leader := core.Deps{CallsOf: func(plugin string) (inFlight, waiting int, oldest time.Time) {
		return len(plugin), 3, since
	}}
	for _, perPage := range []int{0, 1} {
		for _, c := range []struct {
			deps              core.Deps
			inFlight, waiting int
			since             int64
		}{
			{leader, 2, 3, since.UnixNano()},
			{core.Deps{}, 0, 0, 0},
		} {
			req := &structs.CSIPluginGetRequest{ID: "pl"}
			req.PerPage = int32(perPage)
			resp := &structs.CSIPluginGetResponse{}
			err := csi.Plugins{Server: &core.Server{Deps: c.deps}}.Get(s.Store.Read(), req, resp)
			if err != nil {
				t.Fatal(err)
			}
			got := resp.Plugin
			if got.CallsInFlight != c.inFlight || got.CallsWaiting != c.waiting || got.CallsWaitSince != c.since {
				t.Errorf("page %d: %d in flight, %d waiting since %d, want %+v",
					perPage, got.CallsInFlight, got.CallsWaiting, got.CallsWaitSince, c)
			}
		}
	}
}
