package csi_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

const (
	snw  = structs.CSISingleNodeWriter
	snr  = structs.CSISingleNodeReader
	snsw = structs.CSISingleNodeSingleWriter
	snmw = structs.CSISingleNodeMultiWriter
	mnr  = structs.CSIMultiNodeReader
	mnsw = structs.CSIMultiNodeSingleWriter
	mnmw = structs.CSIMultiNodeMultipleWriter

	rd = structs.ClaimRead
	wr = structs.ClaimWrite

	waiting = structs.ClaimWaiting
	granted = structs.ClaimGranted
)

func TestClaimQueue_GrantsInOrder(t *testing.T) {
	type request struct {
		alloc, mode string
		access      structs.CSIAccessMode
	}
	for _, c := range []struct {
		name     string
		requests []request
		release  []string
		want     string // alloc:state, in the order of the requests; g granted, w waiting, - gone
	}{
		{"one writer on one node", []request{{"a1", wr, snw}, {"a2", wr, snw}, {"b1", wr, snw}}, nil,
			"a1:g a2:w b1:w"},
		{"the next in the queue, not another", []request{{"a1", wr, snw}, {"a2", wr, snw}, {"a3", wr, snw}},
			[]string{"a1"}, "a1:- a2:g a3:w"},
		{"a reader of a single-node volume is alone too", []request{{"a1", rd, snr}, {"b1", rd, snr}}, nil,
			"a1:g b1:w"},
		{"readers share", []request{{"a1", rd, mnr}, {"a2", rd, mnr}, {"b1", rd, mnr}}, nil, "a1:g a2:g b1:g"},
		{"one writer among readers", []request{{"a1", wr, mnsw}, {"a2", rd, mnsw}, {"a3", wr, mnsw}}, nil,
			"a1:g a2:g a3:w"},
		{"readers pass a waiting writer without conflict",
			[]request{{"a1", wr, mnsw}, {"a2", wr, mnsw}, {"a3", rd, mnsw}}, nil, "a1:g a2:w a3:g"},
		{"writers share", []request{{"a1", wr, mnmw}, {"a2", wr, mnmw}, {"a3", rd, mnmw}}, nil, "a1:g a2:g a3:g"},
		{"a single writer is alone", []request{{"a1", wr, snsw}, {"b1", wr, snsw}}, nil, "a1:g b1:w"},
		{"writers of one node share it", []request{{"a1", wr, snmw}, {"b1", wr, snmw}}, nil, "a1:g b1:g"},
		{"readers of one node too", []request{{"a1", wr, snmw}, {"b1", rd, snmw}}, nil, "a1:g b1:g"},
		{"writers of another node wait", []request{{"a1", wr, snmw}, {"a2", wr, snmw}, {"b2", wr, snmw}}, nil,
			"a1:g a2:w b2:w"},
		{"readers of another node wait", []request{{"a1", wr, snmw}, {"a2", rd, snmw}}, nil, "a1:g a2:w"},
		{"a claim does not pass one of another node", []request{{"a1", wr, snmw}, {"a2", wr, snmw}, {"b1", wr, snmw}},
			nil, "a1:g a2:w b1:w"},
		{"of a reader neither", []request{{"a1", wr, snmw}, {"a2", rd, snmw}, {"b1", wr, snmw}}, nil,
			"a1:g a2:w b1:w"},
		{"the last release gives the volume to the other node",
			[]request{{"a1", wr, snmw}, {"b1", rd, snmw}, {"a2", wr, snmw}, {"b2", wr, snmw}, {"a3", wr, snmw}},
			[]string{"a1", "b1"}, "a1:- b1:- a2:g b2:g a3:w"},
		{"and the first release does not",
			[]request{{"a1", wr, snmw}, {"b1", rd, snmw}, {"a2", wr, snmw}}, []string{"a1"}, "a1:- b1:g a2:w"},
		{"other modes wait", []request{{"a1", rd, mnr}, {"a2", wr, mnmw}}, nil, "a1:g a2:w"},
		{"a later claim does not pass one that waits for other modes",
			[]request{{"a1", rd, mnr}, {"a2", wr, mnmw}, {"a3", rd, mnr}}, nil, "a1:g a2:w a3:w"},
		{"a later claim is granted when that one is released",
			[]request{{"a1", rd, mnr}, {"a2", wr, mnmw}, {"a3", rd, mnr}},
			[]string{"a2"}, "a1:g a2:- a3:g"},
		{"all claims without conflict are granted at once",
			[]request{{"a1", wr, snw}, {"a2", rd, mnr}, {"a3", rd, mnr}, {"b1", wr, snw}, {"b2", rd, mnr}},
			[]string{"a1"}, "a1:- a2:g a3:g b1:w b2:w"},
		{"the others are granted when those are released",
			[]request{{"a1", wr, snw}, {"a2", rd, mnr}, {"a3", rd, mnr}, {"b1", wr, snw}, {"b2", rd, mnr}},
			[]string{"a1", "a2", "a3"}, "a1:- a2:- a3:- b1:g b2:w"},
		{"the release of a waiting claim changes nothing for the holder",
			[]request{{"a1", wr, snw}, {"a2", wr, snw}}, []string{"a2"}, "a1:g a2:-"},
		{"a second release changes nothing", []request{{"a1", wr, snw}, {"a2", wr, snw}, {"a3", wr, snw}},
			[]string{"a1", "a1"}, "a1:- a2:g a3:w"},
	} {
		for _, together := range []bool{false, true} {
			w := threeNodes(t, false)
			var cs []*structs.CSIClaim
			for _, a := range c.requests {
				cs = append(cs, aClaim("v", a.alloc, a.mode, a.access))
			}
			if together {
				w.Claim(cs...) // in one log entry: the queue has the order of the request
			} else {
				for _, cl := range cs {
					w.Claim(cl)
				}
			}
			for _, alloc := range c.release {
				w.Release("v", alloc)
			}
			letters := map[string]string{"": "-", waiting: "w", granted: "g"}
			var got []string
			for _, a := range c.requests {
				got = append(got, a.alloc+":"+letters[w.ClaimState("v", a.alloc)])
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s (together %v): got %s, want %s", c.name, together, s, c.want)
			}
		}
	}
}

