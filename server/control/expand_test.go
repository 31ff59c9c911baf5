package control

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/csi/csitest"
	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

const growMethod = "ClientCSI.NodeExpandVolume"

func (w *testEnv) grow(id string, size int64) {
	w.t.Helper()
	v := aVolume(id, structs.VolumeReady)
	v.RequestedCapacityMin = size
	w.addVolume(v)
}

func (w *testEnv) claimOf(alloc string) *structs.CSIClaim {
	return csi.Claim(w.Store.Read(), "default", "v", alloc)
}

// twoSteps answers like a plugin whose nodes have to grow the content of the volume.
func twoSteps(node func(c nodeCall) (any, error)) func(c nodeCall) (any, error) {
	return func(c nodeCall) (any, error) {
		switch c.method {
		case createMethod:
			return created("x"), nil
		case expandMethod:
			return &nodecalls.ClientCSIExpandResponse{Capacity: 25, NodeExpansionRequired: true}, nil
		case growMethod:
			return node(c)
		}
		return nil, nil
	}
}

func done(nodeCall) (any, error) {
	return &nodecalls.ClientCSINodeExpandResponse{Capacity: 25}, nil
}

func TestDuty_J2_EveryNodeThatHasTheVolumeGrowsIt(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addNode("n2", false)
		w.setAnswer(twoSteps(done))
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.addClaim("v", "a2", "n2")
		stop := w.runLoop("controllers")
		defer stop()
		w.grow("v", 20)
		synctest.Wait()
		calls := w.called(growMethod)
		if len(calls) != 2 || calls[0].node == calls[1].node {
			t.Fatalf("called %+v", calls)
		}
		req := calls[0].req.(*nodecalls.ClientCSINodeExpandRequest)
		if req.RequiredBytes != 25 || req.ExternalID != "ext-v" ||
			req.Secrets["k"] != "v" ||
			req.AccessMode != structs.CSIMultiNodeMultipleWriter {
			t.Errorf("got request %+v", req)
		}
		if v := w.volume("v"); v.NodeExpandBytes != 0 || v.Capacity != 25 {
			t.Errorf("%+v", v)
		}
		after(time.Hour)
		if n := len(w.called(growMethod)); n != 2 {
			t.Errorf("%d calls: a finished step was repeated", n)
		}
		w.check()
	})
}

func TestDuty_J2_ANewLeaderContinuesWithTheNodesStep(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.setAnswer(twoSteps(func(nodeCall) (any, error) {
			w.log.Fail(structs.Timeoutf(
				"leadership lost")) // the call is made, its outcome not recorded
			return done(nodeCall{})
		}))
		stop := w.runLoop("controllers")
		w.grow("v", 20)
		synctest.Wait()
		stop()
		if w.volume("v").NodeExpandBytes != 25 ||
			w.claimOf("a1").ExpandBytes != 25 ||
			len(w.called(growMethod)) != 1 {
			t.Fatalf("step is lost: %+v", w.volume("v"))
		}
		w.log.Fail(nil)
		w.setAnswer(twoSteps(done))
		stop = w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		calls := w.called(growMethod)
		if len(calls) != 2 ||
			!reflect.DeepEqual(calls[0], calls[1]) ||
			len(w.called(expandMethod)) != 1 ||
			w.volume("v").NodeExpandBytes != 0 {
			t.Errorf("the new leader made %d and %d calls: %+v", len(w.called(expandMethod)), len(calls),
				w.volume("v"))
		}
	})
}

func TestNodeExpansion_FailsWaitsAndIsRetried(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.setAnswer(twoSteps(func(nodeCall) (any, error) {
			return nil, structs.NotFoundf("no")
		}))
		stop := w.runLoop("controllers")
		defer stop()
		w.grow("v", 20)
		synctest.Wait()
		e := w.claimOf("a1").ExpandError
		if e == nil || e.RetryTime != time.Now().Add(finalDelay).UnixNano() {
			t.Fatalf("got %+v", e)
		}
		after(finalDelay - time.Second)
		if n := len(w.called(growMethod)); n != 1 {
			t.Errorf("%d calls", n)
		}
		w.setAnswer(twoSteps(done))
		put(w, fsm.VolumeRetry, &structs.CSIVolumeRetryRequest{
			ID:           "v",
			WriteOptions: structs.WriteOptions{Now: time.Now().UnixNano()},
		})
		synctest.Wait()
		if w.volume("v").NodeExpandBytes != 0 {
			t.Error("request of an operator is not tried at once")
		}
	})
}

