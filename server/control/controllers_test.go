package control

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

const (
	createMethod = "ClientCSI.ControllerCreateVolume"
	deleteMethod = "ClientCSI.ControllerDeleteVolume"
	expandMethod = "ClientCSI.ControllerExpandVolume"
	attachMethod = "ClientCSI.ControllerAttachVolume"
	detachMethod = "ClientCSI.ControllerDetachVolume"
)

func created(external string) any {
	return &nodecalls.ClientCSICreateResponse{ExternalID: external, Capacity: 10}
}

func TestControllers_NextStepFollowsFromTheRow(t *testing.T) {
	for _, c := range []struct {
		v    structs.CSIVolume
		want string
	}{
		{structs.CSIVolume{CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeCreating}}, opCreate},
		{structs.CSIVolume{
			CSIVolumeSpec:   structs.CSIVolumeSpec{ExternalID: "x"},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeDeleting},
		}, opDelete},
		{structs.CSIVolume{CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeDeleting}}, opLearn},
		{structs.CSIVolume{
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
			CSIVolumeStatus: structs.CSIVolumeStatus{ExpandPending: true},
		}, opExpand},
		{structs.CSIVolume{CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady}}, ""},
		{structs.CSIVolume{CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeFailed}}, ""},
	} {
		if got := nextVolume(&c.v); got != c.want {
			t.Errorf("%s volume: %q, want %q", c.v.State, got, c.want)
		}
	}
	for state, want := range map[string]string{
		structs.AttachmentAttaching: opAttach, structs.AttachmentDetaching: opDetach,
		structs.AttachmentAttached: "",
	} {
		if got := nextAttachment(&structs.CSIAttachment{State: state}); got != want {
			t.Errorf("%s attachment: %q, want %q", state, got, want)
		}
	}
}

func TestControllers_TakeAVolumeFromCreationToDeletion(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.setAnswer(func(c nodeCall) (any, error) {
			switch c.method {
			case createMethod:
				return created("x1"), nil
			case expandMethod:
				return &nodecalls.ClientCSIExpandResponse{Capacity: 20}, nil
			case attachMethod:
				return &nodecalls.ClientCSIAttachResponse{PublishContext: structs.Secrets{"dev": "1"}}, nil
			}
			return nil, nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		w.addVolume(aVolume("v", structs.VolumeCreating))
		synctest.Wait()
		if v := w.volume("v"); v.State != structs.VolumeReady || v.ExternalID != "x1" || v.Capacity != 10 {
			t.Fatalf("created: %+v", v)
		}
		grow := aVolume("v", structs.VolumeCreating)
		grow.RequestedCapacityMin = 20
		w.addVolume(grow)
		synctest.Wait()
		if v := w.volume("v"); v.ExpandPending || v.Capacity != 20 {
			t.Fatalf("expanded: %+v", v)
		}
		w.addClaim("v", "a1", "n1")
		synctest.Wait()
		if a := w.attachment("v", "n1"); a.State != structs.AttachmentAttached || a.PublishContext["dev"] != "1" {
			t.Fatalf("attached: %+v", a)
		}
		attach := w.called(attachMethod)[0].req.(*nodecalls.ClientCSIAttachRequest)
		if attach.ExternalID != "x1" || attach.ExternalNodeID != "ext-n1" ||
			attach.Secrets["k"] != "v" {
			t.Errorf("attached with %+v", attach)
		}
		put(w, fsm.VolumeUnpublish,
			&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}}})
		synctest.Wait()
		if a := w.attachment("v", "n1"); a != nil {
			t.Fatalf("state is still %s", a.State)
		}
		put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
		synctest.Wait()
		if w.volume("v") != nil || len(w.called(deleteMethod)) != 1 {
			t.Errorf("%d deletions, want 1", len(w.called(deleteMethod)))
		}
		for _, c := range w.calls { // duty B10
			if _, provider := c.req.(nodecalls.CSIControllerRequest).Driver(); *provider != "pl.csi" {
				t.Errorf("%s names the driver %q", c.method, *provider)
			}
		}
		w.check()
	})
}

