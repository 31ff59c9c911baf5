package control

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

func (w *testEnv) accounted(nodes ...string) {
	w.t.Helper()
	put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:   nodes,
		Status:    structs.NodeReady,
		Accounted: true,
	})
}

func (w *testEnv) release(volume, alloc string) {
	w.t.Helper()
	put(w, fsm.VolumeUnpublish,
		&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: volume, AllocID: alloc}}})
}

func oneNode(id string) *structs.CSIVolume {
	v := aVolume(id, structs.VolumeReady)
	v.RequestedCapabilities[0].AccessMode = structs.CSISingleNodeWriter
	return v
}

func (w *testEnv) claimAlone(volume, alloc, node string) {
	w.t.Helper()
	w.addAlloc(alloc, node)
	put(w, fsm.VolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID: node,
		Claims: []*structs.CSIClaim{{
			VolumeID:       volume,
			AllocID:        alloc,
			Mode:           structs.ClaimWrite,
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		}},
	})
}

func (w *testEnv) found(volume, node string) {
	w.t.Helper()
	put(w, fsm.AttachmentsFound,
		&structs.CSIAttachmentsFound{Attachments: []*structs.CSIAttachment{{
			Namespace: "default",
			VolumeID:  volume,
			NodeID:    node,
		}}})
}

// Which nodes use a volume is not known: it is neither attached, detached nor deleted. A volume is created.
func TestControllers_WaitForNodesOfARestoredState(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		for _, n := range []string{"n1", "n2"} {
			w.addNode(n, true)
		}
		for _, v := range []string{"attached", "detaching", "gone"} {
			w.addVolume(aVolume(v, structs.VolumeReady))
		}
		w.addClaim("attached", "a1", "n1")
		put(w, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
			VolumeID: "attached",
			NodeID:   "n1",
			Op:       opAttach,
		})
		w.addClaim("detaching", "a2", "n1")
		w.release("detaching", "a2")
		w.log.MarkRestored(w.t, 1)
		stop := w.runLoop("controllers")
		defer stop()
		put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "gone"})
		w.addVolume(aVolume("new", structs.VolumeCreating))
		w.accounted("n1")
		w.setAnswer(func(c nodeCall) (any, error) {
			if c.method == createMethod {
				return &nodecalls.ClientCSICreateResponse{ExternalID: "ext-new"}, nil
			}
			return nil, nil
		})
		after(10 * time.Minute)
		attaches := len(w.called(attachMethod))
		detaches := len(w.called(detachMethod))
		deletes := len(w.called(deleteMethod))
		if attaches+detaches+deletes != 0 {
			t.Errorf("%d attaches, %d detaches and %d deletes while n2 is unaccounted",
				attaches, detaches, deletes)
		}
		if v := w.volume("new"); v.State != structs.VolumeReady {
			t.Errorf("the new volume is %s", v.State)
		}
		w.accounted("n2")
		synctest.Wait()
		attaches = len(w.called(attachMethod))
		detaches = len(w.called(detachMethod))
		deletes = len(w.called(deleteMethod))
		if attaches != 1 || detaches != 1 || deletes != 1 {
			t.Errorf("%d attaches, %d detaches, %d deletes", attaches, detaches, deletes)
		}
		if a := w.attachment("attached", "n1"); a.State != structs.AttachmentAttached {
			t.Errorf("attachment is %s", a.State)
		}
		w.check()
	})
}

func (w *testEnv) save() []byte {
	w.t.Helper()
	var b bytes.Buffer
	if err := w.Store.Save(&b); err != nil {
		w.t.Fatal(err)
	}
	return b.Bytes()
}

