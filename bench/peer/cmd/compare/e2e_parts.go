package main

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"berth/bench/peer/result"
)

// driverCalls returns how long the node has called the CSI driver to stage and publish volumes so far, in
// seconds. It is 0 of the peer, which has no such metric.
func (r *agentRun) driverCalls() (seconds float64, err error) {
	if !r.parts {
		return 0, nil
	}
	resp, err := http.Get("http://" + r.addr + "/v1/metrics?format=prometheus")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		stages := strings.Contains(series, `method="NodeStageVolume"`)
		if !strings.HasPrefix(series, "berth_csi_call_sum{") ||
			!stages && !strings.Contains(series, `method="NodePublishVolume"`) {
			continue
		}
		ms, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", series, err)
		}
		seconds += ms / 1e3
	}
	return seconds, nil
}

// tasksCPU returns the CPU time of the programs of each task in seconds, by the group of the task. The
// processes of the agent that keep a task are in no such group.
func (a *agentProcess) tasksCPU() map[string]float64 {
	all := map[string]float64{}
	_ = filepath.WalkDir(a.group, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == a.group {
			return nil // a group that has gone meanwhile
		}
		delete(all, filepath.Dir(path)) // it has the time of the groups in it
		text, err := os.ReadFile(filepath.Join(path, "cpuacct.usage"))
		if err == nil {
			ns, _ := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			all[path] = ns / 1e9
		}
		return nil
	})
	return all
}

// addTasksCPU adds the CPU time that a start has taken in the CSI driver, which ran before, and in the
// programs of the jobs, which did not.
func (r *agentRun) addTasksCPU(before map[string]float64) {
	var driver, programs float64
	for group, cpu := range r.tasksCPU() {
		earlier, ran := before[group]
		if ran {
			driver += cpu - earlier
		} else {
			programs += cpu
		}
	}
	if r.parts {
		r.add(driverCPU, driver/manyJobs)
		r.add(programCPU, programs/manyJobs)
	}
}

// addBounds adds the lower bounds: the parts that are not the agent's, and the parts that no agent can leave
// out, without any work between.
func (r *agentRun) addBounds(dir, tools string) error {
	bare := numbers{}
	for range repetitions {
		if err := bare.bareStart(dir, tools); err != nil {
			return err
		}
	}
	if err := bare.runProgram(dir, tools); err != nil {
		return err
	}
	r.add(boundWrite, result.Median(r.numbers[driverCalls])+result.Median(bare[floorStart]))
	process := result.Median(bare[floorProgram])
	r.add(boundCPU, r.numbers[driverCPU][0]+r.numbers[programCPU][0]+process)
	return nil
}
