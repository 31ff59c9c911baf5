package membership

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/rpc"
	"berth/structs"
)

// leaveServers is a cluster that drains a node, in memory.
type leaveServers struct {
	rpc *rpc.Server

	mu      sync.Mutex
	spec    *structs.DrainSpec
	waits   []structs.DrainWait
	index   uint64
	changed chan struct{}
	fail    error
	silent  bool // no call gets an answer
	calls   int
}

func newLeaveServers(t *testing.T) *leaveServers {
	s := &leaveServers{index: 1, changed: make(chan struct{})}
	s.rpc = rpc.NewServer(hclog.NewNullLogger(),
		rpc.Handle(structs.NodeLeave, s.leave),
		rpc.Handle(structs.NodeDrainStatus, s.status))
	t.Cleanup(s.rpc.Close)
	return s
}

func (s *leaveServers) Call(ctx context.Context, method string, req, resp any) error {
	s.mu.Lock()
	s.calls++
	fail := s.fail
	silent := s.silent
	s.mu.Unlock()
	if silent {
		<-ctx.Done()
		return structs.Timeoutf("calling %s: %w", method, ctx.Err())
	}
	if fail != nil {
		return fail
	}
	return s.rpc.Call(ctx, method, req, resp)
}

func (s *leaveServers) leave(_ context.Context, r *structs.NodeLeaveRequest) (*structs.Empty, error) {
	if r.NodeID != "n1" || r.SecretID != "secret" {
		return nil, structs.Deniedf("got %s, %s", r.NodeID, r.SecretID)
	}
	s.change(func() { s.spec = r.DrainSpec })
	return &structs.Empty{}, nil
}

func (s *leaveServers) status(ctx context.Context, r *structs.NodeGetRequest) (
	*structs.NodeDrainStatusResponse, error,
) {
	over := time.After(r.MaxWait)
	for {
		s.mu.Lock()
		resp := &structs.NodeDrainStatusResponse{Waits: s.waits}
		if s.spec != nil {
			resp.DrainStrategy = &structs.DrainStrategy{DrainSpec: *s.spec}
		} else {
			resp.LastDrain = &structs.DrainMetadata{Status: structs.DrainComplete}
		}
		resp.Index = s.index
		changed := s.changed
		s.mu.Unlock()
		if resp.Index > r.MinIndex {
			return resp, nil
		}
		select {
		case <-changed:
		case <-over:
			return resp, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// change changes the servers, and wakes their blocking queries.
func (s *leaveServers) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.index++
	close(s.changed)
	s.changed = make(chan struct{})
}

// leave drains n1 in virtual time. It returns the request, the time that it took and the log. While it waits,
// it calls during, after a second.
func leave(t *testing.T, s *leaveServers, cfg LeaveConfig, during func(stop context.CancelFunc)) (
	spec *structs.DrainSpec, took time.Duration, log string,
) {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := &LeavingNode{
		ID:       "n1",
		SecretID: "secret",
		Servers:  s,
		Logger:   hclog.New(&hclog.LoggerOptions{Output: &out}),
		Lock:     func(context.Context) (func(), error) { return func() {}, nil },
	}
	begin := time.Now()
	var leaving sync.WaitGroup
	leaving.Go(func() { n.Leave(ctx, &cfg) })
	time.Sleep(time.Second)
	synctest.Wait()
	s.mu.Lock()
	spec = s.spec
	s.mu.Unlock()
	if during != nil {
		during(cancel)
	}
	leaving.Wait()
	return spec, time.Since(begin), out.String()
}

func (s *leaveServers) end() { s.change(func() { s.spec = nil; s.waits = nil }) }

func TestLeave_RequestsTheConfiguredDrain(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  LeaveConfig
		want structs.DrainSpec
	}{
		"the defaults": {LeaveConfig{}, structs.DrainSpec{Deadline: time.Hour}},
		"a deadline":   {LeaveConfig{Deadline: new(time.Minute)}, structs.DrainSpec{Deadline: time.Minute}},
		"by force":     {LeaveConfig{Force: true}, structs.DrainSpec{Deadline: -time.Second}},
		"not system jobs": {
			LeaveConfig{IgnoreSystemJobs: true},
			structs.DrainSpec{Deadline: time.Hour, IgnoreSystemJobs: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLeaveServers(t)
				spec, took, _ := leave(t, s, c.cfg, func(context.CancelFunc) { s.end() })
				if spec == nil || *spec != c.want || took != time.Second {
					t.Errorf("after %s: got %+v, want %+v after a second", took, spec, c.want)
				}
			})
		})
	}
}

