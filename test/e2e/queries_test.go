package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
)

// get reads a resource of the HTTP API.
func get[T any](a *agent, path string) (v T, err error) {
	body, err := a.read(path)
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(body, &v)
}

// read reads the body of an answer of the HTTP API.
func (a *agent) read(path string) ([]byte, error) {
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", a.http, path))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, resp.Status, body)
	}
	return body, err
}

// awaitRunning waits until the job has as many running allocations as wanted and no others that are to run,
// and returns them.
func (a *agent) awaitRunning(job string, want int) []*structs.AllocListStub {
	a.t.Helper()
	var found []*structs.AllocListStub
	eventually(a.t, fmt.Sprintf("%d running allocations of %s", want, job), func() error {
		allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/"+job+"/allocations")
		if err != nil {
			return err
		}
		found = nil
		var states []string
		for _, s := range allocs {
			states = append(states, s.DesiredStatus+"/"+s.ClientStatus+" "+s.ClientDescription+events(s))
			if s.DesiredStatus == structs.AllocDesiredRun && s.ClientStatus == structs.AllocRunning {
				found = append(found, s)
			}
		}
		if len(found) != want {
			return fmt.Errorf("allocations: %v", states)
		}
		return nil
	})
	a.cgroups() // so that a later check finds those that are left
	return found
}

// events are the newest events of an allocation's tasks, for messages.
func events(s *structs.AllocListStub) string {
	var out []string
	for name, state := range s.TaskStates {
		for _, e := range state.Events {
			out = append(out, name+": "+e.Type+" "+e.DisplayMessage)
		}
	}
	return " [" + strings.Join(out, "; ") + "]"
}

// healthyNodes waits until the plugin is healthy on as many nodes as wanted.
func (a *agent) healthyNodes(plugin string, want int) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("plugin %s healthy on %d nodes", plugin, want), func() error {
		p, err := get[*structs.CSIPlugin](a, "/v1/plugin/csi/"+plugin)
		if err != nil {
			return err
		}
		if p.NodesHealthy != want || (p.ControllerRequired && p.ControllersHealthy == 0) {
			return fmt.Errorf("nodes %d, controllers %d of it healthy", p.NodesHealthy, p.ControllersHealthy)
		}
		return nil
	})
}

// claims returns the claims of a volume in queue order.
func (a *agent) claims(volume string) ([]*structs.CSIClaim, error) {
	v, err := get[*structs.CSIVolumeDetail](a, "/v1/volume/csi/"+volume)
	if err != nil {
		return nil, err
	}
	return v.Claims, nil
}

// awaitFree waits until the volume has no claim.
func (a *agent) awaitFree(volume string) {
	a.t.Helper()
	eventually(a.t, "volume "+volume+" is free", func() error {
		claims, err := a.claims(volume)
		if err == nil && len(claims) > 0 {
			err = fmt.Errorf("%d claims, the first %+v", len(claims), *claims[0])
		}
		return err
	})
}

// logs returns the standard output of the only task of an allocation, "" before there is any. Tests wait for
// it, so it starts no process each time.
func (a *agent) logs(alloc string) string {
	a.t.Helper()
	found, err := get[*structs.Allocation](a, "/v1/allocation/"+alloc)
	if err != nil {
		return ""
	}
	if len(found.TaskStates) > 1 {
		a.t.Fatalf("allocation %s has %d tasks: name one to alloc logs", alloc, len(found.TaskStates))
	}
	for task := range found.TaskStates {
		out, err := a.read("/v1/client/fs/logs/" + alloc + "?type=stdout&plain=true&task=" + task)
		if err == nil {
			return string(out)
		}
	}
	return ""
}

// example returns the path of a copy of a file in the folder examples, with quick health.
func example(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(unchangedExample(name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(withQuickHealth(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// unchangedExample returns the path of a file in the folder examples.
func unchangedExample(name string) string { return "../../examples/" + name }

// awaitComplete waits until the only allocation of a job is complete, and returns its ID.
func (a *agent) awaitComplete(job string) (alloc string) {
	a.t.Helper()
	eventually(a.t, "job "+job+" is complete", func() error {
		allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/"+url.PathEscape(job)+"/allocations")
		if err != nil {
			return err
		}
		if len(allocs) != 1 || allocs[0].ClientStatus != structs.AllocComplete {
			return fmt.Errorf("it has %d allocations: %+v", len(allocs), allocs)
		}
		alloc = allocs[0].ID
		return nil
	})
	return alloc
}