func TestGrantIndex_GrowsWithEveryGrant(t *testing.T) {
	w := threeNodes(t, false)
	last := uint64(0)
	for _, alloc := range []string{"a1", "a2", "a3", "b1"} {
		w.Claim(aClaim("v", alloc, wr, snw))
	}
	for _, alloc := range []string{"a1", "a2", "a3", "b1"} {
		c := csi.Claim(w.Store.Read(), "default", "v", alloc)
		if c.State != granted || c.GrantIndex <= last || c.GrantTime == 0 {
			t.Fatalf("%s: %+v after %d", alloc, c, last)
		}
		last = c.GrantIndex
		w.Release("v", alloc)
	}
}

func TestVolumeClaim_Rejects(t *testing.T) {
	w := threeNodes(t, false)
	w.Alloc("ended", "j", "n1")
	w.Client("n1", "ended", structs.AllocComplete)
	w.Alloc("stopped", "j", "n1")
	w.Stop("stopped", "")
	v := aVolume("picky", "p")
	v.RequestedCapabilities = []*structs.CSIVolumeCapability{{
		AccessMode:     mnr,
		AttachmentMode: structs.CSIFileSystem,
	}}
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.Now(),
	})
	w.Claim(aClaim("v", "b1", wr, mnmw))
	block := aClaim("picky", "a1", rd, mnr)
	block.AttachmentMode = structs.CSIBlockDevice
	other := aClaim("v", "a1", rd, mnr)
	other.NodeID = "n2"
	for _, c := range []struct {
		name  string
		claim *structs.CSIClaim
		node  string
		want  structs.Kind
		says  string
	}{
		{"an unknown volume", aClaim("x", "a1", wr, snw), "", structs.KindNotFound, `no volume "x"`},
		{"an unknown allocation", aClaim("v", "x", wr, snw), "", structs.KindNotFound, `no allocation "x"`},
		{"an allocation that ended", aClaim("v", "ended", wr, snw), "", structs.KindPrecondition, "has ended"},
		{"an allocation that is being stopped", aClaim("v", "stopped", wr, snw), "", structs.KindPrecondition,
			"being stopped"},
		{"another node's allocation", aClaim("v", "a1", wr, snw), "n2", structs.KindDenied, "another node"},
		{"a claim that names another node", other, "", structs.KindDenied, "another node"},
		{"an unknown node", aClaim("v", "a1", wr, snw), "n9", structs.KindNotFound, `no node "n9"`},
		{"writing in a reader's mode", aClaim("v", "a1", wr, mnr), "", structs.KindInvalid, "is read-only"},
		{"a mode that does not exist", aClaim("v", "a1", "both", snw), "", structs.KindInvalid, "needs a mode"},
		{"an access mode that does not exist", aClaim("v", "a1", wr, "all"), "", structs.KindInvalid,
			"needs a mode"},
		{"a mode the volume is not made for", aClaim("picky", "a1", rd, snr), "", structs.KindPrecondition,
			"no capability"},
		{"an attachment the volume is not made for", block, "", structs.KindPrecondition, "no capability"},
		{"other modes than it has", aClaim("v", "b1", rd, mnmw), "", structs.KindConflict, "claims volume"},
		{"nothing", nil, "", structs.KindInvalid, "empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fine := aClaim("v", "a3", wr, mnmw)
			err := try(w, csi.VolumeClaim, &structs.CSIVolumeClaimRequest{
				NodeID: c.node,
				Claims: []*structs.CSIClaim{
					fine,
					c.claim,
				},
				WriteOptions: w.Now(),
			})
			if c.node == "n2" { // the fine one is n3's: rejected first, in the same way
				err = try(w, csi.VolumeClaim, &structs.CSIVolumeClaimRequest{
					NodeID:       c.node,
					Claims:       []*structs.CSIClaim{c.claim},
					WriteOptions: w.Now(),
				})
			}
			wantKind(t, err, c.want)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got error %q, want %q", err, c.says)
			}
			if w.ClaimState("v", "a3") != "" {
				t.Error("the other claim of the request was stored")
			}
		})
	}
}