func TestDuty_C5_ACallIsRepeatedWithTheSameArguments(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		failures := 3
		w.setAnswer(func(c nodeCall) (any, error) {
			failures--
			if failures >= 0 {
				return nil, unavailable()
			}
			return created("x"), nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		w.addVolume(aVolume("v", structs.VolumeCreating))
		synctest.Wait()
		if e := w.volume("v").LastError; e == nil || e.Attempts != 1 || e.Kind != structs.KindUnavailable ||
			e.Message != "try again" {
			t.Fatalf("row has no error: %+v", e)
		}
		after(w.Config.Retry.Min)
		if n := len(w.called(createMethod)); n != 2 {
			t.Errorf("%d calls after the first delay, want 2", n)
		}
		after(w.Config.Retry.Min)
		if n := len(w.called(createMethod)); n != 2 {
			t.Errorf("%d calls: second delay is not longer than the first", n)
		}
		after(time.Minute)
		calls := w.called(createMethod)
		if w.volume("v").State != structs.VolumeReady || len(calls) != 4 {
			t.Fatalf("%s after %d calls", w.volume("v").State, len(calls))
		}
		for _, c := range calls {
			if !reflect.DeepEqual(c.req, calls[0].req) {
				t.Errorf("got request %+v, then %+v", calls[0].req, c.req)
			}
		}
		if w.volume("v").LastError != nil {
			t.Error("row keeps an error after success")
		}
	})
}

func TestDuty_C7_ANewLeaderRepeatsUnrecordedCalls(t *testing.T) {
	for name, setUp := range map[string]func(w *testEnv){
		createMethod: func(w *testEnv) { w.addVolume(aVolume("v", structs.VolumeCreating)) },
		attachMethod: func(w *testEnv) {
			w.addVolume(aVolume("v", structs.VolumeReady))
			w.addClaim("v", "a1", "n1")
		},
		detachMethod: func(w *testEnv) {
			w.addVolume(aVolume("v", structs.VolumeReady))
			w.addClaim("v", "a1", "n1")
			put(w, fsm.VolumeUnpublish,
				&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}}})
		},
		deleteMethod: func(w *testEnv) {
			w.addVolume(aVolume("v", structs.VolumeReady))
			put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
		},
		expandMethod: func(w *testEnv) {
			w.addVolume(aVolume("v", structs.VolumeReady))
			grow := aVolume("v", structs.VolumeReady)
			grow.RequestedCapacityMin = 20
			w.addVolume(grow)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				setUp(w)
				first := true
				w.setAnswer(func(c nodeCall) (any, error) {
					if first { // the call is made, its outcome not recorded
						first = false
						w.log.Fail(structs.Timeoutf("leadership lost"))
					}
					if c.method == createMethod {
						return created("x"), nil
					}
					return nil, nil
				})
				stop := w.runLoop("controllers")
				synctest.Wait()
				stop()
				if n := len(w.called(name)); n != 1 {
					t.Fatalf("%d calls, want 1: the outcome was not recorded, so the next attempt has to wait", n)
				}
				w.log.Fail(nil)
				stop = w.runLoop("controllers")
				defer stop()
				synctest.Wait()
				again := w.called(name)
				if len(again) != 2 || !reflect.DeepEqual(again[0], again[1]) {
					t.Errorf("the new leader called %+v, want again %+v", again[1:], again[0])
				}
				after(time.Hour)
				if n := len(w.called(name)); n != 2 {
					t.Errorf("%d calls: a recorded call was repeated", n)
				}
				w.check()
			})
		})
	}
}

func TestControllers_RetryAFailedOutcomeWithBackoff(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeCreating))
		w.setAnswer(func(nodeCall) (any, error) {
			w.log.Fail(structs.Unavailablef("no quorum"))
			return created("x"), nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		if n := len(w.called(createMethod)); n != 1 {
			t.Errorf("%d calls, want 1: without a log no call is recorded and so none is made", n)
		}
		after(10 * time.Second)
		if n := len(w.called(createMethod)); n != 1 {
			t.Errorf("%d calls in ten seconds without a log, want 0", n)
		}
		w.setAnswer(func(nodeCall) (any, error) {
			return created("x"), nil
		})
		w.log.Fail(nil)
		after(time.Minute)
		if w.volume("v").State != structs.VolumeReady {
			t.Errorf("the volume is %s", w.volume("v").State)
		}
	})
}

func TestDuty_C1_OneCallPerVolumeAndFewPerPlugin(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.Config.CallsPerPlugin = 3
		w.addNode("n1", true)
		w.addNode("n2", false)
		w.setAnswer(func(c nodeCall) (any, error) {
			time.Sleep(time.Second)
			return nil, nil
		})
		for i := range 8 {
			id := fmt.Sprint("v", i)
			w.addVolume(aVolume(id, structs.VolumeReady))
			w.addClaim(id, "a1-"+id, "n1")
			w.addClaim(id, "a2-"+id, "n2")
		}
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Minute)
		if n := len(w.called(attachMethod)); n != 16 {
			t.Errorf("%d calls, want 16", n)
		}
		for key, most := range w.most {
			if want := map[string]int{"PluginID pl": 3}[key]; most != max(1, want) {
				t.Errorf("%s: %d calls at once, want %d", key, most, max(1, want))
			}
		}
	})
}

