package volumes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/server/control/loop"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

type stub = structs.CSIVolumeExternalStub

// TestDuty_H5_AVolumeIsMissingAfterTwoCompleteLists: neither one list nor a list that is not complete tells
// that a volume is missing.
func TestDuty_H5_AVolumeIsMissingAfterTwoCompleteLists(t *testing.T) {
	virtualDrift(t, func(t *testing.T, w *driftWorld) {
		w.addVolume("v1")
		w.addVolume("v2")
		lacks := []*stub{listed("v1")}
		half := func(req *nodecalls.ClientCSIListRequest) (*nodecalls.ClientCSIListResponse, error) {
			if req.StartingToken != "" {
				return nil, structs.Internalf("no page")
			}
			return &nodecalls.ClientCSIListResponse{Volumes: lacks, NextToken: "1"}, nil
		}
		w.pages(lacks)
		w.run()
		if n := w.next(); n != 0 {
			t.Errorf("%d entries after one list", n)
		}
		w.list = half
		w.next()
		w.want("a list that is not complete")
		if s := w.summary(); s == nil || s.Fault == "" {
			t.Errorf("the summary is %+v, want a fault", s)
		}

		w.pages(lacks)
		w.next()
		w.want("the first list after it")
		w.next()
		w.want("the second one", "missing_volume v2 ")
		if n := w.next(); n != 0 {
			t.Errorf("%d entries, and nothing has changed", n)
		}
		w.list = half
		w.next()
		w.want("not complete again", "missing_volume v2 ")

		w.pages(lacks, []*stub{listed("v2")})
		w.next()
		w.want("with the volume on another page")
		if s := w.summary(); s != nil {
			t.Errorf("the summary is %+v, want none", s)
		}
	})
}

// TestDuty_H13_AVolumeThatThePluginFindsIsNotMissing has a plugin with GET_VOLUME.
func TestDuty_H13_AVolumeThatThePluginFindsIsNotMissing(t *testing.T) {
	gone := &structs.Error{Kind: structs.KindNotFound, Code: codeNotFound, Text: "gone"}
	for _, c := range []struct {
		answer error
		want   []string
	}{
		{nil, nil},
		{structs.Timeoutf("no answer"), nil},
		{structs.NotFoundf("no such node"), nil},
		{gone, []string{"missing_volume v "}},
	} {
		virtualDrift(t, func(t *testing.T, w *driftWorld) {
			w.addNode("n0", "", &structs.CSIControllerInfo{SupportsListVolumes: true, SupportsGet: true})
			w.addVolume("v")
			w.get = func(string) error { return c.answer }
			w.run()
			w.next()
			w.next()
			w.want(fmt.Sprint(c.answer), c.want...)
			w.get = func(string) error { return structs.Timeoutf("no answer") }
			w.next()
			w.want("later without an answer", c.want...)
			if !slices.Equal(w.asked, []string{"x-v", "x-v"}) {
				t.Errorf("asked for %q", w.asked)
			}
		})
	}
}

// A list that ended a controller twice would end the next one as well. The differences stay as they are.
func TestDrift_DoesNotListAPluginThatEndsAtIt(t *testing.T) {
	virtualDrift(t, func(t *testing.T, w *driftWorld) {
		w.addVolume("v")
		w.pages(nil)
		w.run()
		w.next()
		w.next()
		w.want("before", "missing_volume v ")
		lists := len(w.lists)
		ending := func(calls ...*structs.CSIEndingCall) {
			i := *csi.Instance(w.Store.Read(), "p", structs.CSIKindController, "n0")
			i.EndingCalls = calls
			row := *state.Node(w.Store.Read(), "n0")
			put(w.world, fsm.NodeRegister, &structs.NodeRegisterRequest{
				Node: &row, CSI: []*structs.CSIPluginInstance{&i},
			})
		}
		ending(&structs.CSIEndingCall{RPC: "ListVolumes"})
		w.next()
		if n := w.next(); len(w.lists) != lists || n != 0 {
			t.Errorf("%d lists, %d entries", len(w.lists)-lists, n)
		}
		w.want("during it", "missing_volume v ")
		if s := w.summary(); s == nil || !strings.Contains(s.Fault, "n0: ListVolumes is not called") {
			t.Errorf("the summary is %+v", s)
		}

		ending(&structs.CSIEndingCall{RPC: "CreateVolume", Volume: "name:v"})
		w.next()
		if s := w.summary(); len(w.lists) == lists || s == nil || s.Fault != "" {
			t.Errorf("%d lists after another version, %+v", len(w.lists)-lists, s)
		}
	})
}