// The code decides on the next try of a node's step (CSI spec, "Error Scheme" and NodeExpandVolume errors).
func TestDuty_C9_C13_J10_J11_J12_J13_WhenANodesStepIsTriedAgain(t *testing.T) {
	leftToStage := map[string]bool{
		"InvalidArgument":    true,
		"OutOfRange":         true,
		"AlreadyExists":      true,
		"FailedPrecondition": true,
		"Unimplemented":      true,
	}
	minutely := map[string]bool{"NotFound": true, "PermissionDenied": true, "Unauthenticated": true}
	for code, kind := range csitest.CodeKinds {
		t.Run(code, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				w.addVolume(aVolume("v", structs.VolumeReady))
				w.addClaim("v", "a1", "n1")
				w.setAnswer(twoSteps(func(nodeCall) (any, error) {
					return nil, answered(kind, code)
				}))
				stop := w.runLoop("controllers")
				defer stop()
				w.grow("v", 20)
				after(10 * time.Minute)
				n := len(w.called(growMethod))
				most, least := 40, 20 // every 30 seconds, after the first few
				if leftToStage[code] {
					most, least = 1, 1
				}
				if minutely[code] {
					most, least = 11, 9
				}
				if n < least || n > most {
					t.Errorf("%d tries in ten minutes", n)
				}
				e := w.claimOf("a1").ExpandError
				if e == nil || e.Code != code ||
					(e.RetryTime == 0) != leftToStage[code] ||
					w.volume("v").NodeExpandBytes != 25 {
					t.Errorf("got rows %+v, %d", e, w.volume("v").NodeExpandBytes)
				}
			})
		})
	}
}

func TestNodeExpansion_WaitsForANodeThatIsDown(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addNode("n2", false)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a2", "n2")
		w.setAnswer(twoSteps(done))
		status := func(s string) {
			put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n2"}, Status: s})
		}
		status(structs.NodeDown)
		stop := w.runLoop("controllers")
		defer stop()
		w.grow("v", 20)
		after(time.Hour)
		if n := len(w.called(growMethod)); n != 0 || w.claimOf("a2").ExpandBytes != 25 {
			t.Fatalf("%d calls to a node that is down", n)
		}
		status(structs.NodeReady)
		synctest.Wait()
		if w.claimOf("a2").ExpandBytes != 0 {
			t.Error("node is ready again and is not called")
		}
	})
}

func TestNodeExpansion_LeavesAFreshClaimToItsNode(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.setAnswer(twoSteps(done))
		stop := w.runLoop("controllers")
		w.grow("v", 20)
		synctest.Wait()
		stop() // it would read an old granted claim before the row
		w.addClaim("v", "a1", "n1")
		c := w.claimOf("a1").Copy()
		c.GrantTime = time.Now().UnixNano()
		if got := (controllerLoop{Deps: w.Deps}).growDue(c); !got.Equal(time.Now().Add(mountGrace)) {
			t.Errorf("due %s", got)
		}
		stop = w.runLoop("controllers")
		defer stop()
		after(mountGrace + time.Second)
		if w.claimOf("a1").ExpandBytes != 0 {
			t.Error("silent node is not called")
		}
	})
}

