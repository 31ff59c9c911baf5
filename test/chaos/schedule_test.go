package chaos

import (
	"berth/api/jobs"
	"context"
	"errors"
	"fmt"

	"berth/test/stepclock"
)

// periodicJob is the job with a schedule. Nobody operates it.
const periodicJob = "tick"

const periodicHCL = `
job "tick" {
  type = "batch"
  periodic {
    crons = ["*/30 * * * * * *"]
  }
  group "g" {
    ephemeral_disk {
      size = 10
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
      resources {
        cpu    = 20
        memory = 10
      }
    }
  }
}
`

func (w *world) registerPeriodic() error { return register(w.servers[0].client, periodicHCL) }

// rightClocks ends what is wrong with the wall clocks since the begin.
func (w *world) rightClocks() error {
	if !w.stepped {
		return nil
	}
	var errs []error
	for _, m := range w.all {
		m.clock = 0
		errs = append(errs, stepclock.Set(m.path("clock"), 0))
	}
	return errors.Join(errs...)
}

// newestLaunch returns the index of the newest child of the periodic job, 0 without one: old ones are
// deleted.
func (w *world) newestLaunch() (newest uint64, err error) {
	err = call(func(ctx context.Context) error {
		jobs, _, err := jobs.List(ctx, w.servers[0].client, nil)
		for _, j := range jobs {
			if j.ParentID == periodicJob {
				newest = max(newest, j.CreateIndex)
			}
		}
		return err
	})
	return newest, err
}

// launchesAgain returns nil once the schedule has launched another child since it was called.
func (w *world) launchesAgain() error {
	before, err := w.newestLaunch()
	if err != nil {
		return err
	}
	return await(settleFor, func() error {
		newest, err := w.newestLaunch()
		if err == nil && newest <= before {
			err = fmt.Errorf("%w since index %d", errSilent, before)
		}
		return err
	})
}

// errSilent says that a schedule does nothing.
var errSilent = errors.New("the schedule has launched nothing")
