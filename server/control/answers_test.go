package control

import (
	"strings"
	"testing"
	"testing/synctest"

	"berth/structs"
)

// A node is not believed to have checked its plugin's answers: they are kept in rows.
func TestAnswers_OfNodesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	places := make([]*structs.CSITopology, structs.MaxCSIPlaces+1)
	for want, answer := range map[string]any{
		"volume_id has 1048576 bytes; at most 1024": &structs.ClientCSICreateResponse{ExternalID: long},
		"volume_context has 1048577 bytes; at most 16384": &structs.ClientCSICreateResponse{ExternalID: "x",
			Context: map[string]string{"k": long}},
		"257 topologies; at most 256 are allowed": &structs.ClientCSICreateResponse{ExternalID: "x", Topologies: places},
		"topology has 1048577 bytes; CSI allows 4096": &structs.ClientCSICreateResponse{ExternalID: "x",
			Topologies: []*structs.CSITopology{{Segments: map[string]string{"k": long}}}},
		"publish_context has 1048577 bytes; at most 16384": &structs.ClientCSIAttachResponse{PublishContext: structs.Secrets{"k": long}},
	} {
		t.Run(want, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.addNode("n1", true)
				_, attaches := answer.(*structs.ClientCSIAttachResponse)
				if attaches {
					w.addVolume(aVolume("v", structs.VolumeReady))
					w.addClaim("v", "a1", "n1")
				} else {
					w.addVolume(aVolume("v", structs.VolumeCreating))
				}
				w.answers(func(nodeCall) (any, error) { return answer, nil })
				stop := w.lead("controllers")
				defer stop()
				synctest.Wait()
				e := w.volume("v").LastError
				if attaches {
					e = w.attachment("v", "n1").LastError
				}
				if e == nil || e.Kind != structs.KindInternal || !strings.Contains(e.Message, want) {
					t.Errorf("the row says %.300v", e)
				}
			})
		})
	}
}
