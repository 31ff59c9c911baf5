package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/structs"
)

// runWeb is the server of services: it answers 503 while the file exists, whose path is the second argument.
func runWeb(args []string) int {
	err := http.ListenAndServe(args[0], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(args[1]); err == nil {
			http.Error(w, "the test says so", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "fine")
	}))
	fmt.Println(err)
	return 1
}

// sick returns the file that makes the check of an allocation fail.
func (a *agent) sick(allocID string) string { return filepath.Join(a.dir, "sick-"+allocID) }

// webJob returns a job of services with a check. The arguments are the lines of the check, and those of the
// task.
func (a *agent) webJob(count int, check, task string) string {
	a.t.Helper()
	self, err := os.Executable()
	if err != nil {
		a.t.Fatal(err)
	}
	return a.writeFile("web.hcl", fmt.Sprintf(`
job "web" {
  update {
    min_healthy_time = "0s"
    healthy_deadline = "5m"
  }
  group "g" {
    count = %d
    network {
      port "http" {}
    }
    restart {
      attempts = 100
      interval = "1h"
      delay    = "1s"
    }
    service {
      name     = "web"
      port     = "http"
      provider = "berth"
      tags     = ["group", "of-${NOMAD_JOB_ID}"]
      check {
        type     = "http"
        path     = "/health"
        interval = "1s"
        timeout  = "5s"
        %s
      }
    }
    task "server" {
      driver = "raw_exec"
      config {
        command = %q
        args    = ["web", "${NOMAD_ADDR_http}", "%s"]
      }
      service {
        name     = "plain"
        port     = "http"
        provider = "berth"
      }
      resources {
        cpu    = 20
        memory = 32
      }
      %s
    }
  }
}
`, count, check, self, a.sick("${NOMAD_ALLOC_ID}"), task))
}

// services returns the instances of a service.
func (a *agent) services(name string) ([]*structs.ServiceRegistration, error) {
	return get[[]*structs.ServiceRegistration](a, "/v1/service/"+name)
}

// awaitServices waits until a service has a number of instances, all of which a test accepts.
func (a *agent) awaitServices(
	name string, want int, accept func(*structs.ServiceRegistration) bool,
) (found []*structs.ServiceRegistration) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("%d instances of %s", want, name), func() (err error) {
		found, err = a.services(name)
		if err != nil {
			return err
		}
		fit := 0
		for _, i := range found {
			if accept(i) {
				fit++
			}
		}
		if len(found) != want || fit != want {
			return fmt.Errorf("%d instances, %d fit: %s", len(found), fit, showInstances(found))
		}
		return nil
	})
	return found
}

func showInstances(list []*structs.ServiceRegistration) (text string) {
	for _, i := range list {
		text += fmt.Sprintf("%+v ", *i)
	}
	return text
}

func passes(i *structs.ServiceRegistration) bool { return i.Status == structs.CheckPassing }
func anyState(*structs.ServiceRegistration) bool { return true }
func fails(i *structs.ServiceRegistration) bool  { return i.Status == structs.CheckFailing }

func serviceAddress(i *structs.ServiceRegistration) string {
	return net.JoinHostPort(i.Address, strconv.Itoa(i.Port))
}

// TestServices_FollowTheirAllocations lists the instances of two allocations, makes a check fail, kills the
// agent, and stops the job.
func TestServices_FollowTheirAllocations(t *testing.T) {
	t.Parallel()
	a := agentWithPorts(t)
	a.must("job", "run", a.webJob(2, "", `shutdown_delay = "1h"`)) // it waits for the checks
	found := a.awaitServices("web", 2, passes)
	for _, i := range found {
		resp, err := http.Get("http://" + serviceAddress(i))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if !slices.Equal(i.Tags, []string{"group", "of-web"}) || i.JobID != "web" || i.Datacenter != "dc1" {
			t.Errorf("the instance is %+v", *i)
		}
	}
	info := a.must("service", "info", "web")
	for _, text := range []string{serviceAddress(found[0]), serviceAddress(found[1]), "success"} {
		if !strings.Contains(info, text) {
			t.Errorf("service info does not have %q:\n%s", text, info)
		}
	}
	list := a.must("service", "list")
	if !strings.Contains(list, "plain") || !strings.Contains(list, "[group,of-web]") {
		t.Errorf("service list shows\n%s", list)
	}
	a.awaitServices("plain", 2, anyState)

	ill, well := found[0].AllocID, found[1].AllocID
	a.makeSick(ill)
	ofAlloc := func(want string) func(*structs.ServiceRegistration) bool {
		return func(i *structs.ServiceRegistration) bool { return i.AllocID == well || i.Status == want }
	}
	a.awaitServices("web", 2, ofAlloc(structs.CheckFailing))
	checks := a.must("alloc", "checks", ill)
	if !strings.Contains(checks, "failure") || !strings.Contains(checks, "503") {
		t.Errorf("alloc checks shows\n%s", checks)
	}
	a.kill()
	a.start()
	// The tasks and their services have stayed. The checks run again.
	a.awaitServices("web", 2, func(i *structs.ServiceRegistration) bool {
		return i.AllocID == well && passes(i) || i.AllocID == ill && fails(i)
	})
	a.makeWell(ill)
	a.awaitServices("web", 2, passes)

	a.must("job", "stop", "-detach", "web")
	a.awaitServices("web", 0, anyState)
	a.awaitServices("plain", 0, anyState)
	for _, i := range found { // shutdown_delay holds the tasks
		resp, err := http.Get("http://" + serviceAddress(i))
		if err != nil {
			t.Errorf("the task has ended before the end of its services was known: %v", err)
			continue
		}
		resp.Body.Close()
	}
	a.must("job", "stop", "-purge", "-no-shutdown-delay", "web")
}

func (a *agent) makeSick(allocID string) {
	a.t.Helper()
	if err := os.WriteFile(a.sick(allocID), nil, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) makeWell(allocID string) {
	a.t.Helper()
	if err := os.Remove(a.sick(allocID)); err != nil {
		a.t.Fatal(err)
	}
}
