package control

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/server/control/volumes"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// ahead is a time that a leader has recorded whose clock was wrong.
func ahead() int64 { return time.Now().Add(30 * time.Hour).UnixNano() }

func TestDetach_IsNotDelayedByAFailureAheadOfTheClock(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.attached()
		w.unclaim("v", "a1")
		failed := ahead()
		put(w, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
			VolumeID: "v",
			NodeID:   "n3",
			Op:       opDetach,
			Err: &structs.OperationError{
				Kind:      structs.KindUnavailable,
				Attempts:  4,
				Time:      failed,
				RetryTime: failed + int64(10*time.Second),
			},
		})
		stop := w.runLoop("controllers")
		defer stop()
		after(w.Config.Retry.Max)
		if a := w.attachment("v", "n3"); a != nil {
			t.Errorf("%+v", a)
		}
	})
}

// Nobody knows when the call was sent, other than before its record was seen. So all of its time passes from
// then on, and no more, also for a call of this leader whose clock was set right just now.
func TestControllerCall_AheadOfTheClockIsMadeElsewhereAfterItsTime(t *testing.T) {
	for name, led := range map[string]time.Duration{"an earlier leader": 0, "this leader": 2 * outcomeWait} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.attached()
				stop := w.runLoop("controllers")
				defer stop()
				after(led)
				w.setStatus("n1", structs.NodeDown)
				w.setStatus("n2", structs.NodeDown)
				w.unclaim("v", "a1")
				synctest.Wait() // a step that has read the row without the record ends while nobody can be called
				put(w, fsm.CallNote, &structs.CSICallNote{
					VolumeID: "v",
					NodeID:   "n3",
					RowIndex: w.attachment("v", "n3").CreateIndex,
					Call:     &structs.CSICall{NodeID: "n1", Op: opDetach, Time: ahead()},
				})
				synctest.Wait()
				w.setStatus("n2", structs.NodeReady)
				after(outcomeWait - checkInterval)
				if got := nodesOf(w.called(detachMethod)); len(got) > 0 {
					t.Fatalf("called %v while the first call may still take effect", got)
				}
				after(2*checkInterval + w.Config.Retry.Max)
				if got := nodesOf(w.called(detachMethod)); !slices.Equal(got, []string{"n2"}) ||
					w.attachment("v", "n3") != nil {
					t.Errorf("called %v; the attachment is %+v", got, w.attachment("v", "n3"))
				}
			})
		})
	}
}

func TestReaper_ReleasesAClaimThatEndedAheadOfTheClock(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
			NodeID:       "n1",
			WriteOptions: structs.WriteOptions{Now: ahead()},
			Allocs:       []*structs.AllocClientUpdate{{ID: "a1", ClientStatus: structs.AllocComplete}},
		})
		stop := w.runLoop("reaper")
		defer stop()
		after(reapGrace)
		if c := csi.Claim(w.Store.Read(), "default", "v", "a1"); c != nil ||
			len(w.called(nodecalls.ClientCSINodeDetach.Name)) != 1 {
			t.Errorf("%+v", c)
		}
	})
}

func TestReportReason_ReplacesOneAheadOfTheClock(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		why := structs.Unavailablef("the node does not answer")
		r := reaperLoop{w.Deps}
		for recorded, want := range map[int64]bool{time.Now().UnixNano(): true, ahead(): false} {
			e := &structs.OperationError{Kind: structs.KindUnavailable, Time: recorded}
			if got := r.isReported(e, why); got != want {
				t.Errorf("recorded at %s: %t, want %t", time.Unix(0, recorded), got, want)
			}
		}
	})
}

// The answer after a retry is recorded although it is that of a moment before: without the record, each
// further request would be one of the operator.
func TestReportReason_IsRecordedAgainAfterARetry(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		why := &structs.Error{Kind: structs.KindInvalid, Code: "InvalidArgument", Text: "no such path"}
		r := reaperLoop{w.Deps}
		for retry, want := range map[int64]bool{structs.NeverTry: true, 0: false} {
			e := &structs.OperationError{
				Kind: why.Kind, Code: why.Code, Time: time.Now().UnixNano(), RetryTime: retry,
			}
			if got := r.isReported(e, why); got != want {
				t.Errorf("with the time %d of the next call: %t, want %t", retry, got, want)
			}
		}
	})
}

func TestGrowth_IsNotDelayedByOneAheadOfTheClock(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.growingVolume(func(v *structs.CSIVolume) { v.Grow.Max = 1 << 40 })
		w.used(90)
		put(w, fsm.VolumeGrow, &storage.VolumeGrowRequest{
			ID:           "v",
			RowIndex:     w.volume("v").ModifyIndex,
			To:           1229 << 20,
			WriteOptions: structs.WriteOptions{Now: ahead()},
		})
		defer w.runLoop("controllers")()
		defer w.runLoop("growth")()
		after(2 * volumes.GrowthInterval)
		if v := w.volume("v"); v.Capacity <= 1229<<20 {
			t.Errorf("it has %d bytes", v.Capacity)
		}
	})
}

func TestDelays_AheadOfTheClockAreOver(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		c := controllerLoop{Deps: w.Deps}
		next := time.Now().Add(w.Config.Retry.Max)
		if got := c.pollTime(next.UnixNano()); !got.Equal(next) {
			t.Errorf("the next question is due at %s, want %s", got, next)
		}
		if got := c.pollTime(ahead()); !got.IsZero() {
			t.Errorf("a question ahead of the clock is due at %s", got)
		}
		if got := c.growDue(&structs.CSIClaim{GrantTime: ahead()}); !got.IsZero() {
			t.Errorf("the node has until %s for a claim that was granted ahead of the clock", got)
		}
	})
}
