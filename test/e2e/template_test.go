package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"berth/structs"
)

// templateJob has a task that shows its file at its start and at each signal. A file in the directory of the
// allocation decides on the text. The time in it must not count as a change.
const templateJob = `
job "shows" {
  group "g" {
    task "t" {
      driver = "exec"
      user   = "nobody"
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          show() { echo "$1: $(head -n 1 /local/dir/conf), $FROM"; }
          trap 'show signal' USR1
          show start
          while true; do sleep 0.1; done
EOT
        ]
      }
      template {
        data          = <<-EOT
          {{ file "alloc/data/in" | trimSpace }} in {{ env "NOMAD_JOB_NAME" }}
          at {{ timestamp }}
EOT
        destination   = "local/dir/conf"
        change_mode   = "signal"
        change_signal = "SIGUSR1"
        splay         = "0s"
      }
      template {
        data        = "FROM={{ env \"attr.kernel.name\" }}"
        destination = "secrets/env"
        perms       = "600"
        env         = true
      }
      template {
        data        = "{{ file \"alloc/data/probe\" }}"
        destination = "local/probe"
        change_mode = "noop"
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`

// onlyAlloc returns the allocation of a job that has one.
func (a *agent) onlyAlloc(job string) *structs.AllocListStub {
	a.t.Helper()
	var found *structs.AllocListStub
	eventually(a.t, "job "+job+" has an allocation on the node", func() error {
		allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/"+job+"/allocations")
		if err != nil {
			return err
		}
		if len(allocs) != 1 || len(allocs[0].TaskStates) == 0 {
			return fmt.Errorf("it has %d", len(allocs))
		}
		found = allocs[0]
		return nil
	})
	return found
}

// awaitMarks waits until the agent has recorded its acts for the changes that the task t has seen. An agent
// that ends before that repeats the acts. write changes the text of the template local/probe. The agent may
// render the first text together with such a change, before the act. It renders the second text after the
// record.
func (a *agent) awaitMarks(alloc string, write func(text string)) {
	a.t.Helper()
	for range 2 {
		text := structs.NewID()
		write(text)
		eventually(a.t, "the probe is rendered", func() error {
			got, err := os.ReadFile(a.data("alloc", alloc, "t", "local", "probe"))
			if err == nil && string(got) != text {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
	}
}

func TestTemplate_SignalsItsTask(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", "-detach", a.writeFile("shows.hcl", templateJob))
	alloc := a.onlyAlloc("shows").ID
	replace := func(name, text string) {
		t.Helper()
		path := a.data("alloc", alloc, "alloc", "data", name)
		eventually(t, name+" is written", func() error {
			err := os.WriteFile(path+".new", []byte(text), 0o644)
			if err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		})
	}
	write := func(text string) { replace("in", text) }
	replace("probe", "")
	eventually(t, "the task waits for the file", func() error {
		if got := events(a.onlyAlloc("shows")); !strings.Contains(got, `no file "alloc/data/in"`) {
			return fmt.Errorf("its events are %s", got)
		}
		return nil
	})
	write("one")
	a.awaitOutput(alloc, "start: one in shows, linux")
	write("two")
	a.awaitOutput(alloc, "signal: two in shows, linux")

	// An agent that finds nothing changed does nothing.
	a.awaitMarks(alloc, func(text string) { replace("probe", text) })
	for _, end := range []func(){a.stop, a.kill} {
		end()
		a.start()
	}
	write("two")
	end := a.data("alloc", alloc, "t", "local", "dir")
	a.kill()
	write("three")
	a.start()
	out := a.awaitOutput(alloc, "signal: three in shows, linux")
	if n := strings.Count(out, "signal: "); n != 2 {
		t.Errorf("the task got %d signals for two changes:\n%s", n, out)
	}

	// The task takes the directory away. Nothing is written where its link leads.
	a.must("alloc", "exec", alloc, "/bin/sh", "-c", "cd /local && mv dir old && ln -s /etc dir")
	write("four")
	eventually(t, "the agent does not follow the link", func() error {
		if got := events(a.onlyAlloc("shows")); !strings.Contains(got, "leads out of the directories") {
			return fmt.Errorf("its events are %s", got)
		}
		return nil
	})
	_, err := os.Lstat("/etc/conf")
	if err == nil {
		t.Error("the agent wrote /etc/conf")
	}
	if link, err := os.Readlink(end); link != "/etc" {
		t.Errorf("got %q, %v", link, err)
	}
	s := a.onlyAlloc("shows")
	if s.ID != alloc || s.ClientStatus != structs.AllocRunning || s.TaskStates["t"].Restarts != 0 {
		t.Errorf("got allocation %+v", s)
	}
	a.must("job", "stop", "-purge", "shows")
}

// rootedJob runs a program that a template puts among those of the machine, and that shows another file.
const rootedJob = `
job "rooted" {
  group "g" {
    task "t" {
      driver = "exec"
      user   = "nobody"
      config {
        command = "berth-e2e-rooted.sh"
      }
      template {
        data        = <<-EOT
          #!/bin/sh
          trap 'cat /etc/berth-e2e/conf' USR1
          cat /etc/berth-e2e/conf
          while true; do sleep 0.1; done
EOT
        destination = "usr/local/bin/berth-e2e-rooted.sh"
        perms       = "755"
      }
      template {
        data          = "the text is {{ file \"alloc/data/in\" | trimSpace }}.\n"
        destination   = "etc/berth-e2e/conf"
        change_mode   = "signal"
        change_signal = "SIGUSR1"
        splay         = "0s"
      }
    }
  }
}
`

// A task of exec sees the files of its templates in its root, also after a later rendering.
func TestTemplate_IsInTheRootOfItsTask(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", "-detach", a.writeFile("rooted.hcl", rootedJob))
	alloc := a.onlyAlloc("rooted").ID
	in := a.data("alloc", alloc, "alloc", "data", "in")
	for _, text := range []string{"one", "two"} {
		eventually(t, "the file is written", func() error {
			err := os.WriteFile(in+".new", []byte(text), 0o644)
			if err != nil {
				return err
			}
			return os.Rename(in+".new", in)
		})
		a.awaitOutput(alloc, "the text is "+text+".")
	}
	for _, path := range []string{"/usr/local/bin/berth-e2e-rooted.sh", "/etc/berth-e2e"} {
		_, err := os.Lstat(path)
		if err == nil {
			t.Errorf("the machine has %s", path)
		}
	}
	a.must("job", "stop", "-purge", "rooted")
}