func TestControllers_FailingVolumeDelaysNoOther(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.Config.CallsPerPlugin = 1
		w.addNode("n1", true)
		w.setAnswer(func(c nodeCall) (any, error) {
			if strings.Contains(c.req.(*nodecalls.ClientCSICreateRequest).Name, "bad") {
				return nil, unavailable()
			}
			return created(c.req.(*nodecalls.ClientCSICreateRequest).Name), nil
		})
		for i := range 4 {
			w.addVolume(aVolume(fmt.Sprint("bad", i), structs.VolumeCreating))
		}
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Minute)
		w.addVolume(aVolume("good", structs.VolumeCreating))
		synctest.Wait()
		if v := w.volume("good"); v.State != structs.VolumeReady {
			t.Errorf("the good volume is %s", v.State)
		}
	})
}

func TestControllers_RecordOnceThatThereIsNoController(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addNode("n2", false)
		w.addVolume(aVolume("v", structs.VolumeReady))
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
		w.addClaim("v", "a1", "n2")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		before := w.log.Len()
		after(time.Hour)
		if n := w.log.Len() - before; n != 0 {
			t.Errorf("%d log entries in an hour of waiting", n)
		}
		if e := w.attachment("v", "n2").LastError; e == nil ||
			!strings.Contains(e.Message, "no controller of plugin pl") {
			t.Errorf("row has no reason for the wait: %+v", e)
		}
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeReady})
		synctest.Wait()
		if a := w.attachment("v", "n2"); a.State != structs.AttachmentAttached {
			t.Errorf("state is %s with a reachable controller", a.State)
		}
	})
}

func TestControllers_RejectInvalidAnswers(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeCreating))
		w.setAnswer(func(nodeCall) (any, error) {
			return created(""), nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		if v := w.volume("v"); v.State != structs.VolumeCreating || v.LastError == nil ||
			!strings.Contains(v.LastError.Message, "pl answered CreateVolume without a volume_id") {
			t.Errorf("got %+v", v)
		}
	})
}

func TestDuty_F4_F23_AnAbandonedCreateIsRepeatedAndThenDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		answer  error
		deletes int
	}{
		"it was made":     {nil, 1},
		"it was rejected": {coded(structs.KindInvalid, "OutOfRange"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				w.addVolume(aVolume("v", structs.VolumeCreating))
				put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
				w.setAnswer(func(call nodeCall) (any, error) {
					if call.method == createMethod && c.answer == nil {
						return created("x"), nil
					}
					if call.method == createMethod {
						return nil, c.answer
					}
					return nil, nil
				})
				stop := w.runLoop("controllers")
				defer stop()
				synctest.Wait()
				if w.volume("v") != nil ||
					len(w.called(createMethod)) != 1 ||
					len(w.called(deleteMethod)) != c.deletes {
					t.Errorf("created %d times, deleted %d times, then %+v", len(w.called(createMethod)),
						len(w.called(deleteMethod)), w.volume("v"))
				}
			})
		})
	}
}

func TestControllers_CloneByTheExternalID(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("source", structs.VolumeReady))
		for id, from := range map[string]string{"ours": "source", "theirs": "vol-77"} {
			v := aVolume(id, structs.VolumeCreating)
			v.Namespace = structs.DefaultNamespace
			v.CloneID = from
			v.CloneSource = csi.CloneSource(w.Store.Read(), v)
			w.addVolume(v)
		}
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		got := map[string]string{}
		for _, c := range w.called(createMethod) {
			r := c.req.(*nodecalls.ClientCSICreateRequest)
			got[r.Name] = r.CloneID
		}
		if want := map[string]string{"name-ours": "ext-source", "name-theirs": "vol-77"}; !reflect.DeepEqual(got,
			want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestControllers_StopWaitsForCalls(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeCreating))
		ended := false
		w.setAnswer(func(nodeCall) (any, error) {
			time.Sleep(time.Minute)
			ended = true
			return created("x"), nil
		})
		stop := w.runLoop("controllers")
		synctest.Wait()
		stop()
		if !ended {
			t.Error("a call continues after its loop has ended")
		}
		if w.volume("v").State != structs.VolumeCreating {
			t.Error("an ended loop writes")
		}
	})
}