func TestVolumeClaim_IsIdempotent(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, snw))
	before := w.Save()
	tx := w.Store.Read()
	w.Claim(aClaim("v", "a1", wr, snw))
	got := csi.Claim(w.Store.Read(), "default", "v", "a1")
	if got != csi.Claim(tx, "default", "v", "a1") {
		t.Errorf("the row was put again: %+v", got)
	}
	if len(before) != len(w.Save()) {
		t.Error("rows were added")
	}
}

func TestVolumeUnpublish_ReleasesOnlyClaimsOfTheNode(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, snw))
	err := try(w, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:       "n2",
		WriteOptions: w.Now(),
		Claims: []structs.CSIClaimKey{{
			Namespace: "default",
			VolumeID:  "v",
			AllocID:   "a1",
		}},
	})
	wantKind(t, err, structs.KindDenied)
	w.WantClaims("v", map[string]string{"a1": granted})
}

func TestVolumeUnpublish_RecordsThatAFileSystemTurnedReadOnly(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, mnmw), aClaim("v", "a2", wr, mnmw))
	unpublish := func(node, alloc string, turned ...string) {
		req := &structs.CSIVolumeUnpublishRequest{
			NodeID:       node,
			Claims:       []structs.CSIClaimKey{{VolumeID: "v", AllocID: alloc}},
			WriteOptions: w.Now(),
		}
		for _, id := range turned {
			req.TurnedReadOnly = append(req.TurnedReadOnly, structs.CSIClaimKey{VolumeID: "v", AllocID: id})
		}
		do(w, state.VolumeUnpublish, req)
	}
	unpublish("n1", "a1", "a2", "gone")
	if v := csi.Volume(w.Store.Read(), "default", "v"); v.TurnedReadOnly != nil {
		t.Errorf("the claim of another node counts: %+v", v.TurnedReadOnly)
	}
	unpublish("n2", "a2", "a2")
	if v := w.MustPut(); v.TurnedReadOnly == nil || v.TurnedReadOnly.NodeID != "n2" ||
		v.TurnedReadOnly.AllocID != "a2" || v.TurnedReadOnly.Time == 0 {
		t.Errorf("the note of the volume is %+v", v.TurnedReadOnly)
	}
}

func TestAllocStop_RemovesWaitingClaimsAndKeepsGranted(t *testing.T) {
	for name, end := range map[string]func(w *fixture, alloc string){
		"stopped by the scheduler": func(w *fixture, alloc string) { w.Stop(alloc, "") },
		"lost":                     func(w *fixture, alloc string) { w.Stop(alloc, structs.AllocLost) },
		"ended on its node": func(w *fixture, alloc string) {
			w.Client("n"+alloc[1:], alloc, structs.AllocFailed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := threeNodes(t, false)
			w.Claim(aClaim("v", "a1", rd, mnr))
			w.Claim(aClaim("v", "a2", wr, mnmw))
			w.Claim(aClaim("v", "a3", rd, mnr))
			end(w, "a2")
			w.WantClaims("v", map[string]string{
				"a1": granted,
				"a2": "",
				"a3": granted,
			})
			end(w, "a1")
			w.WantClaims("v", map[string]string{"a1": granted})
			do(w, state.Reap, &structs.ReapRequest{Allocs: []string{"a1"}, WriteOptions: w.Now()})
			w.WantClaims("v", map[string]string{"a1": granted})
			w.Release("v", "a1")
			w.WantClaims("v", map[string]string{"a1": ""})
		})
	}
}

