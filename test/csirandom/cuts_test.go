package csirandom

import (
	"context"
	"slices"
	"time"

	"berth/server/fencing"
	"berth/state"
	"berth/structs"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

// The lengths of cuts. After a long one the servers count a node as lost.
const (
	shortCut   = 3 * time.Second
	longCut    = 8 * time.Second
	longestCut = 12 * time.Second
)

// direction is a path of the network.
type direction struct{ from, to string }

// cutNode cuts a node from all servers. Its agent, its tasks and its plugin go on. A long cut is one of the
// node with the most tasks, whose volumes are then wanted elsewhere.
func (w *world) cutNode() func() error {
	n := w.nodes[w.IntN(len(w.nodes))]
	long := w.IntN(2) == 0
	length := time.Duration(w.Int64N(int64(shortCut)))
	if long {
		length = longCut + time.Duration(w.Int64N(int64(longestCut-longCut)))
	}
	return func() error {
		if long {
			n = slices.MaxFunc(w.nodes, func(a, b *node) int {
				return len(a.machine.Running()) - len(b.machine.Running())
			})
		}
		w.cut(bothWays(n.name, cluster.Names(w.Servers)), length)
		return nil
	}
}

// cutServer cuts a server from the others, in one or both directions, and mostly not from the nodes.
func (w *world) cutServer() func() error {
	s := w.Servers[w.IntN(len(w.Servers))]
	paths := bothWays(s.Name, cluster.Names(w.Others(s)))
	switch w.IntN(4) {
	case 0:
		var nodes []string
		for _, n := range w.nodes {
			nodes = append(nodes, n.name)
		}
		paths = append(paths, bothWays(s.Name, nodes)...)
	case 1:
		paths = paths[:len(paths)/2]
	}
	length := time.Duration(w.Int64N(int64(shortCut)))
	return func() error {
		w.cut(paths, length)
		return nil
	}
}

// bothWays returns the paths from a member to others, then those back.
func bothWays(name string, others []string) (paths []direction) {
	for _, other := range others {
		paths = append(paths, direction{name, other})
	}
	for _, other := range others {
		paths = append(paths, direction{other, name})
	}
	return paths
}

// cut cuts paths for a time.
func (w *world) cut(paths []direction, length time.Duration) {
	w.record("cut %v for %v", paths, length.Round(time.Millisecond))
	for _, p := range paths {
		w.Net.CutOneWay(p.from, p.to)
	}
	time.Sleep(length)
	for _, p := range paths {
		w.Net.HealOneWay(p.from, p.to)
	}
}

// powerSwitch is the fence device of all nodes.
type powerSwitch struct{ w *world }

func (powerSwitch) Matches(*state.FenceTarget) string { return "" }

func (powerSwitch) Covers(string, string, string) bool { return true }

func (powerSwitch) Monitor(context.Context, *state.FenceTarget) fencing.Result {
	return fencing.Result{}
}

// offTime is the time after which a fenced node gets its power back.
const offTime = time.Second

// Fence takes the power from a node. Somebody gives it back later, maybe before the proof is recorded.
func (p powerSwitch) Fence(_ context.Context, lost *state.FenceTarget) fencing.Result {
	for _, n := range p.w.nodes {
		if n.nodeID() != lost.NodeID {
			continue
		}
		p.w.record("fence %s", n.name)
		p.w.count("fence a node", nil)
		n.powerOff()
		p.w.background.Go(func() {
			time.Sleep(offTime)
			n.powerOn()
		})
	}
	return fencing.Result{Action: "off", Proved: true}
}

// confirmLoss takes the power from a node, and tells the servers that it is lost once they know.
func (w *world) confirmLoss() func() error {
	n := w.nodes[w.IntN(len(w.nodes))]
	return func() error {
		id := n.powerOff()
		defer n.powerOn()
		lost, err := w.awaitLost(id)
		if err != nil {
			return err
		}
		_, err = request(w, rows.NodeConfirmLost, &rows.NodeFenceRequest{
			NodeID: id,
			Epoch:  lost.Epoch,
			By:     "ann",
			Why:    "its power is off",
		})
		return err
	}
}

// awaitLost waits until the servers count a node as lost.
func (w *world) awaitLost(id string) (*structs.Node, error) {
	req := &structs.NodeGetRequest{NodeID: id}
	req.MaxWait = time.Second
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		resp, err := request(w, structs.NodeGet, req)
		if err != nil { // no server leads for a moment
			time.Sleep(pace)
			continue
		}
		if resp.Node.Lost() {
			return &resp.Node.Node, nil
		}
		req.MinIndex = resp.Index
	}
	return nil, structs.Timeoutf("node %s is not lost", id)
}
