package volumes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/fsm"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

type page = nodecalls.ClientCSIListHealthResponse

// TestDuty_H9_ARecoveryNeedsAConfirmation: a volume is ill after one list, and keeps the time of its row. A
// list that leaves it out has the plugin asked for it alone.
func TestDuty_H9_ARecoveryNeedsAConfirmation(t *testing.T) {
	virtualHealth(t, listing, func(w *healthWorld) {
		w.addVolume("v")
		w.addVolume("well")
		w.ill["v"] = slow()
		w.ill["foreign"] = slow()
		w.run()
		w.next()
		w.want("one list", "v")
		since := w.row("v").Since
		if n := w.next(); n != 0 {
			t.Errorf("%d entries, and nothing has changed", n)
		}
		w.set(func() {
			w.list = func(string) (*page, error) { return &page{}, nil }
			w.ill["v"] = &storage.VolumeCondition{Abnormal: true, Message: "DATA_LOSS Lost"}
		})
		w.next()
		w.want("left out, and still ill", "v")
		if row := w.row("v"); row.Condition.Message != "DATA_LOSS Lost" || row.Since != since {
			t.Errorf("the row is %+v, %+v", row, row.Condition)
		}
		w.set(func() { delete(w.ill, "v") })
		w.next()
		w.want("confirmed")
		if !slices.Equal(w.asked, []string{"v", "v"}) {
			t.Errorf("asked for %q", w.asked)
		}
	})
}

// TestDuty_H9_TwoCleanListsAreARecovery has a plugin that cannot be asked for a volume. A list that is not
// complete breaks the row.
func TestDuty_H9_TwoCleanListsAreARecovery(t *testing.T) {
	for name, has := range map[string]*structs.CSIControllerInfo{
		"not announced": listsIt,
		"unimplemented": listing,
	} {
		t.Run(name, func(t *testing.T) {
			virtualHealth(t, has, func(w *healthWorld) {
				w.get = func(string) error { return rejected(structs.KindPrecondition, codeUnimplemented) }
				w.addVolume("v")
				w.ill["v"] = slow()
				w.run()
				w.next()
				w.want("ill", "v")
				fails := false
				w.set(func() {
					w.list = func(token string) (*page, error) {
						if token == "" {
							return &page{NextToken: "1"}, nil
						}
						if fails {
							return nil, structs.Internalf("no page")
						}
						return &page{}, nil
					}
				})
				w.next()
				w.want("one clean list", "v")
				w.set(func() { fails = true })
				w.next()
				w.want("a list that is not complete", "v")
				w.set(func() { fails = false })
				w.next()
				w.want("the first clean list after it", "v")
				w.set(func() { w.list = nil })
				w.next()
				w.want("listed again", "v")
				w.set(func() { delete(w.ill, "v") })
				w.next()
				w.want("one clean list again", "v")
				w.next()
				w.want("two clean lists")
			})
		})
	}
}

// TestDuty_H9_AVolumeThatComesTwiceIsIll: also what a list finds before it fails counts.
func TestDuty_H9_AVolumeThatComesTwiceIsIll(t *testing.T) {
	virtualHealth(t, listing, func(w *healthWorld) {
		w.addVolume("v")
		w.list = func(token string) (*page, error) {
			switch token {
			case "":
				return &page{Volumes: []*nodecalls.CSIListedHealth{listedHealth("v", slow()), nil}, NextToken: "1"}, nil
			case "1":
				healthy := listedHealth("v", &storage.VolumeCondition{})
				return &page{Volumes: []*nodecalls.CSIListedHealth{healthy, listedHealth("v", nil)}, NextToken: "2"}, nil
			}
			return nil, structs.Internalf("no page")
		}
		w.run()
		w.next()
		w.want("an entry of two", "v")
	})
}

// TestDuty_H10_AbortedBeginsTheListAnew has a controller that rejects the token of a page.
func TestDuty_H10_AbortedBeginsTheListAnew(t *testing.T) {
	virtualHealth(t, listing, func(w *healthWorld) {
		w.addVolume("v")
		rejections := 1
		w.list = func(token string) (*page, error) {
			switch {
			case token == "":
				return &page{NextToken: "1"}, nil
			case rejections > 0:
				rejections--
				return nil, rejected(structs.KindUnavailable, structs.CSICodeAborted)
			}
			return &page{Volumes: []*nodecalls.CSIListedHealth{listedHealth("v", slow())}}, nil
		}
		w.run()
		w.next()
		w.want("after one rejection", "v")
		if !slices.Equal(w.tokens, []string{"", "1", "", "1"}) {
			t.Errorf("tokens %q", w.tokens)
		}
		w.set(func() {
			rejections = 100
			w.tokens = nil
		})
		w.next()
		if n := len(w.tokens); n != 2*(MaxRestarts+1) {
			t.Errorf("%d calls of a list that never ends", n)
		}
		w.want("rejected for ever", "v")
	})
}

