package control

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
	"berth/structs/nodecalls"
)

// The servers check a plugin's answers themselves and do not rely on the node: the answers are kept in rows.
func TestAnswers_OfNodesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	topologies := make([]*structs.CSITopology, structs.MaxCSITopologies+1)
	for want, answer := range map[string]any{
		"volume_id has 1048576 bytes; at most 1024": &nodecalls.ClientCSICreateResponse{ExternalID: long},
		"volume_context has 1048577 bytes; at most 16384": &nodecalls.ClientCSICreateResponse{
			ExternalID: "x",
			Context:    map[string]string{"k": long},
		},
		"257 topologies; at most 256 are allowed": &nodecalls.ClientCSICreateResponse{
			ExternalID: "x",
			Topologies: topologies,
		},
		"topology has 1048577 bytes; CSI allows 4096": &nodecalls.ClientCSICreateResponse{
			ExternalID: "x",
			Topologies: []*structs.CSITopology{{Segments: map[string]string{"k": long}}},
		},
		"topology 1 is null": &nodecalls.ClientCSICreateResponse{
			ExternalID: "x",
			Topologies: []*structs.CSITopology{nil},
		},
		"publish_context has 1048577 bytes; at most 16384": &nodecalls.ClientCSIAttachResponse{PublishContext: structs.Secrets{"k": long}},
		"capacity_bytes -1 must be from 0 to 1152921504606846976 bytes": &nodecalls.ClientCSICreateResponse{
			ExternalID: "x", Capacity: -1},
		"capacity_bytes 1152921504606846977 must be from 0 to": &nodecalls.ClientCSICreateResponse{
			ExternalID: "x", Capacity: structs.MaxVolumeBytes + 1},
	} {
		t.Run(want, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				_, attaches := answer.(*nodecalls.ClientCSIAttachResponse)
				if attaches {
					w.addVolume(aVolume("v", structs.VolumeReady))
					w.addClaim("v", "a1", "n1")
				} else {
					w.addVolume(aVolume("v", structs.VolumeCreating))
				}
				w.setAnswer(func(nodeCall) (any, error) { return answer, nil })
				stop := w.runLoop("controllers")
				defer stop()
				synctest.Wait()
				e := w.volume("v").LastError
				if attaches {
					e = w.attachment("v", "n1").LastError
				}
				if e == nil || e.Kind != structs.KindInternal ||
					!strings.Contains(e.Message, want) {
					t.Errorf("got row %.300v", e)
				}
			})
		})
	}
}

// A size that makes no sense does not become the size of the volume; the step is made again.
func TestAnswers_OfExpansionsAreBounded(t *testing.T) {
	for want, size := range map[string]int64{
		"capacity_bytes -1 must be from 0 to 1152921504606846976 bytes": -1,
		"capacity_bytes 1152921504606846977 must be from 0 to":          structs.MaxVolumeBytes + 1,
		"capacity_bytes 19 B must be at least the 2":                    19,
	} {
		for _, method := range []string{expandMethod, growMethod} {
			t.Run(method+" "+want, func(t *testing.T) {
				virtual(t, func(t *testing.T, w *testEnv) {
					w.addNode("n1", true)
					w.addVolume(aVolume("v", structs.VolumeReady))
					w.addClaim("v", "a1", "n1")
					good := twoSteps(done)
					w.setAnswer(func(c nodeCall) (any, error) {
						switch {
						case c.method == method && method == expandMethod:
							return &nodecalls.ClientCSIExpandResponse{Capacity: size}, nil
						case c.method == method:
							return &nodecalls.ClientCSINodeExpandResponse{Capacity: size}, nil
						}
						return good(c)
					})
					stop := w.runLoop("controllers")
					defer stop()
					w.grow("v", 20)
					synctest.Wait()
					e := w.volume("v").LastError
					named := "volume ext-v"
					capacity := int64(0)
					if method == growMethod {
						e = w.claimOf("a1").ExpandError
						named = "volume v"
						capacity = 25
					}
					for _, text := range []string{want, named, "plugin " + w.volume("v").PluginID} {
						if e == nil || e.Kind != structs.KindInternal ||
							!strings.Contains(e.Message, text) {
							t.Errorf("got row %+v, want %s", e, text)
						}
					}
					if v := w.volume("v"); v.Capacity != capacity {
						t.Errorf("the volume has %d bytes", v.Capacity)
					}
					w.setAnswer(good)
					after(time.Hour)
					if v := w.volume("v"); v.Capacity != 25 || v.NodeExpandBytes != 0 || v.ExpandPending {
						t.Errorf("got row %+v at the end", v)
					}
				})
			})
		}
	}
}
