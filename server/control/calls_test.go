package control

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
)

const listMethod = "ClientCSI.ControllerListVolumes"

// answered is an error as it comes from a plugin, over a node.
func answered(kind structs.Kind, code string) error {
	return structs.ErrorFromWire(structs.ErrorToWire(&structs.Error{
		Kind: kind,
		Code: code,
		Text: `plugin "pl": ` + code + ": no",
	}))
}

func (w *testEnv) unclaim(volume, alloc string) {
	w.t.Helper()
	put(w, fsm.VolumeUnpublish,
		&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: volume, AllocID: alloc}}})
}

func (w *testEnv) setStatus(node, status string) {
	w.t.Helper()
	put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{node}, Status: status})
}

// makeClean ends the return of a node.
func (w *testEnv) makeClean(node string) {
	w.t.Helper()
	row := state.Node(w.Store.Read(), node)
	if row.Returning && row.Status == structs.NodeReady {
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs:  []string{node},
			Status:   row.Status,
			CleanFor: row.Epoch,
		})
	}
}

// attached sets up a cluster in which n1 and n2 run controllers and v is attached to n3.
func (w *testEnv) attached() {
	w.addNode("n1", true)
	w.addNode("n2", true)
	w.addNode("n3", false)
	w.addVolume(aVolume("v", structs.VolumeReady))
	w.addClaim("v", "a1", "n3")
	stop := w.runLoop("controllers")
	synctest.Wait()
	stop()
	if a := w.attachment("v", "n3"); a.State != structs.AttachmentAttached || a.Call != nil {
		w.t.Fatalf("%+v", a)
	}
}

func nodesOf(calls []nodeCall) (nodes []string) {
	for _, c := range calls {
		nodes = append(nodes, c.node)
	}
	return nodes
}

// A delivered call has an unknown outcome. The leader, also a new one, repeats it at the same node while the
// node is reachable. Otherwise it makes no call elsewhere before the first call can no longer take effect.
func TestControllerCall_OfUnknownOutcomeIsSettledWhereItWasMade(t *testing.T) {
	for name, kind := range map[string]structs.Kind{"no answer": structs.KindTimeout,
		"the agent failed": structs.KindInternal} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.attached()
				w.setAnswer(func(c nodeCall) (any, error) {
					if c.method == detachMethod {
						return nil, structs.Errorf(kind, "the connection was lost before the answer came")
					}
					return nil, nil
				})
				w.unclaim("v", "a1")
				stop := w.runLoop("controllers")
				synctest.Wait()
				stop()
				at := w.called(detachMethod)[0].node
				other := map[string]string{"n1": "n2", "n2": "n1"}[at]
				if call := w.attachment("v", "n3").Call; call == nil || call.NodeID != at || call.Op != opDetach {
					t.Fatalf("row has no record of the call: %+v", call)
				}
				w.setStatus(at, structs.NodeDown)
				stop = w.runLoop("controllers") // another leader
				defer stop()
				after(outcomeWait - 2*checkInterval)
				if got := nodesOf(w.called(detachMethod)); slices.Contains(got, other) {
					t.Fatalf("called %v while the first call may still take effect", got)
				}
				w.setStatus(at, structs.NodeReady)
				after(checkInterval)
				if got := nodesOf(w.called(detachMethod)); len(got) < 2 || slices.Contains(got, other) {
					t.Fatalf("called %v, want %s again", got, at)
				}
				w.setAnswer(nil)
				after(time.Minute)
				if w.attachment("v", "n3") != nil {
					t.Error("volume is not detached although its node answers")
				}
				w.check()
			})
		})
	}
}

func TestControllerCall_IsMadeElsewhereOnceItCanNoLongerTakeEffect(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.attached()
		w.setAnswer(func(c nodeCall) (any, error) {
			return nil, structs.Timeoutf("lost")
		})
		w.unclaim("v", "a1")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		at := w.called(detachMethod)[0].node
		w.setStatus(at, structs.NodeDown)
		w.setAnswer(nil)
		after(outcomeWait + checkInterval)
		calls := nodesOf(w.called(detachMethod))
		if len(calls) != 2 || calls[1] == at || w.attachment("v", "n3") != nil {
			t.Errorf("called %v; the attachment is %+v", calls, w.attachment("v", "n3"))
		}
	})
}

// The attach is undone at the node where it may still be in flight, and nowhere else.
func TestControllerCall_ItsNegationGoesWhereItIsNotSettled(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addNode("n2", true)
		w.addNode("n3", false)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.setAnswer(func(c nodeCall) (any, error) {
			return nil, structs.Timeoutf("lost")
		})
		w.addClaim("v", "a1", "n3")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		at := w.called(attachMethod)[0].node
		w.setStatus(at, structs.NodeDown)
		w.unclaim("v", "a1")
		w.setAnswer(nil)
		after(time.Minute)
		if n := len(w.called(detachMethod)); n != 0 {
			t.Errorf("%d detaches while the attach may still take effect", n)
		}
		w.setStatus(at, structs.NodeReady)
		after(time.Minute)
		if got := nodesOf(w.called(detachMethod)); !slices.Equal(got, []string{at}) ||
			w.attachment("v", "n3") != nil {
			t.Errorf("detached at %v, want %s", got, at)
		}
	})
}