// TestDuty_H11_AnErrorIsNoRecovery: after NOT_FOUND the plugin is asked ever more seldom, and not at all for
// a volume whose row is gone.
func TestDuty_H11_AnErrorIsNoRecovery(t *testing.T) {
	virtualHealth(t, listing, func(w *healthWorld) {
		w.addVolume("v")
		w.ill["v"] = slow()
		w.run()
		w.next()
		var answer error
		w.set(func() {
			w.list = func(string) (*page, error) { return &page{}, nil }
			w.get = func(string) error { return answer }
			answer = rejected(structs.KindUnavailable, "Unavailable")
		})
		for range 5 {
			w.next()
		}
		w.want("no answer", "v")
		if len(w.asked) != 5 {
			t.Errorf("asked for %q in five rounds", w.asked)
		}

		w.set(func() {
			answer = rejected(structs.KindNotFound, codeNotFound)
			w.asked = nil
		})
		w.sleep(4 * time.Hour)
		w.want("not found", "v")
		if n := len(w.asked); n < 5 || n > 12 {
			t.Errorf("asked %d times in four hours", n)
		}

		w.set(func() {
			answer = nil
			w.ill = map[string]*storage.VolumeCondition{}
		})
		w.sleep(2 * maxDelay)
		w.want("the plugin knows it again")
		w.set(func() {
			w.list = nil
			w.ill["v"] = slow()
		})
		w.next()
		w.want("ill again", "v")
		put(w.world, fsm.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v"})
		w.set(func() { w.asked = nil })
		w.next()
		w.want("its volume is gone")
		if len(w.asked) != 0 {
			t.Errorf("asked for %q", w.asked)
		}
	})
}

// TestDuty_B14_AnUnknownValueIsShown: it has a row, and the volume is not abnormal.
func TestDuty_B14_AnUnknownValueIsShown(t *testing.T) {
	virtualHealth(t, listing, func(w *healthWorld) {
		w.addVolume("v")
		w.ill["v"] = &storage.VolumeCondition{
			Message: "17 New", Statuses: []*structs.CSIHealth{{Status: "17", Reason: "New"}},
		}
		w.run()
		w.next()
		w.want("an unknown value", "v")
		if row := w.row("v"); row == nil || row.Condition.Abnormal {
			t.Errorf("the row is %+v", row)
		}
	})
}

// TestLoop_AsksAPluginThatDoesNotListInTurn: a round has a bound, and the next one goes on.
func TestLoop_AsksAPluginThatDoesNotListInTurn(t *testing.T) {
	virtualHealth(t, single, func(w *healthWorld) {
		for i := range maxAsked + 20 {
			w.addVolume(fmt.Sprintf("v%03d", i))
		}
		w.ill["v110"] = slow()
		w.run()
		w.next()
		w.want("the first round")
		if len(w.tokens) != 0 || len(w.asked) != maxAsked || w.asked[0] != "v000" {
			t.Fatalf("%d lists, asked for %d volumes", len(w.tokens), len(w.asked))
		}
		w.next()
		w.want("the second round", "v110")
		if w.asked[maxAsked] != "v100" || w.asked[maxAsked+20] != "v000" {
			t.Errorf("the second round begins with %s", w.asked[maxAsked])
		}

		w.set(func() {
			w.ill = nil
			w.get = func(string) error { return rejected(structs.KindUnavailable, "Unavailable") }
		})
		w.next()
		w.next()
		w.want("no answer", "v110")
		w.set(func() { w.get = nil })
		w.next()
		w.next()
		w.want("healthy again")
	})
}

// TestLoop_KeepsTheRowsOfStorageThatIsDown has two zones with a volume each. One zone goes down.
func TestLoop_KeepsTheRowsOfStorageThatIsDown(t *testing.T) {
	virtualHealth(t, listsIt, func(w *healthWorld) {
		w.addNode("n0", "z0", listsIt)
		w.addNode("n1", "z1", listsIt)
		w.addVolume("v0", "z0")
		w.addVolume("v1", "z1")
		w.addVolume("nowhere")
		for _, id := range []string{"v0", "v1", "nowhere"} {
			w.ill[id] = slow()
		}
		w.run()
		w.next()
		w.want("all are ill", "nowhere", "v0", "v1")
		w.set(func() { w.ill = nil })
		put(w.world, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
		w.next()
		w.next()
		w.want("its zone is down, and that of a volume without a zone may be", "nowhere", "v1")
		put(w.world, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeReady})
		w.next()
		w.next()
		w.want("both zones are up")
	})
}

// TestLoop_ForgetsThePluginThatDoesNotTellAnyMore: not while no controller of it is reachable.
func TestLoop_ForgetsThePluginThatDoesNotTellAnyMore(t *testing.T) {
	virtualHealth(t, listing, func(w *healthWorld) {
		w.addVolume("v")
		w.ill["v"] = slow()
		w.run()
		w.next()
		put(w.world, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n0"}, Status: structs.NodeDown})
		w.next()
		w.want("no controller is reachable", "v")
		w.addNode("n0", "", &structs.CSIControllerInfo{})
		w.next()
		w.want("it tells nothing any more")
	})
}