// TestDuty_H6_AbortedBeginsTheListAnew has a controller that rejects the token of a page.
func TestDuty_H6_AbortedBeginsTheListAnew(t *testing.T) {
	aborted := &structs.Error{Kind: structs.KindUnavailable, Code: structs.CSICodeAborted, Text: "old token"}
	virtualDrift(t, func(t *testing.T, w *driftWorld) {
		w.addVolume("v")
		rejections := 1
		w.list = func(req *nodecalls.ClientCSIListRequest) (*nodecalls.ClientCSIListResponse, error) {
			switch {
			case req.StartingToken == "":
				return &nodecalls.ClientCSIListResponse{NextToken: "1"}, nil
			case rejections > 0:
				rejections--
				return nil, aborted
			}
			return &nodecalls.ClientCSIListResponse{Volumes: []*stub{listed("v")}}, nil
		}
		w.run()
		w.next()
		var tokens []string
		for _, r := range w.lists {
			tokens = append(tokens, r.StartingToken)
		}
		if !slices.Equal(tokens, []string{"", "1", "", "1"}) || w.summary() != nil {
			t.Errorf("tokens %q, summary %+v", tokens, w.summary())
		}

		rejections = 100
		w.lists = nil
		w.next()
		if len(w.lists) != 2*(MaxRestarts+1) || w.summary() == nil {
			t.Errorf("%d calls, summary %+v", len(w.lists), w.summary())
		}
	})
}

// TestDuty_H7_NodesCountOnlyIfThePluginAnnouncesThem: with the capability, no node means attached nowhere.
func TestDuty_H7_NodesCountOnlyIfThePluginAnnouncesThem(t *testing.T) {
	virtualDrift(t, func(t *testing.T, w *driftWorld) {
		w.addVolume("v")
		w.attach("v", "n0")
		silent := listed("v", "ext-elsewhere")
		silent.PublishedNodesKnown = false
		w.pages([]*stub{silent})
		w.run()
		w.next()
		w.next()
		w.want("without the capability")
		w.pages([]*stub{listed("v")})
		w.next()
		w.next()
		w.want("with it", "missing_attachment v ext-n0")
		w.pages([]*stub{listed("v", "ext-n0")})
		w.next()
		w.want("attached again")
	})
}

// TestDuty_H8_NodesThatNobodyKnowsAreShown: they are no fault, and nothing is repaired.
func TestDuty_H8_NodesThatNobodyKnowsAreShown(t *testing.T) {
	virtualDrift(t, func(t *testing.T, w *driftWorld) {
		w.settings(storage.PluginDrift{Drift: storage.DriftRepair})
		w.addVolume("v")
		w.pages([]*stub{listed("v", "laptop")})
		w.run()
		w.next()
		w.next()
		w.want("two lists", "unknown_node v laptop")
		s := w.summary()
		if s.Fault != "" || s.Counts[storage.DriftUnknownNode] != 1 || len(w.repairs()) != 0 {
			t.Errorf("summary %+v, repairs %q", s, w.repairs())
		}
	})
}

// repairs returns the recorded repairs.
func (w *driftWorld) repairs() (all []string) {
	for d := range csi.DriftsOfPlugin(w.Store.Read(), "p") {
		if d.Repair != "" {
			all = append(all, d.Kind+" "+d.VolumeID)
		}
	}
	return all
}

// TestLoop_LeavesOutWhatChangesMeanwhile has rows that change between the begin of a list and its page.
func TestLoop_LeavesOutWhatChangesMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *driftWorld)
		during func(w *driftWorld)
		page   *stub
	}{
		"attached":  {func(*driftWorld) {}, func(w *driftWorld) { w.attach("v", "n0") }, listed("v")},
		"attaching": {func(w *driftWorld) { w.claim("v", "n0") }, func(*driftWorld) {}, listed("v")},
		"an attach in flight": {
			func(w *driftWorld) { w.claim("v", "n0") }, func(*driftWorld) {}, listed("v", "ext-n0"),
		},
		"detached": {func(w *driftWorld) { w.attach("v", "n0") }, func(w *driftWorld) {
			put(w.world, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
				NodeID: "n0", Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a-v-n0"}},
			})
			put(w.world, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
				VolumeID: "v", NodeID: "n0", Op: "detach",
			})
		}, listed("v", "ext-n0")},
		"a call for the volume": {func(*driftWorld) {}, func(w *driftWorld) {
			row := csi.Volume(w.Store.Read(), "default", "v")
			put(w.world, fsm.CallNote, &structs.CSICallNote{
				VolumeID: "v", RowIndex: row.CreateIndex, Call: &structs.CSICall{NodeID: "n0", Op: "expand"},
			})
		}, listed("v", "ext-n0")},
	} {
		t.Run(name, func(t *testing.T) {
			virtualDrift(t, func(t *testing.T, w *driftWorld) {
				w.addVolume("v")
				c.before(w)
				p := newDriftPass(DriftLoop{Common: loop.Common{Store: w.Store, Nodes: w}}, "p")
				w.list = func(*nodecalls.ClientCSIListRequest) (*nodecalls.ClientCSIListResponse, error) {
					c.during(w)
					return &nodecalls.ClientCSIListResponse{Volumes: []*stub{c.page}}, nil
				}
				out, err := p.run(t.Context())
				if err != nil || len(out.found) != 0 {
					t.Errorf("found %v, %v", out, err)
				}
			})
		})
	}
}