func TestLeave_LogsEachChangeOfTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLeaveServers(t)
		one := structs.DrainWait{AllocID: "a1", JobID: "web", Reason: "its successor is not healthy"}
		two := structs.DrainWait{AllocID: "a2", JobID: "web", Reason: "one of its group is missing"}
		_, _, log := leave(t, s, LeaveConfig{}, func(context.CancelFunc) {
			for _, waits := range [][]structs.DrainWait{{one, two}, {one, two}, {two}} {
				s.change(func() { s.waits = waits })
				time.Sleep(time.Second)
			}
			two.Reason = "it is stopping"
			s.change(func() { s.waits = []structs.DrainWait{two} })
			time.Sleep(time.Minute)
			s.end()
		})
		for text, times := range map[string]int{
			"its successor is not healthy":               1,
			"one of its group is missing":                1,
			"it is stopping":                             1,
			"allocation has left the node: alloc_id=a1 ": 1,
			"allocation has left the node: alloc_id=a2 ": 1,
			"status=complete":                            1,
		} {
			if got := strings.Count(log, text); got != times {
				t.Errorf("the log has %q %d times, want %d:\n%s", text, got, times, log)
			}
		}
	})
}

func TestLeave_EndsWithItsBounds(t *testing.T) {
	away := structs.NotServedf("the cluster has no leader")
	for name, c := range map[string]struct {
		before func(s *leaveServers)
		cfg    LeaveConfig
		during func(s *leaveServers, stop context.CancelFunc)
		want   time.Duration
	}{
		"no leader":         {func(s *leaveServers) { s.fail = away }, LeaveConfig{}, nil, ServerPatience},
		"no server answers": {func(s *leaveServers) { s.silent = true }, LeaveConfig{}, nil, ServerPatience},
		"older servers": {func(s *leaveServers) {
			s.fail = structs.Preconditionf("level 1")
		}, LeaveConfig{}, nil, time.Second},
		"no leader later": {nil, LeaveConfig{}, func(s *leaveServers, _ context.CancelFunc) {
			s.change(func() { s.fail = away })
		}, time.Second + ServerPatience},
		"a short election": {nil, LeaveConfig{}, func(s *leaveServers, _ context.CancelFunc) {
			s.change(func() { s.fail = away })
			time.Sleep(ServerPatience / 2)
			s.change(func() { s.fail = nil })
			time.Sleep(time.Minute)
			s.end()
		}, time.Second + ServerPatience/2 + time.Minute},
		"after the deadline": {nil, LeaveConfig{Deadline: new(time.Minute)}, nil, time.Minute + StopPatience},
		"by force":           {nil, LeaveConfig{Deadline: new(time.Minute), Force: true}, nil, time.Minute + StopPatience},
		"a second signal": {nil, LeaveConfig{}, func(_ *leaveServers, stop context.CancelFunc) {
			stop()
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLeaveServers(t)
				if c.before != nil {
					c.before(s)
				}
				_, took, log := leave(t, s, c.cfg, func(stop context.CancelFunc) {
					if c.during != nil {
						c.during(s, stop)
					}
				})
				if took != c.want {
					t.Errorf("it took %s, want %s:\n%s", took, c.want, log)
				}
				if s.calls > 2000 {
					t.Errorf("the servers got %d calls", s.calls)
				}
			})
		})
	}
}

func TestConfig_BoundsTheDeadline(t *testing.T) {
	for deadline, valid := range map[time.Duration]bool{
		0: false, -1: false, 1: true,
		structs.MaxDrainDeadline: true, structs.MaxDrainDeadline + 1: false,
	} {
		err := (&LeaveConfig{Deadline: &deadline}).Validate()
		if (err == nil) != valid || err != nil && !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("a deadline of %s: got %v", deadline, err)
		}
	}
	for _, c := range []*LeaveConfig{nil, {}} {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
}
