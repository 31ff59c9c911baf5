package chaos

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"berth/api"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/volumes"
	"berth/jobspec"
	"berth/structs"
)

// job is a job that has to run, unless an operation has stopped it. A writer's volume has its name.
type job struct {
	name    string
	policy  string // of the volume
	kind    string
	version atomic.Int32
	mib     atomic.Int32 // the size of the volume
}

// pluginJob is the job of the plugin, which runs from the begin to the end.
const pluginJob = "shelf"

// volumesOfPolicy is the number of volumes with each policy. Operators leave the first of them alone, so that
// its writer is still wanted when its node is lost.
const volumesOfPolicy = 3

func (w *world) makeJobs() {
	policies := []string{structs.LossHold, structs.LossFence, structs.LossLease}
	for _, policy := range policies {
		for i := range volumesOfPolicy {
			// The plugin makes a directory of a volume whose name begins so.
			j := &job{name: fmt.Sprintf("dir-%s-%d", policy, i), policy: policy}
			j.mib.Store(16)
			w.jobs = append(w.jobs, j)
			if i > 0 {
				w.operated = append(w.operated, j)
			}
		}
	}
}

func (w *world) volumes() (names []string) {
	for _, j := range w.jobs {
		names = append(names, j.name)
	}
	return names
}

// hcl is the job file of the present version.
func (j *job) hcl() string {
	return fmt.Sprintf(`
job %[1]q {
  group "g" {
    update {
      min_healthy_time = "0s"
    }
    restart {
      attempts = 2
      interval = "10s"
      delay    = "1s"
      mode     = "fail"
    }
    reschedule {
      unlimited      = true
      delay          = "5s"
      delay_function = "constant"
    }
    ephemeral_disk {
      size = 10
    }
    volume "data" {
      type            = "csi"
      source          = %[1]q
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    volume "backend" {
      type   = "host"
      source = "backend"
    }
    task "writer" {
      driver       = "exec"
      kill_timeout = "1s"
      config {
        command = "%[2]s/chaos"
        args    = ["writer", %[1]q, "${node.unique.name}"]
      }
      env {
        GOMAXPROCS = "1"
        VERSION    = "%[3]d"
      }
      volume_mount {
        volume      = "data"
        destination = %[4]q
      }
      volume_mount {
        volume      = "backend"
        destination = %[2]q
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
      resources {
        cpu    = 20
        memory = 128
      }
    }
  }
}
`, j.name, backEnd, j.version.Load(), dataDir)
}

// pluginHCL is the job file of the plugin, with both halves on each node.
func (w *world) pluginHCL() string {
	return fmt.Sprintf(`
job %[1]q {
  type     = "system"
  priority = 90
  group "g" {
    restart {
      attempts = 100
      interval = "1m"
      delay    = "500ms"
      mode     = "delay"
    }
    ephemeral_disk {
      size = 10
    }
    task "plugin" {
      driver = "raw_exec"
      config {
        command = "%[2]s/backend/chaos"
        args    = ["shelf", "-root", "%[2]s/shelf", "-half", "monolith", "-node", "${node.unique.name}",
          "-endpoint", "${CSI_ENDPOINT}"]
      }
      csi_plugin {
        id   = %[1]q
        type = "monolith"
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
      resources {
        cpu    = 20
        memory = 128
      }
    }
  }
}
`, pluginJob, w.dir)
}

// callFor bounds a call of an operation.
const callFor = 10 * time.Second

// call calls an agent with a bound.
func call(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	return f(ctx)
}

func register(c *api.Client, text string) error {
	file, err := jobspec.ReadJob("job.hcl", []byte(text), &jobspec.Inputs{})
	if err != nil {
		return err
	}
	return call(func(ctx context.Context) error {
		_, err := jobs.Register(ctx, c, file.Job, jobs.RegisterOptions{})
		return err
	})
}

// createVolume creates the volume of a job, or expands it.
func (j *job) createVolume(c *api.Client) error {
	text := fmt.Sprintf(`
id           = %[1]q
external_name = %[1]q
type         = "csi"
plugin_id    = %[2]q
capacity_min = "%[3]dMiB"
on_node_loss = %[4]q
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`, j.name, pluginJob, j.mib.Load(), j.policy)
	file, err := jobspec.ReadVolume("volume.hcl", []byte(text))
	if err != nil {
		return err
	}
	return call(func(ctx context.Context) error {
		_, err := volumes.Create(ctx, c, file.Content)
		return err
	})
}

// beginFor bounds each step of the begin.
const beginFor = time.Minute

// begin starts the cluster, and waits until every writer writes.
func (w *world) begin() error {
	for _, m := range w.all {
		if err := m.powerOn(); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	for _, step := range []struct {
		what  string
		check func() error
	}{
		{"there is a management token", w.haveRights},
		{"the operators have a token", w.limitRights},
		{"the nodes are ready", w.nodesReady},
		{"the machines of the nodes are pinned", w.pinNodes},
		{"the plugin is registered", func() error { return register(w.servers[0].client, w.pluginHCL()) }},
		{"the plugin runs", w.pluginReady},
		{"the volumes are there", w.createVolumes},
		{"the jobs are registered", w.registerAll},
		{"the periodic job is registered", w.registerPeriodic},
		{"the writers write", w.allWrite(w.ackCounts())},
	} {
		if err := await(beginFor, step.check); err != nil {
			w.explain()
			return fmt.Errorf("%s: %w", step.what, err)
		}
		w.note("%s", step.what)
	}
	return nil
}

func (w *world) createVolumes() error {
	for _, j := range w.jobs {
		if err := j.createVolume(w.servers[0].client); err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
	}
	return nil
}

func (w *world) registerAll() error {
	for _, j := range w.jobs {
		if err := register(w.servers[0].client, j.hcl()); err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
	}
	return nil
}

// nodesReady returns nil if every node is ready and eligible.
func (w *world) nodesReady() error {
	return call(func(ctx context.Context) error {
		nodes, _, err := nodes.List(ctx, w.servers[0].client, nil)
		if err != nil {
			return err
		}
		ready := map[string]bool{}
		for _, n := range nodes {
			if n.Status == structs.NodeReady && n.SchedulingEligibility == structs.NodeEligible {
				ready[n.Name] = true
			}
		}
		if len(ready) != len(w.nodes) {
			return fmt.Errorf("ready are %v", ready)
		}
		return nil
	})
}

func (w *world) pluginReady() error {
	return call(func(ctx context.Context) error {
		plugins, _, err := volumes.ListPlugins(ctx, w.servers[0].client, nil)
		if err != nil {
			return err
		}
		for _, p := range plugins {
			if p.NodesHealthy == len(w.nodes) && p.ControllersHealthy == len(w.nodes) {
				return nil
			}
		}
		return fmt.Errorf("plugins: %d, and not all healthy", len(plugins))
	})
}

func (w *world) ackCounts() map[string]int {
	counts := map[string]int{}
	for _, j := range w.jobs {
		counts[j.name] = w.journal.acks(j.name)
	}
	return counts
}

// allWrite returns a check that each writer has written since some counts.
func (w *world) allWrite(since map[string]int) func() error {
	return func() error {
		for _, j := range w.jobs {
			if w.journal.acks(j.name) <= since[j.name] {
				return fmt.Errorf("%s does not write", j.name)
			}
		}
		return nil
	}
}