func TestLoop_CountsVolumesWithoutARow(t *testing.T) {
	virtualDrift(t, func(t *testing.T, w *driftWorld) {
		w.addVolume("v")
		w.pages([]*stub{listed("v"), listed("s1"), listed("s1"), listed("s2")}, []*stub{listed("s1")})
		w.run()
		w.next()
		w.pages([]*stub{listed("v"), listed("s1"), listed("s1"), listed("s3")})
		w.next()
		w.want("no rows")
		if s := w.summary(); s == nil || s.Counts[storage.DriftStrayVolume] != 1 {
			t.Errorf("summary %+v, want the one that both lists have", s)
		}
		w.addVolume("s1")
		w.next()
		w.next()
		if s := w.summary(); s == nil || s.Counts[storage.DriftStrayVolume] != 1 {
			t.Errorf("summary %+v, want s3", s)
		}
	})
}

// TestLoop_KeepsTheDifferencesOfStorageThatIsDown has two zones with a volume each. One zone goes down.
func TestLoop_KeepsTheDifferencesOfStorageThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDriftWorld(t, 2, true)
		defer func() { w.stop() }()
		w.addVolume("v0", "z0")
		w.addVolume("v1", "z1")
		w.addVolume("nowhere")
		down := func(node string) {
			put(w.world, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{node}, Status: structs.NodeDown})
		}
		w.run()
		w.next()
		down("n1")
		w.next()
		w.want("its zone is down, and that of a volume without a zone may be", "missing_volume v0 ")
		down("n0")
		w.next()
		w.want("both are down", "missing_volume v0 ")

		all := []string{"missing_volume nowhere ", "missing_volume v0 ", "missing_volume v1 "}
		put(w.world, fsm.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs: []string{"n0", "n1"}, Status: structs.NodeReady,
		})
		w.next()
		w.next()
		w.want("both are up", all...)
		down("n1")
		w.next()
		w.want("one is down again", all...)
	})
}

// TestLoop_StaysWithinItsBudget: a list is asked for page by page, at its interval.
func TestLoop_StaysWithinItsBudget(t *testing.T) {
	virtualDrift(t, func(t *testing.T, w *driftWorld) {
		w.addVolume("v")
		w.settings(storage.PluginDrift{DriftInterval: time.Hour})
		begin := time.Now()
		var at []time.Duration
		w.list = func(req *nodecalls.ClientCSIListRequest) (*nodecalls.ClientCSIListResponse, error) {
			at = append(at, time.Since(begin))
			if req.MaxEntries != pageSize {
				t.Errorf("asked for %d volumes", req.MaxEntries)
			}
			next := ""
			if len(at)%2 == 1 {
				next = "1"
			}
			return &nodecalls.ClientCSIListResponse{NextToken: next}, nil
		}
		w.run()
		w.sleep(time.Hour + time.Minute)
		late := time.Duration(-1)
		if len(at) == 4 {
			late = at[2] - at[0] - time.Hour
		}
		if at[0] != driftAfter || at[1] != driftAfter+Pause || late < 0 || late > loop.Tick {
			t.Errorf("calls at %v", at)
		}

		w.list = func(*nodecalls.ClientCSIListRequest) (*nodecalls.ClientCSIListResponse, error) {
			return &nodecalls.ClientCSIListResponse{NextToken: fmt.Sprint(time.Now())}, nil
		}
		w.lists = nil
		w.sleep(time.Hour + Time)
		if s := w.summary(); len(w.lists) > int(Time/Pause)+1 || s == nil || s.Fault == "" {
			t.Errorf("%d calls for a list without an end, summary %+v", len(w.lists), s)
		}
	})
}

