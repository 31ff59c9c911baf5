package control

import (
	"fmt"
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

// The code decides on the next try of an attach and of a detach (CSI spec, "Error Scheme" and the tables of
// both).
func TestDuty_C9_C10_C11_C13_G8_G9_G10_G11_G15_WhenAttachAndDetachAreTriedAgain(t *testing.T) {
	never := map[string]bool{
		"InvalidArgument": true,
		"OutOfRange":      true,
		"AlreadyExists":   true,
		"Unimplemented":   true,
	}
	minutely := map[string]bool{"PermissionDenied": true, "Unauthenticated": true}
	for code, kind := range csitest.CodeKinds {
		for _, op := range []string{attachMethod, detachMethod} {
			t.Run(op+"/"+code, func(t *testing.T) {
				virtual(t, func(t *testing.T, w *testEnv) {
					w.addNode("n1", true)
					w.addVolume(aVolume("v", structs.VolumeReady))
					w.addClaim("v", "a1", "n1")
					if op == detachMethod {
						w.unclaim("v", "a1")
					}
					w.setAnswer(func(nodeCall) (any, error) {
						return nil, answered(kind, code)
					})
					stop := w.runLoop("controllers")
					defer stop()
					synctest.Wait()
					e := w.attachment("v", "n1").LastError
					if e == nil || e.Code != code || e.Kind != kind {
						t.Fatalf("got row %+v", e)
					}
					// A volume that stays attached keeps its next user away.
					gives := never[code] && op == attachMethod
					seldom := minutely[code] || never[code] && op == detachMethod
					if (e.RetryTime == structs.NeverTry) != gives ||
						e.RetryTime == 0 {
						t.Errorf("next attempt is at %d", e.RetryTime)
					}
					after(10 * time.Minute)
					n := len(w.called(op))
					most, least := 40, 20 // every 30 seconds, after the first few
					if gives {
						most, least = 1, 1
					}
					if seldom {
						most, least = 11, 9
					}
					if n < least || n > most {
						t.Errorf("%d tries in ten minutes", n)
					}
				})
			})
		}
	}
}

// A request that was rejected as wrong is repeated after a change of its inputs, or when an operator retries.
func TestDuty_C9_C13_ARejectedRequestIsSentAgainWhenSomethingHasChanged(t *testing.T) {
	for name, change := range map[string]func(w *testEnv){
		"a controller of the plugin": func(w *testEnv) { w.listing("n1") },
		"the volume": func(w *testEnv) {
			v := aVolume("v", structs.VolumeReady)
			v.Secrets = structs.Secrets{"k": "new"}
			w.addVolume(v)
		},
		"a person asks": func(w *testEnv) {
			put(w, fsm.VolumeRetry, &structs.CSIVolumeRetryRequest{
				ID:           "v",
				WriteOptions: structs.WriteOptions{Now: time.Now().UnixNano()},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				w.addVolume(aVolume("v", structs.VolumeReady))
				w.addClaim("v", "a1", "n1")
				w.setAnswer(func(nodeCall) (any, error) {
					return nil, answered(structs.KindInvalid, "InvalidArgument")
				})
				stop := w.runLoop("controllers")
				defer stop()
				after(time.Hour)
				w.setAnswer(nil)
				change(w)
				after(finalDelay)
				if n, a := len(w.called(attachMethod)), w.attachment("v", "n1"); n != 2 ||
					a.State != structs.AttachmentAttached {
					t.Errorf("%d calls; %s", n, a.State)
				}
			})
		})
	}
}

func TestVolumeRetry_CallsAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.setAnswer(func(nodeCall) (any, error) {
			return nil, answered(structs.KindPrecondition, "FailedPrecondition")
		})
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		e := w.attachment("v", "n1").LastError
		if left := time.Until(time.Unix(0, e.RetryTime)); left <= 0 || left > w.Config.Retry.Max {
			t.Errorf("next attempt is in %s", left)
		}
		w.setAnswer(nil)
		put(w, fsm.VolumeRetry, &structs.CSIVolumeRetryRequest{
			ID:           "v",
			WriteOptions: structs.WriteOptions{Now: time.Now().UnixNano()},
		})
		synctest.Wait()
		if a := w.attachment("v", "n1"); a.State != structs.AttachmentAttached {
			t.Errorf("state is still %s", a.State)
		}
	})
}

