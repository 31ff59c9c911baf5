package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	manyJobs    = 50 // that start at once, each with its volume
	repetitions = 10 // of the measurements of one job
	pluginID    = "hostpath"
)

// stateName names the folder of the driver's volumes.
const stateName = "bench-volumes"

// driverTask returns the task of the CSI driver.
func driverTask(taskDriver, program, socket, state string) object {
	return object{
		"Name":   "driver",
		"Driver": taskDriver,
		"User":   "root",
		"Config": object{
			"command": program,
			"args": []string{"--endpoint", "unix://" + socket, "--nodeid", "bench", "--statedir", state,
				"--drivername", "hostpath.csi.k8s.io"},
		},
		"Resources": object{"CPU": 100, "MemoryMB": 64},
	}
}

// isolatedDriver runs the CSI driver isolated.
func isolatedDriver(_, _ string) object {
	task := driverTask("exec", "/bin/hostpathplugin", "/csi/csi.sock", "/local/"+stateName)
	task["CSIPluginConfig"] = object{"ID": pluginID, "Type": "monolith", "MountDir": "/csi"}
	return task
}

// bareDriver runs the CSI driver as a process of the host. The peer's driver exec hides the mounts of a task
// from the host, so the CSI driver has to use the paths of the host.
func bareDriver(tools, data string) object {
	csi := filepath.Join(data, "client", "csi")
	task := driverTask("raw_exec", filepath.Join(tools, "bin", "hostpathplugin"),
		filepath.Join(csi, "plugins", "${NOMAD_ALLOC_ID}", "csi.sock"), filepath.Join(data, stateName))
	task["CSIPluginConfig"] = object{
		"ID":                  pluginID,
		"Type":                "monolith",
		"MountDir":            "/csi",
		"StagePublishBaseDir": filepath.Join(csi, "monolith", pluginID),
	}
	return task
}

func volumeID(i int) string { return fmt.Sprintf("volume-%02d", i) }

// writerJob writes the time of its start to a file of volume i, which has the job's name.
func (r *agentRun) writerJob(id string, i int) object {
	return jobOf(id, "service", 1, object{
		"Name":   "writer",
		"User":   r.user,
		"Driver": "exec",
		"Config": object{"command": "/bin/writer", "args": []string{"/data/" + id}},
		"VolumeMounts": []object{{
			"Volume":      "data",
			"Destination": "/data",
		}},
		"Resources": object{"CPU": 20, "MemoryMB": 16},
	}, object{"data": object{
		"Name":           "data",
		"Type":           "csi",
		"Source":         volumeID(i),
		"AccessMode":     "single-node-writer",
		"AttachmentMode": "file-system",
	}})
}

// agentRun is the measurement of one agent.
type agentRun struct {
	*agentProcess
	numbers
	user    string // of tasks
	volumes string // folder of the driver's volumes
	parts   bool   // measure also the parts of a start
}

// measureAgent starts an agent with the driver and its volumes, and measures jobs.
func measureAgent(b *bench, p *product) (numbers, error) {
	dir, err := os.MkdirTemp(b.scratch, "a-")
	if err != nil {
		return nil, err
	}
	a, err := b.startAgent(p, dir)
	if err != nil {
		return nil, err
	}
	r := &agentRun{agentProcess: a, numbers: numbers{}, user: p.user, parts: p == &berthProduct}
	data := filepath.Join(dir, "data")
	err = r.prepare(p.plugin(filepath.Join(b.bin, "tools"), data), data)
	for _, measure := range []func() error{r.oneJob, r.many, r.handOvers} {
		if err == nil {
			err = measure()
		}
	}
	err = errors.Join(err, a.end())
	if err == nil && r.parts {
		err = r.addBounds(dir, filepath.Join(b.bin, "tools"))
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "agent.hcl.log"))
		err = fmt.Errorf("%w\nthe log of the %s ends: %s", err, p.name, log[max(0, len(log)-4000):])
	}
	return r.numbers, err
}