// TestLoop_StopsAListThatIsTooLarge has volumes at more nodes than a list may differ in.
func TestLoop_StopsAListThatIsTooLarge(t *testing.T) {
	virtualDrift(t, func(t *testing.T, w *driftWorld) {
		w.addVolume("v")
		nodes := make([]string, maxFound+1)
		for i := range nodes {
			nodes[i] = fmt.Sprint(i)
		}
		for name, v := range map[string]*stub{
			"differences": listed("v", nodes...),
			"bytes":       nil,
		} {
			w.list = func(*nodecalls.ClientCSIListRequest) (*nodecalls.ClientCSIListResponse, error) {
				all := []*stub{v}
				if v == nil {
					context := map[string]string{"k": strings.Repeat("x", 16<<10-1)}
					all = slices.Repeat([]*stub{{ExternalID: "s", VolumeContext: context}}, maxBytes>>14)
				}
				return &nodecalls.ClientCSIListResponse{Volumes: all}, nil
			}
			_, err := newDriftPass(DriftLoop{Common: loop.Common{Store: w.Store, Nodes: w}}, "p").run(t.Context())
			if err == nil || !strings.Contains(err.Error(), "more than") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestLoop_ForgetsThePluginThatIsNotListed: by its settings, or because it cannot list any more.
func TestLoop_ForgetsThePluginThatIsNotListed(t *testing.T) {
	for name, change := range map[string]func(w *driftWorld){
		"off":           func(w *driftWorld) { w.settings(storage.PluginDrift{Drift: storage.DriftOff}) },
		"lists no more": func(w *driftWorld) { w.addNode("n0", "", &structs.CSIControllerInfo{}) },
	} {
		t.Run(name, func(t *testing.T) {
			virtualDrift(t, func(t *testing.T, w *driftWorld) {
				w.addVolume("v")
				w.run()
				w.next()
				w.next()
				w.want("listed", "missing_volume v ")
				change(w)
				w.lists = nil
				w.next()
				w.want("not listed")
				if len(w.lists) != 0 || w.summary() != nil {
					t.Errorf("%d calls, summary %+v", len(w.lists), w.summary())
				}
			})
		})
	}
}

// TestLoop_RepairsAfterTwoLists has an attachment that the list lacks, and one that the rows lack.
func TestLoop_RepairsAfterTwoLists(t *testing.T) {
	virtualDrift(t, func(t *testing.T, w *driftWorld) {
		w.settings(storage.PluginDrift{Drift: storage.DriftRepair})
		w.addVolume("lost")
		w.attach("lost", "n0")
		w.addVolume("stray")
		w.pages([]*stub{listed("lost"), listed("stray", "ext-n0")})
		w.run()
		w.next()
		attachment := func(id string) *structs.CSIAttachment {
			return csi.Attachment(w.Store.Read(), "default", id, "n0")
		}
		if attachment("lost").State != structs.AttachmentAttached || attachment("stray") != nil {
			t.Error("repaired after one list")
		}
		w.next()
		if attachment("lost").State != structs.AttachmentAttaching {
			t.Errorf("the lost attachment is %s", attachment("lost").State)
		}
		a := attachment("stray")
		if a == nil || a.State != structs.AttachmentDetaching || a.ExternalNodeID != "ext-n0" {
			t.Errorf("the stray attachment is %+v", a)
		}
		want := []string{"missing_attachment lost", "stray_attachment stray"}
		if !slices.Equal(w.repairs(), want) {
			t.Errorf("repairs %q, want %q", w.repairs(), want)
		}
	})
}

// TestLoop_BoundsTheRepairsAfterAList has more differences than a list may repair.
func TestLoop_BoundsTheRepairsAfterAList(t *testing.T) {
	virtualDrift(t, func(t *testing.T, w *driftWorld) {
		w.settings(storage.PluginDrift{Drift: storage.DriftRepair})
		var page []*stub
		for i := range maxRepairs + 1 {
			id := fmt.Sprintf("v%02d", i)
			w.addVolume(id)
			page = append(page, listed(id, "ext-n0"))
		}
		w.pages(page)
		w.run()
		w.next()
		w.next()
		if n := len(w.repairs()); n != maxRepairs {
			t.Errorf("%d repairs after a list, want %d", n, maxRepairs)
		}
	})
}