func TestClaimQueue_WaitsForMoreThanClaims(t *testing.T) {
	t.Run("the volume to be created", func(t *testing.T) {
		w := threeNodes(t, false)
		v := aVolume("new", "p")
		v.State, v.ExternalID = structs.VolumeCreating, ""
		do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
			Volumes:      []*structs.CSIVolume{v},
			WriteOptions: w.Now(),
		})
		w.Claim(aClaim("new", "a1", wr, snw))
		w.WantReason("new", "a1", "is being created")
		do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
			ID:           "new",
			Op:           "create",
			Err:          &structs.OperationError{Message: "pool is full"},
			WriteOptions: w.Now(),
		})
		w.WantReason("new", "a1", `failed once, with "pool is full"`)
		do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
			ID:           "new",
			Op:           "create",
			ExternalID:   "x",
			WriteOptions: w.Now(),
		})
		w.WantClaims("new", map[string]string{"a1": granted})
	})
	t.Run("the plugin to be known", func(t *testing.T) {
		w := newFixture(t)
		w.Node("n1")
		w.Alloc("a1", "j", "n1")
		w.Volume("v", "p")
		w.Claim(aClaim("v", "a1", wr, snw))
		w.WantReason("v", "a1", "no instance of plugin p has been healthy yet")
		w.Update("n1", attaching(anInstance("p", structs.CSIKindNode, true))...)
		w.WantReason("v", "a1", "no controller of plugin p has been healthy yet")
		w.Update("n1", attaching(anInstance("p", structs.CSIKindController, false))...)
		w.WantReason("v", "a1", "no controller of plugin p has been healthy yet")
		w.Update("n1", attaching(anInstance("p", structs.CSIKindController, true))...)
		w.WantClaims("v", map[string]string{"a1": granted})
		if got := w.Attachment("v", "n1"); got != structs.AttachmentAttaching {
			t.Errorf("the attachment is %q", got)
		}
	})
	t.Run("the node half to give the node's name", func(t *testing.T) {
		w := newFixture(t)
		w.Node("n1", attaching(anInstance("p", structs.CSIKindController, true))...)
		w.Alloc("a1", "j", "n1")
		w.Volume("v", "p")
		w.Claim(aClaim("v", "a1", wr, snw))
		w.WantReason("v", "a1", "no node instance of plugin p yet")
		w.Update("n1", attaching(anInstance("p", structs.CSIKindNode, true))...)
		w.WantClaims("v", map[string]string{"a1": granted})
	})
}

