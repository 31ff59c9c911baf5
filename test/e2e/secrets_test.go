package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// secretsJob is a job whose task has a secret of a template and writes one of its own.
func secretsJob(driver string) string {
	user := "nobody"
	if driver == "raw_exec" {
		user = "root" // no other user enters the directory of the agent
	}
	return fmt.Sprintf(`
job %[1]q {
  group "g" {
    task "t" {
      driver = %[1]q
      user   = %[2]q
      config {
        command = "/bin/sh"
        args    = ["-c", <<-EOT
          cd "$NOMAD_SECRETS_DIR"
          cat given
          cp /bin/true program && chmod 700 program
          ./program || echo does not run
          echo own > own
          exec sleep 100000
EOT
        ]
      }
      template {
        data        = "given by a template\n"
        destination = "secrets/given"
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`, driver, user)
}

// checkOwnSecret returns an error unless a task has written its secret.
func checkOwnSecret(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "own"))
	if err != nil || string(text) != "own\n" {
		return fmt.Errorf("the secret is %q, %w", text, err)
	}
	return nil
}

// TestSecrets_AreInMemoryUntilTheTasksEnd kills the agent between the life and the end of its tasks.
func TestSecrets_AreInMemoryUntilTheTasksEnd(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "dev", "-dev").allowRaw()
	a.start()
	secrets := map[string]string{} // the directory on the host, by job
	for _, job := range []string{"exec", "raw_exec"} {
		a.must("job", "run", "-detach", a.writeFile(job+".hcl", secretsJob(job)))
		alloc := a.awaitRunning(job, 1)[0].ID
		a.awaitOutput(alloc, "given by a template", "does not run")
		dir := a.data("alloc", alloc, "t", "secrets")
		secrets[job] = dir
		eventually(t, "the task has its own secret", func() error { return checkOwnSecret(dir) })
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
			t.Errorf("%s: the secrets are on a file system of type %x, %v", job, st.Type, err)
		}
		a.mustFail(3, []string{"among the secrets"}, "alloc", "fs", alloc, "t/secrets")
		a.mustFail(3, []string{"among the secrets"}, "alloc", "fs", alloc, "t/secrets/own")
		out := a.must("alloc", "fs", alloc, "t")
		if !strings.Contains(out, "drwx------") {
			t.Errorf("%s: the directory of the secrets is not shown:\n%s", job, out)
		}
	}

	a.kill()
	a.start()
	for job, dir := range secrets {
		a.awaitRunning(job, 1)
		if err := checkOwnSecret(dir); err != nil {
			t.Errorf("%s: after the end of the agent: %v", job, err)
		}
	}

	a.must("job", "stop", "-detach", "exec")
	a.must("job", "stop", "-detach", "raw_exec")
	a.kill()
	a.start()
	for job, dir := range secrets {
		eventually(t, "the secrets of "+job+" are gone", func() error {
			left, err := os.ReadDir(dir)
			if len(left) > 0 || err != nil {
				return fmt.Errorf("%s has %v, %w", dir, left, err)
			}
			return nil
		})
		eventually(t, "the directory of "+job+" has no mounts", func() error {
			if left := mountsBelow(filepath.Dir(filepath.Dir(dir))); len(left) > 0 {
				return fmt.Errorf("mounted are still %q", left)
			}
			return nil
		})
	}
	for job, dir := range secrets {
		eventually(t, "the directory of "+job+" is gone", func() error {
			_, err := a.run("node", "gc", "dev")
			if _, left := os.Stat(filepath.Dir(filepath.Dir(dir))); !errors.Is(left, fs.ErrNotExist) {
				return fmt.Errorf("%s: %v, %v", dir, left, err)
			}
			return err
		})
	}
}