func TestDuty_C12_AnAttachThatWasDeniedTakesTheVolumesNewSecrets(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.setAnswer(func(c nodeCall) (any, error) {
			if r, ok := c.req.(*nodecalls.ClientCSIAttachRequest); ok && r.Secrets["k"] != "new" {
				return nil, answered(structs.KindDenied, "Unauthenticated")
			}
			return nil, nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		v := aVolume("v", structs.VolumeReady)
		v.Secrets = structs.Secrets{"k": "new"}
		w.addVolume(v)
		after(2 * finalDelay)
		if a := w.attachment("v", "n1"); a.State != structs.AttachmentAttached {
			t.Fatalf("%+v", a.LastError)
		}
		w.unclaim("v", "a1")
		synctest.Wait()
		if calls := w.called(detachMethod); len(calls) != 1 ||
			calls[0].req.(*nodecalls.ClientCSIDetachRequest).Secrets["k"] != "new" {
			t.Errorf("detached with other secrets than it was attached with")
		}
	})
}

// The code decides the state of a volume after a creation or deletion (CSI spec, the tables of CreateVolume
// and DeleteVolume).
func TestDuty_F18_F19_F20_F21_F22_F25_AFailedCreationOrDeletionHasItsState(t *testing.T) {
	final := map[string]bool{
		"InvalidArgument":    true,
		"OutOfRange":         true,
		"NotFound":           true,
		"AlreadyExists":      true,
		"PermissionDenied":   true,
		"Unauthenticated":    true,
		"FailedPrecondition": true,
		"Unimplemented":      true,
	}
	neverMade := map[string]bool{
		"InvalidArgument":    true,
		"OutOfRange":         true,
		"AlreadyExists":      true,
		"FailedPrecondition": true,
		"Unimplemented":      true,
	}
	for code, kind := range csitest.CodeKinds {
		t.Run("create/"+code, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				w.addVolume(aVolume("v", structs.VolumeCreating))
				w.setAnswer(func(nodeCall) (any, error) {
					return nil, answered(kind, code)
				})
				stop := w.runLoop("controllers")
				defer stop()
				after(5 * time.Minute)
				want := map[bool]string{true: structs.VolumeFailed, false: structs.VolumeCreating}[final[code]]
				v, n := w.volume("v"), len(w.called(createMethod))
				if v.State != want || v.LastError.Code != code ||
					final[code] != (n == 1) {
					t.Errorf("%s after %d calls: %+v", v.State, n, v.LastError)
				}
			})
		})
		t.Run("delete of an unknown creation/"+code, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				v := aVolume("v", structs.VolumeDeleting)
				v.ExternalID = ""
				w.addVolume(v)
				w.setAnswer(func(nodeCall) (any, error) {
					return nil, answered(kind, code)
				})
				stop := w.runLoop("controllers")
				defer stop()
				after(5 * time.Minute)
				if gone := w.volume("v") == nil; gone != neverMade[code] {
					t.Errorf("the row is gone: %t", gone)
				}
			})
		})
		t.Run("delete/"+code, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				w.addVolume(aVolume("v", structs.VolumeReady))
				put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
				w.setAnswer(func(nodeCall) (any, error) {
					return nil, answered(kind, code)
				})
				stop := w.runLoop("controllers")
				defer stop()
				after(5 * time.Minute)
				v, n := w.volume("v"), len(w.called(deleteMethod))
				if code == "NotFound" { // a volume that does not exist is deleted
					if v != nil || n != 1 {
						t.Errorf("%+v after %d calls", v, n)
					}
					return
				}
				given := final[code] && code != "FailedPrecondition" // its users may leave
				want := map[bool]string{true: structs.VolumeReady, false: structs.VolumeDeleting}[given]
				if v == nil || v.State != want ||
					v.LastError.Code != code || given != (n == 1) {
					t.Errorf("%+v after %d calls", v, n)
				}
			})
		})
	}
}

// The code decides whether an expansion is tried again (CSI spec, the table of ControllerExpandVolume), for a
// plugin that expands volumes online and for one that does so offline.
func TestDuty_J5_J6_J7_WhenAnExpansionIsTriedAgain(t *testing.T) {
	given := map[string]bool{
		"InvalidArgument":  true,
		"OutOfRange":       true,
		"AlreadyExists":    true,
		"PermissionDenied": true,
		"Unauthenticated":  true,
		"Unimplemented":    true,
	}
	offlineToo := map[string]bool{"NotFound": true, "FailedPrecondition": true}
	for code, kind := range csitest.CodeKinds {
		for _, offline := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/offline %t", code, offline), func(t *testing.T) {
				virtual(t, func(t *testing.T, w *testEnv) {
					w.offline = offline
					w.addNode("n1", true)
					w.addVolume(aVolume("v", structs.VolumeReady))
					w.setAnswer(func(nodeCall) (any, error) {
						return nil, answered(kind, code)
					})
					stop := w.runLoop("controllers")
					defer stop()
					w.grow("v", 20)
					after(5 * time.Minute)
					gone := given[code] || offline && offlineToo[code]
					v, n := w.volume("v"), len(w.called(expandMethod))
					if v.ExpandPending == gone || v.LastError.Code != code ||
						gone != (n == 1) || !gone &&
						(n < 10 || n > 25) {
						t.Fatalf("%+v after %d calls", v.LastError, n)
					}
					if left := time.Until(time.Unix(0, v.LastError.RetryTime)); !gone && left > w.Config.Retry.Max {
						t.Errorf("next attempt is in %s", left)
					}
					w.setAnswer(twoSteps(done))
					after(w.Config.Retry.Max)
					if v := w.volume("v"); !gone && (v.ExpandPending || v.LastError != nil || v.Capacity < 20) {
						t.Errorf("volume is not expanded: %+v", v)
					}
				})
			})
		}
	}
}