func TestControllerCall_ThatWasNotDeliveredGoesToTheNextAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.attached()
		first := ""
		w.setAnswer(func(c nodeCall) (any, error) {
			if first == "" {
				first = c.node
			}
			if c.node == first {
				return nil, unavailable()
			}
			return nil, nil
		})
		w.unclaim("v", "a1")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		if got := nodesOf(w.called(detachMethod)); len(got) != 2 || w.attachment("v", "n3") != nil {
			t.Errorf("called %v", got)
		}
	})
}

// A call with an unknown outcome stays recorded although the node is not reachable for the next one.
func TestControllerCall_StaysOnRecordUntilItsNodeAnswers(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.attached()
		always := func(err error) {
			w.setAnswer(func(nodeCall) (any, error) { return nil, err })
		}
		always(structs.Timeoutf("lost"))
		w.unclaim("v", "a1")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		always(unavailable())
		after(time.Minute)
		calls := w.called(detachMethod)
		if call := w.attachment("v", "n3").Call; call == nil || call.NodeID != calls[0].node {
			t.Errorf("record of the call is gone: %+v", call)
		}
		if got := slices.Compact(nodesOf(calls)); len(got) != 1 || len(calls) < 3 {
			t.Errorf("called %v", got)
		}
		always(answered(structs.KindInternal, "Internal"))
		after(time.Minute)
		if call := w.attachment("v", "n3").Call; call != nil {
			t.Errorf("record of an answered call remains: %+v", call)
		}
	})
}

// A call for a missing row is not recorded, so the next call would not wait for it and could overtake it.
func TestControllerCall_IsNotMadeForARowThatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		key  workqueue.Key
		goes func(w *testEnv)
	}{
		"the attachment is forgotten": {rowKey(schema.AttachmentRows, "default", "v", "n3"), func(w *testEnv) {
			put(w, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
				VolumeID: "v",
				NodeID:   "n3",
				Op:       "detach",
			})
		}},
		"another attachment took its place": {
			rowKey(schema.AttachmentRows, "default", "v", "n3"),
			func(w *testEnv) {
				put(w, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
					VolumeID: "v",
					NodeID:   "n3",
					Op:       "detach",
				})
				w.addClaim("v", "a2", "n3")
			},
		},
		"the volume is forgotten": {rowKey(schema.VolumeRows, "default", "new"), func(w *testEnv) {
			put(w, fsm.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "new", Force: true})
		}},
		"another volume took its place": {rowKey(schema.VolumeRows, "default", "new"), func(w *testEnv) {
			put(w, fsm.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "new", Force: true})
			w.addVolume(aVolume("new", structs.VolumeCreating))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.attached()
				w.unclaim("v", "a1")
				w.addVolume(aVolume("new", structs.VolumeCreating))
				made := len(w.calls)
				loop := controllerLoop{Deps: w.Deps}
				step := loop.read(w.Store.Read(), c.key)
				c.goes(w)
				_ = step.Act(t.Context()) // there is no row to record an error in
				if len(w.calls) != made {
					t.Errorf("called %+v", w.calls[made:])
				}
				w.check()
			})
		})
	}
}

func TestDuty_G15_NotFoundDoesNotProveADetach(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.attached()
		w.setAnswer(func(c nodeCall) (any, error) {
			if c.method == detachMethod {
				return nil, answered(structs.KindNotFound, "NotFound")
			}
			return nil, nil
		})
		w.unclaim("v", "a1")
		stop := w.runLoop("controllers")
		defer stop()
		after(10 * time.Minute)
		a := w.attachment("v", "n3")
		if a == nil || a.State != structs.AttachmentDetaching || a.LastError == nil ||
			a.LastError.Code != "NotFound" {
			t.Fatalf("%+v", a)
		}
		for _, want := range []string{"does not prove", "berth volume detach -force", "v n3"} {
			if !strings.Contains(a.LastError.Message, want) {
				t.Errorf("%q does not say %q", a.LastError.Message, want)
			}
		}
		if n := len(w.called(detachMethod)); n < 20 || n > 40 {
			t.Errorf("%d tries in ten minutes, want one about every 30 seconds", n)
		}
		if n := len(w.called(listMethod)); n != 0 {
			t.Errorf("listed volumes at a plugin that does not list attachments")
		}
		err := tryPut(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
		if !structs.IsKind(err, structs.KindPrecondition) ||
			len(w.called(deleteMethod)) != 0 {
			t.Errorf("deleted an attached volume: %v", err)
		}
		w.check()
	})
}

