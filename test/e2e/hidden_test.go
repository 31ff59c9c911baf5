package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shownFiles gives an agent the files of berth tls init in a directory that tasks of exec see as
// /machine/berth.
func shownFiles(a *agent) (own string) {
	a.t.Helper()
	shown := filepath.Join(a.dir, "etc")
	own = filepath.Join(shown, "berth")
	a.must("tls", "init", "-key-saved", "-id", "one", "-dir", own)
	settings := fmt.Sprintf(`tls {
  plain_loopback = true
}
client {
  drivers {
    exec {
      chroot_env = {
        "/bin" = "/bin", "/etc" = "/etc", "/lib" = "/lib", "/lib64" = "/lib64", "/usr" = "/usr",
        %q = "/machine"
      }
    }
  }
}
`, shown)
	for path, text := range map[string]string{
		filepath.Join(own, "more.hcl"):   settings,
		filepath.Join(shown, "readable"): "readable\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			a.t.Fatal(err)
		}
	}
	a.args = append(a.args, "-config", own)
	return own
}

// A task of a machine that is a server and a node, with the files of berth tls init in a directory that tasks
// see, reads no file of the agent, as root or not, and finds none that the agent writes later.
func TestTask_ReadsNoFileOfTheAgent(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	own := shownFiles(a)
	a.start()

	users := map[string]string{"plain": "", "root": `user = "root"`, "nobody": `user = "nobody"`}
	for name, user := range users {
		file := jobFile{name: name, script: `
		find /machine -type f; cat $(find /machine -type f) /etc/shadow 2>/dev/null | grep -v readable
		ls -A /machine/berth; echo waiting
		while ! test -e /alloc/data/go; do sleep 0.01; done
		find /machine | sort; echo end; exec sleep 1000`}.hcl()
		file = strings.Replace(file, `driver = "exec"`, `driver = "exec"`+"\n      "+user, 1)
		a.must("job", "run", a.writeFile(name+".hcl", file))
	}

	allocs := map[string]string{}
	for name := range users {
		allocs[name] = a.awaitRunning(name, 1)[0].ID
		a.awaitOutput(allocs[name], "waiting")
	}
	if err := os.WriteFile(filepath.Join(own, "later.pem"), []byte("of-the-agent\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "/machine/readable\nwaiting\n/machine\n/machine/berth\n/machine/readable\nend\n"
	for name, alloc := range allocs {
		if err := os.WriteFile(a.data("alloc", alloc, "alloc", "data", "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if out := a.awaitOutput(alloc, "end\n"); out != want {
			t.Errorf("the job %s finds %q, want %q", name, out, want)
		}
		a.must("job", "stop", name)
	}
}

// The same holds for a driver of a plugin that makes a root of the directories of exec. Its tasks run as
// nobody, and would see the names of the files.
func TestExternalDriver_TaskReadsNoFileOfTheAgent(t *testing.T) {
	t.Parallel()
	const driver = "peer_exec"
	a := externalAgent(t, driver)
	shownFiles(a)
	a.start()
	a.awaitDriver(driver, true)
	a.must("job", "run", a.writeJob(jobFile{name: "plugin", driver: driver, script: `
		find /machine | sort; cat /etc/shadow; echo end; exec sleep 1000`}))
	const want = "/machine\n/machine/berth\n/machine/readable\nend\n"
	if out := a.awaitOutput(a.awaitRunning("plugin", 1)[0].ID, "end\n"); out != want {
		t.Errorf("the task finds %q, want %q", out, want)
	}
	a.must("job", "stop", "plugin")
}
