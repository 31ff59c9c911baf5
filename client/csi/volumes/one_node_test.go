package volumes

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/test/kit"
)

// Only a mode that says so lets a volume be published for two allocations of a node, which is staged once.
func TestDuty_K18_SeveralPublishesOnlyForModesThatAllowThem(t *testing.T) {
	fine := nodeOnly
	fine.NodeCaps = []string{"STAGE_UNSTAGE_VOLUME", "SINGLE_NODE_MULTI_WRITER"}
	for mode, shares := range map[structs.CSIAccessMode]bool{
		structs.CSISingleNodeWriter:       false,
		structs.CSISingleNodeSingleWriter: false,
		structs.CSISingleNodeMultiWriter:  true,
	} {
		t.Run(string(mode), func(t *testing.T) {
			r := newFixture(t)
			p := r.plugin("ebs", "plug", fine)
			first, second := use("data", "a1"), use("data", "a2")
			first.AccessMode, second.AccessMode = mode, mode
			r.up(first)
			if shares {
				r.up(second)
				r.down(second)
				r.down(first)
				want := "Stage Publish Publish Unpublish Unpublish Unstage"
				if got := shortCalls(p); got != want {
					t.Errorf("got the calls %s, want %s", got, want)
				}
				r.clean(p, "ext-data")
				return
			}

			conn, err := r.v.m.Client(r.ctx(), structs.CSIKindNode, second.PluginID)
			kit.Must(t, err)
			w, err := r.v.loadForUp(r.ctx(), conn, second)
			kit.Must(t, err)
			err = w.checkUse(second)
			if err == nil || !strings.Contains(err.Error(), "allows one user") {
				t.Errorf("got %v", err)
			}
			r.down(first)
		})
	}
}