func TestDuty_H5_H7_OnlyAListThatShowsTheVolumeProvesADetach(t *testing.T) {
	for name, c := range map[string]struct {
		page  *nodecalls.ClientCSIListResponse
		gone  bool
		lists bool
	}{
		"attached nowhere":        {listed("ext-v", true), true, true},
		"attached to another":     {listed("ext-v", true, "ext-n1"), true, true},
		"attached to the node":    {listed("ext-v", true, "ext-n1", "ext-n3"), false, true},
		"not listed":              {listed("ext-w", true), false, true},
		"listed without a status": {listed("ext-v", false), false, true},
		"cannot tell":             {listed("ext-v", true), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.attached()
				if c.lists {
					w.listing("n1")
					w.listing("n2")
				}
				w.setAnswer(func(call nodeCall) (any, error) {
					if call.method == listMethod &&
						call.req.(*nodecalls.ClientCSIListRequest).StartingToken == "" {
						nothing := []*structs.CSIVolumeExternalStub{nil} // from a node that is no berth
						return &nodecalls.ClientCSIListResponse{Volumes: nothing, NextToken: "more"}, nil
					}
					if call.method == listMethod {
						return c.page, nil
					}
					return nil, answered(structs.KindNotFound, "NotFound")
				})
				w.unclaim("v", "a1")
				stop := w.runLoop("controllers")
				defer stop()
				synctest.Wait()
				if gone := w.attachment("v", "n3") == nil; gone != c.gone {
					t.Errorf("detached: %v, want %v", gone, c.gone)
				}
			})
		})
	}
}

func listed(id string, known bool, nodes ...string) *nodecalls.ClientCSIListResponse {
	return &nodecalls.ClientCSIListResponse{Volumes: []*structs.CSIVolumeExternalStub{
		{ExternalID: id, PublishedNodesKnown: known, PublishedExternalNodeIDs: nodes}}}
}

// listing makes the controller on a node list where volumes are attached.
func (w *testEnv) listing(node string) {
	i := csi.Instance(w.Store.Read(), "pl", structs.CSIKindController, node).Copy()
	i.ControllerInfo.SupportsListVolumes, i.ControllerInfo.SupportsListVolumesAttachedNodes = true, true
	put(w, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   node,
		SecretID: "s",
		Upserts:  []*structs.CSIPluginInstance{i},
	})
}

func TestDetach_NamesTheNodeThatThePluginCallsOtherwiseNow(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.attached()
		half := csi.Instance(w.Store.Read(), "pl", structs.CSIKindNode, "n3").Copy()
		half.NodeInfo.ID = "renamed"
		put(w, fsm.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:   "n3",
			SecretID: "s",
			Upserts:  []*structs.CSIPluginInstance{half},
		})
		w.setAnswer(func(nodeCall) (any, error) {
			return nil, answered(structs.KindNotFound, "NotFound")
		})
		w.unclaim("v", "a1")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		if e := w.attachment("v", "n3").LastError; !strings.Contains(e.Message,
			"the node is renamed to the plugin now, and was ext-n3") {
			t.Errorf("%q", e.Message)
		}
	})
}

// An attachment under another name of the same volume keeps it from being deleted at the plugin.
func TestDelete_NotWhileAttachedUnderAnotherName(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.attached()
		w.setAnswer(func(c nodeCall) (any, error) {
			if c.method == detachMethod {
				return nil, answered(structs.KindNotFound, "NotFound")
			}
			return nil, nil
		})
		w.unclaim("v", "a1")
		put(w, fsm.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v", Force: true})
		other := aVolume("other", structs.VolumeCreating)
		w.addVolume(other)
		put(w, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{
			ID:         "other",
			Op:         "create",
			ExternalID: "ext-v",
		}) // the plugin made the same again
		put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "other"})
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		v := w.volume("other")
		if len(w.called(deleteMethod)) != 0 ||
			v == nil || v.LastError == nil ||
			!strings.Contains(v.LastError.Message, `still detaching at node n3, as volume "v"`) {
			t.Errorf("%d deletes; %+v", len(w.called(deleteMethod)), v)
		}
	})
}

// tryPut proposes a command that may be rejected.
func tryPut[P any](w *testEnv, c fsm.Command[P], p *P) error {
	_, err := fsm.Propose(w.t.Context(), w.log, c, p)
	return err
}

// The node rejects the call if it arrives after the loss of the node.
func TestControllerCall_HasTheEpochOfItsNode(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		put(w, fsm.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: time.Minute})
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		stop := w.runLoop("controllers")
		defer stop()
		w.addClaim("v", "a1", "n1")
		synctest.Wait()
		before := state.Node(w.Store.Read(), "n1").Epoch
		w.setStatus("n1", structs.NodeDown)
		w.setStatus("n1", structs.NodeReady)
		now := state.Node(w.Store.Read(), "n1").Epoch
		w.unclaim("v", "a1")
		synctest.Wait()
		attached := w.called(attachMethod)[0].req.(*nodecalls.ClientCSIAttachRequest).Epoch
		detached := w.called(detachMethod)[0].req.(*nodecalls.ClientCSIDetachRequest).Epoch
		if attached != before || detached != now || before == now || now == 0 {
			t.Errorf("the attach has epoch %d, and the detach %d; want %d and %d", attached, detached, before, now)
		}
	})
}