func TestAttachments_FollowTheClaims(t *testing.T) {
	busy := &structs.OperationError{Message: "busy"}
	t.Run("a volume moves from node to node", func(t *testing.T) {
		w := threeNodes(t, true)
		w.Claim(aClaim("v", "a1", wr, snw))
		w.WantReason("v", "a1", "is being attached to node name-n1")
		w.Outcome("v", "n1", "attach", busy)
		w.Outcome("v", "n1", "attach", busy)
		w.WantReason("v", "a1", `failed 2 times, last with "busy"`)
		w.Outcome("v", "n1", "attach", nil)
		w.WantReason("v", "a1", "")
		w.Claim(aClaim("v", "a2", wr, snw))
		w.WantReason("v", "a2", "allocation a1 (job j) on node name-n1 holds volume v")
		w.Release("v", "a1")
		w.WantReason("v", "a2", "being detached from node name-n1")
		w.Outcome("v", "n1", "attach", nil) // too late, and ignored
		w.Outcome("v", "n1", "detach", busy)
		w.WantReason("v", "a2", `failed once, with "busy"`)
		w.Outcome("v", "n1", "detach", nil)
		w.WantClaims("v", map[string]string{"a2": granted})
		if w.Attachment("v", "n1") != "" || w.Attachment("v", "n2") != structs.AttachmentAttaching {
			t.Error("the attachment is not on node n2")
		}
	})
	t.Run("a node attaches once for all its allocations", func(t *testing.T) {
		w := threeNodes(t, true)
		w.Claim(aClaim("v", "a1", wr, mnmw), aClaim("v", "b1", wr, mnmw))
		w.Outcome("v", "n1", "attach", nil)
		w.Release("v", "a1")
		if got := w.Attachment("v", "n1"); got != structs.AttachmentAttached {
			t.Errorf("got %q while b1 uses it, want attached", got)
		}
		w.Release("v", "b1")
		if got := w.Attachment("v", "n1"); got != structs.AttachmentDetaching {
			t.Errorf("got %q without users, want detaching", got)
		}
		w.Claim(aClaim("v", "a1", wr, mnmw))
		w.WantReason("v", "a1", "being detached") // not before the detach
		w.Claim(aClaim("v", "a2", wr, mnmw))
		w.WantClaims("v", map[string]string{"a2": granted}) // another node does not wait for that
		w.Outcome("v", "n1", "detach", nil)
		w.WantClaims("v", map[string]string{"a1": granted})
	})
	t.Run("what may have been attached is detached", func(t *testing.T) {
		w := threeNodes(t, true)
		w.Claim(aClaim("v", "a1", wr, snw))
		w.Release("v", "a1")
		if got := w.Attachment("v", "n1"); got != structs.AttachmentDetaching {
			t.Errorf("got %q, want detaching", got)
		}
	})
	t.Run("other modes wait until the old ones are detached everywhere", func(t *testing.T) {
		w := threeNodes(t, true)
		w.Claim(aClaim("v", "a1", wr, snw))
		w.Outcome("v", "n1", "attach", nil)
		w.Claim(aClaim("v", "a2", wr, mnmw))
		w.Release("v", "a1")
		w.WantReason("v", "a2", "being detached from node name-n1")
		w.Outcome("v", "n1", "detach", nil)
		w.WantClaims("v", map[string]string{"a2": granted})
	})
	t.Run("it carries all that a detach needs", func(t *testing.T) {
		w := threeNodes(t, true)
		v := aVolume("v", "p")
		v.Secrets, v.Context = structs.Secrets{"k": "s"}, map[string]string{"c": "x"}
		do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
			Volumes:      []*structs.CSIVolume{v},
			WriteOptions: w.Now(),
		})
		w.Claim(aClaim("v", "a1", rd, mnr))
		a := csi.Attachment(w.Store.Read(), "default", "v", "n1")
		if a.ExternalVolumeID != "ext-v" || a.ExternalNodeID != "external" || a.PluginID != "p" ||
			a.Secrets["k"] != "s" || a.VolumeContext["c"] != "x" {
			t.Errorf("the attachment is %+v", a)
		}
	})
}

func TestClaimReasons_NameTheRemedy(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Claim(aClaim("v", "a2", wr, snw))
	w.Claim(aClaim("v", "a3", wr, snw))
	w.WantReason("v", "a3", "holds volume v as single-node-writer, write; ahead in the queue: allocation a2")
	w.Stop("a1", "")
	w.WantReason("v", "a2", "it is being stopped")
	w.Client("n1", "a1", structs.AllocComplete)
	w.WantReason("v", "a2", "its node has not yet released the volume")
	do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{"n1"},
		Status:       structs.NodeDown,
		WriteOptions: w.Now(),
	})
	w.WantReason("v", "a2", "that node is down, so nothing is released until it is back")
	w.WantReason("v", "a2", `volume detach -force -reason "it is off" v n1`)
	w.WantClaims("v", map[string]string{"a1": granted, "a2": waiting}) // and a2 still waits
}

func TestClaimable_ExplainsARejection(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, snw))
	for _, c := range []struct {
		name   string
		claim  *structs.CSIClaim
		ignore string
		ok     bool
		says   string
	}{
		{"held", aClaim("v", "new", wr, snw), "", false, "allocation a1"},
		{"held by an ignored allocation", aClaim("v", "new", wr, snw), "a1", true, ""},
		{"its own claim", aClaim("v", "a1", wr, snw), "", true, ""},
		{"a missing volume", aClaim("x", "new", wr, snw), "", false, "does not exist"},
		{"an impossible mode", aClaim("v", "new", wr, mnr), "a1", false, "is read-only"},
	} {
		ok, why := csi.Claimable(w.Store.Read(), c.claim, func(id string) bool {
			return id == c.ignore
		})
		if ok != c.ok || !strings.Contains(why, c.says) || ok != (why == "") {
			t.Errorf("%s: got %v, %q, want %v, %q", c.name, ok, why, c.ok, c.says)
		}
	}
	w.Claim(aClaim("v", "a2", wr, snw))
	if ok, why := csi.Claimable(w.Store.Read(), aClaim("v", "new", wr, snw),
		func(id string) bool { return id == "a1" }); ok ||
		!strings.Contains(why, "a2") {
		t.Errorf("with a waiting claim: got %v, %q", ok, why)
	}
	if ok, _ := csi.Claimable(w.Store.Read(), aClaim("v", "new", wr, snw), nil); ok {
		t.Error("a claim is possible although none is ignored")
	}
}
