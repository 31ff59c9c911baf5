package volumes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// TestLoop_KeepsTheRowsOfAPluginThatCannotTell: its only controller is ill, has not told what it offers, or
// is on a node that is down. Only a controller that serves tells that the plugin has no health to tell.
func TestLoop_KeepsTheRowsOfAPluginThatCannotTell(t *testing.T) {
	for name, change := range map[string]func(w *healthWorld){
		"the controller is ill": func(w *healthWorld) {
			w.addNode("n0", "", &structs.CSIControllerInfo{})
			w.report("n0", false)
		},
		"it has told nothing": func(w *healthWorld) { w.addNode("n0", "", nil) },
		"its node is down": func(w *healthWorld) {
			w.addNode("n0", "", &structs.CSIControllerInfo{})
			put(w.world, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n0"}, Status: structs.NodeDown})
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtualHealth(t, listing, func(w *healthWorld) {
				w.addVolume("v")
				w.ill["v"] = slow()
				w.run()
				w.next()
				w.want("ill", "v")
				change(w)
				w.next()
				w.want(name, "v")
			})
		})
	}
}

// report changes the health of the controller on a node.
func (w *healthWorld) report(node string, healthy bool) {
	controller := &structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: node}
	controller.CSIInfo = structs.CSIInfo{PluginID: "p", Provider: "p.csi", Healthy: healthy}
	controller.ControllerInfo = &structs.CSIControllerInfo{}
	put(w.world, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:  node,
		Upserts: []*structs.CSIPluginInstance{controller},
	})
}

// TestDuty_H9_APartThatFailsLeavesTheListIncomplete: the list of another part of the storage succeeds after
// it.
func TestDuty_H9_APartThatFailsLeavesTheListIncomplete(t *testing.T) {
	virtualHealth(t, listsIt, func(w *healthWorld) {
		w.addNode("n0", "z0", listsIt)
		w.addNode("n1", "z1", listsIt)
		w.addVolume("v", "z0")
		w.ill["v"] = slow()
		w.run()
		w.next()
		w.set(func() {
			w.ill = nil
			w.failing = map[string]bool{"n0": true}
		})
		for range 3 {
			w.next()
		}
		w.want("the list of its zone fails", "v")
	})
}

// TestLoop_RejectsAMalformedPage: a page of it is no complete list.
func TestLoop_RejectsAMalformedPage(t *testing.T) {
	virtualHealth(t, listsIt, func(w *healthWorld) {
		w.addVolume("v")
		w.ill["v"] = slow()
		w.run()
		w.next()
		w.set(func() {
			w.list = func(string) (*page, error) {
				id := strings.Repeat("x", structs.MaxCSIID+1)
				return &page{Volumes: []*nodecalls.CSIListedHealth{{ExternalID: id}}}, nil
			}
		})
		for range 3 {
			w.next()
		}
		w.want("malformed pages", "v")
	})
}

// TestLoop_BoundsAList: a list of ill volumes that never ends takes a bound of memory.
func TestLoop_BoundsAList(t *testing.T) {
	virtualHealth(t, listsIt, func(w *healthWorld) {
		pages := 0
		w.list = func(string) (*page, error) {
			pages++
			p := &page{NextToken: fmt.Sprint(pages)}
			for i := range pageSize {
				p.Volumes = append(p.Volumes, listedHealth(fmt.Sprintf("%d-%d", pages, i), slow()))
			}
			return p, nil
		}
		w.run()
		w.sleep(time.Minute)
		if want := maxIll/pageSize + 1; pages != want {
			t.Errorf("%d pages, want %d", pages, want)
		}
	})
}

// TestLoop_BoundsTheCallsOfARound has a list that leaves out more ill volumes than a round asks for.
func TestLoop_BoundsTheCallsOfARound(t *testing.T) {
	virtualHealth(t, listing, func(w *healthWorld) {
		for i := range maxAsked + 20 {
			id := fmt.Sprintf("v%03d", i)
			w.addVolume(id)
			w.ill[id] = slow()
		}
		w.run()
		w.next()
		w.set(func() { w.list = func(string) (*page, error) { return &page{}, nil } })
		w.next()
		if len(w.asked) != maxAsked {
			t.Errorf("%d calls in a round, want %d", len(w.asked), maxAsked)
		}
	})
}

// TestLoop_AsksOnlyWhatIsAnnounced: the plugin has no call for single volumes.
func TestLoop_AsksOnlyWhatIsAnnounced(t *testing.T) {
	virtualHealth(t, listsIt, func(w *healthWorld) {
		w.addVolume("v")
		w.ill["v"] = slow()
		w.run()
		w.next()
		w.set(func() { w.ill = nil })
		w.next()
		w.next()
		w.want("two clean lists")
		if len(w.asked) != 0 {
			t.Errorf("asked for %q", w.asked)
		}
	})
}

