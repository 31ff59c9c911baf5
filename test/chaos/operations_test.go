package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"berth/api"
	"berth/api/allocs"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/operator"
	"berth/structs"
	"berth/test/guarantees"
)

// operation is one that the seed has chosen. It goes to a server, and may fail: faults last.
type operation struct {
	name   string
	weight int
	run    func(w *world, c *api.Client, j *job, choice int) error
}

var operations = []*operation{
	{"run", 80, func(_ *world, c *api.Client, j *job, _ int) error { return register(c, j.hcl()) }},
	{"update", 30, func(_ *world, c *api.Client, j *job, _ int) error {
		j.version.Add(1)
		return register(c, j.hcl())
	}},
	{"stop", 15, func(_ *world, c *api.Client, j *job, _ int) error {
		return call(func(ctx context.Context) error {
			_, err := jobs.Deregister(ctx, c, j.name, jobs.DeregisterOptions{})
			return err
		})
	}},
	{"move", 15, moveAlloc},
	{"expand", 5, func(_ *world, c *api.Client, j *job, _ int) error {
		j.mib.Add(16)
		return j.createVolume(c)
	}},
	{"drain", 6, func(w *world, c *api.Client, _ *job, choice int) error {
		spec := &structs.DrainSpec{Deadline: 5 * time.Second, IgnoreSystemJobs: true}
		return w.drain(c, w.nodes[choice%len(w.nodes)], nodes.DrainOrder{DrainSpec: spec})
	}},
	{"fence", 8, func(w *world, _ *api.Client, _ *job, choice int) error {
		return w.atSocket(w.nodes[choice%len(w.nodes)], func(ctx context.Context, c *api.Client, id string) error {
			return nodes.Fence(ctx, c, id, nodes.FenceOrder{By: "chaos", Why: "the seed says so"})
		})
	}},
	{"lease", 1, func(w *world, c *api.Client, _ *job, choice int) error {
		n, err := w.node(c, w.nodes[choice%len(w.nodes)])
		if err != nil {
			return err
		}
		return call(func(ctx context.Context) error {
			_, err := nodes.ExtendLease(ctx, c, n.ID, time.Duration(5+choice%10)*time.Second)
			return err
		})
	}},
	{"transfer", 1, func(w *world, c *api.Client, _ *job, choice int) error {
		to := w.servers[choice%len(w.servers)].addr + ":4747"
		return call(func(ctx context.Context) error { return operator.TransferLeadership(ctx, c, "", to) })
	}},
	{"undrain", 25, func(w *world, c *api.Client, _ *job, choice int) error {
		return w.drain(c, w.nodes[choice%len(w.nodes)], nodes.DrainOrder{MarkEligible: true})
	}},
}

// moveAlloc stops the allocation of a job, so that another one takes its place.
func moveAlloc(_ *world, c *api.Client, j *job, _ int) error {
	return call(func(ctx context.Context) error {
		running, _, err := jobs.AllocationsOf(ctx, c, j.name, false, nil)
		if err != nil {
			return err
		}
		for _, a := range running {
			if a.ClientStatus == structs.AllocRunning && a.DesiredStatus == structs.AllocDesiredRun {
				_, err := allocs.Stop(ctx, c, a.ID, allocs.StopOptions{})
				return err
			}
		}
		return errors.New("nothing runs")
	})
}

func (w *world) drain(c *api.Client, m *member, how nodes.DrainOrder) error {
	n, err := w.node(c, m)
	if err != nil {
		return err
	}
	return call(func(ctx context.Context) error { return nodes.Drain(ctx, c, n.ID, how) })
}

// node returns the node of a member as a server knows it.
func (w *world) node(c *api.Client, m *member) (found *structs.NodeListStub, err error) {
	err = call(func(ctx context.Context) error {
		nodes, _, err := nodes.List(ctx, c, nil)
		for _, n := range nodes {
			if n.Name == m.name {
				found = n
			}
		}
		return err
	})
	if err == nil && found == nil {
		err = errors.New("no node " + m.name)
	}
	return found, err
}

