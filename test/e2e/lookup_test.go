package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"berth/structs"
	"berth/test/consultest"
)

// readerJob has a task that shows its file at its start and at each signal. The file has services of both
// providers and a key. The time in it must not count as a change.
const readerJob = `
job "reader" {
  group "g" {
    task "t" {
      driver = "exec"
      user   = "nobody"
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          show() { echo "$1: $(head -n 1 /local/conf)"; }
          trap 'show signal' USR1
          trap 'echo mark' USR2
          show start
          while true; do sleep 0.1; done
EOT
        ]
      }
      template {
        data          = <<-EOT
          own {{ berthService "web" | len }} of {{ range berthServices }}{{ .Name }} {{ end }}found {{ range service "ext" }}{{ .ServiceMeta.n }} {{ end }}key {{ key "conf/name" }}.
          at {{ timestamp }}
EOT
        destination   = "local/conf"
        change_mode   = "signal"
        change_signal = "SIGUSR1"
        splay         = "0s"
        wait {
          min = "200ms"
          max = "2s"
        }
      }
      template {
        data        = "{{ key \"conf/probe\" }}"
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

// TestTemplate_FollowsServicesAndKeys changes services of both providers and a key, and kills Consul and the
// agent meanwhile.
func TestTemplate_FollowsServicesAndKeys(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, consultest.Options{ACLs: true, Server: true})
	a := newAgent(t, "one", "-server", "-client").allowRaw().useConsul(c).onLoopback(20)
	a.start()
	putKey := func(key, text string) {
		t.Helper()
		_, err := c.API.KV().Put(&api.KVPair{Key: key, Value: []byte(text)}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(text string) { putKey("conf/name", text) }
	putKey("conf/probe", "-")
	register := func(n string, check *api.AgentServiceCheck) {
		t.Helper()
		err := c.API.Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID:    "ext-" + n,
			Name:  "ext",
			Meta:  map[string]string{"n": n},
			Check: check,
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	a.must("job", "run", "-detach", a.writeFile("reader.hcl", readerJob))
	alloc := a.onlyAlloc("reader").ID
	eventually(t, "the task waits for the key", func() error {
		if got := events(a.onlyAlloc("reader")); !strings.Contains(got, "waiting: key conf/name (Consul does not have it)") {
			return fmt.Errorf("its events are %s", got)
		}
		return nil
	})
	put("one")
	a.awaitOutput(alloc, "start: own 0 of found key one.")
	a.must("job", "run", a.webJob(1, "", ""))
	a.awaitOutput(alloc, "signal: own 1 of plain web found key one.")
	register("x", nil) // without a check, which Consul would not have run yet after its restart
	register("sick", &api.AgentServiceCheck{TTL: "1h"})
	a.awaitOutput(alloc, "own 1 of plain web found x key one.")
	a.must("job", "scale", "web", "g", "2")
	a.awaitOutput(alloc, "own 2 of plain web found x key one.")

	// A Consul that is away ends no task, and a task starts again with the last answers.
	c.Kill()
	a.must("alloc", "restart", alloc, "t")
	a.awaitOutput(alloc, "start: own 2 of plain web found x key one.")
	a.kill()
	a.start()
	a.must("job", "stop", "-purge", "web")
	c.Run()
	put("two")
	a.awaitOutput(alloc, "key two.")
	eventually(t, "the reader has the last instances", func() error {
		out := strings.TrimSpace(a.logs(alloc))
		if !strings.HasSuffix(out, "signal: own 0 of found x key two.") {
			return errors.New(out)
		}
		return nil
	})

	// An agent that finds nothing changed does nothing.
	a.awaitMarks(alloc, func(text string) { putKey("conf/probe", text) })
	a.must("alloc", "signal", "-s", "usr2", alloc, "t")
	a.awaitOutput(alloc, "mark\n") // the shell has handled each signal before
	a.kill()
	a.start()
	put("two")
	put("three")
	out := a.awaitOutput(alloc, "key three.")
	if _, got, _ := strings.Cut(out, "mark\n"); got != "signal: own 0 of found x key three.\n" {
		t.Errorf("after a restart of the agent the task said %q", got)
	}
	s := a.onlyAlloc("reader")
	if s.ID != alloc || s.ClientStatus != structs.AllocRunning || s.TaskStates["t"].Restarts != 1 {
		t.Errorf("got allocation %+v", s)
	}
	a.must("job", "stop", "-purge", "reader")
}
