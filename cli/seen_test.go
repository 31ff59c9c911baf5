package cli

import (
	"reflect"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs"
)

// A command that destroys acts on the row that it has read, and on no other that has its name by then. One
// that releases claims by force says first which, and releases no others.
func TestCommands_ActOnTheRowThatTheyHaveRead(t *testing.T) {
	t.Parallel()
	c := &apitest.Caller{}
	row := structs.Indexes{CreateIndex: 7}
	apitest.Answer(c, structs.JobGet, structs.JobGetResponse{Job: &structs.Job{ID: "web", Indexes: row}})
	apitest.Answer(c, structs.JobDeregister, structs.JobDeregisterResponse{})
	apitest.Answer(c, structs.NodeGet, structs.NodeGetResponse{Node: &structs.NodeDetail{Node: structs.Node{
		ID: clitest.Node1, Name: "one", Status: structs.NodeDown, Epoch: 8, Indexes: row,
	}}})
	apitest.Answer(c, structs.NodeList, structs.NodeListResponse{Nodes: []*structs.NodeListStub{
		{ID: clitest.Node1, Name: "one"},
	}})
	apitest.Answer(c, structs.NodeDeregister, structs.Empty{})
	apitest.Answer(c, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{Volume: &structs.CSIVolumeDetail{
		CSIVolume: structs.CSIVolume{ID: "data", Indexes: row},
		Claims: []*structs.CSIClaim{
			{NodeID: clitest.Node1, AllocID: clitest.Alloc1},
			{NodeID: clitest.Node1, AllocID: clitest.Alloc3},
			{NodeID: clitest.Node2, AllocID: clitest.Alloc2},
		},
	}})
	apitest.Answer(c, structs.CSIVolumeDeregister, structs.Empty{})
	apitest.Answer(c, structs.CSIVolumeDelete, structs.Empty{})
	apitest.Answer(c, structs.CSIVolumeDetach, structs.CSIVolumeDetachResponse{})
	claim := &structs.VolumeClaimStub{VolumeID: "data", AllocID: clitest.Alloc1, NodeID: clitest.Node1}
	apitest.Answer(c, structs.VolumeClaimList, structs.VolumeClaimListResponse{
		Claims: []*structs.VolumeClaimStub{claim},
	})
	apitest.Answer(c, structs.VolumeClaimForce, structs.VolumeClaimReleaseResponse{})
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))

	loses := func(alloc string) string {
		return "Allocation " + structs.ShortID(alloc) + " loses its claim on volume data there."
	}
	type sent struct {
		method string
		shown  *structs.DetachShown
		says   []string
	}
	for line, want := range map[string]sent{
		"job stop -detach web":   {structs.JobDeregister.Name, nil, nil},
		"node purge one":         {structs.NodeDeregister.Name, nil, nil},
		"volume deregister data": {structs.CSIVolumeDeregister.Name, nil, nil},
		"volume delete data":     {structs.CSIVolumeDelete.Name, nil, nil},
		"volume detach -force -reason off data one": {
			structs.CSIVolumeDetach.Name,
			&structs.DetachShown{Epoch: 8, Allocs: []string{clitest.Alloc1, clitest.Alloc3}},
			[]string{"Node one is down.", loses(clitest.Alloc1), loses(clitest.Alloc3)},
		},
		"volume claim release -force -reason off data " + clitest.Alloc1: {
			structs.VolumeClaimForce.Name,
			&structs.DetachShown{Epoch: 8, Allocs: []string{clitest.Alloc1}},
			[]string{"Node one is down.", loses(clitest.Alloc1)},
		},
	} {
		c.Take()
		code, out, errs := runLine(t, line+" -address "+addr)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", line, code, errs)
		}
		for _, says := range want.says {
			if !strings.Contains(out, says) {
				t.Errorf("%s: got %q, want %q in it", line, out, says)
			}
		}
		sent := false
		for _, call := range c.Take() {
			if call.Method != want.method {
				continue
			}
			sent = true
			created := call.Request.(interface{ Write() *structs.WriteOptions }).Write().Created
			if shown := shownOf(call.Request); created != 7 || !reflect.DeepEqual(shown, want.shown) {
				t.Errorf("%s: about the row %d and %+v", line, created, shown)
			}
		}
		if !sent {
			t.Errorf("%s: not sent", line)
		}
	}
}

// shownOf returns the state on which a forced release was decided.
func shownOf(request any) *structs.DetachShown {
	switch r := request.(type) {
	case *structs.CSIVolumeDetachRequest:
		return r.Shown
	case *structs.VolumeClaimReleaseRequest:
		return r.Shown
	}
	return nil
}
