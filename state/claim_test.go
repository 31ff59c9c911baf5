package state

import (
	"testing"

	"berth/structs"
)

const (
	snw  = structs.CSISingleNodeWriter
	snr  = structs.CSISingleNodeReader
	mnr  = structs.CSIMultiNodeReader
	mnsw = structs.CSIMultiNodeSingleWriter
	mnmw = structs.CSIMultiNodeMultipleWriter

	rd = structs.ClaimRead
	wr = structs.ClaimWrite

	waiting = structs.ClaimWaiting
	granted = structs.ClaimGranted
)

// threeNodes is a world with a plugin p on nodes n1..n3, a volume v of it, and an allocation a1..a3 on each.
func threeNodes(t testing.TB, attach bool) *world {
	w := newWorld(t)
	for _, n := range []string{"1", "2", "3"} {
		csi := []*structs.CSIPluginInstance{half("p", structs.CSIKindNode, true)}
		if attach {
			csi = attaching(append(csi, half("p", structs.CSIKindController, true))...)
		}
		w.node("n"+n, csi...)
		w.alloc("a"+n, "j", "n"+n)
	}
	w.volume("v", "p")
	return w
}

func TestClaimSecondWriterWaitsItsTurn(t *testing.T) {
	w := threeNodes(t, false)
	w.claim(aClaim("v", "a1", wr, snw))
	w.claim(aClaim("v", "a2", wr, snw))
	w.claim(aClaim("v", "a3", wr, snw))
	w.wantClaims("v", map[string]string{"a1": granted, "a2": waiting, "a3": waiting})
	w.release("v", "a1")
	w.wantClaims("v", map[string]string{"a1": "", "a2": granted, "a3": waiting})
	if c := Claim(w.s.Read(), structs.DefaultNamespace, "v", "a2"); c.GrantIndex != w.index {
		t.Errorf("granted at index %d, says %d", w.index, c.GrantIndex)
	}
	w.release("v", "a2")
	w.wantClaims("v", map[string]string{"a2": "", "a3": granted})
}

func TestClaimAttachmentLife(t *testing.T) {
	w := threeNodes(t, true)
	w.claim(aClaim("v", "a1", wr, snw))
	if got := w.attachment("v", "n1"); got != structs.AttachmentAttaching {
		t.Fatalf("attachment %q", got)
	}
	w.outcome("v", "n1", "attach", nil)
	w.claim(aClaim("v", "a2", wr, snw))
	w.release("v", "a1")
	w.wantClaims("v", map[string]string{"a1": "", "a2": waiting}) // the first node is still attached
	w.outcome("v", "n1", "detach", &structs.OperationError{Message: "busy"})
	w.outcome("v", "n1", "detach", nil)
	w.wantClaims("v", map[string]string{"a2": granted})
	if w.attachment("v", "n1") != "" || w.attachment("v", "n2") != structs.AttachmentAttaching {
		t.Fatal("the attachment should have moved")
	}
}