// TestLoop_StopsAskingAPluginThatHangs: one call that does not end in time is enough for a round, so the
// plugins beside it have theirs in time.
func TestLoop_StopsAskingAPluginThatHangs(t *testing.T) {
	for name, has := range map[string]*structs.CSIControllerInfo{"in turn": single, "after a list": listing} {
		t.Run(name, func(t *testing.T) {
			virtualHealth(t, has, func(w *healthWorld) {
				for i := range 20 {
					id := fmt.Sprintf("v%02d", i)
					w.addVolume(id)
					w.ill[id] = slow()
				}
				w.run()
				w.next()
				w.set(func() {
					w.list = func(string) (*page, error) { return &page{}, nil }
					w.get = func(string) error { return structs.Timeoutf("it hangs") }
					w.asked = nil
				})
				w.next()
				if len(w.asked) != 1 {
					t.Errorf("asked for %q", w.asked)
				}
				w.next()
				if len(w.asked) != 2 || w.asked[0] == w.asked[1] {
					t.Errorf("with the next round asked for %q", w.asked)
				}
				if rows := len(rowsOf(w.Store.Read(), "p")); rows != 20 {
					t.Errorf("%d rows: a call that hangs is no recovery", rows)
				}
			})
		})
	}
}

// TestLoop_FindsOthersRecoveredBesideAVolumeThatHangs: the call for the first one never ends in time.
func TestLoop_FindsOthersRecoveredBesideAVolumeThatHangs(t *testing.T) {
	virtualHealth(t, listing, func(w *healthWorld) {
		for _, id := range []string{"a", "b", "c"} {
			w.addVolume(id)
			w.ill[id] = slow()
		}
		w.run()
		w.next()
		w.set(func() {
			w.ill = nil
			w.get = func(id string) error {
				if strings.Contains(id, "a") {
					return structs.Timeoutf("it hangs")
				}
				return nil
			}
		})
		w.next()
		w.next()
		rows := rowsOf(w.Store.Read(), "p")
		if len(rows) != 1 || rows[0].VolumeID != "a" {
			t.Errorf("%d volumes are ill", len(rows))
		}
	})
}

// TestLoop_PausesBetweenCalls, and asks only for volumes that exist at the plugin.
func TestLoop_PausesBetweenCalls(t *testing.T) {
	virtualHealth(t, single, func(w *healthWorld) {
		var times []time.Time
		w.get = func(string) error {
			times = append(times, time.Now())
			return nil
		}
		for _, id := range []string{"a", "b", "c", "leaves"} {
			w.addVolume(id)
		}
		put(w.world, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "leaves", AtOnce: true})
		w.run()
		w.next()
		if len(times) != 3 {
			t.Fatalf("asked for %q", w.asked)
		}
		for i := range times[1:] {
			if pause := times[i+1].Sub(times[i]); pause < Pause {
				t.Errorf("call %d comes %s after the one before it", i+1, pause)
			}
		}
	})
}

// TestLoop_AsksOnceWithoutTheCall: a plugin that announces the call and has none is not asked for the rest.
func TestLoop_AsksOnceWithoutTheCall(t *testing.T) {
	virtualHealth(t, single, func(w *healthWorld) {
		w.get = func(string) error { return rejected(structs.KindPrecondition, codeUnimplemented) }
		w.addVolume("a")
		w.addVolume("b")
		w.run()
		w.next()
		if len(w.asked) != 1 {
			t.Errorf("asked for %q", w.asked)
		}
	})
}

// TestLoop_KeepsTheRowWithoutAnAnswer: the answer has no health, or the secrets of the volume are missing.
func TestLoop_KeepsTheRowWithoutAnAnswer(t *testing.T) {
	for name, change := range map[string]func(w *healthWorld){
		"an answer without health": func(w *healthWorld) { w.mute = true },
		"missing secrets": func(w *healthWorld) {
			v := csi.Volume(w.Store.Read(), "default", "v").Copy()
			v.SecretsFrom = "nomad/volumes/default/v"
			put(w.world, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtualHealth(t, listing, func(w *healthWorld) {
				w.addVolume("v")
				w.ill["v"] = slow()
				w.run()
				w.next()
				change(w)
				w.set(func() { w.ill = map[string]*storage.VolumeCondition{} })
				for range 3 {
					w.next()
				}
				w.want(name, "v")
			})
		})
	}
}

// TestLoop_ForgetsWhatIsGone: a volume with a row, and one that the plugin does not know.
func TestLoop_ForgetsWhatIsGone(t *testing.T) {
	virtualHealth(t, listing, func(w *healthWorld) {
		w.addVolume("v")
		w.ill["v"] = slow()
		m := &healthMemory{}
		round := func() { w.loop().ask(context.Background(), "p", m) }
		round()
		w.want("ill", "v")
		w.get = func(string) error { return rejected(structs.KindNotFound, codeNotFound) }
		w.ill = nil
		round()
		if len(m.delayed) != 1 || len(m.clean) != 1 {
			t.Fatalf("delayed %v, clean %v", m.delayed, m.clean)
		}
		put(w.world, fsm.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v"})
		round()
		w.want("its volume is gone")
		round()
		if len(m.delayed)+len(m.clean) != 0 {
			t.Errorf("delayed %v, clean %v", m.delayed, m.clean)
		}
	})
}
