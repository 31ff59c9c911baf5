package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"berth/client/drivers/docker/dockertest"
)

// watchers lets everybody read jobs, so that a test sees them. The sockets of tasks have no such policy.
const watchers = `namespace "default" {
  policy       = "read"
  capabilities = ["read-logs"]
}
node  { policy = "read" }
agent { policy = "read" }
`

// askScript sends requests over the socket of its task, and prints the body and the status of each answer.
const askScript = `
ask() { # NAME PATH [HEADER]
  printf "$1 " && curl -sS --max-time 60 --unix-socket "$NOMAD_SECRETS_DIR/api.sock" ${3:+-H "$3"} \
    -w ' %{http_code}\n' "http://localhost$2"
}
own=/v1/var/nomad/jobs/$NOMAD_JOB_NAME
ask own "$own" "X-Nomad-Token: $NOMAD_TOKEN"
ask bearer "$own" "Authorization: Bearer $NOMAD_TOKEN"
ask foreign /v1/var/nomad/jobs/other "X-Nomad-Token: $NOMAD_TOKEN"
ask without "$own"
ask anonymous /v1/jobs
ask forged "$own" "X-Nomad-Token: ${NOMAD_TOKEN}x"
echo asked`

// askJob is a job of a driver whose task asks.
func askJob(name, driver, user, image string) string {
	return fmt.Sprintf(`
job %[1]q {
  group "g" {
    task "t" {
      driver = %[2]q
      user   = %[3]q
      config {
        %[4]s
        command = "/bin/sh"
        args    = ["-c", <<-EOT
%[5]s
exec sleep 100000
EOT
        ]
      }
      identity {
        env  = true
        file = true
      }
      kill_timeout = "1s"
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
`, name, driver, user, image, strings.ReplaceAll(strings.ReplaceAll(askScript, "${", "$${"), "%{", "%%{"))
}

// startTaskAPI starts an agent with access control, whose containers run at a daemon, and a variable for each
// job.
func startTaskAPI(t *testing.T, d *dockertest.Daemon, jobs ...string) *agent {
	guarded.watch(t, d.Dir())
	a := newAgent(t, "dev", "-dev").allowRaw()
	a.args = append(a.args, "-config", a.writeFile("acl.hcl", fmt.Sprintf(`
acl {
  enabled = true
}
client {
  drivers {
    docker {
      endpoint = %q
    }
  }
}`, d.Endpoint())))
	a.launch()
	policy := a.writeFile("watchers.hcl", watchers)
	eventually(t, "the policy of everybody", func() error {
		_, err := a.runOverSocket("acl", "policy", "apply", "anonymous", policy)
		return err
	})
	a.awaitReady()
	for _, job := range jobs {
		eventually(t, "the variable of "+job, func() error {
			_, err := a.runOverSocket("var", "put", "nomad/jobs/"+job, "word=belongs-to-"+job)
			return err
		})
	}
	return a
}

// statusAt returns the status of the answer to a token at the socket of a task, 0 without an answer.
func (a *agent) statusAt(alloc, token, path string) int {
	a.t.Helper()
	socket := a.data("alloc", alloc, "t", "secrets", "api.sock")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("X-Nomad-Token", token)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0 // the agent starts
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// checkAnswers checks the answers that the task of a job got.
func (a *agent) checkAnswers(alloc, job string) {
	a.t.Helper()
	a.checkPrinted(a.awaitOutput(alloc, "asked\n"), job)
}

// checkPrinted checks the answers in the output of the task of a job.
func (a *agent) checkPrinted(out, job string) {
	a.t.Helper()
	// A body ends with its line, before the status.
	out = strings.NewReplacer("\n 2", " 2", "\n 4", " 4").Replace(out)
	for _, line := range strings.Split(out, "\n") {
		name, answer, _ := strings.Cut(line, " ")
		want := " 403"
		switch name {
		case "own", "bearer":
			want = " 200"
			if !strings.Contains(answer, "belongs-to-"+job) {
				a.t.Errorf("%s: the answer to %s has no value: %s", job, name, answer)
			}
		case "asked", "":
			continue
		}
		if !strings.HasSuffix(answer, want) {
			a.t.Errorf("%s: %s: got %q, want the status%s", job, name, answer, want)
		}
	}
	if n := strings.Count(out, "\n"); n != 7 {
		a.t.Errorf("%s: the task printed %d lines:\n%s", job, n, out)
	}
}

// TestTaskAPI_AnswersATaskByItsIdentity has a task of each driver read its variable over its socket, as the
// user of the task, also after a restart of the agent. After the end of an allocation its token is worth
// nothing.
func TestTaskAPI_AnswersATaskByItsIdentity(t *testing.T) {
	t.Parallel()
	d := dockertest.Start(t)
	d.ImportFiles("curl:1", map[string]string{
		"/usr/bin/curl": "/usr/bin/curl", "/bin/sh": "/bin/sh", "/bin/sleep": "/bin/sleep",
	}, "ENV PATH=/usr/bin:/bin")
	users := map[string]string{"exec": "nobody", "raw_exec": "root", "docker": "web"}
	a := startTaskAPI(t, d, "exec", "raw_exec", "docker", "other")
	allocs := map[string]string{}
	for driver, user := range users {
		image := ""
		if driver == "docker" {
			image = "image = \"curl:1\"\n        network_mode = \"none\""
		}
		_, err := a.runOverSocket("job", "run", "-detach",
			a.writeFile(driver+".hcl", askJob(driver, driver, user, image)))
		if err != nil {
			t.Fatal(err)
		}
	}
	for driver := range users {
		allocs[driver] = a.awaitRunning(driver, 1)[0].ID
		a.checkAnswers(allocs[driver], driver)
	}

	text, err := os.ReadFile(a.data("alloc", allocs["exec"], "t", "secrets", "nomad_token"))
	if err != nil {
		t.Fatal(err)
	}
	const path = "/v1/var/nomad/jobs/exec"
	a.kill()
	a.start()
	eventually(t, "the next agent answers a token of the task", func() error {
		if got := a.statusAt(allocs["raw_exec"], string(text), path); got != http.StatusOK {
			return fmt.Errorf("it gets %d", got)
		}
		return nil
	})
	_, err = a.runOverSocket("job", "stop", "-detach", "exec")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the token of the ended allocation is denied", func() error {
		if got := a.statusAt(allocs["raw_exec"], string(text), path); got != http.StatusForbidden {
			return fmt.Errorf("it gets %d", got)
		}
		return nil
	})
}