// wentBackTo returns a cluster that went back to saved, from the present state of w. All its nodes have
// reported.
func (w *testEnv) wentBackTo(saved []byte) *testEnv {
	w.t.Helper()
	back := newTestEnv(w.t)
	if err := back.Store.Load(bytes.NewReader(saved)); err != nil {
		w.t.Fatal(err)
	}
	err := back.Store.Write(w.log.Index()+1, func(tx *state.WriteTx) error {
		state.Recover(tx, w.Store.Read(), time.Now().UnixNano())
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for n := range state.Nodes(back.Store.Read()) {
		back.accounted(n.ID)
	}
	return back
}

// lateCall is a call with an unknown outcome when the state returns to one from before the call.
type lateCall struct {
	before func(w *testEnv)      // up to the snapshot
	since  func(w *testEnv)      // requests the call
	method string                // of the call
	then   func(w *testEnv)      // the request to the restored state
	next   string                // the call that it makes
	done   func(w *testEnv) bool // whether that has succeeded
}

var lateCalls = map[string]lateCall{
	"a detach before an attach": {
		since:  func(w *testEnv) { w.unclaim("v", "a1") },
		method: detachMethod,
		next:   attachMethod,
		done:   func(w *testEnv) bool { return w.attachment("v", "n3").State == structs.AttachmentAttached },
	},
	"an attach before a detach": {
		before: func(w *testEnv) { w.unclaim("v", "a1") },
		since: func(w *testEnv) {
			put(w, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
				VolumeID: "v",
				NodeID:   "n3",
				Op:       opDetach,
			})
			w.addClaim("v", "a2", "n3")
		},
		method: attachMethod,
		next:   detachMethod,
		done:   func(w *testEnv) bool { return w.attachment("v", "n3") == nil },
	},
	"an attach that the snapshot does not have": {
		since:  func(w *testEnv) { w.addNode("n4", false); w.addClaim("v", "a2", "n4") },
		method: attachMethod,
		next:   detachMethod,
		done:   func(w *testEnv) bool { return w.attachment("v", "n4") == nil },
	},
	"a deletion before another deletion": {
		before: func(w *testEnv) { w.addVolume(aVolume("other", structs.VolumeReady)) },
		since:  func(w *testEnv) { put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "other"}) },
		then:   func(w *testEnv) { put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "other"}) },
		method: deleteMethod,
		next:   deleteMethod,
		done:   func(w *testEnv) bool { return w.volume("other") == nil },
	},
	"a deletion before an attach": {
		before: func(w *testEnv) { w.detachV(); w.addVolume(aVolume("other", structs.VolumeReady)) },
		since:  func(w *testEnv) { put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "other"}) },
		then:   func(w *testEnv) { w.addClaim("other", "a2", "n3") },
		method: deleteMethod,
		next:   attachMethod,
		done:   func(w *testEnv) bool { return w.attachment("other", "n3").State == structs.AttachmentAttached },
	},
	"a deletion under another name before an attach": {
		before: func(w *testEnv) { w.detachV(); w.addVolume(aVolume("other", structs.VolumeReady)) },
		since: func(w *testEnv) {
			put(w, fsm.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "other"})
			renamed := aVolume("renamed", structs.VolumeReady)
			renamed.ExternalID = "ext-other"
			w.addVolume(renamed)
			put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "renamed"})
		},
		then:   func(w *testEnv) { w.addClaim("other", "a2", "n3") },
		method: deleteMethod,
		next:   attachMethod,
		done:   func(w *testEnv) bool { return w.attachment("other", "n3").State == structs.AttachmentAttached },
	},
	"an expansion": {
		before: func(w *testEnv) { w.grow("v", 20) },
		since:  func(*testEnv) {},
		method: expandMethod,
		next:   expandMethod,
		done:   func(w *testEnv) bool { return !w.volume("v").ExpandPending },
	},
	"a creation": {
		before: func(w *testEnv) { w.addVolume(aVolume("new", structs.VolumeCreating)) },
		since:  func(*testEnv) {},
		method: createMethod,
		next:   createMethod,
		done:   func(w *testEnv) bool { return w.volume("new").State == structs.VolumeReady },
	},
}

func (w *testEnv) detachV() {
	w.unclaim("v", "a1")
	put(w, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID: "v",
		NodeID:   "n3",
		Op:       opDetach,
	})
}

// A node still executes a call that the snapshot does not know. The next call goes to that node or, if the
// node is not reachable, is made when the first call can no longer take effect.
func TestControllers_WaitForACallOfTheStateThatWasReplaced(t *testing.T) {
	for name, c := range lateCalls {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.attached()
				if c.before != nil {
					c.before(w)
				}
				saved := w.save()
				w.setAnswer(func(nodeCall) (any, error) {
					return nil, structs.Timeoutf("lost")
				})
				c.since(w)
				stop := w.runLoop("controllers")
				synctest.Wait()
				stop()
				at := w.called(c.method)[0].node
				back := w.wentBackTo(saved)
				if c.then != nil {
					c.then(back)
				}
				back.onlyElsewhere(c, at)
			})
		})
	}
}