// prepare waits for the node, and makes the plugin and the volumes.
func (r *agentRun) prepare(driver object, data string) error {
	err := await("the plugin's job", func() error {
		return r.register(jobOf("plugin", "system", 1, driver, nil))
	})
	if err != nil {
		return err
	}
	err = await("the plugin", func() error {
		var plugin struct{ ControllersHealthy, NodesHealthy int }
		err := r.call(http.MethodGet, "/v1/plugin/csi/"+pluginID, nil, &plugin)
		if err == nil && plugin.ControllersHealthy*plugin.NodesHealthy == 0 {
			err = fmt.Errorf("it is not healthy: %+v", plugin)
		}
		return err
	})
	for i := 0; i < manyJobs && err == nil; i++ {
		volume := object{
			"ID":                   volumeID(i),
			"Name":                 volumeID(i),
			"PluginID":             pluginID,
			"RequestedCapacityMin": 1 << 20,
			"RequestedCapacityMax": 1 << 20,
			"RequestedCapabilities": []object{{
				"AccessMode":     "single-node-writer",
				"AttachmentMode": "file-system",
			}},
		}
		err = r.call(http.MethodPut, "/v1/volume/csi/"+volumeID(i)+"/create",
			object{"Volumes": []object{volume}}, nil)
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == stateName && r.volumes == "" {
			r.volumes = path
		}
		return nil // of a folder that has gone meanwhile, too
	})
}

// written waits until a job has written and returns when it did.
func (r *agentRun) written(job string) (at time.Time, err error) {
	err = await("the first write of "+job, func() error {
		files, _ := filepath.Glob(filepath.Join(r.volumes, "*", job))
		if len(files) != 1 {
			return fmt.Errorf("%d files of %s in %s", len(files), job, r.volumes)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			return err
		}
		ns, err := strconv.ParseInt(string(text), 10, 64)
		at = time.Unix(0, ns)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%w; its tasks: %s", err, r.events(job))
	}
	return at, err
}

// oneJob measures the start and the stop of one job at a time.
func (r *agentRun) oneJob() error {
	for i := range repetitions {
		job := fmt.Sprintf("one-%d", i)
		calls, err := r.driverCalls()
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := r.register(r.writerJob(job, 0)); err != nil {
			return err
		}
		at, err := r.written(job)
		if err != nil {
			return err
		}
		r.add(firstWrite, at.Sub(begun).Seconds())
		time.Sleep(settled) // what belongs to the start does not delay the stop
		called, err := r.driverCalls()
		if err != nil {
			return err
		}
		if r.parts {
			r.add(driverCalls, called-calls)
		}
		begun = time.Now()
		err = errors.Join(r.stopJob(job), r.unclaimed())
		if err != nil {
			return err
		}
		r.add(oneFree, time.Since(begun).Seconds())
		time.Sleep(settled)
	}
	return nil
}

// settled is the time after which an agent has done what it does after the last measured event: to report,
// and to remove what ended tasks leave.
const settled = 500 * time.Millisecond

// many measures many jobs that start and stop at once. Its CPU time is that until the agent has settled.
func (r *agentRun) many() error {
	name := func(i int) string { return fmt.Sprintf("many-%02d", i) }
	begun := time.Now()
	cpu := r.cpu()
	tasks := r.tasksCPU()
	err := together(manyJobs, func(i int) error { return r.register(r.writerJob(name(i), i)) })
	if err != nil {
		return err
	}
	var last time.Time
	for i := range manyJobs {
		at, err := r.written(name(i))
		if err != nil {
			return err
		}
		if at.After(last) {
			last = at
		}
	}
	r.add(allWritten, last.Sub(begun).Seconds())
	time.Sleep(settled)
	r.add(startCPU, (r.cpu()-cpu)/manyJobs)
	r.addTasksCPU(tasks)
	begun = time.Now()
	cpu = r.cpu()
	err = together(manyJobs, func(i int) error { return r.stopJob(name(i)) })
	if err == nil {
		err = r.unclaimed()
	}
	r.add(allFree, time.Since(begun).Seconds())
	time.Sleep(settled)
	r.add(stopCPU, (r.cpu()-cpu)/manyJobs)
	return err
}

// handOvers measures jobs of which each gets the volume of the job before it. One of the peer may not end
// within the time of await. Then those before it count.
func (r *agentRun) handOvers() error {
	name := func(i int) string { return fmt.Sprintf("hand-%d", i) }
	if err := r.register(r.writerJob(name(0), 0)); err != nil {
		return err
	}
	if _, err := r.written(name(0)); err != nil {
		return err
	}
	for i := 1; i <= repetitions; i++ {
		time.Sleep(settled)
		begun := time.Now()
		err := errors.Join(r.stopJob(name(i-1)), r.register(r.writerJob(name(i), 0)))
		if err != nil {
			return err
		}
		at, err := r.written(name(i))
		if err != nil && i > 1 {
			fmt.Fprintf(os.Stderr, "hand-over %d: %v\n", i, err)
			return nil
		}
		if err != nil {
			return err
		}
		r.add(handOver, at.Sub(begun).Seconds())
	}
	return errors.Join(r.stopJob(name(repetitions)), r.unclaimed())
}
