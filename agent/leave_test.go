package agent

import (
	"context"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
)

func TestNotifyContext_NamesTheSignal(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2} {
		ctx, stop := NotifyContext(t.Context(), syscall.SIGUSR1, syscall.SIGUSR2)
		err := syscall.Kill(os.Getpid(), s)
		if err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		got, ok := context.Cause(ctx).(signalled)
		if !ok || got.Signal != s {
			t.Errorf("the cause is %v, want %s", context.Cause(ctx), s)
		}
		stop()
	}
}

func TestNotifyContext_TellsOfASecondSignal(t *testing.T) {
	ctx, stop := NotifyContext(t.Context(), syscall.SIGUSR1, syscall.SIGUSR2)
	defer stop()
	raise := func(s syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	raise(syscall.SIGUSR1)
	<-ctx.Done()
	first := context.Cause(ctx).(signalled)
	if first.again.Err() != nil {
		t.Error("the second signal is there before it was sent")
	}
	raise(syscall.SIGUSR2)
	<-first.again.Done()
}

// With a leave option the node drains at the same signals as in the dialect, without one at both.
func TestConfig_SelectsTheSignalsThatDrain(t *testing.T) {
	for _, c := range []struct {
		onInterrupt, onTerminate bool
		interrupt, terminate     bool
	}{
		{false, false, true, true},
		{true, false, true, false},
		{false, true, false, true},
		{true, true, true, true},
	} {
		cfg := Config{LeaveOnInterrupt: c.onInterrupt, LeaveOnTerminate: c.onTerminate}
		if cfg.drainsOn(os.Interrupt) != c.interrupt || cfg.drainsOn(syscall.SIGTERM) != c.terminate {
			t.Errorf("%+v: it drains on SIGINT: %t, on SIGTERM: %t",
				c, cfg.drainsOn(os.Interrupt), cfg.drainsOn(syscall.SIGTERM))
		}
	}
}

// runServer runs an agent with a server until end is called.
func runServer(t *testing.T, name string, edit func(*Config)) (
	a *Agent, end context.CancelCauseFunc, ended chan error,
) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.DataDir = t.TempDir()
	cfg.BindAddr = "127.0.0.1"
	cfg.Name = name
	cfg.Ports = Ports{}
	cfg.Server.Enabled = true
	cfg.Server.RaftTimeout = 500 * time.Millisecond // also bounds a transfer of the leadership
	cfg.Server.AutopilotInterval = 500 * time.Millisecond
	cfg.Autopilot.ServerStabilizationTime = 0
	cfg.Autopilot.LastContactThreshold = 10 * time.Second
	cfg.Consul.Address = "" // a test must not use the Consul of its machine
	edit(&cfg)
	if err := cfg.Finish(); err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancelCause(context.Background())
	ended = make(chan error, 1)
	var run sync.WaitGroup
	run.Go(func() { ended <- a.runUntilSignal(ctx) })
	t.Cleanup(func() {
		end(nil)
		run.Wait()
	})
	return a, end, ended
}

func awaitCondition(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !holds() {
		time.Sleep(5 * time.Millisecond)
		if time.Now().After(deadline) {
			t.Fatalf("timeout: %s", condition)
		}
	}
}

func TestAgent_LeavesOnTheConfiguredSignal(t *testing.T) {
	first, endFirst, firstEnded := runServer(t, "s1", func(c *Config) {
		c.LeaveOnTerminate = true
	})
	second, end, ended := runServer(t, "s2", func(c *Config) {
		joinServer(c, first)
		c.LeaveOnInterrupt = true
	})
	awaitCondition(t, "both servers have a vote", func() bool { return voters(first) == 2 })
	err := structs.NotFoundf("no answer yet")
	awaitCondition(t, "the second server knows the first one", func() bool {
		err = (local{second}).ForceLeave(t.Context(), "s1", false)
		return !structs.IsKind(err, structs.KindNotFound)
	})
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("force-leave of a live server: got %v, want precondition", err)
	}
	end(signalled{os.Interrupt, t.Context()})
	if err := <-ended; err != nil || voters(first) != 1 {
		t.Errorf("the second agent ended with %v, and %d servers have a vote, want 1", err, voters(first))
	}

	// The cluster needs the first server, which stops and keeps its data and its vote.
	endFirst(signalled{syscall.SIGTERM, t.Context()})
	if err := <-firstEnded; err != nil {
		t.Error(err)
	}
}

func TestAgent_KeepsItsVoteOnOtherSignals(t *testing.T) {
	first, _, _ := runServer(t, "s1", func(*Config) {})
	_, end, ended := runServer(t, "s2", func(c *Config) {
		joinServer(c, first)
		c.LeaveOnInterrupt = true
	})
	awaitCondition(t, "both servers have a vote", func() bool { return voters(first) == 2 })
	end(signalled{syscall.SIGTERM, t.Context()})
	if err := <-ended; err != nil || voters(first) != 2 {
		t.Errorf("the second agent ended with %v, and %d servers have a vote, want 2", err, voters(first))
	}
}

func TestAgent_EndsAfterItsServerHasLeft(t *testing.T) {
	first, _, _ := runServer(t, "s1", func(*Config) {})
	awaitCondition(t, "the server leads", func() bool {
		_, leads, _, _ := first.server.Leader()
		return leads
	})
	err := (local{first}).Leave(t.Context(), true)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("leave of the only server: got %v, want precondition", err)
	}
	second, _, ended := runServer(t, "s2", func(c *Config) {
		joinServer(c, first)
	})
	awaitCondition(t, "both servers have a vote", func() bool {
		servers := second.server.Configuration()
		_, _, known, _ := second.server.Leader()
		return len(servers) == 2 && known
	})
	err = (local{second}).Leave(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the agent ended with %v", err)
	}
}

// joinServer makes an agent join the cluster of another one.
func joinServer(c *Config, other *Agent) {
	c.Server.BootstrapExpect = 0
	c.Server.RetryJoin = []string{serfAddr(other.server)}
}

// voters returns the number of servers with a vote, as the server of an agent knows them.
func voters(a *Agent) (n int) {
	for _, s := range a.server.Configuration() {
		if s.Voter {
			n++
		}
	}
	return n
}
