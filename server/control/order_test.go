package control

import (
	"maps"
	"testing"
	"testing/synctest"

	"berth/structs"
	"berth/structs/nodecalls"
)

// A node stages and publishes a volume once it is attached.
func TestDuty_K2_K4_K17_AVolumeIsAttachedOnceThePluginConfirmsIt(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		answer := make(chan error)
		published := structs.Secrets{"device": "/dev/xvdf"}
		w.setAnswer(func(nodeCall) (any, error) {
			err := <-answer
			return &nodecalls.ClientCSIAttachResponse{PublishContext: published}, err
		})
		stop := w.runLoop("controllers")
		defer stop()
		defer close(answer) // before the loop ends, also when the test fails
		w.addClaim("v", "a1", "n1")
		synctest.Wait()
		attaches := func(when string) {
			t.Helper()
			a := w.attachment("v", "n1")
			if a.State != structs.AttachmentAttaching || len(a.PublishContext) > 0 {
				t.Errorf("%s: it is %s with %d values", when, a.State, len(a.PublishContext))
			}
		}
		attaches("during the call")
		answer <- unavailable()
		synctest.Wait()
		attaches("after a failure")
		answer <- nil
		synctest.Wait()
		a := w.attachment("v", "n1")
		if a.State != structs.AttachmentAttached || !maps.Equal(a.PublishContext, published) {
			t.Errorf("after the success: it is %s with %v", a.State, a.PublishContext)
		}
		w.check()
	})
}

func TestDuty_K12_K31_AVolumeIsDetachedAfterItsLastUserHasReleasedIt(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		for _, name := range []string{"controllers", "reaper", "gc"} {
			stop := w.runLoop(name)
			defer stop()
		}
		w.addClaim("v", "a1", "n1")
		w.addClaim("v", "a2", "n1")
		synctest.Wait()
		detached := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if n := len(w.called(detachMethod)); n != want {
				t.Errorf("%s: %d detaches, want %d", when, n, want)
			}
		}
		w.unclaim("v", "a1")
		detached("another allocation has it published", 0)
		w.endAlloc("a2", "n1")
		detached("the node has not unstaged it", 0)
		w.unclaim("v", "a2")
		detached("nothing is left on the node", 1)
		if w.attachment("v", "n1") != nil {
			t.Error("attachment still exists")
		}
		w.check()
	})
}