// operators is the number of operators, who do not know of each other.
const operators = 3

// operate makes the operations of one operator until the context ends.
func (w *world) operate(ctx context.Context, operator int) {
	r := w.draws(uint64(2 + operator))
	sum := 0
	for _, o := range operations {
		sum += o.weight
	}
	for number := 1; ; number++ {
		pause := time.Duration(200+r.IntN(600)) * time.Millisecond
		at := r.IntN(sum)
		j := w.operated[r.IntN(len(w.operated))]
		s := w.servers[r.IntN(len(w.servers))]
		choice := r.IntN(1 << 20)
		if !sleep(ctx, pause) {
			return
		}
		var chosen *operation
		for _, o := range operations {
			if at < o.weight {
				chosen = o
				break
			}
			at -= o.weight
		}
		during := w.faults.Load() > 0
		err := chosen.run(w, s.operator, j, choice)
		w.operations.Add(1)
		if during || w.faults.Load() > 0 {
			w.faulted.Add(1)
		}
		w.note("operation %d.%d: %s %s at %s: %s", operator, number, chosen.name, j.name, s.name, outcome(err))
		// The operator socket of a server that does not lead any more denies the fence.
		if structs.IsKind(err, structs.KindDenied) && chosen.name != "fence" {
			w.violate(guarantees.Access, "operation %d.%d is denied", operator, number)
		}
	}
}

// outcome shows an error in one line.
func outcome(err error) string {
	if err == nil {
		return "done"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// leader returns the server that leads, nil if none says so.
func (w *world) leader() *member {
	for _, s := range w.servers {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		addr, err := operator.Leader(ctx, s.client)
		cancel()
		for _, leader := range w.servers {
			if err == nil && strings.HasPrefix(addr, leader.addr+":") {
				return leader
			}
		}
	}
	return nil
}

// wordWithin bounds the wait of an operator for a node to be down.
const wordWithin = time.Minute

// atSocket calls the leader at its operator socket about the node of a member, which has to be down.
func (w *world) atSocket(m *member, f func(ctx context.Context, c *api.Client, node string) error) error {
	leader := w.leader()
	if leader == nil {
		return errors.New("no leader")
	}
	n, err := w.node(leader.client, m)
	if err == nil && n.Status != structs.NodeDown {
		err = fmt.Errorf("the node is %s", n.Status)
	}
	if err != nil {
		return err
	}
	return leader.atSocket(func(ctx context.Context, c *api.Client) error { return f(ctx, c, n.ID) })
}

// atSocket calls a server at its operator socket.
func (m *member) atSocket(f func(ctx context.Context, c *api.Client) error) error {
	socket := api.NewClient(api.ClientConfig{Address: "unix://" + m.path("data", "berth", "berth.sock")})
	defer socket.Close()
	return call(func(ctx context.Context) error { return f(ctx, socket) })
}

// pinNodes says which machine the device switches off for each node.
func (w *world) pinNodes() error {
	leader := w.leader()
	if leader == nil {
		return errors.New("no leader")
	}
	for _, m := range w.nodes {
		n, err := w.node(leader.client, m)
		if err != nil {
			return err
		}
		err = leader.atSocket(func(ctx context.Context, c *api.Client) error {
			return nodes.PinFence(ctx, c, n.ID, nodes.FencePin{Pins: map[string]string{"plug": m.name}, By: "chaos"})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// confirmLost has an operator say that a machine, which is off, is off. It stays off until the answer.
func (w *world) confirmLost(ctx context.Context, m *member, f *fault) {
	err := await(wordWithin, func() error {
		if ctx.Err() != nil {
			return nil
		}
		return w.atSocket(m, func(ctx context.Context, c *api.Client, id string) error {
			return nodes.ConfirmLost(ctx, c, id, nodes.FenceOrder{By: "chaos", Why: "its power is cut"})
		})
	})
	w.note("#%d the word of an operator about %s: %s", f.number, m.name, outcome(errors.Join(err, ctx.Err())))
}