// onlyElsewhere has the node that a late call went to reject the next one, and then fail.
func (w *testEnv) onlyElsewhere(c lateCall, at string) {
	w.t.Helper()
	w.setAnswer(func(call nodeCall) (any, error) {
		switch {
		case call.node == at:
			return nil, unavailable() // it is busy
		case call.method == createMethod:
			return created("new"), nil
		}
		return nil, nil
	})
	stop := w.runLoop("controllers")
	defer stop()
	after(time.Minute)
	w.setStatus(at, structs.NodeDown)
	after(outcomeWait - time.Minute - 2*checkInterval)
	calls := nodesOf(w.called(c.next))
	if len(calls) == 0 || slices.ContainsFunc(calls, func(node string) bool {
		return node != at
	}) {
		w.t.Fatalf("called %v, want only %s: the first call may still take effect there", calls, at)
	}
	after(time.Minute)
	if !c.done(w) {
		w.t.Errorf("not repeated although the first call can no longer take effect; called %v",
			nodesOf(w.called(c.next)))
	}
	w.check()
}

// A claim may be granted before another node reports that it has the volume.
func TestControllers_DetachElsewhereBeforeTheyAttach(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		for _, n := range []string{"n1", "n2"} {
			w.addNode(n, true)
		}
		w.addVolume(oneNode("v"))
		w.claimAlone("v", "a1", "n1")
		w.found("v", "n2")
		var order []string
		w.setAnswer(func(c nodeCall) (any, error) {
			order = append(order, c.method)
			return nil, nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		if !slices.Equal(order, []string{detachMethod, attachMethod}) ||
			w.attachment("v", "n1").State != structs.AttachmentAttached {
			t.Errorf("called %v", order)
		}
	})
}

func TestControllers_ExplainAnAttachThatIsRejected(t *testing.T) {
	const lists = "ClientCSI.ControllerListVolumes"
	for name, c := range map[string]struct {
		published []string
		known     bool // the node that has it is one of the cluster
	}{
		"the plugin does not list nodes": {nil, false},
		"a node of the cluster has it":   {[]string{"ext-n1", "ext-n2"}, true},
		"another node has it":            {[]string{"elsewhere"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				for _, n := range []string{"n1", "n2"} {
					w.addNode(n, true)
					i := csi.Instance(w.Store.Read(), "pl", structs.CSIKindController, n)
					again := *i
					info := *i.ControllerInfo
					again.ControllerInfo = &info
					info.SupportsListVolumes, info.SupportsListVolumesAttachedNodes = true, c.published != nil
					put(w, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
						NodeID:  n,
						Upserts: []*structs.CSIPluginInstance{&again},
					})
				}
				w.addVolume(oneNode("v"))
				published := c.published
				w.setAnswer(func(call nodeCall) (any, error) {
					switch call.method {
					case detachMethod:
						published = nil
					case attachMethod:
						if len(published) > 0 || c.published == nil {
							return nil, structs.Preconditionf("it is published")
						}
					case lists:
						if call.req.(*nodecalls.ClientCSIListRequest).StartingToken == "" {
							return &nodecalls.ClientCSIListResponse{NextToken: "2"}, nil
						}
						return &nodecalls.ClientCSIListResponse{Volumes: []*structs.CSIVolumeExternalStub{
							{ExternalID: "ext-v", PublishedExternalNodeIDs: slices.Clone(published)}}}, nil
					}
					return nil, nil
				})
				stop := w.runLoop("controllers")
				defer stop()
				w.claimAlone("v", "a1", "n1")
				after(time.Second)
				a := w.attachment("v", "n1")
				node := "NODE"
				switch {
				case c.known:
					node = "n2"
				case len(c.published) > 0:
					node = "-external " + c.published[0]
				}
				if a.LastError == nil || !strings.Contains(a.LastError.Message, "it is published; ") ||
					!strings.HasSuffix(a.LastError.Message, " v "+node) {
					t.Errorf("error names no remedy: %+v", a.LastError)
				}
				if n := len(w.called(detachMethod)); n != 0 {
					t.Errorf("%d unrequested detaches", n)
				}
				if !c.known {
					return
				}
				// An operator has it detached.
				put(w, fsm.AttachmentsFound, &structs.CSIAttachmentsFound{Attachments: []*structs.CSIAttachment{{
					Namespace:      a.Namespace,
					VolumeID:       "v",
					NodeID:         "n2",
					ExternalNodeID: "ext-n2",
				}}})
				after(time.Minute)
				a = w.attachment("v", "n1")
				if a.State != structs.AttachmentAttached || len(w.called(detachMethod)) != 1 {
					t.Errorf("%+v after %d detaches", a, len(w.called(detachMethod)))
				}
			})
		})
	}
}