// The claim has the reason why a node does not release the volume. The reason is written once.
func TestReaper_RecordsWhyANodeDoesNotRelease(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.setAnswer(func(nodeCall) (any, error) {
			return nil, answered(structs.KindTimeout, "Unknown")
		})
		w.endAlloc("a1", "n1")
		stop := w.runLoop("reaper")
		defer stop()
		after(reapGrace)
		claim := w.claim("v", "a1")
		if e := claim.ReleaseError; e == nil || !strings.Contains(e.Message, "Unknown: no") || e.Attempts != 1 {
			t.Fatalf("%+v", e)
		}
		before := w.log.Len()
		after(time.Hour)
		if n := w.log.Len() - before; n < 30 || n > 61 {
			t.Errorf("%d entries in an hour for the same reason", n)
		}
		w.check()
	})
}

// A node makes a call that its plugin has rejected for good again if an operator retries, once for each time.
func TestVolumeRetry_ReleasesAParkedVolume(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		var made int // by the node at its plugin
		rejects := true
		w.setAnswer(func(c nodeCall) (any, error) {
			if made == 0 || c.req.(*nodecalls.ClientCSINodeDetachRequest).ByOperator {
				made++
			} else if !rejects {
				t.Error("the node is called after the release")
			}
			if rejects {
				return nil, answered(structs.KindInvalid, "InvalidArgument")
			}
			return nil, nil
		})
		w.endAlloc("a1", "n1")
		stop := w.runLoop("reaper")
		defer stop()
		after(time.Hour)
		if made != 1 {
			t.Fatalf("%d calls of the plugin without an operator", made)
		}

		retry := func() {
			put(w, fsm.VolumeRetry, &structs.CSIVolumeRetryRequest{
				ID:           "v",
				WriteOptions: structs.WriteOptions{Now: time.Now().UnixNano()},
			})
			after(w.Config.Retry.Max)
		}
		retry()
		after(time.Hour)
		if made != 2 || w.claim("v", "a1").ReleaseError.RetryTime != structs.NeverTry {
			t.Errorf("%d calls after a retry: %+v", made, w.claim("v", "a1").ReleaseError)
		}
		rejects = false
		retry()
		if made != 3 || csi.Claim(w.Store.Read(), "default", "v", "a1") != nil {
			t.Errorf("%d calls, and the claim remains", made)
		}
		w.check()
	})
}

// A call that the plugin has rejected for good is not repeated, so the claim says so once. The servers
// continue to call the node, because only the node notices another process of the plugin.
func TestDuty_C9_C13_TheClaimShowsAParkedRelease(t *testing.T) {
	for code, never := range map[string]bool{
		"InvalidArgument": true, "Unimplemented": true,
		"OutOfRange": false, "PermissionDenied": false, "FailedPrecondition": false, "Internal": false,
	} {
		t.Run(code, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				w.addVolume(aVolume("v", structs.VolumeReady))
				w.addClaim("v", "a1", "n1")
				w.setAnswer(func(nodeCall) (any, error) {
					return nil, answered(csitest.CodeKinds[code], code)
				})
				w.endAlloc("a1", "n1")
				stop := w.runLoop("reaper")
				defer stop()
				after(time.Hour)
				e := w.claim("v", "a1").ReleaseError
				if (e.RetryTime == structs.NeverTry) != never ||
					(e.Attempts == 1) != never || e.Code != code {
					t.Errorf("got claim error %+v", e)
				}
				w.setAnswer(func(nodeCall) (any, error) { return nil, nil })
				after(time.Minute)
				if csi.Claim(w.Store.Read(), "default", "v", "a1") != nil {
					t.Error("claim remains after its release")
				}
				w.check()
			})
		})
	}
}
