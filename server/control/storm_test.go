package control

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"berth/fsm"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/csi"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/nodecalls"
)

// runLoops runs both loops as a leader does, with a bound of kept changes.
func (w *testEnv) runLoops(most int) (stop func()) {
	calls, reaps := controllerLoop{Deps: w.Deps}.runner(), reaperLoop{w.Deps}.runner()
	calls.MaxChanges, reaps.MaxChanges = most, most
	stopCalls, stopReaps := start(calls.Run), start(reaps.Run)
	return func() { stopCalls(); stopReaps() }
}

// storm makes random changes to a cluster.
type storm struct {
	*testEnv
	*rand.Rand
	volumes, allocs int
	running         map[string]string // allocations and their nodes
	stop            func()
	down            error // of the log
}

func (s *storm) node() string {
	return fmt.Sprint("n", s.IntN(4))
}

func (s *storm) step() {
	switch s.IntN(12) {
	case 0, 1:
		s.volumes++
		v := aVolume(fmt.Sprint("v", s.volumes), []string{structs.VolumeCreating, structs.VolumeReady}[s.IntN(2)])
		s.try(func() { s.addVolume(v) })
	case 2, 3, 4:
		s.claim()
	case 5, 6:
		s.end()
	case 7:
		node, status := s.node(), []string{structs.NodeDown, structs.NodeReady}[s.IntN(2)]
		s.try(func() {
			s.setStatus(node, status)
			s.makeClean(node)
		})
	case 8:
		s.stop()
		s.stop = s.runLoops([]int{1, 3, workqueue.KeptChanges}[s.IntN(3)])
	case 9:
		s.down = []error{nil, unavailable()}[s.IntN(2)]
		s.log.Fail(s.down)
	case 10:
		var saved bytes.Buffer
		if err := s.Store.Save(&saved); err != nil {
			s.t.Fatal(err)
		}
		if err := s.Store.Load(&saved); err != nil {
			s.t.Fatal(err)
		}
	default:
		id := fmt.Sprint("v", s.IntN(s.volumes+1))
		_, _ = fsm.Propose(s.t.Context(), s.log, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: id})
	}
	after(time.Duration(s.IntN(4)) * time.Second)
}

// try runs a step that needs the log.
func (s *storm) try(do func()) {
	s.log.Fail(nil)
	do()
	s.log.Fail(s.down)
}

func (s *storm) claim() {
	var ready []string
	for v := range csi.VolumesFrom(s.Store.Read(), "default", "", state.Page{}) {
		if v.State == structs.VolumeReady {
			ready = append(ready, v.ID)
		}
	}
	if len(ready) == 0 {
		return
	}
	s.allocs++
	volume := ready[s.IntN(len(ready))]
	node := s.node()
	alloc := fmt.Sprint("a", s.allocs)
	if n := state.Node(s.Store.Read(), node); n.Status != structs.NodeReady {
		return
	}
	s.try(func() {
		s.addAlloc(alloc, node)
		put(s.testEnv, fsm.VolumeClaim,
			&structs.CSIVolumeClaimRequest{Claims: []*structs.CSIClaim{{
				VolumeID:       volume,
				AllocID:        alloc,
				Mode:           structs.ClaimWrite,
				AccessMode:     structs.CSIMultiNodeMultipleWriter,
				AttachmentMode: structs.CSIFileSystem,
			}}})
	})
	s.running[alloc] = node
}

func (s *storm) end() {
	all := slices.Sorted(maps.Keys(s.running))
	if len(all) == 0 {
		return
	}
	alloc := all[s.IntN(len(all))]
	s.try(func() { s.endAlloc(alloc, s.running[alloc]) })
	delete(s.running, alloc)
}

// calm makes the log and all nodes ready, and waits for the end of all steps.
func (s *storm) calm() {
	s.down = nil
	s.log.Fail(nil)
	s.setAnswer(s.answered)
	for i := range 4 {
		put(s.testEnv, fsm.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs: []string{fmt.Sprint("n", i)},
			Status:  structs.NodeReady,
		})
	}
	after(10 * time.Minute)
}

func (s *storm) answered(c nodeCall) (any, error) {
	if c.method == createMethod {
		return created("x-" + c.req.(*nodecalls.ClientCSICreateRequest).Name), nil
	}
	return nil, nil
}

// Rows change while calls are made or fail, the log is not writable, leaders come and go, the store is
// restored, and more rows change than are kept. In the end all calls that rows need are made, and no volume
// had two calls at once.
func TestLoops_LoseNoWorkInAStorm(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				for i := range 4 {
					w.addNode(fmt.Sprint("n", i), i < 2)
				}
				s := &storm{
					testEnv: w,
					Rand:    rand.New(rand.NewPCG(seed, 7)),
					running: map[string]string{},
					stop:    w.runLoops(workqueue.KeptChanges),
				}
				defer func() { s.stop() }()
				var mu sync.Mutex
				chance := rand.New(rand.NewPCG(seed, 8))
				w.setAnswer(func(c nodeCall) (any, error) {
					mu.Lock()
					takes, fails := time.Duration(chance.IntN(2000))*time.Millisecond, chance.IntN(3) == 0
					mu.Unlock()
					time.Sleep(takes)
					if fails {
						return nil, unavailable()
					}
					return s.answered(c)
				})
				for range 120 {
					s.step()
				}
				s.calm()
				tx := w.Store.Read()
				for v := range csi.UnsettledVolumes(tx) {
					t.Errorf("volume %s is %s: %+v", v.ID, v.State, v.LastError)
				}
				for a := range csi.UnsettledAttachments(tx) {
					t.Errorf("volume %s is %s to %s: %+v", a.VolumeID, a.State, a.NodeID, a.LastError)
				}
				for c := range statetest.EndedClaims(tx) {
					t.Errorf("claim of %s for %s on %s remains", c.VolumeID, c.AllocID, c.NodeID)
				}
				for key, most := range w.most {
					if most > 1 && key != "PluginID pl" {
						t.Errorf("%s: %d calls at once", key, most)
					}
				}
				t.Logf("%d calls, %d volumes, %d allocations", len(w.calls), s.volumes, s.allocs)
				w.check()
			})
		})
	}
}
