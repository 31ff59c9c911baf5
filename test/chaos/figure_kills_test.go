package chaos

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/api/jobs"
	"berth/structs"
)

// mountedVolumes is the number of volumes on the node whose agent is killed.
const mountedVolumes = 50

// killJob is the job of the allocations with these volumes, of which each has one.
const killJob = "kills"

// killVolume is the ID of the volume of an allocation. The plugin makes a directory of it.
func killVolume(i int) string { return fmt.Sprintf("dir-kill[%d]", i) }

func killHCL() string {
	return fmt.Sprintf(`
job %q {
  group "g" {
    count = %d
    update {
      max_parallel     = %[2]d
      min_healthy_time = "0s"
    }
    ephemeral_disk {
      size = 2
    }
    volume "data" {
      type            = "csi"
      source          = "dir-kill"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      per_alloc       = true
    }
    task "sleep" {
      driver       = "exec"
      kill_timeout = "1s"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
`, killJob, mountedVolumes)
}

// lateWithin is the time after the last kill in which the agent does whatever it does late.
const lateWithin = 10 * time.Second

// measureAgentKills kills an agent many times, and counts what happens to the volumes of its node: a third of
// them has each policy. One of two kills comes while the agent starts.
func measureAgentKills(w *world) error {
	if err := w.begin(); err != nil {
		return err
	}
	s := w.servers[0].client
	policies := []string{structs.LossHold, structs.LossFence, structs.LossLease}
	for i := range mountedVolumes {
		j := &job{name: killVolume(i), policy: policies[i%len(policies)]}
		j.mib.Store(16)
		if err := j.createVolume(s); err != nil {
			return err
		}
	}
	if err := register(s, killHCL()); err != nil {
		return err
	}
	first := map[string]bool{}
	n := w.nodes[0]
	settled := func() error { return w.runAsBefore(n, first) }
	if err := await(settleFor, settled); err != nil {
		return err
	}
	before, err := n.volumeMounts()
	if err != nil {
		return err
	}
	if len(before) != 2*mountedVolumes {
		return fmt.Errorf("%d mounts of volumes; want the stage and the publish of each of %d", len(before),
			mountedVolumes)
	}
	calls := w.volumeCalls()

	changed := 0
	look := func() error {
		after, err := n.volumeMounts()
		changed += differences(before, after)
		before = after
		return err
	}
	for run := range w.runs {
		if err := n.killAgent(); err != nil {
			return err
		}
		if err := n.startAgent(); err != nil {
			return err
		}
		if run%2 == 0 || run == w.runs-1 {
			err = await(settleFor, settled)
		} else {
			time.Sleep(time.Duration(w.phase.Int64N(int64(time.Second))))
		}
		if err != nil {
			return fmt.Errorf("run %d: %w", run+1, err)
		}
		if err := look(); err != nil {
			return err
		}
		w.note("kill %d: %d mounts", run+1, len(before))
	}
	time.Sleep(lateWithin)
	if err := look(); err != nil {
		return err
	}
	if err := w.printKills(calls, changed); err != nil {
		return err
	}
	return w.unmountAll(n)
}

// printKills prints the rows of the calls since some others.
func (w *world) printKills(before map[string]int, changed int) error {
	now := w.volumeCalls()
	made := func(rpc string) int { return now[rpc] - before[rpc] }
	what := fmt.Sprintf("kill -9 of an agent with %d volumes: ", mountedVolumes)
	for _, row := range []struct {
		name  string
		count int
	}{
		{"changed mounts", changed},
		{"stages and publishes", made("NodeStageVolume") + made("NodePublishVolume")},
		{"unstages and unpublishes", made("NodeUnstageVolume") + made("NodeUnpublishVolume")},
	} {
		if err := printCount(what+row.name, w.runs, row.count); err != nil {
			return err
		}
	}
	return nil
}

// runAsBefore returns nil if the agent of a node has looked for its tasks, and all allocations run. It
// notes the allocations in first, and later expects the same ones.
func (w *world) runAsBefore(n *member, first map[string]bool) error {
	return call(func(ctx context.Context) error {
		if _, err := readStale(n, "/v1/agent/health?type=client"); err != nil {
			return err
		}
		allocs, _, err := jobs.AllocationsOf(ctx, w.servers[0].client, killJob, true, nil)
		if err != nil {
			return err
		}
		running := map[string]bool{}
		for _, a := range allocs {
			if a.ClientStatus == structs.AllocRunning && a.DesiredStatus == structs.AllocDesiredRun {
				running[a.ID] = true
			}
		}
		if len(running) != mountedVolumes || len(first) > 0 && !maps.Equal(running, first) {
			return fmt.Errorf("%d of %d allocations run, the first were %d", len(running), len(allocs), len(first))
		}
		maps.Copy(first, running)
		return nil
	})
}

// volumeMounts returns the IDs of the mounts of volumes on the machine, by their places.
func (m *member) volumeMounts() (map[string]int, error) {
	infos, err := m.mountsOfVolumes()
	ids := map[string]int{}
	for _, i := range infos {
		ids[i.Mountpoint] = i.ID
	}
	return ids, err
}

// differences counts the mounts that are not as before.
func differences(before, after map[string]int) (n int) {
	for place, id := range before {
		if after[place] != id {
			n++
		}
	}
	for place := range after {
		if _, known := before[place]; !known {
			n++
		}
	}
	return n
}

// volumeCalls counts the calls that the plugin has answered, by their names.
func (w *world) volumeCalls() map[string]int {
	text, _ := os.ReadFile(filepath.Join(w.shelf(), "calls"))
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 1 {
			counts[words[1]]++
		}
	}
	return counts
}

// unmountAll stops the job and waits until the node has unmounted all of its volumes: after so many kills it
// still knows them.
func (w *world) unmountAll(n *member) error {
	err := call(func(ctx context.Context) error {
		_, err := jobs.Deregister(ctx, w.servers[0].client, killJob, jobs.DeregisterOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return await(settleFor, func() error {
		left, err := n.volumeMounts()
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("mounts are left: %q", slices.Sorted(maps.Keys(left)))
		}
		return err
	})
}
