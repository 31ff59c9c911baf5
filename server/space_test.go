package server

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/test/kit"
)

// A server whose disk has no space for its log stands for no election, and goes on by itself.
func TestServer_WaitsForSpaceAndGoesOn(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	kit.MountDiskAt(t, cfg.DataDir, "8m")

	s, err := New(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	r := startAny(t, s)
	r.until("it waits", func() bool { return s.Waits() != nil })
	why := s.Waits()
	if !files.IsNoSpace(why) || !strings.Contains(why.Error(), cfg.DataDir) ||
		!strings.Contains(why.Error(), "the log needs 64 MiB more, and the file system has") {
		t.Errorf("it waits because: %v", why)
	}

	err = unix.Mount("none", cfg.DataDir, "tmpfs", unix.MS_REMOUNT, "size=160m")
	if err != nil {
		t.Fatal(err)
	}
	r.until("it leads", func() bool {
		_, leads, _, _ := s.Leader()
		return leads
	})
	r.register("late")
	r.until("it waits no more", func() bool { return s.Waits() == nil })
	r.stop()

	// The blocks of the log are there, so a restart needs no space.
	filler, err := os.Create(cfg.DataDir + "/filler")
	if err != nil {
		t.Fatal(err)
	}
	for page := make([]byte, 4096); err == nil; {
		_, err = filler.Write(page)
	}
	if !files.IsNoSpace(err) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	r = run(t, cfg)
	r.register("full")
	if !r.has("late") || !r.has("full") {
		t.Error("a job is lost")
	}
	r.stop()
}

// Each election of a server that waits would raise the term and end at once.
func TestSetQuiet_ChangesTheTimeoutsAndBack(t *testing.T) {
	t.Parallel()
	r := run(t, testConfig(t))
	usual := r.consensus.ReloadableConfig()
	if err := r.setQuiet(true); err != nil {
		t.Fatal(err)
	}
	waits := r.consensus.ReloadableConfig()
	if waits.ElectionTimeout != waitingTimeout || waits.HeartbeatTimeout != waitingTimeout {
		t.Errorf("it stands for election after %v", waits.HeartbeatTimeout)
	}
	if err := r.setQuiet(false); err != nil {
		t.Fatal(err)
	}
	if after := r.consensus.ReloadableConfig(); after != usual {
		t.Errorf("got %+v after the wait, want %+v", after, usual)
	}
}

// A server that may be a copy of another one loses each election. It says once why it does not vote, and
// stands for none until it may.
func TestServer_StandsForNoElectionWhileItMustNotVote(t *testing.T) {
	noLeaks(t)
	cfg := testConfig(t)
	cfg.Machine = "machine:one"
	r := run(t, cfg)
	_ = r.consensus.AddVoter("other", "127.0.0.1:1", 0, time.Second) // which never answers
	r.until("it is one of two voters", func() bool { return len(r.consensus.members()) == 2 })
	r.stop()

	cfg.Machine = "machine:two"
	log := &kit.Output{}
	s, err := New(cfg, hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log}))
	if err != nil {
		t.Fatal(err)
	}
	r = startAny(t, s)
	timeout := func() time.Duration { return r.consensus.ReloadableConfig().HeartbeatTimeout }
	r.until("it stands for no election", func() bool { return timeout() == waitingTimeout })
	if said := strings.Count(log.String(), "it does not vote until a leader"); said != 1 {
		t.Errorf("it says %d times why it does not vote:\n%s", said, log)
	}

	r.consensus.release(cfg.DataDir, hclog.NewNullLogger())
	r.until("it stands for elections", func() bool { return timeout() == cfg.RaftTimeout })
	r.until("it has asked for a vote", func() bool {
		return strings.Contains(log.String(), "heartbeat timeout reached, starting election")
	})
	r.stop()
}
