package control

import (
	"strings"
	"testing"
	"testing/synctest"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

// The rights of a caller were about the source of the request. A volume with the same IDs that somebody has
// made since is another one, also where the plugin gives it the same ID.
func TestControllers_CopyNoVolumeThatWasMadeSince(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *testEnv)
		sent   bool // an earlier call has no final answer
		copied bool
		state  string
	}{
		"it is there": {change: func(*testEnv) {}, copied: true, state: structs.VolumeReady},
		"it is gone":  {change: removeSource, state: structs.VolumeFailed},
		"it was made anew": {change: func(w *testEnv) {
			removeSource(w)
			w.addVolume(aVolume("source", structs.VolumeReady))
		}, state: structs.VolumeFailed},
		"it is gone, and the copy may exist": {change: removeSource, sent: true, state: structs.VolumeCreating},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				w.addVolume(aVolume("source", structs.VolumeReady))
				v := aVolume("copy", structs.VolumeCreating)
				v.Namespace = structs.DefaultNamespace
				v.CloneID = "source"
				v.CloneSource = csi.CloneSource(w.Store.Read(), v)
				w.addVolume(v)
				if c.sent {
					put(w, fsm.CallNote, &structs.CSICallNote{
						VolumeID: "copy",
						RowIndex: w.volume("copy").CreateIndex,
						Call:     &structs.CSICall{NodeID: "n1", Op: opCreate, Time: 1},
					})
				}
				c.change(w)
				w.setAnswer(func(nodeCall) (any, error) { return created("x"), nil })
				stop := w.runLoop("controllers")
				defer stop()
				synctest.Wait()

				calls := w.called(createMethod)
				got := w.volume("copy")
				if (len(calls) == 1) != c.copied || got.State != c.state ||
					!c.copied && !strings.Contains(got.LastError.Message, `the source "source" was deleted`) {
					t.Errorf("%d calls, and the copy is %+v", len(calls), got)
				}
				if c.copied && calls[0].req.(*nodecalls.ClientCSICreateRequest).CloneID != "ext-source" {
					t.Errorf("the plugin was called with %+v", calls[0].req)
				}
			})
		})
	}
}

func removeSource(w *testEnv) {
	put(w, fsm.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "source", Force: true})
}