func TestDuty_E5_J1_AnOfflinePluginIsCalledWhileNoNodeHasTheVolume(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.offline = true
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		var attached []bool
		w.setAnswer(twoSteps(done))
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		answer := twoSteps(done)
		w.setAnswer(func(c nodeCall) (any, error) {
			if c.method == expandMethod {
				attached = append(attached, w.attachment("v", "n1") != nil)
			}
			return answer(c)
		})
		w.grow("v", 20)
		after(time.Hour)
		if len(attached) != 0 {
			t.Fatal("expanded a volume in use")
		}
		put(w, fsm.VolumeUnpublish,
			&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}}})
		synctest.Wait()
		if !reflect.DeepEqual(attached, []bool{false}) ||
			w.volume("v").NodeExpandBytes != 25 {
			t.Errorf("expanded while attached: %v; %+v", attached, w.volume("v"))
		}
	})
}

func TestDuty_F21_NoSpaceEndsTheCreationAndItsDeletion(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		full := true
		w.setAnswer(func(c nodeCall) (any, error) {
			switch {
			case c.method == createMethod && full:
				return &nodecalls.ClientCSICreateResponse{Exhausted: "10 bytes are left"}, nil
			case c.method == createMethod:
				return created("x"), nil
			}
			return nil, nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		w.addVolume(aVolume("v", structs.VolumeCreating))
		synctest.Wait()
		e := w.volume("v").LastError
		if w.volume("v").State != structs.VolumeFailed ||
			e.Code != structs.CSICodeExhausted || e.RetryTime != 0 ||
			!strings.Contains(e.Message, "10 bytes are left") {
			t.Fatalf("%s: %+v", w.volume("v").State, e)
		}
		put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
		synctest.Wait()
		if w.volume("v") != nil ||
			len(w.called(createMethod)) != 2 ||
			len(w.called(deleteMethod)) != 0 {
			t.Errorf("%d creations, %d deletions: %+v", len(w.called(createMethod)), len(w.called(deleteMethod)),
				w.volume("v"))
		}
		w.addVolume(aVolume("v", structs.VolumeCreating))
		synctest.Wait()
		full = false // the rejected volume was created all the same: the deletion finds it
		put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
		synctest.Wait()
		if w.volume("v") != nil || len(w.called(deleteMethod)) != 1 {
			t.Errorf("%d deletions: %+v", len(w.called(deleteMethod)), w.volume("v"))
		}
	})
}

func TestExpansion_IsGivenUpWithoutCapacity(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		v := aVolume("v", structs.VolumeReady)
		v.Capacity = 10
		w.addVolume(v)
		w.setAnswer(func(nodeCall) (any, error) {
			return &nodecalls.ClientCSIExpandResponse{Exhausted: "full"}, nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		w.grow("v", 20)
		synctest.Wait()
		if v := w.volume("v"); v.ExpandPending || v.RequestedCapacityMin != 10 ||
			!strings.Contains(v.LastError.Message, "full") {
			t.Errorf("%+v", v)
		}
	})
}

func TestExpansion_IsTriedAtOnceWhenCorrected(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.setAnswer(func(nodeCall) (any, error) {
			return nil, unavailable()
		})
		stop := w.runLoop("controllers")
		defer stop()
		w.grow("v", 1000)
		after(10 * time.Minute)
		w.setAnswer(twoSteps(done))
		w.grow("v", 20)
		synctest.Wait()
		if v := w.volume("v"); v.ExpandPending || v.Capacity != 25 || v.LastError != nil {
			t.Errorf("%+v", v)
		}
	})
}

func TestOperationError_HasTheTimeOfTheNextAttempt(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.setAnswer(func(nodeCall) (any, error) {
			return nil, structs.Errorf(structs.KindDenied, "not for you")
		})
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		e := w.attachment("v", "n1").LastError
		if e.RetryTime != time.Now().Add(finalDelay).UnixNano() {
			t.Fatalf("got %+v", e)
		}
		after(time.Second)
		put(w, fsm.VolumeRetry, &structs.CSIVolumeRetryRequest{
			ID:           "v",
			WriteOptions: structs.WriteOptions{Now: time.Now().UnixNano()},
		})
		synctest.Wait()
		if n := len(w.called(attachMethod)); n != 2 {
			t.Errorf("%d calls after an operator requested another", n)
		}
	})
}
