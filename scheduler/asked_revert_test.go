package scheduler

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// goesBack lets a failed deployment of a job go back to its stable version.
func goesBack(j *structs.Job) {
	j.Update = &structs.UpdateStrategy{MaxParallel: 1, AutoRevert: true, HealthCheck: "checks"}
}

// failUpdate ends the deployment of the job "db" as failed, and returns it.
func (w *fixture) failUpdate() *structs.Deployment {
	w.t.Helper()
	d := state.LatestDeployment(w.s.Read(), structs.DefaultNamespace, "db")
	if d == nil {
		w.t.Fatal("there is no deployment")
	}
	p := &structs.DeploymentStatusRequest{WriteOptions: w.now()}
	p.DeploymentID = d.ID
	p.Status = structs.DeploymentFailed
	do(w, state.DeploymentStatus, p)
	return state.Deployment(w.s.Read(), d.ID)
}

// A deployment that fails goes back to the stable version of its job only if that can have its volumes. Its
// smaller size shrinks no volume, and no volume changes its class.
func TestAskedVolume_StaysAsItIsWhenAFailedDeploymentGoesBack(t *testing.T) {
	const data = "db.g.data"
	other := func(j *structs.Job) { j.TaskGroups[0].Volumes["data"].Class = "slow" }
	for name, c := range map[string]struct {
		next []func(*structs.Job) // the version that fails
		lost bool                 // a person deletes the volume of the stable version before
		want string               // the description of the deployment
		size string               // of the volume in the end
	}{
		"to a smaller size": {
			next: []func(*structs.Job){asks(20*gib, false)},
			want: "back to job version",
			size: "20 GiB",
		},
		"to no other size": {
			next: []func(*structs.Job){asks(10*gib, false), cpu(200)},
			want: "back to job version",
			size: "10 GiB",
		},
		"from no volume": {
			want: "back to job version",
			size: "10 GiB",
		},
		"to another class": {
			next: []func(*structs.Job){asks(20*gib, false), other},
			lost: true,
			want: `has the class "slow"`,
			size: "20 GiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := inZones(t, "a")
			w.fast(func(c *storage.VolumeClass) { c.Name = "slow" })
			w.job(aJob("db", structs.JobService, goesBack, asks(10*gib, false)))
			w.run("db")
			w.made(data)
			do(w, state.JobStable, &structs.JobStableRequest{JobID: "db", JobVersion: 0, Stable: true})
			if c.lost {
				for _, a := range w.allocs("db") {
					w.client(a, structs.AllocComplete)
				}
				p := &structs.CSIVolumeDeregisterRequest{ID: data, Force: true, WriteOptions: w.now()}
				do(w, csi.VolumeDeregister, p)
			}

			w.job(aJob("db", structs.JobService, append(c.next, goesBack)...))
			w.run("db")
			if c.lost {
				w.made(data)
			}
			d := w.failUpdate()
			if d.Status != structs.DeploymentFailed || !strings.Contains(d.StatusDescription, c.want) {
				t.Errorf("the deployment is %s: %s", d.Status, d.StatusDescription)
			}
			version := uint64(1)
			if strings.Contains(c.want, "back to") {
				version = 2
			}
			if j := state.Job(w.s.Read(), structs.DefaultNamespace, "db"); j.Version != version {
				t.Errorf("the job is at version %d, want %d", j.Version, version)
			}
			if got := w.volumes(); len(got) != 1 || !strings.HasSuffix(got[0], c.size) {
				t.Errorf("the volumes are %q, want one of %s", got, c.size)
			}

			// The version that runs can be registered again.
			if version == 2 {
				err := w.tryJob(aJob("db", structs.JobService, goesBack, asks(10*gib, false)))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}
